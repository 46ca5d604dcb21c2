from __future__ import annotations

import math
import re
import sys
from importlib.resources import files
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from vinets.heads import HEADS
from vinets.report import figures
from vinets.report.figures import COLORS, GREY, INK, OURS, draw_figure, looks, save_figure, svg
from vinets.report.numbers import cell
from vinets.report.values import Axis, Drawing, Figure, ReferenceLine, Series

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas


def figure(**changes) -> Figure:
    series = (
        Series("linear head", (10, 20, 30), (90, None, 70), dashed=True),
        Series("VI-Net", (10, 20, 30), (91, 88, 80), ("c", "b", "a"), (1.0, None, 2.0)),
        Series("VI-Net, OAVI", (10, 20, 30), (89, 85, 78)),
    )
    parts = {"x": Axis("removed"), "y": Axis("accuracy"), "series": series}
    return Figure(
        "f", "Title", **(parts | {"levels": (ReferenceLine("uncut network", 93),)} | changes)
    )


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
    line = Series("frontier", (10, 20), (90, 91), joined=True, marks=())
    dots = Series("others", (10, 20), (80, 81), joined=False)
    for kind in ("lines", "scatter"):  # a series may say whether it is joined
        ax = drawn(figure(kind=kind, series=(line, dots), levels=()))
        assert [one.get_linestyle() for one in ax.get_lines()] == ["-", "None"]


def test_logarithmic_axes_leave_out_what_they_cannot_show():
    series = Series("VI-Net", (0, 10, 100), (5, 0, 1000), std=(1, 1, 2000))
    axis = Axis("n", log=True)
    ax = drawn(figure(series=(series,), x=axis, y=axis, levels=(ReferenceLine("none", 0),)))
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


@pytest.mark.parametrize("name", ["VI-Net", "VI-Net " * 12])
def test_no_curve_runs_through_the_legend_and_it_stays_on_the_sheet(name):
    canvas = Canvas(figsize=(4.4, 3.4), layout="constrained")
    ax = canvas.add_subplot()
    draw_figure(ax, figure(series=tuple(Series(f"{name} {i}", (1,), (2,)) for i in range(4))))
    canvas.draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    assert legend.y0 >= ax.get_window_extent().y1
    assert legend.x1 <= canvas.bbox.x1 and legend.y1 <= canvas.bbox.y1


@pytest.mark.parametrize("count", [3, 20, 200])
def test_names_along_an_axis_do_not_lie_on_each_other_and_marks_stand_where_wanted(count):
    canvas = Canvas(figsize=(4.4, 3.4), layout="constrained")
    ax = canvas.add_subplot()
    names = tuple(f"layer4.{i}.bn2" for i in range(count))
    series = Series("VI-Net", tuple(range(count)), tuple(range(count)), marks=(2,))
    draw_figure(ax, figure(series=(series,), levels=(), x=Axis("cut", names=names)))
    canvas.draw_without_rendering()
    labels = ax.get_xticklabels()
    assert {label.get_text() for label in labels} <= {*names}
    boxes = [label.get_window_extent() for label in labels]
    assert all(a.x1 <= b.x0 + 1 for a, b in pairwise(boxes))
    assert ax.get_lines()[0].get_markevery() == [2]


def test_values_beyond_all_bounds_leave_a_gap_and_no_series_an_empty_figure():
    assert not drawn(figure(series=(), levels=())).get_lines()
    series = Series("VI-Net", (1, 2, 3), (1e308, -1e308, 2), std=(1e308, 0, 1))
    assert "<svg" in svg(figure(series=(series,), levels=(ReferenceLine("high", 1e308),)))


# --- the data of a figure ---------------------------------------------------------------------


def rows_of(found: Figure) -> list[list[str]]:
    table = figures.figure_data(found)
    rows = [[cell(column, row) for column in table.columns] for row in table.rows]
    return [[column.heading for column in table.columns], *rows]


def test_lines_have_a_row_for_every_x_and_a_column_for_every_series():
    series = (
        Series("linear head", (10, 20), (90.5, None), ("b.bn1", "a.bn1")),
        Series("VI-Net", (10, 20), (91.25, 88), ("b.bn1", "a.bn1"), (0.5, None)),
    )
    found = figure(series=series, x=Axis("removed", format=".0f"), y=Axis("y", format=".2f"))
    assert rows_of(found) == [
        ["point", "removed", "linear head", "VI-Net"],
        ["b.bn1", "10", "90.50", "91.25 ± 0.50"],
        ["a.bn1", "20", "–", "88.00"],
    ]
    assert figures.figure_data(found).caption == "y; uncut network: 93.00"


def test_points_that_share_an_x_get_a_row_each():
    expected = [["series", "point", "x", "y"], ["s", "a", "1", "2"], ["s", "a", "1", "3"]]
    shared = Series("s", (1, 1), (2, 3), ("a", "a"))
    assert rows_of(figure(series=(shared,), x=Axis("x"), y=Axis("y"))) == expected
    apart = Series("s", (1, 2), (2, 3), ("a", "a"))
    found = rows_of(figure(series=(apart,), x=Axis("x"), y=Axis("y"), kind="scatter"))
    assert found[2] == ["s", "a", "2", "3"]


# --- drawings inside a page -------------------------------------------------------------------


def picture(name: str, alt: str = "alt", prefix: str = "") -> str:
    def draw(ax):
        ax.plot([0, 1], [0, 1], "o-", color=OURS, label="line")
        ax.imshow([[0, 1], [1, 0]])
        ax.set(xlabel="across")
        ax.legend()

    return svg(Drawing(name, alt, "caption", draw), prefix)


def test_a_drawing_is_one_element_that_says_what_it_shows():
    element = ElementTree.fromstring(picture("a", 'a "line" & more'))
    assert element.tag == "svg"  # no name space
    assert element.get("role") == "img" and element.get("aria-label") == 'a "line" & more'
    assert any(text.text == "across" for text in element.iter("text"))


def test_a_drawing_loads_nothing_and_takes_the_colours_of_the_page():
    text = picture("a")
    assert not re.search(r"https?:|xmlns", text)
    targets = re.findall(r'href="([^"]{0,12})', text)
    assert targets and all(t.startswith(("#a-", "data:image/")) for t in targets)
    assert "currentColor" in text and "var(--series-0)" in text
    assert INK not in text and OURS not in text and picture("a") == text
    text = svg(figure(), "x:")  # without its title, which stands above it
    assert 'aria-label="Title"' in text and ">Title<" not in text
    assert ">uncut network<" in text and "var(--quiet)" in text and "var(--line)" in text


def test_names_in_two_drawings_of_a_page_differ_and_references_hold():
    names = {}
    for name, prefix in (("a", ""), ("b", ""), ("c", "part:")):
        text = picture(name, prefix=prefix)
        found = re.findall(r'\bid="([^"]*)"', text)
        assert len(found) == len(set(found))
        names[name] = set(found)
        used = set(re.findall(r'(?:url\(|href=")#([\w:-]+)', text))
        assert used and used <= names[name]
    assert not names["a"] & names["b"] and not names["a"] & names["c"]


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    assert figures.can_draw()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"vinets\[plots\]"):
        picture("a")


# --- colours ----------------------------------------------------------------------------------


def colours(scheme: int) -> dict[str, str]:
    style = files("vinets.report").joinpath("style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[scheme]))


def test_pages_and_pictures_have_one_palette():
    found = colours(0)
    assert (found["accent"], found["quiet"], found["ink"]) == (OURS, GREY, INK)
    assert [found[f"series-{i}"] for i in range(1, len(COLORS) + 1)] == list(COLORS)


def test_looks_differ_until_the_colours_are_used_up():
    found = looks(["MLP", "VI-Net", *"abcdefg"])
    assert found[1] == 0 and len(set(map(figures.color_of, found))) == len(found)
    assert figures.color_of(1 + len(COLORS)) == figures.color_of(1)
    assert len({figures.marker_of(look) for look in range(8)}) == 8


@pytest.mark.parametrize("label", sorted({h.label for h in HEADS.values() if h.rivals}))
def test_polynomials_stand_out_by_the_label_of_their_head(label):
    assert looks(["MLP", label]) == [1, 0]


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_what_is_behind_them(scheme):
    found = colours(scheme)
    series = [f"series-{i}" for i in range(1, 9)]
    for name in ("ink", "quiet", "accent", "gain", "loss", *series):
        for back in ("page", "card"):
            light, dark = sorted((luminance(found[n]) for n in (name, back)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, back)
