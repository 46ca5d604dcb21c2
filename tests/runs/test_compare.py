"""Heads next to the uncut network: their table, what is said of them, and files of results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.record import RESULTS
from vinets.core.plain import as_plain
from vinets.heads.facts import VanishingFacts
from vinets.report.numbers import cell
from vinets.runs.compare import BuildResult, comparison_table, remarks
from vinets.runs.trial import Speed, SpeedFacts, TrainingFacts

PARTS = {"backbone": 10, "projection": 4, "monomials": 3, "coefficients": 2, "linear": 1}


def network(wrong: int, size: int = 20) -> TrainingFacts:
    parts = PARTS if size == 20 else {"all": size}
    facts = TrainingFacts(1 - wrong / 50, 0.97, 0.9, 0.1, parts, 1.5)
    return replace(facts, wrong=tuple(range(wrong)), tested=50)


def result(**networks: TrainingFacts) -> BuildResult:
    named = {name.replace("_", "-"): one for name, one in networks.items()}
    speeds = dict.fromkeys(named, Speed(2000.0, 10.0)) | {"uncut": Speed(100.0, 1.0)}
    timed = SpeedFacts(speeds, 0.97, 50)
    return BuildResult((), {}, "digits", 0, "early", (3, 4), named, timed)


def test_the_table_holds_every_network_and_its_difference_to_the_uncut_one():
    table = comparison_table(result(VI_Net=network(1), MLP=network(10)))
    headings = [column.heading for column in table.columns]
    assert headings == ["network", "accuracy %", "Δ", *PARTS, "total", "images/s", "seconds"]
    assert [row.marked for row in table.rows] == [False, True, False]
    uncut, ours, mlp = ([cell(column, row) for column in table.columns] for row in table.rows)
    assert uncut == ["uncut", "97.00", "", "50", "", "", "", "", "50", "100", ""]
    assert ours[:3] == ["VI-Net", "98.00", "+1.00"] and mlp[2] == "−17.00"
    assert ours[3:] == ["10", "4", "3", "2", "1", "20", "2,000", "1.5"]


def test_what_one_would_not_want_is_said():
    ours = network(20, 49)
    others = {"linear": network(19, 10), "large": network(0, 50)}
    assert remarks(result(VI_Net=ours, MLP=network(25, 49), **others)) == []
    (better,) = remarks(result(VI_Net=ours, MLP=network(2, 49)))
    assert better == "MLP is ahead of VI-Net by 36.00 points, with no more parameters."
    assert remarks(result(VI_Net=ours, MLP=network(19, 49))) == []  # one of 50 examples is level
    (large,) = remarks(result(VI_Net=network(20, 75)))
    assert large.startswith("VI-Net is not smaller, with 1.5 times the parameters of the uncut")

    slow = result(VI_Net=network(20, 25))
    slow.timed.speeds["VI-Net"] = Speed(74.0, 5.0)
    assert remarks(slow) == ["VI-Net is not faster: it runs at 0.74 of the uncut network's speed."]
    slow.timed.speeds["VI-Net"] = Speed(97.0, 5.0)  # which may be chance
    assert remarks(slow) == []

    left_out = replace(result(VI_Net=network(20, 25)), left_out="Not all paths pass it.")
    assert remarks(left_out) == ["Not all paths pass it."]
    vanishing = VanishingFacts(50, 0.98, 0.2, 0.03, 0.1)
    (text,) = remarks(result(VI_Net=replace(network(5), vanishing=vanishing)))
    assert text.startswith("On the test examples, 98% of the polynomials are smallest on their own")


def test_results_are_read_back(tmp_path):
    path, written = tmp_path / "results.json", result(VI_Net=network(1))
    path.write_text(json.dumps(as_plain(written)))
    assert BuildResult.read(path) == written


@pytest.mark.parametrize("path", sorted((RESULTS / "cifar10").glob("*.json")), ids=lambda p: p.stem)
def test_results_of_earlier_versions_are_read_whole(path):
    found, written = BuildResult.read(path), json.loads(path.read_text())["comparison"]
    uncut = written["uncut"]
    assert [found.timed.uncut] == uncut["accuracies"] and found.first.build is not None
    assert [found.timed.parameters] == [*uncut["parts"].values()]
    for one, older in zip(found.networks.items(), written["networks"], strict=True):
        name, facts = one
        assert (name, [facts.accuracy]) == (older["name"], older["accuracies"])
        assert as_plain(facts.history.epochs) == older["history"]["epochs"]
        assert facts.parts == older["parts"]
        assert as_plain(found.timed.speeds[name]) == older["speed"]
