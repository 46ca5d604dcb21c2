"""Draw figures by matplotlib, the extra ``plots``: as files, and as SVG inside a page."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vinets.core.files import written_aside
from vinets.report.numbers import number
from vinets.report.values import Axis, Column, Drawing, Figure, Row, Series, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Pages take the same colours from style.css, where each has a twin for dark screens.
OURS = "#c1440e"  # heads of polynomials
# Series of our networks begin with one of these names.
OUR_NAMES = ("VI-Net", "product head", "network behind the cut")
# Other series take these colours, in this order.
COLORS = ["#1f6f9f", "#4d7a1e", "#7b4fb0", "#8a6500", "#0e7c7c", "#b03a83", "#6f5546", "#4a5568"]
GREY = "#566375"  # the uncut network, levels
INK = "#1b2a41"  # text and points
MARKERS = "sD^vPXp"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dde2e8",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "vinets",  # equal pictures, equal files
}

FILE_INCHES = (6.4, 4.4)
PAGE_INCHES = (4.4, 3.4)  # so narrow that text of ten points can be read on a telephone
MAX_DRAWN = 1e200  # differences of larger values overflow
MAX_NAMES = 30  # along an axis; of more, some are left out
LEGEND_CHARACTERS = 44  # on one line
ON_PAGE: dict[Any, Any] = {
    **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
    **{"axes.edgecolor": INK, "axes.labelcolor": INK},
    **{"axes.facecolor": "none", "figure.facecolor": "none"},
    "font.sans-serif": ["DejaVu Sans"],  # whose name stands in every text of the SVG
    "savefig.dpi": 150,  # where a part of the picture is drawn as pixels
}
# Colours of a page, which has others on dark screens.
VARIABLES = {INK: "currentColor", GREY: "var(--quiet)", STYLE["grid.color"]: "var(--line)"}
VARIABLES |= {color: f"var(--series-{place})" for place, color in enumerate((OURS, *COLORS))}


def looks(names: Iterable[str]) -> list[int]:
    """Number the looks of series: 0 for our network, 1, 2, ... for the others.

    Only the first of :data:`OUR_NAMES` stands out. Where a figure compares several, the
    others need colours of their own.

    Examples
    --------
    >>> looks(["linear head", "VI-Net", "VI-Net, OAVI", "MLP"])
    [1, 0, 2, 3]
    """
    found: list[int] = []
    for name in names:
        is_ours = name.startswith(OUR_NAMES) and 0 not in found
        found.append(0 if is_ours else sum(look > 0 for look in found) + 1)
    return found


def color_of(look: int) -> str:
    """Return the colour of a look; beyond the last, they take turns."""
    return COLORS[(look - 1) % len(COLORS)] if look else OURS


def marker_of(look: int) -> str:
    """Return the marker of a look, as matplotlib names it."""
    return MARKERS[(look - 1) % len(MARKERS)] if look else "o"


def can_draw() -> bool:
    """Tell whether matplotlib, the extra ``plots``, is installed."""
    return find_spec("matplotlib") is not None


def save_figure(figure: Figure, folder: str | Path, stem: str) -> tuple[Path, Path]:
    """Write ``stem.png``, at 150 dots an inch, and ``stem.svg`` into ``folder``; return both."""
    png, svg_file = Path(folder) / f"{stem}.png", Path(folder) / f"{stem}.svg"
    with _sheet(FILE_INCHES, {"axes.grid": True}) as sheet:
        draw_figure(sheet.add_subplot(), figure)
        sheet.suptitle(figure.title, fontsize=11, x=0.02, ha="left")
        for path, options in ((png, {"dpi": 150}), (svg_file, {"metadata": {"Date": None}})):
            with written_aside(path) as aside:
                sheet.savefig(aside, **options)
    return png, svg_file


def svg(picture: Figure | Drawing, prefix: str = "") -> str:
    """Return the SVG element of a picture, in the colours of the page around it.

    The prefix sets names inside it off from those of other pictures.
    """
    file, name = io.StringIO(), f"{prefix}{picture.id}"
    style = ON_PAGE | {"axes.grid": isinstance(picture, Figure)}
    if isinstance(picture, Figure):
        draw = partial(draw_figure, figure=picture)
        picture = Drawing(picture.id, picture.title, "", draw, PAGE_INCHES)
    with _sheet(picture.size, style) as sheet:
        picture.draw(sheet.add_subplot())
        sheet.savefig(file, format="svg")
    body = file.getvalue()
    body = body[body.index("<svg") :].strip()
    # Comments, name spaces and metadata are nothing that HTML needs.
    body = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", body)
    body = re.sub(r">\s+<", ">\n<", body).replace("xlink:href=", "href=")
    for color, variable in VARIABLES.items():
        body = body.replace(color, variable)
    # matplotlib gives the same names in every picture, and most of them are never used.
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    return body.replace("<svg ", f'<svg role="img" aria-label="{escape(picture.alt)}" ', 1)


@contextmanager
def _sheet(size: tuple[float, float], style: dict[Any, Any]) -> Iterator[Any]:
    """Open a figure of matplotlib in our style, in which it is saved, too."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Sheet
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib, which is not installed. Install the extra 'plots': "
            'pip install "vinets[plots]".'
        ) from error
    with rc_context(STYLE | style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a browser has other fonts
        yield Sheet(figsize=size, layout="constrained")


def draw_figure(ax: Axes, figure: Figure) -> None:
    """Draw series, with one standard deviation to both sides, and levels.

    Values that the axes cannot show are left out.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    for one, look in zip(figure.series, looks(one.name for one in figure.series), strict=True):
        _draw_series(ax, figure, one, look)
    for level in figure.levels:
        if abs(level.y) < MAX_DRAWN and (level.y > 0 or not figure.y.log):
            ax.axhline(level.y, color=GREY, linestyle="--", linewidth=1.3, label=level.name)
    for part, axis in (("x", figure.x), ("y", figure.y)):
        ticks = getattr(ax, f"{part}axis")
        ticks.set_label_text(axis.label)
        if axis.names:
            shown = range(0, len(axis.names), -(-len(axis.names) // MAX_NAMES))
            names = [axis.names[place] for place in shown]
            upright = part == "x" and sum(map(len, names)) + len(names) > 40
            style = {"rotation": 90, "fontsize": 8} if upright else {}
            ticks.set_ticks(shown, names, **style)
            continue
        if axis.log:
            getattr(ax, f"set_{part}scale")("log")
            low, high = sorted(ticks.get_view_interval())  # series are drawn already
            if high / low < 100:  # powers of ten alone would be too few
                ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
            ticks.set_minor_formatter(NullFormatter())
        ticks.set_major_formatter(lambda value, _: number(value, ",.10g"))
    # The legend stands above the axes: no place inside is free of curves in every figure.
    handles, names = ax.get_legend_handles_labels()
    lines = [textwrap.fill(name, LEGEND_CHARACTERS) for name in names]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.3}
    for columns in range(min(len(names), 3), 0, -1):
        legend = ax.legend(handles, lines, ncols=columns, **place)
        if legend.get_window_extent().width < 0.85 * ax.figure.bbox.width:
            break


def _draw_series(ax: Axes, figure: Figure, series: Series, look: int) -> None:
    x, y = np.array(series.x, float), np.array(series.y, float)  # None becomes NaN: a gap
    for values, axis in ((x, figure.x), (y, figure.y)):
        values[(np.abs(values) > MAX_DRAWN) | ((values <= 0) & axis.log)] = np.nan
    joined = figure.kind == "lines" if series.joined is None else series.joined
    line = "none" if not joined else "--" if series.dashed else "-"
    style: dict[str, Any] = {"color": color_of(look), "zorder": 3 if look == 0 else 2}  # on top
    marks: dict[str, Any] = {"marker": marker_of(look), "markersize": 5}
    if series.marks is not None:
        marks["markevery"] = list(series.marks)
    ax.plot(x, y, ls=line, lw=2.6 if look == 0 else 1.4, label=series.name, **marks, **style)
    if series.std is None:
        return
    spread = np.array([value or 0.0 for value in series.std])
    if figure.kind == "scatter":
        ax.errorbar(x, y, yerr=spread, fmt="none", elinewidth=1, capsize=2, **style)
        return
    low = y - spread
    if figure.y.log:  # a band that reaches below zero ends at the lowest value
        low[low <= 0] = min(y[np.isfinite(y)], default=1.0)
    ax.fill_between(x, low, y + spread, alpha=0.15, linewidth=0, **style)


def figure_data(figure: Figure) -> Table:
    """Return the points of a figure as a table.

    It has a row for every x and a column for every series, or a row for every point where the
    figure is a scatter plot, or a series has two points with the same x and label.
    """
    # Points (x, x as text, label) with y as text, a list for every series.
    points = []
    for one in figure.series:
        labels, stds = one.labels or [""] * len(one.x), one.std or [None] * len(one.x)
        xs = [(x, _shown(x, figure.x), label) for x, label in zip(one.x, labels, strict=True)]
        ys = [_shown(y, figure.y, std) for y, std in zip(one.y, stds, strict=True)]
        points.append(list(zip(xs, ys, strict=True)))
    by_x = [dict(series) for series in points]
    keys = sorted({key for series in by_x for key in series})
    columns = [Column("label", "point")] * any(label for _, _, label in keys)
    columns.append(Column("x", figure.x.label, None if figure.x.names else ""))
    if figure.kind == "lines" and list(map(len, by_x)) == list(map(len, points)):
        columns += [Column(f"y{i}", one.name, "") for i, one in enumerate(figure.series)]
        ys_at = {key: {f"y{i}": ys[key] for i, ys in enumerate(by_x) if key in ys} for key in keys}
        rows = [Row({"x": key[1], "label": key[2]} | values) for key, values in ys_at.items()]
    else:
        columns = [Column("series"), *columns, Column("y", figure.y.label, "")]
        rows = [
            Row({"series": one.name, "label": label, "x": x, "y": y})
            for one, series in zip(figure.series, points, strict=True)
            for (_, x, label), y in series
        ]
    levels = "".join(f"; {level.name}: {_shown(level.y, figure.y)}" for level in figure.levels)
    return Table(figure.id, f"{figure.y.label}{levels}", tuple(columns), tuple(rows))


def _shown(value: float | None, axis: Axis, std: float | None = None) -> str:
    if axis.names and value is not None:
        return axis.names[int(value)]
    return number(value, axis.format or ".4g", std)
