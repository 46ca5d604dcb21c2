"""Pictures by matplotlib, the extra ``plots``: figures as files, drawings as SVG inside a page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vinets.core.files import written_aside
from vinets.core.palette import COLORS, GREY, INK, OURS, STYLE, color_of, looks, marker_of
from vinets.report.formats import number
from vinets.report.values import Drawing, Figure, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SIZE = (6.4, 4.4)  # inches
ON_PAGE: dict[Any, Any] = {
    **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
    **{"axes.edgecolor": INK, "axes.labelcolor": INK},
    **{"axes.facecolor": "none", "figure.facecolor": "none"},
    "savefig.dpi": 150,  # of what is drawn as pixels
}


def can_draw() -> bool:
    """Whether matplotlib, the extra ``plots``, is installed."""
    return find_spec("matplotlib") is not None


def save_figure(figure: Figure, folder: str | Path, stem: str) -> tuple[Path, Path]:
    """Write ``stem.png``, at 150 dots an inch, and ``stem.svg`` into ``folder``; return both."""
    png, svg_file = Path(folder) / f"{stem}.png", Path(folder) / f"{stem}.svg"
    with _sheet(SIZE, {"axes.grid": True}) as sheet:
        draw_figure(sheet.add_subplot(), figure)
        with written_aside(png) as aside:
            sheet.savefig(aside, dpi=150)
        with written_aside(svg_file) as aside:
            sheet.savefig(aside, metadata={"Date": None})
    return png, svg_file


def svg(drawing: Drawing) -> str:
    """The SVG element of a drawing, in the colours of the page around it."""
    file, name = io.StringIO(), drawing.id
    with _sheet(drawing.size, ON_PAGE) as sheet:
        drawing.draw(sheet.add_subplot())
        sheet.savefig(file, format="svg")
    body = file.getvalue()
    body = body[body.index("<svg") :].strip()
    # Name spaces and metadata are nothing that HTML needs.
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", body)
    body = body.replace("xlink:href=", "href=").replace(INK, "currentColor")
    for index, color in enumerate((OURS, *COLORS)):  # those of dark screens, where it is dark
        body = body.replace(color, f"var(--series-{index})")
    body = body.replace(GREY, "var(--quiet)")
    # Every drawing of a page has names of its own, for matplotlib gives all of them the same.
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    return body.replace("<svg ", f'<svg role="img" aria-label="{escape(drawing.alt)}" ', 1)


@contextmanager
def _sheet(size: tuple[float, float], style: dict[Any, Any]) -> Iterator[Any]:
    """A figure of matplotlib in our style, which is what it is saved in, too."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Sheet
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib, which is not installed. Install the extra 'plots': "
            'pip install "vinets[plots]".'
        ) from error
    with rc_context(STYLE | style):
        yield Sheet(figsize=size, layout="constrained")


def draw_figure(ax: Axes, figure: Figure) -> None:
    """Draw series, with one standard deviation to both sides, and levels.

    Values that a logarithmic axis cannot show are left out.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    for one, look in zip(figure.series, looks(one.name for one in figure.series), strict=True):
        _draw_series(ax, figure, one, look)
    for level in figure.levels:
        if level.y > 0 or not figure.y.log:
            ax.axhline(level.y, color=GREY, linestyle="--", linewidth=1.3, label=level.name)
    for part, axis in (("x", figure.x), ("y", figure.y)):
        ticks = getattr(ax, f"{part}axis")
        ticks.set_label_text(axis.label)
        if axis.names:
            ticks.set_ticks(range(len(axis.names)), axis.names)
            continue
        if axis.log:
            getattr(ax, f"set_{part}scale")("log")
            low, high = sorted(ticks.get_view_interval())  # series are drawn already
            if high / low < 100:  # powers of ten alone would be too few
                ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
            ticks.set_minor_formatter(NullFormatter())
        ticks.set_major_formatter(lambda value, _: number(value, ",.10g"))
    if figure.series or figure.levels:
        legend_above(ax)
    ax.figure.suptitle(figure.title, fontsize=11, x=0.02, ha="left")


def legend_above(ax: Axes) -> None:
    """A legend above the axes, for no place inside is free of curves in every figure."""
    count = len(ax.get_legend_handles_labels()[1])
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=min(count, 3), borderaxespad=0.3)


def _draw_series(ax: Axes, figure: Figure, series: Series, look: int) -> None:
    x, y = np.array(series.x, float), np.array(series.y, float)  # None becomes NaN: a gap
    for values, axis in ((x, figure.x), (y, figure.y)):
        values[(values <= 0) & axis.log] = np.nan
    line = "none" if not figure.joins(series) else "--" if series.dashed else "-"
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
