"""A network of products, tuned as a whole, through every command that takes one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from vinets.data import digits
from vinets.networks import CutNetwork
from vinets.runs.compare import BuildResult

SHORT = ["--repeats", 2, "--batch", 16, "--quiet"]
OPTIONS = ["--data", "digits", "--cut", "relu2", "--head", "products", *SHORT]
SIZES = ["--parameters", 8000, "--factors", 3, "--spatial-rank", 4]
TRAINING = ["--train", "backbone", "--distill", 0.7, "--epochs", 2, "--schedule", "one-cycle"]


@pytest.fixture(scope="module")
def products(call, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("products") / "net"
    done = call("build", base, *OPTIONS, *SIZES, *TRAINING, "--baselines", "--out", out)
    assert done.code == 0, done.err
    return out


def test_the_table_compares_heads_of_one_size(products):
    found = BuildResult.read(products / "results.json")
    names = [*found.networks]
    assert names[0] == "product head" and {"local ReLU units", "SimKD", "linear, pooled"} < set(
        names
    )
    sizes = {name: one.parameters_head for name, one in found.networks.items()}
    assert 7600 < sizes["product head"] <= 8000
    assert 7600 < sizes["local ReLU units"] <= 8000
    assert sizes["SimKD"] <= 8000
    assert "random monomials" not in names  # no polynomials were found that these could control


def test_what_was_tuned_is_saved_and_the_network_itself_is_not_changed(call, base, products):
    net = CutNetwork.from_pretrained(products)
    assert net.record.notes["tuned"] == "backbone" and net.head.factors == 3
    uncut = call("evaluate", base, "--data", "digits", "--json").json()
    told = BuildResult.read(products / "results.json").timed
    assert uncut["accuracy"] == pytest.approx(told.uncut)


def test_other_commands_take_it(call, base, products, tmp_path):
    told = BuildResult.read(products / "results.json").first
    found = call("evaluate", products, "--data", "digits", "--json").json()
    assert found["accuracy"] == pytest.approx(told.accuracy)
    studied = call("theory", base, "--vinet", products, "--json", "-q")
    assert studied.code == 0, studied.err
    json.loads(studied.out, parse_constant=pytest.fail)
    for data in ([], ["--data", "digits"]):
        told = call("theory", base, "--vinet", products, *data, "-q").out
        assert "have no Lipschitz constant" in told  # and no bound is claimed
    exported = tmp_path / "net.onnx"
    assert call("export", products, "--out", exported).code == 0
    import onnxruntime

    images = digits().test.example(5)
    session = onnxruntime.InferenceSession(exported)
    (logits,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    with torch.no_grad():
        expected = CutNetwork.from_pretrained(products).eval()(images)
    np.testing.assert_allclose(logits, expected.numpy(), rtol=1e-3, atol=1e-4)


def test_a_head_brings_its_recipe_and_gives_way_to_options(call, base, tmp_path):
    sizes = ["--parameters", 3000, "--epochs", 1, "--batch-size", 64]
    done = call("build", base, *OPTIONS, *sizes, "--no-nesterov", "--out", tmp_path / "net")
    assert done.code == 0, done.err
    lines = (tmp_path / "net" / "trials.jsonl").read_text().splitlines()
    (trial,) = (one for line in lines if (one := json.loads(line)["trial"]).get("task") != "speed")
    assert trial["head"] == "products" and trial["options"] == {"parameters": 3000}
    recipe = trial["recipe"]
    assert (recipe["epochs"], recipe["batch_size"], recipe["learning_rate"]) == (1, 64, 0.1)
    assert "nesterov" not in recipe and recipe["distill"] == 0.7
    assert recipe["trained"] == "backbone"
