from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import torch

from vinets import demo
from vinets.data import digits
from vinets.demo import DEMO_CUTS, DEMO_SETTINGS, run_demo
from vinets.latent.cut import cut_points
from vinets.models import digits_cnn
from vinets.nn import VINet
from vinets.report import can_draw
from vinets.theory import spectral_complexity

SEED = 3


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder of a quick run, and what it returned."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    state = torch.random.get_rng_state()
    results = run_demo(out, seed=SEED, quick=True, progress=None)
    assert torch.equal(torch.random.get_rng_state(), state)  # no global state
    return out, results


def test_the_file_holds_what_was_returned(ran):
    out, results = ran
    stored = json.loads((out / "results.json").read_text(encoding="utf-8"))
    keys = {"command", "machine", "seed", "uncut", "cuts", "rows", "histories"}
    assert keys <= stored.keys() and stored["seed"] == SEED
    assert stored["rows"] == json.loads(json.dumps(results["rows"]))


def test_rows_are_consistent(ran):
    _, results = ran
    tests = results["data"]["test"]
    promised = {"name", "cut", "accuracy", "parameters", "parameters_head", "parts", "seconds"}
    promised |= {"images_per_second", "images_per_second_std"}
    cuts = [cut["cut"] for cut in results["cuts"]]
    for cut in cuts:
        names = [row["name"] for row in results["rows"] if row["cut"] == cut]
        assert names[0] == "VI-Net" and {"linear, flat", "linear, pooled", "MLP"} < set(names)
    for row in [results["uncut"], *results["rows"]]:
        assert promised - {"cut"} <= row.keys()
        assert 0 <= row["accuracy"] <= 1 and row["images_per_second"] > 0
        assert row["accuracy"] == pytest.approx(1 - len(row["wrong"][0]) / tests)
        assert row["parameters"] == sum(row["parts"].values())
        assert row["parameters_head"] == row["parameters"] - row["parts"]["backbone"]
    assert results["uncut"]["accuracy"] > 0.8  # it learned something
    assert set(results["histories"]) == set(cuts)


def test_the_saved_network_is_the_best_on_held_out_images_and_the_one_in_the_table(ran):
    out, results = ran
    network = VINet.from_pretrained(out / "vinet")
    cut = results["saved"]["cut"]
    assert network.record.cut == cut
    (row,) = (r for r in results["rows"] if r["cut"] == cut and r["name"] == "VI-Net")
    images, labels = next(digits(SEED).test.batches(1000))
    with torch.no_grad():
        wrong = (network(images).argmax(1) != labels).nonzero()[:, 0]
    assert wrong.tolist() == row["wrong"][0]
    assert sum(network.parts().values()) == row["parameters"]
    kept = {}
    for name, histories in results["histories"].items():
        history = histories["VI-Net"]
        kept[name] = history["epochs"][history["best"] - 1]["validation_accuracy"]
    assert kept[cut] == max(kept.values())


def test_another_process_reads_the_network_and_gives_the_stored_answer(ran):
    out, results = ran
    example = results["example"]
    script = (
        "import sys; from vinets.data import digits; from vinets.nn import VINet;"
        "network = VINet.from_pretrained(sys.argv[1]); index = int(sys.argv[2]);"
        f"images, labels = next(digits({SEED}).test.batches(1000));"
        "p = network(images[index : index + 1])[0].softmax(0);"
        "print(network.record.classes[int(p.argmax())], float(p.max()))"
    )
    words = [sys.executable, "-c", script, str(out / "vinet"), str(example["index"])]
    answer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    label, probability = answer.stdout.split()
    assert label == example["prediction"]
    assert float(probability) == pytest.approx(example["probabilities"][label], abs=1e-4)


def test_the_theory_is_that_of_the_saved_network(ran):
    out, results = ran
    theory, saved = results["theory"], results["saved"]["cut"]
    assert list(theory["cuts"]) == [cut["cut"] for cut in results["cuts"]]
    found = theory["cuts"][saved]
    again = spectral_complexity(VINet.from_pretrained(out / "vinet"))
    assert found["log10_R"] == pytest.approx(again.log10_R, abs=1e-3)
    assert [layer["name"] for layer in found["layers"]] == [layer.name for layer in again.layers]
    for facts in theory["cuts"].values():
        assert facts["bounds"]["holds"]
        kappa = facts["log10_R"] - theory["uncut"]["log10_R"]
        assert facts["log10_kappa"] == pytest.approx(kappa)
        assert facts["log10_R_guaranteed"] >= facts["log10_R"]


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing(ran):
    out, results = ran
    text = (out / "report.html").read_text(encoding="utf-8")
    reader = Balanced()
    reader.feed(text)
    assert not reader.open
    assert not re.search(r"https?:|@import|<script|<link|<iframe|url\((?!#)", text)
    targets = re.findall(r"""\b(?:src|href|srcset|poster)\s*=\s*["']([^"']{0,11})""", text)
    assert all(target.startswith(("#", "data:image/")) for target in targets)
    assert text.count("<figure>") == (8 if can_draw() else 0)
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names))
    for row in results["rows"]:
        assert f"{row['parameters']:,}" in text


def test_seeds_share_the_test_images_and_are_averaged(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "QUICK_CUTS", ("relu3",))
    monkeypatch.setattr(demo, "QUICK_EPOCHS", 1)
    monkeypatch.setattr("vinets.report.demo_page.can_draw", lambda: False)
    results = run_demo(tmp_path, seed=SEED, seeds=2, quick=True, progress=None)
    assert results["command"].endswith("--seeds 2 --quick")
    for row in [results["uncut"], *results["rows"]]:
        first, second = row["accuracies"]
        assert row["accuracy"] == pytest.approx((first + second) / 2)
    first, second = results["uncut"]["wrong"]
    assert first != second  # another network


def test_the_cuts_exist_and_come_earliest_first():
    names = [point.name for point in cut_points(digits_cnn(), torch.zeros(1, 1, 8, 8))]
    places = [names.index(cut) for cut in DEMO_CUTS]
    assert places == sorted(places)
    assert set(demo.QUICK_CUTS) <= set(DEMO_SETTINGS)


def test_settings_of_ideal_and_training_do_not_hide_each_other():
    setting = DEMO_SETTINGS[DEMO_CUTS[0]]
    stored = json.loads(json.dumps(setting.to_dict()))
    assert stored["ideal.precision"] == setting.ideal.precision
    assert stored["recipe.precision"] == setting.recipe.precision
    assert stored["build.components"] == setting.build["components"]


def test_bad_input_is_named_before_any_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="'out' parameter of run_demo must be a folder"):
        run_demo(tmp_path / "file")
    for seeds in (0, None, "2"):
        with pytest.raises(ValueError, match="'seeds' parameter of run_demo must be a positive"):
            run_demo(tmp_path, seeds=seeds)
    with pytest.raises(SystemExit) as stopped:
        demo.main(["--out", str(tmp_path / "file" / "below")])
    assert stopped.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
