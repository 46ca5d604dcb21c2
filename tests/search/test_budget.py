"""Budgets as they are written, and what they allow."""

from __future__ import annotations

import pytest

from vinets.search.cost import LIMITS, Budget, Cost, Limit, parse_budget


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("drop=0.5", Budget(0.5)),
        ("drop=0", Budget(0.0)),
        ("drop=1%", Budget(1.0)),
        ("params=1e6", Budget(limits={"params": Limit(1e6)})),
        ("params=1.5M", Budget(limits={"params": Limit(1.5e6)})),
        ("params=10%", Budget(limits={"params": Limit(0.1, relative=True)})),
        ("size=4MB", Budget(limits={"size": Limit(4e6)})),
        ("size=4MiB", Budget(limits={"size": Limit(4 * 2**20)})),
        ("macs=3g", Budget(limits={"macs": Limit(3e9)})),
        ("macs=50%", Budget(limits={"macs": Limit(0.5, relative=True)})),
        ("latency=2ms", Budget(limits={"latency": Limit(0.002)})),
        ("latency=2ms@cpu,batch=8", Budget(None, {"latency": Limit(0.002)}, "cpu", 8)),
        ("latency=50%@cuda:0", Budget(None, {"latency": Limit(0.5, relative=True)}, "cuda:0")),
    ],
)
def test_budgets_are_read(text, expected):
    assert parse_budget(text) == expected
    assert parse_budget(expected) is expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "drop", "drop=", "drop=-1", "drop=x", "params=0", "params=1q", "params=-5"),
        *("size=4", "size=4parsecs", "latency=2", "latency=2ms,batch=0", "latency=2ms,size=3"),
        *("speed=3", "drop=nan", "params=1e999", "latency=2ms,", "latency=0%"),
        "latency=2ms,batch=100000000000000000000",
    ],
)
def test_others_are_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match="budget must be one") as caught:
        parse_budget(text)
    assert "params=1e6" in str(caught.value)


def test_a_share_without_its_percent_sign_is_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"Got 'params=0\.3' instead. A share is written with a"):
        parse_budget("params=0.3")


def test_several_hold_together_and_none_twice():
    budget = parse_budget(["drop=0.5", "latency=50%@cpu", "params=100"])
    uncut = Cost(1000, 0.01)
    assert budget.allows(Cost(100, 0.005), uncut)
    assert not budget.allows(Cost(101, 0.005), uncut)
    assert not budget.allows(Cost(100, 0.0051), uncut)
    assert not budget.allows(Cost(100), uncut)  # not timed
    assert budget.excess(Cost(200, 0.0), uncut) == 2
    with pytest.raises(ValueError, match="given twice"):
        parse_budget(["drop=0.5", "drop=1"])
    with pytest.raises(ValueError, match="Got nothing"):
        parse_budget([])


@pytest.mark.parametrize("kind", LIMITS)
def test_every_kind_of_limit_is_parsed_compared_and_said(kind):
    """Whoever adds a line to the table has nothing else to do here."""
    budget, cost = parse_budget(f"{kind}=50%"), Cost(100, 0.1, macs=100)
    half = Cost(50, 0.05, macs=50)
    assert budget.excess(half, cost) == 1 and budget.excess(cost, cost) == 2
    assert f"50% of the uncut network's {LIMITS[kind].share_of}" in str(budget)
    assert budget.allows(half, cost) and not budget.allows(cost, cost)


def test_a_budget_says_itself():
    budget = parse_budget(["drop=0.5", "latency=2ms@cpu", "params=10%", "size=4MB", "macs=1e6"])
    said = str(budget)
    for part in ("0.5 points", "10% of the uncut", "4,000,000 bytes", "1,000,000 multiply-adds"):
        assert part in said
    assert said.endswith("a forward pass within 0.002 s on cpu at batch 1")


def test_bytes_are_those_of_single_precision_or_of_the_file():
    assert Cost(100).size == 400 and Cost(100, stored=130).size == 130
