from __future__ import annotations

import re

import pytest
import torch

from vinets.data import digits
from vinets.nn import Cascade
from vinets.pipeline.opening import open_network


@pytest.fixture(scope="module")
def frozen(base, call):
    """A VI-Net whose backbone is that of the base."""
    out = base.parent / "frozen"
    options = ["--data", "digits", "--cut", "pool", "--epochs", 1, "--repeats", 2, "--tune", "head"]
    done = call("build", base, "--out", out, *options, "--seconds", 0.01, "--quiet")
    assert done.code == 0, done.err
    return out


@pytest.fixture(scope="module")
def made(base, frozen, call):
    out = base.parent / "cascade"
    options = ["--data", "digits", "--loss", 2, "--timed", 5, "--gate", "distance"]
    done = call("cascade", frozen, base, *options, "--out", out, "--json")
    assert done.code == 0, done.err
    return out, done.json()


def test_the_folder_has_the_cascade_that_was_measured(made):
    out, told = made
    uncut, early, cascade = told["networks"]
    assert (uncut["early"], early["early"]) == (0, 1)
    network = Cascade.from_pretrained(out)
    assert network.shared and told["shared"] and network.gate == "distance"
    test = digits().test
    order = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))
    half = len(test) // 2
    inputs, labels = next(test.subset(order[half:]).batches(len(test)))
    with torch.no_grad():
        logits, left = network.answers(inputs)
    right = float((logits.argmax(1) == labels).double().mean())
    assert cascade["accuracy"] == pytest.approx(right)
    assert cascade["early"] == pytest.approx(float(left.double().mean()))
    chosen = told["calibration"]
    assert chosen["threshold"] == network.threshold and chosen["examples"] == half
    assert chosen["accuracy"] >= chosen["late_accuracy"] - 0.02 - 1e-9


def test_the_table_has_all_three_networks(call, base, frozen, tmp_path):
    options = ["--data", "digits", "--timed", 2, "--out", tmp_path / "c"]
    text = call("cascade", frozen, base, *options).out
    lines = [line.split() for line in text.splitlines()]
    shares = {words[0]: words[2] for words in lines if len(words) == 5}
    assert (shares["uncut"], shares["early"]) == ("0.0%", "100.0%") and "cascade" in shares
    assert "softmax at least" in text


def test_a_cascade_is_opened_by_the_other_commands(call, made, tmp_path):
    pytest.importorskip("onnxruntime")
    out, _ = made
    found = call("evaluate", out, "--data", "digits", "--json").json()
    inputs, labels = next(digits().test.batches(1000))
    with torch.no_grad():
        right = open_network(out).network(inputs).argmax(1) == labels
    assert found["accuracy"] == pytest.approx(float(right.double().mean()))
    file = tmp_path / "cascade.onnx"
    done = call("export", out, "--out", file, "--data", "digits", "--json").json()
    assert done["accuracy"] == pytest.approx(done["network_accuracy"], abs=0.01)
    assert done["largest_difference"] < 1e-5
    assert open_network(file).inputs == open_network(out).inputs


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bench", "{made}"], "is a cascade"),
        (["cuts", "{made}"], "is a cascade"),
        (["explain", "{made}", "x.png", "--data", "digits"], "is not cut"),
        (["cascade", "{base}", "{base}", "--data", "digits", "--out", "{out}"], "is not cut"),
        (["cascade", "{made}", "{base}", "--data", "digits", "--out", "{out}"], "is not cut"),
        (
            ["cascade", "{frozen}", "{base}", "--data", "digits", "--gate", "x", "--out", "{out}"],
            "gate.* must be one of 'distance', 'entropy', 'softmax'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    call, base, frozen, made, tmp_path, words, told
):
    places = {"made": made[0], "base": base, "frozen": frozen, "out": tmp_path / "out"}
    done = call(*(word.format(**places) for word in words))
    assert done.code == 2
    assert re.search(told, done.err), done.err
    assert not (tmp_path / "out").exists()
