"""``vinets compress``: what it prints is repeated by what it says, and timed where it says."""

from __future__ import annotations

import pytest

from vinets.cli.shared import DataOptions, TrainingDataOptions

SMALL = ["--data", "digits", "--epochs", 1, "--cuts", 1, "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def words(base, tmp_path_factory):
    out = tmp_path_factory.mktemp("compress") / "small"
    options = [*SMALL, "--limit", 600, "--seed", 3, "--crop", 0.1, "--no-int8", "--out", out]
    # one epoch: one round, in which all are trained to the end
    return ["compress", base, *options, "--budget", "params=90%"]


@pytest.fixture(scope="module")
def found(call, words):
    return call(*words, "--json").json()


@pytest.mark.parametrize("head", ["products", "relu-units", "vanishing"])
def test_a_command_makes_the_same_network_again(call, found, head):
    one = next(one for one in found["attempts"] if one["candidate"]["head"] == head)
    program, *words = one["command"]
    assert program == "vinets" and words[words.index("--head") + 1] == head
    result = call(*words, "--quiet", "--json", "--seconds", 0.01).json()
    (network,) = result["networks"].values()
    assert sum(network["parts"].values()) == one["cost"]["parameters"]
    # it is tested on both halves, the one to choose by and the other
    halves = found["validation"], found["tested"]
    right = one["accuracies"]["1"] * halves[0] + one["test"] * halves[1]
    assert network["accuracy"] * sum(halves) == pytest.approx(right)
    assert right > 0.3 * sum(halves)  # chance would be no evidence


def test_a_person_reads_table_verdict_and_commands(call, found, words, base):
    printed = call(*words).out  # trains nothing, because all is there
    assert found["verdict"].partition(",")[0] in printed
    assert printed.count("vinets build ") == printed.count("--cut ") >= 2
    assert f"vinets evaluate {base} --data digits --device cpu" in printed


def test_a_plan_is_printed_and_nothing_is_written(call, base, tmp_path):
    options = [*SMALL, "--limit", 100, "--out", tmp_path / "out", "--dry-run"]
    printed = call("compress", base, *options, "--budget", "macs=90%").out
    assert "What would be tried" in printed and "multiply-" in printed
    assert "Trained in rounds: " in printed and not (tmp_path / "out").exists()


def test_words_of_a_command_are_those_that_were_given():
    given = TrainingDataOptions("folder", weights="w.safetensors", size=8, mean=(0.5,), flip=False)
    assert " ".join(given.words(DataOptions)) == (
        "--data folder --weights w.safetensors --size 8 --mean 0.5"
    )
    assert given.words() == (*given.words(DataOptions), "--no-flip")
