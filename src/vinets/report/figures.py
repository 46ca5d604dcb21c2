"""Figures of experiments by matplotlib, the extra ``plots``; pages draw the same themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinets.report.charts import COLORS, GREY, MARKERS, OURS
from vinets.report.schema import Axis, Figure, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_figure", "save_figure", "series_looks"]

SIZE = (6.4, 4.2)  # inches
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e7ec",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "vinets",  # equal figures, equal files
}


def series_looks(names: Iterable[str]) -> list[int]:
    """A number for the look of every series: 0 for the VI-Net, 1, 2, ... for the others.

    Only the first VI-Net stands out. Where a figure compares several, the others need colours of
    their own.

    Examples
    --------
    >>> series_looks(["linear head", "VI-Net", "VI-Net, OAVI", "MLP"])
    [1, 0, 2, 3]
    """
    looks: list[int] = []
    for name in names:
        is_ours = name.startswith("VI-Net") and 0 not in looks
        looks.append(0 if is_ours else sum(look > 0 for look in looks) + 1)
    return looks


def draw_figure(ax: Axes, figure: Figure) -> None:
    """Draw series, with one standard deviation to both sides, and rules.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    figure : Figure
        What to draw. Values that a logarithmic axis cannot show are left out.
    """
    looks = series_looks(one.name for one in figure.series)
    for one, look in zip(figure.series, looks, strict=True):
        _draw_series(ax, figure, one, look)
    for rule in figure.rules:
        if rule.y > 0 or not figure.y.log:
            ax.axhline(rule.y, color=GREY, linestyle="--", linewidth=1.3, label=rule.name)
    for part, axis in (("x", figure.x), ("y", figure.y)):
        _set_axis(ax, part, axis)
    ax.set_title(figure.title, fontsize=11, loc="left")
    if figure.series or figure.rules:
        ax.legend(fontsize=9)


def save_figure(figure: Figure, folder: str | Path, stem: str) -> tuple[Path, Path]:
    """Write ``stem.png``, at 150 dots an inch, and ``stem.svg`` into ``folder``; return both."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ImportError(
            "Figures of experiments need matplotlib, which is not installed. Install the extra "
            "'plots': pip install \"vinets[plots]\"."
        ) from error
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = folder / f"{stem}.png", folder / f"{stem}.svg"
    with rc_context(STYLE):
        canvas = Canvas(figsize=SIZE, layout="constrained")
        draw_figure(canvas.add_subplot(), figure)
        canvas.savefig(png, dpi=150)
        canvas.savefig(svg, metadata={"Date": None})
    return png, svg


def _draw_series(ax: Axes, figure: Figure, series: Series, look: int) -> None:
    color = OURS if look == 0 else COLORS[(look - 1) % len(COLORS)]
    marker = "o" if look == 0 else MARKERS[(look - 1) % len(MARKERS)]
    above = 3 if look == 0 else 2  # ours over the others
    x = [value if value > 0 or not figure.x.log else math.nan for value in series.x]
    y = [math.nan if v is None or (figure.y.log and v <= 0) else v for v in series.y]
    line = "none" if figure.kind == "scatter" else "--" if series.dashed else "-"
    width = 2.6 if look == 0 else 1.4
    style: dict[str, Any] = {"color": color, "zorder": above}
    ax.plot(x, y, marker=marker, markersize=5, ls=line, lw=width, label=series.name, **style)
    if series.std is None:
        return
    spread = [value or 0.0 for value in series.std]
    if figure.kind == "scatter":
        ax.errorbar(x, y, yerr=spread, fmt="none", elinewidth=1, capsize=2, **style)
        return
    low = [value - std for value, std in zip(y, spread, strict=True)]
    high = [value + std for value, std in zip(y, spread, strict=True)]
    if figure.y.log:  # a band that reaches below zero ends at the lowest value
        floor = min((value for value in y if not math.isnan(value)), default=1.0)
        low = [value if math.isnan(value) or value > 0 else floor for value in low]
    ax.fill_between(x, low, high, alpha=0.15, linewidth=0, **style)


def _set_axis(ax: Axes, part: str, axis: Axis) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    ticks = getattr(ax, f"{part}axis")
    getattr(ax, f"set_{part}label")(axis.label)
    if axis.log:
        getattr(ax, f"set_{part}scale")("log")
        low, high = sorted(getattr(ax, f"get_{part}lim")())
        if high / low < 100:  # powers of ten alone would be too few
            ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
        ticks.set_minor_formatter(NullFormatter())
    ticks.set_major_formatter(lambda value, _: f"{value:,.10g}".replace("-", "−"))
