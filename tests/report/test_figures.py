from __future__ import annotations

import math

import pytest

from vinets.report import Axis, Figure, Rule, Series, draw_figure, save_figure

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas

from vinets.report.charts import OURS


def figure(**changes) -> Figure:
    series = (
        Series("linear head", (10, 20, 30), (90, None, 70), dashed=True),
        Series("VI-Net", (10, 20, 30), (91, 88, 80), ("c", "b", "a"), (1.0, None, 2.0)),
        Series("VI-Net, OAVI", (10, 20, 30), (89, 85, 78)),
    )
    parts = {"x": Axis("removed"), "y": Axis("accuracy"), "series": series}
    return Figure("f", "Title", **(parts | {"rules": (Rule("uncut network", 93),)} | changes))


def drawn(found: Figure):
    ax = Canvas().add_subplot()
    draw_figure(ax, found)
    return ax


def test_lines_hold_the_values_and_the_first_vi_net_stands_out():
    found = figure()
    ax = drawn(found)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert list(lines) == ["linear head", "VI-Net", "VI-Net, OAVI", "uncut network"]
    for series in found.series:
        assert list(lines[series.name].get_xdata()) == list(series.x)
        values = [None if math.isnan(y) else y for y in lines[series.name].get_ydata()]
        assert values == list(series.y)
    colours = [to_hex(lines[s.name].get_color()) for s in found.series]
    assert colours[1] == OURS and len(set(colours)) == 3
    widths = [lines[s.name].get_linewidth() for s in found.series]
    assert widths[1] > max(widths[0], widths[2])
    styles = [line.get_linestyle() for line in lines.values()]
    assert styles == ["--", "-", "-", "--"] and set(lines["uncut network"].get_ydata()) == {93}
    assert [t.get_text() for t in ax.get_legend().get_texts()] == list(lines)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("removed", "accuracy")


def test_the_band_is_one_standard_deviation_to_both_sides():
    (band,) = drawn(figure()).collections
    corners = {(x, y) for x, y in band.get_paths()[0].vertices}
    assert {(10, 90), (10, 92), (20, 88), (30, 78), (30, 82)} <= corners


def test_a_scatter_plot_has_bars_and_no_lines():
    ax = drawn(figure(kind="scatter"))
    assert {line.get_linestyle() for line in ax.get_lines()[:3]} == {"None"}
    ends = [tuple(map(tuple, path.vertices)) for c in ax.collections for path in c.get_paths()]
    assert ((10, 90), (10, 92)) in ends


def test_logarithmic_axes_leave_out_what_they_cannot_show():
    series = Series("VI-Net", (0, 10, 100), (5, 0, 1000), std=(1, 1, 2000))
    axis = Axis("n", log=True)
    ax = drawn(figure(series=(series,), x=axis, y=axis, rules=(Rule("none", 0),)))
    (line,) = ax.get_lines()
    assert math.isnan(line.get_xdata()[0]) and math.isnan(line.get_ydata()[1])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log") and ax.get_ylim()[0] > 0


def test_both_files_are_written_and_are_the_same_every_time(tmp_path):
    png, svg = save_figure(figure(), tmp_path / "new", "accuracy")
    assert (png.name, svg.name) == ("accuracy.png", "accuracy.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text("utf-8")
    assert "<svg" in text and ">uncut network</text>" in text
    again = save_figure(figure(), tmp_path / "again", "accuracy")
    assert again[0].read_bytes() == png.read_bytes() and again[1].read_text("utf-8") == text


def test_a_figure_without_series_is_drawn():
    assert not drawn(figure(series=(), rules=())).get_lines()
