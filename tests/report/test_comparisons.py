from __future__ import annotations

import pytest

from vinets.pipeline.comparison import Comparison, NetworkResult, Speed
from vinets.pipeline.report import BuildReport
from vinets.report.comparisons import (
    accuracy_figure,
    comparison_table,
    draw_parts,
    remarks,
    training_figures,
)
from vinets.report.formats import cell
from vinets.training.history import Epoch, History, Recipe

PARTS = {"backbone": 10, "projection": 4, "monomials": 3, "coefficients": 2, "linear": 1}
UNCUT = NetworkResult("uncut network", {"backbone": 50}, (0.97,), speed=Speed(100.0, 1.0))


def history(*held_out: float | None) -> History:
    losses = zip((3.0, 1.0, 2.0), held_out, strict=True)
    epochs = tuple(Epoch(i, loss, 0.5, v, v, 1.0) for i, (loss, v) in enumerate(losses, 1))
    return History(epochs, 2, Recipe(epochs=3))


def comparison(cut: str, build: BuildReport | None = None, **accuracies: float) -> Comparison:
    networks = tuple(
        NetworkResult(
            name.replace("_", "-"),
            PARTS,
            (accuracy,),
            speed=Speed(2000.0, 10.0),
            seconds_build=1.0,
            seconds_train=0.5,
            history=history(None, None, None),
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


def test_accuracy_has_a_line_for_every_head_and_a_level():
    both = [comparison("early", VI_Net=0.9, MLP=0.8), comparison("late", VI_Net=0.95)]
    figure = accuracy_figure(both)
    ours, mlp = figure.series
    assert ours.x == (0, 1) and ours.y == pytest.approx([90, 95])
    assert mlp.x == (0,) and mlp.y == pytest.approx([80])  # not behind every cut
    assert figure.x.names == ("early", "late")
    assert (figure.levels[0].name, figure.levels[0].y) == ("uncut network", 97.0)


def test_training_marks_the_epoch_that_was_kept():
    found = comparison("pool", VI_Net=0.9)
    (figure,) = training_figures(found)  # nothing was held out
    assert figure.id == "loss"
    (series,) = figure.series
    assert (series.x, series.y, series.marks) == ((1, 2, 3), (3.0, 1.0, 2.0), (1,))
    assert series.labels == ("", "kept", "") and figure.y.log


def test_stacked_bars_end_at_the_totals():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    draw_parts(ax, [comparison("early", VI_Net=0.9, MLP=0.8), comparison("late", VI_Net=0.95)])
    networks = zip(*ax.containers, strict=True)
    ends = [max(bar.get_x() + bar.get_width() for bar in bars) for bars in networks]
    assert ends == [50, 20, 20, 20]
