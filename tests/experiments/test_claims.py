"""Verdicts on results made up for the purpose: of every rule, both sides of its limit."""

from __future__ import annotations

from functools import partial

import pytest

from vinets.experiments import claims as rules
from vinets.experiments.backbones import RESNET34
from vinets.experiments.plan import Plan
from vinets.report.values import Row


class Made:
    """Results in which every table has these rows and every figure these series."""

    plan = Plan()
    deepest = rules.Evidence.deepest

    def __init__(self, rows=(), **series):
        self._rows = [row if isinstance(row, Row) else Row(row) for row in rows]
        self._series = {name.replace("_", " "): values for name, values in series.items()}

    def rows(self, experiment, section):
        wanted = {"fig-baselines": "difference", "fig-dimension": "dimension"}.get(experiment)
        return [row for row in self._rows if wanted is None or wanted in row.values]

    def figure(self, experiment, name):
        return self._series


def verdict(rule, rows=(), **series):
    return rule(Made(rows, **series), RESNET34)[1]


def variants(*changes, uncut=(1.0, 0.0)):
    """Four variants by what differs, and the uncut network of size and speed 1."""
    usual = {"total": 0.5, "base": 0.25, "delta": 0.0, "speed": 2.0, "speed_std": 0.0}
    paper = {"total": 0.5, "base": 0.25, "delta": 0.0, "speed": 2.0}
    rows = [Row(usual | change, paper) for change in changes]
    speed, std = uncut
    last = {"total": 1.0, "accuracy": 70.0, "speed": speed, "speed_std": std}
    return [*rows, Row(last, {"speed": 1.0})]


@pytest.mark.parametrize(
    ("rule", "change", "expected"),
    [
        (partial(rules.parameters_agree, "base"), {"base": 0.255}, "yes"),
        (partial(rules.parameters_agree, "base"), {"base": 0.27}, "in 1 of 2"),
        (rules.changes_agree, {"delta": -0.9}, "yes"),
        (rules.changes_agree, {"delta": -1.1}, "in 1 of 2"),
        (rules.changes_agree, {"delta": 1.1}, "in 1 of 2"),
        (rules.variants_match, {"delta": -0.9}, "yes"),
        (rules.variants_match, {"delta": -1.1}, "in 1 of 2"),
        (rules.variants_are_smaller, {"total": 0.99}, "yes"),
        (rules.variants_are_smaller, {"total": 1.01}, "in 1 of 2"),
        (rules.variants_are_faster, {"speed": 1.2, "speed_std": 0.1}, "yes"),
        (rules.variants_are_faster, {"speed": 1.2, "speed_std": 0.3}, "in 1 of 2"),
    ],
)
def test_rules_on_variants(rule, change, expected):
    assert verdict(rule, variants({}, change)) == expected


def generators(*rows):
    names = ("removed", "monomials", "polynomials", "speedup")
    theirs = {"monomials": 100, "polynomials": 1000}
    return [
        Row(dict(zip(names, row, strict=True)), theirs | {"seconds": float(row[0])}) for row in rows
    ]


@pytest.mark.parametrize(
    ("rule", "rows", "expected"),
    [
        (rules.earlier_cuts_give_more, ((10, 1, 1, 2), (20, 2, 2, 2), (30, 3, 3, 2)), "yes"),
        (rules.earlier_cuts_give_more, ((10, 3, 1, 2), (20, 2, 2, 2), (30, 1, 3, 2)), "in 1 of 2"),
        (rules.earlier_cuts_give_more, ((10, 3, 3, 2), (20, 2, 2, 2), (30, 1, 1, 2)), "no"),
        (rules.counts_agree, ((10, 91, 1090, 2),), "yes"),
        (rules.counts_agree, ((10, 91, 1110, 2), (20, 100, 1000, 2)), "in 1 of 2"),
        (rules.seconds_compare, ((10, 1, 1, 1.5), (20, 1, 1, 9)), "less here"),
        (rules.seconds_compare, ((10, 1, 1, 0.5), (20, 1, 1, 9)), "less in 1"),
    ],
)
def test_rules_on_generators(rule, rows, expected):
    assert verdict(rule, generators(*rows)) == expected


VI = {60.0: 70.0, 50.0: 72.0, 15.0: 74.0}


def shifted(by, only=None):
    return {x: y + by if only in (None, x) else y for x, y in VI.items()}


@pytest.mark.parametrize(
    ("rule", "name", "other", "expected"),
    [
        (rules.above_random, "random_monomials", shifted(-0.1), "yes"),
        (rules.above_random, "random_monomials", shifted(0.1), "no"),
        (partial(rules.above, "MLP"), "MLP", shifted(-0.1), "yes"),
        (partial(rules.above, "MLP"), "MLP", shifted(-0.1) | {60.0: 71.0}, "in 2 of 3"),
        (rules.linear_is_as_good, "linear_head", shifted(-0.4), "yes"),
        (rules.linear_is_as_good, "linear_head", shifted(-0.6), "no"),
    ],
)
def test_rules_on_heads(rule, name, other, expected):
    assert verdict(rule, **{"VI-Net": VI, name: other}) == expected


def test_a_difference_below_its_deviation_decides_nothing():
    seeds = [{"removed": 60.0, "difference": 0.1, "difference_std": 0.2}]
    series = {"VI-Net": VI, "random_monomials": shifted(-0.5)}
    text, found = rules.above_random(Made(seeds, **series), RESNET34)
    assert found == "in 2 of 3" and "not decided: +0.10 ± 0.20 with 60 %" in text
    seeds[0]["difference_std"] = 0.05
    assert verdict(rules.above_random, seeds, **series) == "yes"


def test_random_monomials_have_to_be_a_point_below():
    for gap, expected in ((-1.1, "yes"), (-0.9, "no")):
        series = {"random_monomials": shifted(gap), "linear_head": VI}
        assert verdict(rules.random_is_worse, **series) == expected


def test_competitive_means_three_points():
    for accuracy, expected in ((74.9, "yes"), (75.1, "no")):
        rows = [{"accuracy": accuracy}]
        assert verdict(rules.half_is_competitive, rows, **{"VI-Net": VI}) == expected


def test_every_kind_of_linear_head_counts():
    heads = {"linear_head,_flat": 0.1, "linear_head,_pooled": -0.1, "linear_on_components": -0.1}
    series = {name: shifted(by) for name, by in heads.items()}
    assert verdict(rules.above_linear_heads, **{"VI-Net": VI}, **series) == "in 2 of 3"


def test_most_of_a_gain_is_more_than_half():
    base = shifted(-10)
    for gain, expected in ((4, "yes"), (6, "no")):
        series = {
            "VI-Net": VI,
            "linear_on_components": base,
            "random_monomials": shifted(gain - 10),
        }
        assert verdict(rules.random_above_components, **series) == expected


def pruned(ratio, other):
    return {"0%_pruned": VI, f"{ratio}_pruned": other}


def test_moderate_pruning_may_cost_a_point():
    assert verdict(rules.moderate_pruning_is_cheap, **pruned("50%", shifted(-0.9))) == "yes"
    other = shifted(-1.1, only=15.0)
    assert verdict(rules.moderate_pruning_is_cheap, **pruned("50%", other)) == "in 2 of 3"


@pytest.mark.parametrize(
    ("losses", "expected"), [((-3, -1, 0), "yes"), ((-2, -3, 0), "in 1 of 2"), ((0, 0, -3), "no")]
)
def test_extreme_pruning_has_to_hurt_early_cuts_most(losses, expected):
    other = {x: y + loss for (x, y), loss in zip(VI.items(), losses, strict=True)}
    assert verdict(rules.extreme_pruning_hurts_early, **pruned("99%", other)) == expected


def test_gains_and_losses_by_pruning_do_not_cancel():
    class ByAlgorithm(Made):
        def figure(self, experiment, name):
            by = 2.0 if name.endswith("abm") else 3.0
            other = {60.0: 70.0 + by, 50.0: 72.0 - by, 15.0: 74.0}
            return {"0% pruned": VI, "99% pruned": other}

    assert rules.oavi_depends_less(ByAlgorithm(), RESNET34)[1] == "no"


def test_few_monomials_are_fewer_than_variables():
    left = {60.0: 500.0, 45.0: 130.0, 25.0: 120.0}
    found = verdict(rules.pruning_leaves_few_monomials, **{"99%_pruned": left})
    assert found == "in 1 of 2"


def test_algorithms_are_compared_cut_by_cut():
    series = {"ABM": VI, "OAVI-CG": shifted(-1.9), "OAVI-AGD": shifted(0.2, only=60.0)}
    assert verdict(rules.algorithms_are_similar, **series) == "in 2 of 3"
    assert verdict(rules.abm_is_ahead, **series) == "no"
    series["OAVI-AGD"] = shifted(-0.1)
    assert verdict(rules.abm_is_ahead, **series) == "yes"


def test_layers_and_blocks():
    falling = {1: 50.0, 2: 40.0, 3: 30.0, 4: 20.0}
    rising = dict(zip(falling, sorted(falling.values()), strict=True))
    found = verdict(rules.earlier_layers_give_more, monomials=falling, polynomials=rising)
    assert found == "in 1 of 2"
    assert verdict(rules.blocks_begin_with_more, monomials=falling) == "no"
    assert verdict(rules.blocks_begin_with_more, monomials=rising) == "yes"


def test_dimension_needs_a_strong_correlation():
    up = [{"dimension": x, "monomials": x * x} for x in range(1, 9)]
    flat = [{"dimension": x, "monomials": (x * 3) % 5} for x in range(1, 9)]
    assert verdict(rules.dimension_correlates, up) == "yes"
    assert verdict(rules.dimension_correlates, flat) == "no"
