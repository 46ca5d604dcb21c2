from __future__ import annotations

import numpy as np
import pytest

from vinets.report.sweep_charts import draw_dimension, draw_generators

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    return Figure().add_subplot()


def rows(count: int = 4) -> list[dict]:
    return [
        {
            "cut": f"layer{i}",
            "dimension": 10.0 - 2 * i,
            "dimension_std": 0.5 + i,
            "monomials": [900, 300, 400, 50][i],
            "polynomials": [2000, 800, 500, 90][i],
        }
        for i in range(count)
    ]


def test_every_cut_is_a_named_point_with_its_spread(ax):
    draw_dimension(ax, rows())
    (points,) = (line for line in ax.lines if line.get_marker() == "o")
    assert points.get_xydata().tolist() == [[10, 900], [8, 300], [6, 400], [4, 50]]
    spreads = ax.containers[0].lines[2][0].get_segments()
    assert np.allclose([s[1, 0] - s[0, 0] for s in spreads], [1, 3, 5, 7])  # one to both sides
    assert np.allclose([s[:, 1].mean() for s in spreads], [900, 300, 400, 50])
    assert {t.get_text(): t.xy for t in ax.texts} == {
        f"layer{i}": tuple(place) for i, place in enumerate(points.get_xydata())
    }
    assert ax.get_yscale() == "log"


def test_the_title_has_the_correlation(ax):
    draw_dimension(ax, rows())
    pearson = np.corrcoef([10, 8, 6, 4], [900, 300, 400, 50])[0, 1]
    assert ax.get_title() == f"Pearson r = {pearson:.2f}, Spearman ρ = 0.80, 4 cuts"


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_cuts_have_no_correlation(ax, count):
    draw_dimension(ax, rows(count))
    assert ax.get_title() == "" and len(ax.texts) == count


def test_cuts_that_agree_have_no_correlation(ax):
    draw_dimension(ax, [row | {"monomials": 7} for row in rows()])
    assert ax.get_title() == ""


def test_a_name_stands_away_from_the_nearest_point(ax):
    low, high = rows(2)
    draw_dimension(ax, [low | {"dimension": 5.0}, high | {"dimension": 5.1}])
    (first, second) = ax.texts
    assert (first.get_ha(), first.get_va()) == ("right", "bottom")  # left of it and above
    assert (second.get_ha(), second.get_va()) == ("left", "top")


def test_ticks_of_a_short_range_are_plain_numbers(ax):
    values = [913, 886, 801, 685]
    draw_dimension(ax, [row | {"monomials": n} for row, n in zip(rows(), values, strict=True)])
    low, high = ax.get_ylim()
    ticks = [t for t in ax.yaxis.get_majorticklocs() if low <= t <= high]
    assert len(ticks) >= 2
    assert ax.yaxis.get_major_formatter()(1500, 0) == "1,500"


def test_generators_have_two_lines_over_the_cuts_in_order(ax):
    draw_generators(ax, rows())
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert lines == {
        "monomials": [[0, 900], [1, 300], [2, 400], [3, 50]],
        "polynomials": [[0, 2000], [1, 800], [2, 500], [3, 90]],
    }
    assert [t.get_text() for t in ax.get_xticklabels()] == [f"layer{i}" for i in range(4)]
    assert ax.get_yscale() == "log"


def test_long_names_are_turned(ax):
    draw_generators(ax, [row | {"cut": "layer3.5.some.bn1"} for row in rows()])
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {30.0}


def test_bad_rows_are_a_clear_refusal(ax):
    for draw in (draw_dimension, draw_generators):
        with pytest.raises(ValueError, match="at least one row of a sweep"):
            draw(ax, [])
    with pytest.raises(ValueError, match="those of a sweep with dimensions"):
        draw_dimension(ax, [row | {"dimension": None} for row in rows()])
