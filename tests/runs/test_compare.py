from __future__ import annotations

from vinets.heads.facts import BuildFacts, VanishingFacts
from vinets.report.formats import cell
from vinets.runs.compare import (
    Comparison,
    NetworkResult,
    comparison_table,
    remarks,
)
from vinets.runs.trial import Speed

PARTS = {"backbone": 10, "projection": 4, "monomials": 3, "coefficients": 2, "linear": 1}
UNCUT = NetworkResult("uncut network", {"backbone": 50}, (0.97,), speed=Speed(100.0, 1.0))


def comparison(cut: str, build: BuildFacts | None = None, **accuracies: float) -> Comparison:
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


def test_what_was_not_measured_has_no_column():
    ours = NetworkResult("VI-Net", {"backbone": 1, "hidden": 2}, (0.5,))
    uncut = NetworkResult("uncut network", {"backbone": 9}, (0.5,))
    table = comparison_table(Comparison("pool", (1, 1), uncut, (ours,), None))
    assert [c.name for c in table.columns] == [
        *("network", "accuracy", "gap", "backbone", "hidden", "parameters")
    ]


def test_what_one_would_not_want_is_said():
    def named(name, size, wrong):
        return NetworkResult(name, {"all": size}, (1 - wrong / 50,), (tuple(range(wrong)),))

    def said(*networks):
        return remarks(Comparison("early", (3, 4), UNCUT, networks))

    ours = named("VI-Net", 49, 20)
    assert said(ours, named("MLP", 49, 25), named("linear", 10, 19), named("large", 50, 0)) == []
    (better,) = said(ours, named("MLP", 49, 2))
    assert better == "MLP is ahead of VI-Net by 36.00 points, with no more parameters."
    assert said(ours, named("MLP", 49, 19)) == []  # one of 50 examples is level
    (large,) = said(named("VI-Net", 75, 20))
    assert large.startswith("VI-Net is not smaller, with 1.5 times the parameters of the uncut")


def test_how_polynomials_vanish_is_said():
    vanishing = VanishingFacts(50, 0.98, 0.2, 0.03, 0.1)
    network = NetworkResult("VI-Net", {"all": 9}, (0.9,))
    (text,) = remarks(Comparison("early", (3, 4), UNCUT, (network,), vanishing=vanishing))
    assert text.startswith("On the test examples, 98% of the polynomials are smallest on their own")
