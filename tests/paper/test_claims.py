"""Verdicts on results made up for the purpose: of every claim, both sides of its limit."""

from __future__ import annotations

from collections import defaultdict

import pytest

from vinets.paper.backbones import RESNET18, RESNET34
from vinets.paper.claims import CLAIMS
from vinets.paper.plan import Plan
from vinets.report.values import Row

VI = {60.0: 70.0, 50.0: 72.0, 15.0: 74.0}


class Made:
    """Results in which every table has these rows and every figure these series.

    Series that a test says nothing of are all alike.
    """

    plan, results = Plan(), {}

    def __init__(self, rows=(), **series):
        self._rows = [row if isinstance(row, Row) else Row(row) for row in rows]
        self._series = {name.replace("_", " "): values for name, values in series.items()}

    def rows(self, experiment, section):
        wanted = {"fig-baselines": "difference", "fig-dimension": "dimension"}.get(experiment)
        rows = [row for row in self._rows if wanted is None or wanted in row.values]
        if experiment == "table-efficiency" and not any("accuracy" in row.values for row in rows):
            rows.append(Row({"accuracy": 70.0}))
        return rows

    def figure(self, name):
        return defaultdict(lambda: VI, self._series)


def judged(where, words, made, network=RESNET34):
    """What was found, and the verdict on the one claim there that has these words."""
    return next(judged[1:] for judged in CLAIMS[where](made, network) if words in judged[0])


def verdict(where, words, rows=(), network=RESNET34, **series):
    return judged(where, words, Made(rows, **series), network)[1]


def variants(*changes):
    """Variants by what differs, and the uncut network of size and speed 1."""
    paper = {"total": 0.5, "base": 0.25, "head": 0.25, "delta": 0.0, "speed": 2.0}
    rows = [Row(paper | {"speed_std": 0.0} | change, paper) for change in changes]
    last = {"total": 1.0, "accuracy": 70.0, "speed": 1.0, "speed_std": 0.0}
    return [*rows, Row(last, {"speed": 1.0})]


@pytest.mark.parametrize(
    ("claim", "change", "expected"),
    [
        ("parameters of the truncated", {"base": 0.255}, "yes"),
        ("parameters of the truncated", {"base": 0.27}, "in 1 of 2"),
        ("what a cut does", {"delta": -0.9}, "yes"),
        ("what a cut does", {"delta": -1.1}, "in 1 of 2"),
        ("what a cut does", {"delta": 1.1}, "in 1 of 2"),
        ("match the uncut", {"delta": -0.9}, "yes"),
        ("match the uncut", {"delta": -1.1}, "in 1 of 2"),
        ("smaller than", {"total": 0.99}, "yes"),
        ("smaller than", {"total": 1.01}, "in 1 of 2"),
        ("faster than", {"speed": 1.2, "speed_std": 0.1}, "yes"),
        ("faster than", {"speed": 1.2, "speed_std": 0.3}, "in 1 of 2"),
    ],
)
def test_claims_on_variants(claim, change, expected):
    assert verdict("Table 2", claim, variants({}, change)) == expected


def generators(*rows):
    names = ("removed", "monomials", "polynomials", "speedup")
    theirs = {"monomials": 100, "polynomials": 1000}
    return [
        Row(dict(zip(names, row, strict=True)), theirs | {"seconds": float(row[0])}) for row in rows
    ]


@pytest.mark.parametrize(
    ("claim", "rows", "expected"),
    [
        ("earlier cuts", ((10, 1, 1, 2), (20, 2, 2, 2), (30, 3, 3, 2)), "yes"),
        ("earlier cuts", ((10, 3, 1, 2), (20, 2, 2, 2), (30, 1, 3, 2)), "in 1 of 2"),
        ("earlier cuts", ((10, 3, 3, 2), (20, 2, 2, 2), (30, 1, 1, 2)), "no"),
        ("numbers of", ((10, 91, 1090, 2), (20, 109, 910, 2)), "yes"),
        ("numbers of", ((10, 91, 1110, 2), (20, 100, 1000, 2)), "in 1 of 2"),
        ("seconds", ((10, 1, 1, 1.5), (20, 2, 2, 9)), "less here"),
        ("seconds", ((10, 1, 1, 0.5), (20, 2, 2, 9)), "less in 1"),
    ],
)
def test_claims_on_generators(claim, rows, expected):
    assert verdict("Table 1", claim, generators(*rows)) == expected


def shifted(by, only=None):
    return {x: y + by if only in (None, x) else y for x, y in VI.items()}


@pytest.mark.parametrize(
    ("where", "claim", "name", "other", "expected"),
    [
        ("Truncation", "above random", "random_monomials", shifted(-0.1), "yes"),
        ("Truncation", "above random", "random_monomials", shifted(0.1), "no"),
        ("Truncation", "above a linear head (flat)", "linear_head", shifted(-0.1), "yes"),
        ("Truncation", "above a linear head (flat)", "linear_head", shifted(0.1), "no"),
        ("not in the paper", "MLP", "MLP", shifted(-0.1), "yes"),
        ("not in the paper", "MLP", "MLP", shifted(-0.1) | {60.0: 71.0}, "in 2 of 3"),
        ("Truncation", "is as good", "linear_head", shifted(-0.4), "yes"),
        ("Truncation", "is as good", "linear_head", shifted(-0.6), "no"),
        ("Truncation", "well below", "random_monomials", shifted(-1.1), "yes"),
        ("Truncation", "well below", "random_monomials", shifted(-0.9), "no"),
    ],
)
def test_claims_on_heads(where, claim, name, other, expected):
    assert verdict(where, claim, network=RESNET18, **{name: other}) == expected


def test_a_difference_below_its_deviation_decides_nothing():
    seeds = [{"removed": 60.0, "difference": 0.1, "difference_std": 0.2}]
    series = {"random_monomials": shifted(-0.5)}
    text, found = judged("Truncation", "above random", Made(seeds, **series))
    assert found == "in 2 of 3" and "not decided: +0.10 ± 0.20 with 60 %" in text
    seeds[0]["difference_std"] = 0.05
    assert verdict("Truncation", "above random", seeds, **series) == "yes"


def test_competitive_means_three_points_and_every_kind_of_linear_head_counts():
    for accuracy, expected in ((74.9, "yes"), (75.1, "no")):
        assert verdict("Truncation", "competitive", [{"accuracy": accuracy}]) == expected
    heads = {"linear_head,_flat": 0.1, "linear_head,_pooled": -0.1, "linear_on_components": -0.1}
    series = {name: shifted(by) for name, by in heads.items()}
    assert verdict("Truncation", "many layers", **series) == "in 2 of 3"


def test_most_of_a_gain_is_more_than_half():
    base = shifted(-10)
    for gain, expected in ((4, "yes"), (6, "no")):
        series = {"linear_on_components": base, "random_monomials": shifted(gain - 10)}
        assert verdict("not in the paper", "most of the gain", **series) == expected


def pruned(ratio, other):
    return {"0%_pruned": VI, f"{ratio}_pruned": other}


def test_moderate_pruning_may_cost_a_point():
    for other, expected in ((shifted(-0.9), "yes"), (shifted(-1.1, only=15.0), "in 2 of 3")):
        assert verdict("Pruning", "moderate", **pruned("50%", other)) == expected


@pytest.mark.parametrize(
    ("losses", "expected"), [((-3, -1, 0), "yes"), ((-2, -3, 0), "in 1 of 2"), ((0, 0, -3), "no")]
)
def test_extreme_pruning_has_to_hurt_early_cuts_most(losses, expected):
    other = {x: y + loss for (x, y), loss in zip(VI.items(), losses, strict=True)}
    assert verdict("Pruning", "extreme", **pruned("99%", other)) == expected


def test_gains_and_losses_by_pruning_do_not_cancel():
    class ByAlgorithm(Made):
        def figure(self, name):
            by = 2.0 if name.endswith("abm") else 3.0
            other = {60.0: 70.0 + by, 50.0: 72.0 - by, 15.0: 74.0}
            return {"0% pruned": VI, "50% pruned": VI, "99% pruned": other}

    assert judged("Pruning", "OAVI", ByAlgorithm())[1] == "no"


def test_algorithms_are_compared_cut_by_cut():
    series = {"ABM": VI, "OAVI-CG": shifted(-1.9), "OAVI-AGD": shifted(0.2, only=60.0)}
    assert verdict("Algorithms", "similar", **series) == "in 2 of 3"
    assert verdict("Algorithms", "ahead", **series) == "no"
    series["OAVI-AGD"] = shifted(-0.1)
    assert verdict("Algorithms", "ahead", **series) == "yes"


def test_few_monomials_layers_and_blocks():
    left = {60.0: 500.0, 45.0: 130.0, 25.0: 120.0}  # with 128 variables
    assert verdict("Monomials", "fewer", **{"99%_pruned": left}) == "in 1 of 2"
    falling = {1: 50.0, 2: 40.0, 3: 30.0, 4: 20.0}
    rising = dict(zip(falling, sorted(falling.values()), strict=True))
    found = verdict("Generators", "earlier", monomials=falling, polynomials=rising)
    assert found == "in 1 of 2"
    assert verdict("Generators", "blocks", monomials=falling) == "no"
    assert verdict("Generators", "blocks", monomials=rising) == "yes"


def test_dimension_needs_a_strong_correlation():
    up = [{"dimension": x, "monomials": x * x} for x in range(1, 9)]
    flat = [{"dimension": x, "monomials": (x * 3) % 5} for x in range(1, 9)]
    assert verdict("Dimension", "grow", up) == "yes"
    assert verdict("Dimension", "grow", flat) == "no"
