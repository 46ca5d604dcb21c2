from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
import torch
from looks import faults

from vinets import demo
from vinets.data import digits
from vinets.demo import DEMO_CUTS, run_demo
from vinets.latent.cut import cut_points
from vinets.models import digits_cnn
from vinets.nn import VINet
from vinets.pipeline.comparison import Comparison
from vinets.plain import from_plain
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
    out, result = ran
    stored = json.loads((out / "results-quick.json").read_text(encoding="utf-8"))
    assert stored["seed"] == SEED and stored["command"] == result.command
    kept = [from_plain(Comparison, one) for one in stored["comparisons"]]
    assert kept == list(result.comparisons)


def test_networks_are_consistent(ran):
    _, result = ran
    for comparison in result.comparisons:
        names = [one.name for one in comparison.networks]
        assert names[0] == "VI-Net" and {"linear, flat", "linear, pooled", "MLP"} < set(names)
        for one in (comparison.uncut, *comparison.networks):
            assert 0 <= one.accuracy <= 1 and one.speed.mean > 0
            assert one.accuracy == pytest.approx(1 - len(one.wrong[0]) / result.test)
            assert one.parameters == sum(one.parts.values())
            assert one.parameters_head == one.parameters - one.parts["backbone"]
        assert comparison.uncut.accuracy > 0.8  # it learned something


def test_the_saved_network_is_the_best_on_held_out_images_and_the_one_in_the_table(ran):
    out, result = ran
    network = VINet.from_pretrained(out / "vinet-quick")
    assert network.record.cut == result.saved
    ours = result.best.networks[0]
    images, labels = next(digits(SEED).test.batches(1000))
    with torch.no_grad():
        wrong = (network(images).argmax(1) != labels).nonzero()[:, 0]
    assert wrong.tolist() == list(ours.wrong[0])
    assert sum(network.parts().values()) == ours.parameters
    kept = {c.cut: c.networks[0].history.kept.validation_accuracy for c in result.comparisons}
    assert kept[result.saved] == max(kept.values())


def test_the_saved_network_gives_the_stored_answer(ran):
    """In another process as well, as the tests of files show."""
    out, result = ran
    example = result.example
    network = VINet.from_pretrained(out / "vinet-quick")
    images, _ = next(digits(SEED).test.batches(1000))
    with torch.no_grad():
        probabilities = network(images[example.index : example.index + 1])[0].softmax(0)
    label = network.record.classes[int(probabilities.argmax())]
    assert label == example.prediction
    assert float(probabilities.max()) == pytest.approx(example.probabilities[label], abs=1e-4)


def test_the_theory_is_that_of_the_saved_network(ran):
    out, result = ran
    stored = json.loads((out / "results-quick.json").read_text())["theory"]
    assert list(stored["cuts"]) == [one.cut for one in result.comparisons]
    again = spectral_complexity(VINet.from_pretrained(out / "vinet-quick"))
    found = result.theory.cuts[result.saved].whole
    assert found.log10_R == pytest.approx(again.log10_R, abs=1e-3)
    assert [layer.name for layer in found.layers] == [layer.name for layer in again.layers]
    for facts in stored["cuts"].values():
        assert facts["bounds"]["holds"]
        kappa = facts["log10_R"] - stored["uncut"]["log10_R"]
        assert facts["log10_kappa"] == pytest.approx(kappa)
        assert facts["log10_R_guaranteed"] >= facts["log10_R"]


def test_a_finished_demo_starts_anew_and_an_interrupted_one_goes_on(ran, monkeypatch):
    out, result = ran
    (out / "results-quick.json").unlink()  # as if it had been stopped at the very end
    monkeypatch.setattr(
        "vinets.pipeline.trials.run_at_cut", lambda *_: pytest.fail("something was run again")
    )
    again = run_demo(out, seed=SEED, quick=True, progress=None)
    assert [c.networks for c in again.comparisons] == [c.networks for c in result.comparisons]
    with pytest.raises(pytest.fail.Exception, match="run again"):
        run_demo(out, seed=SEED, quick=True, progress=None)


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
    out, result = ran
    text = (out / "report-quick.html").read_text(encoding="utf-8")
    reader = Balanced()
    reader.feed(text)
    assert not reader.open
    assert not re.search(r"https?:|@import|<script src|<link|<iframe|url\((?!#)", text)
    targets = re.findall(r"""\b(?:src|href|srcset|poster)\s*=\s*["']([^"']{0,11})""", text)
    assert all(target.startswith(("#", "data:image/")) for target in targets)
    drawn = text.count('<figure class="chart"'), text.count('<figure class="drawing"')
    assert drawn[0] >= 3 and (drawn[1] >= 4 if can_draw() else drawn[1] == 0)
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names))
    for comparison in result.comparisons:
        assert all(f"{one.parameters:,}" in text for one in comparison.networks)


@pytest.mark.pages
def test_the_page_suits_every_screen(ran):
    out, _ = ran
    assert faults(out / "report-quick.html") == []


def test_seeds_share_the_test_images_and_are_averaged(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "QUICK_CUTS", ("relu3",))
    result = run_demo(tmp_path, seed=SEED, seeds=2, quick=True, progress=None)
    assert result.command.endswith("--seeds 2 --quick")
    (comparison,) = result.comparisons
    for one in (comparison.uncut, *comparison.networks):
        first, second = one.accuracies
        assert one.accuracy == pytest.approx((first + second) / 2)
    first, second = comparison.uncut.wrong
    assert first != second  # another network


def test_the_cuts_exist_and_come_earliest_first():
    names = [point.name for point in cut_points(digits_cnn(), torch.zeros(1, 1, 8, 8))]
    places = [names.index(cut) for cut in DEMO_CUTS]
    assert places == sorted(places)
    assert set(demo.QUICK_CUTS) <= set(DEMO_CUTS)


def test_settings_say_everything_that_decides(ran):
    _, result = ran
    settings = result.settings
    assert settings["finding.psi"] == 0.03 and settings["recipe.epochs"] == 2
    assert settings["projecting.components"] == 32 and settings["caching.views"] == 1


def test_bad_input_is_named_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="'out' parameter of run_demo must be a folder"):
        run_demo(tmp_path / "file")
    for seeds in (0, None, "2"):
        with pytest.raises(ValueError, match="'seeds' parameter of run_demo must be a positive"):
            run_demo(tmp_path, seeds=seeds)
