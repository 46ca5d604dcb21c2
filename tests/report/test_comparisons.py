from __future__ import annotations

from math import comb

import pytest

from vinets.pipeline.comparison import Comparison, NetworkResult, Speed
from vinets.pipeline.report import BuildReport
from vinets.report.comparisons import comparison_table, remarks, sign_test
from vinets.report.formats import cell

PARTS = {"backbone": 10, "projection": 4, "monomials": 3, "coefficients": 2, "linear": 1}
UNCUT = NetworkResult("uncut network", {"backbone": 50}, (0.97,), speed=Speed(100.0, 1.0))


def comparison(cut: str, build: BuildReport | None = None, **accuracies: float) -> Comparison:
    networks = tuple(
        NetworkResult(
            name.replace("_", "-"),
            PARTS,
            (accuracy,),
            speed=Speed(2000.0, 10.0),
            seconds_build=1.0,
            seconds_train=0.5,
        )
        for name, accuracy in accuracies.items()
    )
    return Comparison(cut, (3, 4), UNCUT, networks, build)


def cells(found: Comparison) -> list[list[str]]:
    table = comparison_table(found)
    return [[cell(column, row) for column in table.columns] for row in table.rows]


def test_the_table_holds_every_network_and_its_difference_to_the_uncut_one():
    found = comparison("early", VI_Net=0.98, MLP=0.8)
    table = comparison_table(found)
    headings = [column.heading for column in table.columns]
    assert headings == ["network", "accuracy %", "Δ", *PARTS, "total", "images/s", "seconds"]
    assert [row.marked for row in table.rows] == [False, True, False]
    uncut, ours, mlp = cells(found)
    assert uncut == ["uncut network", "97.00", "", "50", "", "", "", "", "50", "100", ""]
    assert ours[:3] == ["VI-Net", "98.00", "+1.00"] and mlp[2] == "−17.00"
    assert ours[3:] == ["10", "4", "3", "2", "1", "20", "2,000", "1.5"]


def test_what_was_not_measured_has_no_column_and_seeds_have_a_spread():
    ours = NetworkResult("VI-Net", {"backbone": 1, "hidden": 2}, (0.5, 0.7))
    uncut = NetworkResult("uncut network", {"backbone": 9}, (0.5, 0.5))
    table = comparison_table(Comparison("pool", (1, 1), uncut, (ours,), None))
    assert [c.name for c in table.columns] == [
        *("network", "accuracy", "gap", "backbone", "hidden", "parameters")
    ]
    assert cell(table.columns[1], table.rows[1]) == "60.00 ± 14.14"


def test_what_one_would_not_want_is_said():
    def named(name, size, wrong):
        return NetworkResult(name, {"all": size}, (1 - wrong / 50,), (tuple(range(wrong)),))

    def said(*networks):
        return remarks(Comparison("early", (3, 4), UNCUT, networks))

    ours = named("VI-Net", 49, 20)
    assert said(ours, named("MLP", 49, 25), named("linear", 10, 19), named("large", 50, 0)) == []
    (better,) = said(ours, named("MLP", 49, 2))
    assert better == "MLP is ahead of VI-Net by 36.00 points, with no more parameters."
    (large,) = said(named("VI-Net", 75, 20))
    assert large.startswith("VI-Net is not smaller, with 1.5 times the parameters of the uncut")


def with_errors(*wrong: list[int]) -> NetworkResult:
    return NetworkResult("it", {}, (0.5,), wrong=tuple(map(tuple, wrong)))


def mcnemar(better: int, worse: int) -> float:
    """Two-sided, by counting coin tosses."""
    n = better + worse
    tail = sum(comb(n, k) for k in range(min(better, worse) + 1)) / 2**n
    return min(1.0, 2 * tail)


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (3, 3), (1, 7), (9, 1), (12, 2)])
def test_one_seed_is_mcnemars_exact_test(better, worse):
    both = [900, 901]
    ours = with_errors(both + list(range(100, 100 + worse)))
    theirs = with_errors(both + list(range(better)))
    assert sign_test(ours, theirs) == pytest.approx(mcnemar(better, worse))
    assert sign_test(theirs, ours) == sign_test(ours, theirs)


def test_several_seeds_count_an_image_once():
    ours, theirs = with_errors([1], [2], [3]), with_errors(*[list(range(10, 20))] * 3)
    assert sign_test(ours, theirs) == pytest.approx(mcnemar(10, 3))  # not 30 to 3
