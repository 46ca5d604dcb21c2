"""The uncut and the chosen network in int8: what they are measured by, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vinets.search import compress, parse_budget
from vinets.search.budget import Cost
from vinets.search.page import finalists_table
from vinets.search.result import Quantised, SearchResult, Tried, Uncut
from vinets.search.space import Candidate
from vinets.search.verdict import verdict

OPTIONS = {"epochs": 1, "cuts": 1, "device": "cpu", "progress": None}


def told(budget, whole, *, met=True, chosen=0.95, **more):
    """The verdict on a network of 1,000 bytes in time .5, of one of 4,000 in time 1."""
    candidate = Candidate("relu1", "vi", 100)
    tried = Tried(candidate, Cost(250, 0.5), {4: chosen}, test=chosen, speed=2.0, latency=0.5)
    uncut = Uncut(Cost(1_000, 1.0), 0.97, 0.97, 1.0, 1.0)
    return verdict(
        SearchResult(
            data="digits",
            budget=parse_budget(budget),
            uncut=uncut,
            tried=(tried,),
            chosen=candidate.name,
            met=met,
            verdict="",
            validation=100,
            tested=100,
            int8=(
                replace(Quantised("uncut", 1_100, 0.97, 0.96, 3.0, 0.4), **whole),
                Quantised(candidate.name, 300, 0.95, 0.94, 4.0, 0.1),
            ),
            **more,
        )
    )


@pytest.mark.parametrize(
    ("budget", "whole", "better"),
    [
        ("drop=5", {}, False),  # within the drop, and larger
        ("drop=5", {"size": 900}, True),
        ("drop=5", {"size": 900, "validation": 0.91}, False),  # loses more
        ("size=50%", {}, True),  # within it, and more accurate
        ("size=50%", {"size": 2_100}, False),
        ("size=50%", {"validation": 0.951}, False),  # level
        ("latency=50%@cpu", {}, True),
        ("latency=50%@cpu", {"latency": 0.6}, False),
        ("latency=50%@cpu", {"latency": None}, False),  # not known
        ("params=50%", {"size": 1}, False),  # it has as many
        (["size=50%", "latency=50%@cpu"], {"latency": 0.6}, False),
    ],
)
def test_int8_is_named_where_it_has_more_of_what_the_budget_asks_for(budget, whole, better):
    said = told(budget, whole)
    assert ("in int8 does better by this budget" in said) == better
    if better:
        assert "96.00% right" in said
        assert "In int8, this one takes 300 B and is right on 94.00%" in said


def test_int8_is_named_where_nothing_else_is_within_the_budget():
    assert "in int8 does better" in told("size=1200b", {"size": 1_100}, met=False, chosen=0.99)
    assert "in int8 does better" not in told("size=1000b", {"size": 1_100}, met=False)


def test_both_are_measured_and_stand_in_the_table(model, data):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    result = compress(model, data, "params=20%", **OPTIONS).result
    whole, small = result.int8
    assert (whole.of, small.of) == ("uncut", result.chosen) and not result.notes
    assert whole.size < result.uncut.cost.size  # quarter the numbers, and the graph
    assert abs(whole.test - result.uncut.test) < 0.05
    assert whole.speed > 0 and whole.latency > 0 and small.latency > 0
    rows = finalists_table(result).rows
    named = [row.values["network"] for row in rows]
    assert named[:2] == ["uncut", "uncut, int8"]
    marked = next(place for place, row in enumerate(rows) if row.marked)
    assert named[marked + 1] == f"{named[marked]}, int8"
    assert rows[1].values["size"] == whole.size / 1e6
    assert all("command" in row.values for row in rows)


def test_without_the_package_a_sentence_says_so(model, data, monkeypatch):
    from vinets.search import final

    monkeypatch.setattr(final, "find_spec", lambda name: None)
    result = compress(model, data, "params=20%", **OPTIONS).result
    assert result.int8 == () and 'pip install "vinets[onnx]"' in result.notes[0]


@pytest.mark.parametrize(("latency", "told_of"), [("50%", False), ("48%", False), ("40%", True)])
def test_a_latency_above_the_budget_after_training_is_told(latency, told_of):
    said = told(f"latency={latency}@cpu", {"latency": 2.0})
    assert ("25% above the budget" in said) == told_of
    assert ("above the budget" in said) == told_of


def test_the_verdict_says_when_passes_were_recorded():
    said = "on cuda, recorded as a CUDA graph, where the uncut one takes"
    assert said in told("latency=50%@cuda", {}, recorded=True)
    assert "recorded" not in told("latency=50%@cuda", {})
