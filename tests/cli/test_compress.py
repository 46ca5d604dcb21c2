"""``vinets compress``: what it prints is repeated by what it says, and timed where it says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vinets.cli.options import Reading, TrainingData
from vinets.latent.cut import CutPoint
from vinets.search import Written
from vinets.search.space import Candidate, start_trial

SMALL = ["--data", "digits", "--epochs", 1, "--cuts", 1, "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def found(call, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("compress") / "small"
    options = [*SMALL, "--limit", 600, "--seed", 3, "--crop", 0.1, "--no-int8", "--out", out]
    # one epoch: one round, in which all are trained to the end
    return call("compress", base, *options, "--budget", "params=90%", "--json").json()


@pytest.mark.parametrize("head", ["vi", "relu-units", "vanishing"])
def test_a_command_makes_the_same_network_again(call, found, head):
    one = next(one for one in found["tried"] if one["candidate"]["head"] == head)
    program, *words = one["command"]
    assert program == "vinets" and ("--head" in words) == (head == "relu-units")
    assert ("products" in words) == (head != "vanishing")
    result = call(*words, "--quiet", "--json", "--seconds", 0.01).json()
    (network,) = result["comparison"]["networks"]
    assert sum(network["parts"].values()) == one["cost"]["parameters"]
    # it is tested on both halves, the one to choose by and the other
    halves = found["validation"], found["tested"]
    right = one["accuracies"]["1"] * halves[0] + one["test"] * halves[1]
    assert network["accuracies"][0] * sum(halves) == pytest.approx(right)
    assert right > 0.3 * sum(halves)  # chance would be no evidence


def test_a_person_reads_table_verdict_frontier_and_commands(call, base, tmp_path):
    options = [*SMALL, "--no-int8", "--limit", 200, "--out", tmp_path / "out"]
    printed = call("compress", base, *options, "--budget", "params=90%").out
    assert printed.index("accuracy on the validation examples, %") < printed.index("parameters; ")
    assert "@ product head" in printed or "x chosen" in printed
    assert printed.count("vinets build ") == printed.count("--cut ") >= 2
    assert f"vinets evaluate {base} --data digits --device cpu" in printed


def test_a_command_says_all_that_was_said():
    reading = TrainingData("folder", weights="w.safetensors", size=8, mean="0.5", flip=False)
    words = reading.words()
    assert words[: len(reading.words(Reading))] == reading.words(Reading)
    assert words[-1] == "--no-flip" and "--crop" not in words and "--split-seed" not in words
    written = Written("a b.py:Net", reading.words(Reading), words[-1:], ("--device", "cpu"), "out")
    point = CutPoint(7, "3", (4, 2, 2), 10, 10, 0.5)
    trial = Candidate("3", "pooled", 99).trial(start_trial(100, 10, seed=2), 5)
    command = written.build(Candidate("3", "pooled", 99), point, trial, 50)
    pairs = dict(pairwise(command))
    assert pairs["--cut"] == "7"  # a number would be read as an index
    assert (pairs["--head"], pairs["--head-parameters"], pairs["--epochs"]) == ("pooled", "99", "5")
    assert (pairs["--limit"], pairs["--seed"], pairs["--size"]) == ("50", "2", "8")
    assert (pairs["--weights"], pairs["--device"]) == ("w.safetensors", "cpu")
    assert "--no-flip" in command and pairs["build"] == "a b.py:Net"
    quantised = written.quantise(uncut=False, seed=0)
    assert "--weights" not in quantised and "--no-flip" not in quantised
