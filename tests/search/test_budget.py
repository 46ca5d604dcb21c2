"""Budgets as they are written, and what they allow."""

from __future__ import annotations

import pytest

from vinets.search.budget import Budget, Cost, Limit, parse_budget


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("drop=0.5", Budget(drop=0.5)),
        ("drop=0", Budget(drop=0.0)),
        ("drop=1%", Budget(drop=1.0)),
        ("params=1e6", Budget(parameters=Limit(1e6))),
        ("params=1.5M", Budget(parameters=Limit(1.5e6))),
        ("params=10%", Budget(parameters=Limit(0.1, relative=True))),
        ("size=4MB", Budget(size=Limit(4e6))),
        ("size=4MiB", Budget(size=Limit(4 * 2**20))),
        ("latency=2ms", Budget(latency=Limit(0.002))),
        ("latency=2ms@cpu,batch=8", Budget(latency=Limit(0.002), where="cpu", batch=8)),
        ("latency=50%@cuda:0", Budget(latency=Limit(0.5, relative=True), where="cuda:0")),
    ],
)
def test_budgets_are_read(text, expected):
    found = parse_budget(text)
    assert found.drop == expected.drop
    assert (found.where, found.batch) == (expected.where, expected.batch)
    for name in ("parameters", "size", "latency"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.value == pytest.approx(theirs.value)
            assert ours.relative == theirs.relative


@pytest.mark.parametrize(
    "text",
    [
        *("", "drop", "drop=", "drop=-1", "drop=x", "params=0", "params=1q", "params=-5"),
        *("size=4", "size=4parsecs", "latency=2", "latency=2ms,batch=0", "latency=2ms,size=3"),
        *("speed=3", "drop=nan", "params=1e999"),
    ],
)
def test_others_are_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match="budget must be one") as caught:
        parse_budget(text)
    assert "params=1e6" in str(caught.value)


def test_several_hold_together_and_none_twice():
    budget = parse_budget(["drop=0.5", "params=100", "latency=50%@cpu"])
    uncut = Cost(1000, 0.01)
    assert budget.allows(Cost(100, 0.005), uncut)
    assert not budget.allows(Cost(101, 0.005), uncut)
    assert not budget.allows(Cost(100, 0.0051), uncut)
    assert budget.excess(Cost(200, 0.0), uncut) == 2
    with pytest.raises(ValueError, match="given twice"):
        parse_budget(["drop=0.5", "drop=1"])
    with pytest.raises(ValueError, match="Got nothing"):
        parse_budget([])


def test_a_budget_says_itself():
    budget = parse_budget(["drop=0.5", "params=10%", "size=4MB", "latency=2ms@cpu"])
    said = str(budget)
    for part in ("0.5 points", "10% of the uncut", "4,000,000 bytes", "0.002 s", "cpu at batch 1"):
        assert part in said
