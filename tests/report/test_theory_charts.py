from __future__ import annotations

import math

import numpy as np
import pytest

from vinets.report.theory_charts import draw_layers, draw_margins, draw_region, draw_shares
from vinets.theory import Complexity, LayerNorms, Split, advise

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

UNCUT = Complexity(
    (LayerNorms("a", 10.0, 50.0), LayerNorms("b", 100.0, 200.0, 0.1), LayerNorms("c", 2.0, 9.0))
)
BEHIND = Complexity((LayerNorms("a", 10.0, 50.0), LayerNorms("W", 0.1, 0.3)))


@pytest.fixture
def ax():
    return Figure().add_subplot()


def advice(norm: float = 1e3, **options) -> dict:
    removed = (*(LayerNorms(name, norm, 1e5) for name in "abc"), LayerNorms("fc", 3.0, 9.0))
    return advise(Split((), removed), classes=10, **options).to_dict()


def lines(ax, marker: str) -> list[np.ndarray]:
    return [
        line.get_ydata()
        for line in ax.lines
        if line.get_marker() == marker and len(line.get_xdata())
    ]


def test_lines_follow_the_product_and_stars_are_R(ax):
    draw_layers(ax, UNCUT.to_dict(), {"VI-Net": BEHIND.to_dict()})
    behind, uncut = lines(ax, "o")
    assert np.allclose(uncut, [1, 2, 2 + math.log10(2)])  # 10, 10 * 100 * 0.1, twice that
    assert np.allclose(behind, [1, 0])
    assert np.allclose(np.ravel(lines(ax, "*")), [BEHIND.log10_R, UNCUT.log10_R])
    assert [t.get_text() for t in ax.texts] == ["W"]  # the uncut network has none
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c", "R"]
    assert ax.get_legend().get_texts()[0].get_text() == f"VI-Net, R = 10^{BEHIND.log10_R:.1f}"


def test_lines_stop_at_a_layer_of_zeros(ax):
    zero = Complexity((*UNCUT.layers[:1], LayerNorms("z", 0.0, 0.0))).to_dict()
    draw_layers(ax, zero)
    (line,) = lines(ax, "o")
    assert np.allclose(line, [1]) and not lines(ax, "*")
    assert "R = 0" in ax.get_legend().get_texts()[0].get_text()


def test_bars_are_the_shares(ax):
    draw_shares(ax, UNCUT.to_dict())
    terms = np.array([5, 2, 4.5]) ** (2 / 3)
    assert np.allclose([bar.get_width() for bar in ax.patches], 100 * terms / terms.sum())


def test_the_map_holds_the_largest_tau_and_marks_the_recommendation(ax):
    found = advice()
    degree = found["setting"]["degree"]
    draw_region(ax, found, degree)
    heat = ax.collections[0].get_array()
    terms = sorted({row["monomials"] for row in found["rows"]})
    counts = sorted({row["polynomials"] for row in found["rows"]})
    for row in found["rows"]:
        if row["degree"] == degree:
            place = terms.index(row["monomials"]), counts.index(row["polynomials"])
            assert heat[place] == row["log10_tau_max"]
    (mark,) = ax.lines
    setting = found["setting"]
    assert mark.get_xydata().tolist() == [
        [math.log2(setting["polynomials"]), math.log2(setting["monomials"])]
    ]


def test_lines_are_drawn_where_the_largest_tau_crosses_them(ax):
    found = advice(150.0)
    assert found["setting"]["degree"] != 4
    draw_region(ax, found, 4)
    values = [r["log10_tau_max"] for r in found["rows"] if r["degree"] == 4]
    assert min(values) < 0 and max(values) > 1
    assert {text.get_text() for text in ax.texts} == {"τ = 10", "τ = 1"}
    assert not ax.lines  # the recommended size is in another map


def test_a_map_without_any_certified_size_or_with_one_row_is_drawn(ax):
    draw_region(ax, advice(0.01), 2)
    assert not ax.texts and not ax.lines
    draw_region(ax, advice(monomials=[64]), 2)
    with pytest.raises(ValueError, match=r"'degree' parameter of draw_region must be one of \[1"):
        draw_region(ax, advice(), 9)


def corollary(log10_R: float | None = 3.0) -> dict:
    curve = {"gamma": [-1.0, 0.1, 10.0], "loss": [0.25, 0.5, 1.0]}
    facts = {"curve": curve, "input_norm": 200.0, "margins": {"examples": 20}}
    return {"uncut": facts | {"log10_R": 2.0}, "network": facts | {"log10_R": log10_R}}


@pytest.mark.parametrize(
    ("log10_R", "shifts"), [(3.0, (3.0, 4.0)), (1e4, (3.0, 1e4 + 1)), (None, (0.0, 0.0))]
)
def test_margins_are_in_units_of_R_even_where_it_overflows(ax, log10_R, shifts):
    draw_margins(ax, corollary(log10_R))
    for line, shift in zip(ax.lines, shifts, strict=True):
        assert np.allclose(line.get_xdata(), [-1 - shift, 1 - shift])
        assert np.allclose(line.get_ydata(), [50, 100])
    assert ("normalised" in ax.get_xlabel()) == (log10_R is not None)
