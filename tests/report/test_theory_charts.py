from __future__ import annotations

import math

import numpy as np
import pytest

from vinets.theory import Advice, Complexity, LayerNorms, Split, advise
from vinets.theory.generalisation import GeneralisationBound, MarginDistribution
from vinets.theory.page import (
    draw_region,
    draw_shares,
    layers_figure,
    margins_figure,
)
from vinets.theory.studies import Corollary

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

UNCUT = Complexity(
    (LayerNorms("a", 10.0, 50.0), LayerNorms("b", 100.0, 200.0, 0.1), LayerNorms("c", 2.0, 9.0))
)
BEHIND = Complexity((LayerNorms("a", 10.0, 50.0), LayerNorms("W", 0.1, 0.3)))


@pytest.fixture
def ax():
    return Figure().add_subplot()


def advice(norm: float = 1e3, **options) -> Advice:
    removed = (*(LayerNorms(name, norm, 1e5) for name in "abc"), LayerNorms("fc", 3.0, 9.0))
    return advise(Split((), removed), classes=10, **options)


def test_lines_follow_the_product_and_end_at_R():
    figure = layers_figure(UNCUT, {"VI-Net": BEHIND})
    behind, uncut = figure.series
    assert uncut.y == pytest.approx([1, 2, 2 + math.log10(2), UNCUT.log10_R])
    assert behind.y == pytest.approx([1, 0, BEHIND.log10_R])
    assert figure.x.names == ("a", "b", "c", "R")
    assert (behind.x, behind.labels) == ((0, 1, 3), ("a", "W", "R"))
    assert uncut.dashed and not behind.dashed
    assert behind.name == f"VI-Net, R = 10^{BEHIND.log10_R:.2f}"


def test_lines_stop_at_a_layer_of_zeros():
    zero = Complexity((*UNCUT.layers[:1], LayerNorms("z", 0.0, 0.0)))
    (line,) = layers_figure(zero, {}).series
    assert line.y == pytest.approx([1]) and line.name.endswith("R = 0")


def test_bars_are_the_shares(ax):
    draw_shares(ax, UNCUT)
    terms = np.array([5, 2, 4.5]) ** (2 / 3)
    assert np.allclose([bar.get_width() for bar in ax.patches], 100 * terms / terms.sum())


def test_the_map_holds_the_largest_tau_and_marks_the_recommendation(ax):
    found = advice()
    degree = found.setting.degree
    draw_region(ax, found, degree)
    heat = ax.collections[0].get_array()
    terms = sorted({row.monomials for row in found.rows})
    counts = sorted({row.polynomials for row in found.rows})
    for row in found.rows:
        if row.degree == degree:
            place = terms.index(row.monomials), counts.index(row.polynomials)
            assert heat[place] == row.log10_tau_max
    (mark,) = ax.lines
    setting = found.setting
    assert mark.get_xydata().tolist() == [
        [math.log2(setting.polynomials), math.log2(setting.monomials)]
    ]


def test_lines_are_drawn_where_the_largest_tau_crosses_them(ax):
    found = advice(150.0)
    assert found.setting.degree != 4
    draw_region(ax, found, 4)
    values = [r.log10_tau_max for r in found.rows if r.degree == 4]
    assert min(values) < 0 and max(values) > 1
    assert {text.get_text() for text in ax.texts} == {"τ = 10", "τ = 1"}
    assert not ax.lines  # the recommended size is in another map


def test_a_map_without_any_certified_size_or_with_one_row_is_drawn(ax):
    draw_region(ax, advice(0.01), 2)
    assert not ax.texts and not ax.lines
    draw_region(ax, advice(monomials=[64]), 2)
    with pytest.raises(ValueError, match=r"'degree' parameter of draw_region must be one of \[1"):
        draw_region(ax, advice(), 9)


def corollary(log10_R: float = 3.0) -> Corollary:
    margins = MarginDistribution([-1.0, 0.1, 10.0, 10.0])
    sides = (GeneralisationBound(margins, log, 40.0, 8) for log in (2.0, log10_R))
    return Corollary(*sides)


@pytest.mark.parametrize(
    ("log10_R", "shifts"), [(3.0, (4.0, 3.0)), (1e4, (1e4 + 1, 3.0)), (-math.inf, (0.0, 0.0))]
)
def test_margins_are_in_units_of_R_even_where_it_overflows(log10_R, shifts):
    figure = margins_figure(corollary(log10_R), "VI-Net")
    for series, shift in zip(figure.series, shifts, strict=True):
        assert sorted(set(series.x)) == pytest.approx([-1 - shift, 1 - shift])
        assert sorted(set(series.y)) == [50, 100]
    assert ("normalised" in figure.x.label) == math.isfinite(log10_R)
    assert [series.dashed for series in figure.series] == [False, True]
