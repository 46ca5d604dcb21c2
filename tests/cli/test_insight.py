"""``vinets theory``, ``ood`` and ``explain``."""

from __future__ import annotations

import json
import math

import pytest
import torch
from looks import faults
from pages import ReadPage, loads_nothing

from vinets.data import digits
from vinets.networks.open import open_network
from vinets.theory import spectral_complexity, study

# --- theory -----------------------------------------------------------------------------------


def complexity(layers: list[dict]) -> float:
    """Logarithm of R by its definition."""
    product = math.prod(layer["lipschitz"] * layer["spectral"] for layer in layers)
    total = sum((layer["two_one"] / layer["spectral"]) ** (2 / 3) for layer in layers)
    return math.log10(product * total**1.5)


def test_without_a_network_behind_the_cut_it_gives_layers_and_advice(call, base):
    options = ["--cut", "relu2", "--tau", 3, "--per-class", 2, "--monomials", 32]
    result = call("theory", base, *options, "--constant", "stated", "--json", "--quiet").json()
    assert (result["kept"], result["removed"]) == (["conv1", "conv2"], ["conv3", "conv4", "fc"])
    model, example = open_network(str(base)).network, digits().train.example()
    assert result["uncut"]["log10_R"] == spectral_complexity(model, example).log10_R
    options = {"per_class": 2, "monomials_wanted": 32, "tau": 3.0, "constant": "stated"}
    assert result["advice"] == study(model, "relu2", example, **options).to_dict()["advice"]
    assert result["network"] is None and result["corollary"] is None
    few, many = (
        call("theory", base, "--cut", "50%", "--components", n, "--json", "--quiet").json()
        for n in (4, 400)  # components count before the polynomials
    )
    assert few["advice"]["rows"][0]["log10_tau_max"] > many["advice"]["rows"][0]["log10_tau_max"]


def test_kappa_and_bounds_of_a_network_and_margins_on_data(call, base, vinet):
    options = ["--vinet", vinet, "--data", "digits", "--examples", 100, "--json", "--quiet"]
    result = call("theory", base, *options).json()
    assert result["cut"] == "relu3"  # that of the VI-Net
    sides = [complexity(result[side]["layers"]) for side in ("uncut", "network")]
    assert result["log10_kappa"] == pytest.approx(sides[1] - sides[0])
    assert all(b["actual"] <= b["bound"] for b in result["network"]["bounds"]["bounds"])
    both = [result["corollary"][side] for side in ("uncut", "network")]
    assert [side["margins"]["examples"] for side in both] == [100, 100]
    for side in both:
        gamma, loss = side["curve"]["gamma"], side["curve"]["loss"]
        assert gamma == sorted(gamma) and loss == sorted(loss) and loss[-1] == 1
    assert call("theory", base, *options, "--seed", 1).json()["corollary"] != result["corollary"]


def test_tables_sentences_and_files(call, base, vinet, products, tmp_path):
    out = tmp_path / "new" / "theory"
    options = ["--cut", "relu3", "--vinet", vinet, "--data", "digits", "--out", out]
    done = call("theory", base, *options)
    for part in ("kernel bound", "removed", "added", "κ = R", "lemma on W_C", "Largest τ"):
        assert part in done.out
    assert "variables in [−1, 1] and no linear path" in done.out
    assert "certify nothing" in done.out and "theory.html" in done.err
    stored = json.loads((out / "theory.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert stored["advice"]["sentence"] in done.out
    assert {"command", "machine", "model", "cut"} <= stored.keys()
    assert "<h1>Spectral complexity of base</h1>" in (out / "theory.html").read_text("utf-8")
    done = call("theory", base, "--vinet", products, "--data", "digits", "-q")
    assert "have no Lipschitz constant" in done.out  # and no bound is claimed
    json.loads(call("theory", base, "--vinet", products, "--json").out, parse_constant=pytest.fail)


# --- ood --------------------------------------------------------------------------------------


def test_scores_are_told_for_every_set_and_a_table_has_a_row_a_score(call, base):
    words = ["ood", base, "--data", "digits", "--ood", "noise", "--per-class", 40, "--quiet"]
    scores = call(*words, "--ood", "textures", "--count", 100, "--json").json()["scores"]
    assert {one["data"] for one in scores} == {"noise", "textures"}
    names = {one["score"] for one in scores}
    assert {"distances", "softmax", "energy", "vim", "knn", "react", "ash"} <= names
    assert all(0 <= one[key] <= 1 for one in scores for key in ("auroc", "fpr95"))
    assert min(one["auroc"] for one in scores if one["score"] == "distances") > 0.9
    done = call(*words, "--ood", "textures", "--count", 50, "--layers", "relu2,relu3")
    assert done.out.count("FPR95") == 2
    (row,) = (line for line in done.out.splitlines() if line.startswith("relative mahalanobis"))
    assert len(row.split()) == 6


# --- explain ----------------------------------------------------------------------------------


@pytest.fixture
def picture(pictures):
    return pictures / "3" / "digit.png"


def test_the_json_has_the_answer_of_the_network_and_sums_to_its_margin(call, products, picture):
    told = call("explain", products, picture, "--per-class", 20, "--top", 3, "--json").json()
    found, test = told["explanation"], digits().test
    with torch.no_grad():
        logits = open_network(products).network(test.preprocessing(test.images[3:4]))[0]
    best, second = logits.topk(2).indices.tolist()
    assert (found["answer"], found["next"]) == (test.classes[best], test.classes[second])
    assert found["margin"] == pytest.approx(float(logits[best] - logits[second]), abs=1e-4)
    parts = [one["contribution"] for one in found["generators"]]
    assert len(parts) == 3
    assert found["middle"] + sum(parts) + found["others"] == pytest.approx(found["margin"])
    assert sum(map(sum, found["map"])) == pytest.approx(found["margin"] - found["middle"])
    assert "picture" not in found and found["examples"] == 200


def test_the_page_has_every_part_of_the_explanation(call, products, picture, tmp_path):
    out = tmp_path / "why.html"
    options = ["--per-class", 20, "--top", 4, "--neighbours", 3, "--out", out]
    found = call("explain", products, picture, *options, "--json").json()["explanation"]
    text = out.read_text(encoding="utf-8")
    page = ReadPage(text)
    rows = {row[0]: row for row in page.rows if row}
    for one in found["generators"]:
        row = rows[f"p{one['index']}"]
        assert row[1].replace("−", "-") == f"{one['contribution']:+.3f}"
        assert row[-2:] == [one["smallest_on"], one["polynomial"]]
    assert rows["margin"][1] == f"{found['margin']:+.3f}"
    assert all(one["name"] in rows for one in found["components"])
    assert all(f"{one['index']:,}" in rows for one in found["neighbours"])
    labels = " ".join(filter(None, page.values("aria-label")))
    assert "8 by 8 positions" in labels and "nearest training examples" in labels
    assert page.tags.count("svg") == 6  # image, map, two polynomials, spreads, neighbours
    assert f"says {found['answer']}" in text
    # pictures inside of the page are data, which load nothing
    assert loads_nothing(text.replace("data:image/png", ""))


@pytest.mark.pages
def test_the_page_suits_every_screen(call, products, picture, tmp_path):
    out = tmp_path / "why.html"
    call("explain", products, picture, "--per-class", 20, "--out", out, "--quiet")
    assert faults(out) == []


def test_a_terminal_gets_the_tables(call, vinet, picture):
    done = call("explain", vinet, picture, "--data", "digits", "--per-class", 10, "--quiet")
    assert "The margin as a sum" in done.out
    assert "see the whole map at once" in done.out  # it is a global head
    assert "--out FILE.html" in done.out


def test_data_that_moved_is_asked_for(call, refused, colours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").symlink_to(colours)
    short = ["--data", "images", "--size", 8, "--mean", 0.5, "--epochs", 1, "--quiet"]
    call("train", "--model", "digits_cnn", *short, "--out", "base")
    call("build", "base", *short, "--cut", "pool", "--out", "net")
    file = colours / "dark" / "0.png"
    call("explain", "net", file, "--quiet")
    (tmp_path / "images").unlink()
    told = refused("explain", "net", file, "--quiet")
    assert "was built on --data images, which is not found" in told and "Pass --data" in told
    call("explain", "net", file, "--data", colours, "--size", 8, "--quiet")
