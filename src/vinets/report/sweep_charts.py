"""Charts of a sweep over cuts: dimension against monomials, and what was found at every cut.

Needs matplotlib, the extra ``plots``. Every function draws on the axes that it is given; ``rows``
are those of :meth:`vinets.pipeline.sweep.CutFacts.to_dict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vinets.checks import parameter_error
from vinets.measure.dimension import dimension_correlation
from vinets.report.charts import COLORS, OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_dimension", "draw_generators"]


def draw_dimension(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Monomials against the mean intrinsic dimension, a point for every cut.

    Bars reach one standard deviation over the classes to both sides. The title has the correlation
    where there are three cuts or more that differ.
    """
    _check("draw_dimension", rows)
    if any(row["dimension"] is None for row in rows):
        raise parameter_error(
            "draw_dimension", "rows", "those of a sweep with dimensions", "rows without them"
        )
    dimensions = [row["dimension"] for row in rows]
    counts = [row["monomials"] for row in rows]
    spreads = [row["dimension_std"] for row in rows]
    ax.errorbar(dimensions, counts, xerr=spreads, fmt="none", ecolor="#b9c2cc", elinewidth=1.2)
    ax.plot(dimensions, counts, "o", color=OURS, markersize=7)
    _name_points(ax, dimensions, counts, [row["cut"] for row in rows])
    _log_counts(ax)
    ax.margins(x=0.1, y=0.12)
    ax.set(xlabel="mean intrinsic dimension of the classes", ylabel="monomials of all classes")
    if len(rows) >= 3 and len(set(dimensions)) > 1 and len(set(counts)) > 1:
        found = dimension_correlation(dimensions, counts)
        title = f"Pearson r = {found.pearson:.2f}, Spearman ρ = {found.spearman:.2f}"
        ax.set_title(f"{title}, {found.count} cuts", fontsize=10)


def draw_generators(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Monomials and polynomials of all classes against the cut."""
    _check("draw_generators", rows)
    places = range(len(rows))
    for field, color, marker in (("monomials", OURS, "o"), ("polynomials", COLORS[0], "s")):
        values = [row[field] for row in rows]
        ax.plot(places, values, color=color, marker=marker, markersize=5, label=field)
    names = [row["cut"] for row in rows]
    ax.set_xticks(places, names)
    if sum(map(len, names)) > 45:  # side by side they would touch
        ax.tick_params(axis="x", labelrotation=30)
    _log_counts(ax)
    ax.margins(x=0.08, y=0.15)
    ax.set(xlabel="cut, earliest first", ylabel="number, all classes")
    ax.legend(fontsize=9)


def _check(owner: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        raise parameter_error(owner, "rows", "at least one row of a sweep", list(rows))


def _name_points(ax: Axes, x: Sequence[float], y: Sequence[float], names: Sequence[str]) -> None:
    """Write every name beside its point, on the sides away from the nearest other point."""
    places = np.stack([np.asarray(x, dtype=float), np.log(np.maximum(y, 1))], axis=1)
    places /= np.maximum(np.ptp(places, axis=0), 1e-12)
    for i, name in enumerate(names):
        others = np.delete(places, i, axis=0) - places[i]
        near = others[np.square(others).sum(axis=1).argmin()] if len(others) else np.zeros(2)
        right, above = near[0] <= 0, near[1] <= 0
        ax.annotate(
            name,
            (x[i], y[i]),
            (5 if right else -5, 3 if above else -3),
            textcoords="offset points",
            fontsize=9,
            ha="left" if right else "right",
            va="bottom" if above else "top",
        )


def _log_counts(ax: Axes) -> None:
    """A log axis for counts, with plain numbers as its ticks even if it spans no power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.yaxis.set_minor_formatter(NullFormatter())
