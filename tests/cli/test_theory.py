from __future__ import annotations

import json
import math

import pytest

from vinets.data import digits
from vinets.networks.open import open_network
from vinets.theory import spectral_complexity, study


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


def test_components_count_before_the_polynomials(call, base):
    few, many = (
        call("theory", base, "--cut", "50%", "--components", n, "--json", "--quiet").json()
        for n in (4, 400)
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


def test_tables_sentences_and_files(call, base, vinet, tmp_path):
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


def test_bad_input_to_theory_is_refused(refused, call, base, vinet, tmp_path):
    assert "nearest names are relu2" in refused("theory", base, "--cut", "rel2", "-q")
    assert "Pass --cut" in refused("theory", base, "-q")
    assert "is cut already" in refused("theory", vinet, "--cut", "relu2", "-q")
    assert "is cut at 'relu3'" in refused("theory", base, "--cut", "relu2", "--vinet", vinet, "-q")
    assert "is not cut" in refused("theory", base, "--vinet", base, "-q")
    shape = ["--shape", "1,8,8"]
    assert "random weights" in refused("theory", "digits_cnn", *shape, "--cut", "relu2", "-q")
    assert "--shape or --data" in refused("theory", base, *shape, "--data", "digits")
    assert "before its last layer" in refused("theory", base, "--cut", "fc", "-q")
    other = tmp_path / "other"
    train = ["--data", "digits", "--out", other, "--epochs", 1, "--seed", 1, "--quiet"]
    assert call("train", "--model", "digits_cnn", *train).code == 0
    assert "another network than" in refused("theory", other, "--vinet", vinet, "-q")
