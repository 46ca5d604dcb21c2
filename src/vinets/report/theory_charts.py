"""Charts of spectral complexity: layer by layer, certified sizes of a head, margins.

Functions that begin with ``draw`` need matplotlib, the extra ``plots``, and draw on the axes that
they are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from vinets.checks import parameter_error
from vinets.palette import COLORS, GREY
from vinets.report.formats import number
from vinets.report.values import Axis, Figure, Series
from vinets.theory.advisor import Advice
from vinets.theory.complexity import Complexity
from vinets.theory.generalisation import GeneralisationBound
from vinets.theory.studies import CURVE_POINTS, Corollary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_region", "draw_shares", "layers_figure", "margins_figure", "power"]


def power(log10: float) -> str:
    """10 to this power as text; 0 for minus infinity.

    Examples
    --------
    >>> power(2.5), power(-math.inf)
    ('10^2.50', '0')
    """
    return "0" if log10 == -math.inf else number(log10, "10^.2f")


def layers_figure(uncut: Complexity, networks: Mapping[str, Complexity]) -> Figure:
    """The product of norms and Lipschitz constants up to every layer; the last point is R.

    Networks behind a cut, by name, run along the uncut network up to the cut.
    """
    end = max(len(found.layers) for found in (uncut, *networks.values()))
    names = [layer.name for layer in uncut.layers]
    names += [""] * (end - len(names))
    every = dict(networks) | {"uncut network": uncut}
    return Figure(
        "layers",
        "Product of norms and Lipschitz constants up to each layer, and R",
        Axis("layers of the uncut network", names=(*names, "R")),
        Axis("log₁₀ of the product of ρ‖W‖₂", format=".2f"),
        tuple(
            _run(f"{name}, R = {power(found.log10_R)}", found, end, dashed=found is uncut)
            for name, found in every.items()
        ),
        caption="The last point is R: the step to it is the factor of the sum. Steep steps are "
        "where R comes from.",
    )


def _run(name: str, found: Complexity, end: int, *, dashed: bool) -> Series:
    """Logarithms of the product up to every layer, as far as no layer is zero, and then R."""
    factors = [layer.lipschitz * layer.spectral for layer in found.layers]
    whole = factors.index(0) if 0 in factors else len(factors)
    x = list(range(whole))
    y = list(accumulate(math.log10(factor) for factor in factors[:whole]))
    labels = [layer.name for layer in found.layers[:whole]]
    if math.isfinite(found.log10_R):
        x, y, labels = [*x, end], [*y, found.log10_R], [*labels, "R"]
    return Series(name, tuple(x), tuple(y), tuple(labels), dashed=dashed)


def margins_figure(corollary: Corollary, name: str) -> Figure:
    """Margin loss of both networks against their positive margins; further right is better.

    Margins are divided by R and the mean size of an input, so that both networks have one unit,
    and stay as they are where a network has no positive R.
    """
    sides = {name: corollary.network, "uncut network": corollary.uncut}
    normal = all(math.isfinite(bound.log10_R) for bound in sides.values())
    unit = "normalised margin γm / (‖X‖R)" if normal else "margin γ"
    return Figure(
        "margins",
        f"Margin loss against the {unit.partition(' γ')[0]}",
        Axis(f"log₁₀ of the {unit}", format=".3f"),
        Axis("margin loss, %", format=".1f"),
        tuple(
            _loss(label, bound, normal, dashed=bound is corollary.uncut)
            for label, bound in sides.items()
        ),
        caption="Further right, the complexity term is smaller at the same loss, but for the "
        "logarithm of the width.",
    )


def _loss(name: str, bound: GeneralisationBound, normal: bool, *, dashed: bool) -> Series:
    gamma = bound.distribution.quantiles(np.linspace(0, 1, CURVE_POINTS))
    gamma = gamma[gamma > 0]
    size = 0.0
    if normal:
        size = bound.log10_R + math.log10(bound.input_norm / len(bound.distribution))
    loss = 100 * bound.distribution.loss(gamma)
    x, y = (np.log10(gamma) - size).tolist(), loss.tolist()
    return Series(name, tuple(x), tuple(y), dashed=dashed, marks=())


def draw_shares(ax: Axes, found: Complexity, color: str = GREY) -> None:
    """Share of every layer in the sum of ratios, the first layer on top."""
    places, shares = range(len(found.layers)), found.shares
    bars = ax.barh(places, [100 * share for share in shares], color=color)
    ax.bar_label(bars, [number(share, ".1%") for share in shares], padding=3, fontsize=8)
    ax.set_yticks(places, [layer.name for layer in found.layers], fontsize=9)
    ax.invert_yaxis()
    ax.margins(x=0.14, y=0.01)
    ax.set(xlabel="share of the sum in %")


def draw_region(ax: Axes, advice: Advice, degree: int) -> None:
    """Largest certified tau over polynomials and monomials at one degree.

    Blue sizes are certified at the tau of the advice, red ones are not. Lines mark where the
    largest tau is that tau, and where it is 1. A diamond marks the recommended size.
    """
    from matplotlib.colors import TwoSlopeNorm

    rows = [row for row in advice.rows if row.degree == degree]
    if not rows:
        accepted = f"one of {sorted({row.degree for row in advice.rows})}"
        raise parameter_error("draw_region", "degree", accepted, degree)
    counts = sorted({row.polynomials for row in rows})
    terms = sorted({row.monomials for row in rows})
    found = {(row.monomials, row.polynomials): row.log10_tau_max for row in rows}
    heat = np.array([[found[s, n] for n in counts] for s in terms])
    middle = math.log10(advice.tau)
    every = [row.log10_tau_max for row in advice.rows]  # one scale for all degrees
    norm = TwoSlopeNorm(middle, min(middle - 1, *every), max(middle + 1, *every))
    x, y = np.log2(counts), np.log2(terms)
    mesh = ax.pcolormesh(x, y, heat, cmap="RdBu", norm=norm, shading="nearest", rasterized=True)
    bar = ax.figure.colorbar(mesh, ax=ax, label="log₁₀ of the largest τ")
    bar.ax.set_yscale("linear")  # colours are spread unevenly, numbers need not be
    _draw_levels(ax, x, y, heat, advice.tau)
    setting = advice.setting
    if setting is not None and setting.degree == degree:
        at = np.log2([setting.polynomials]), np.log2([setting.monomials])
        ax.plot(*at, "D", color=COLORS[1], markeredgecolor="white", markersize=9, zorder=4)
    ax.set_xticks(x, [number(n, ",") for n in counts], rotation=45)
    ax.set_yticks(y, [number(s, ",") for s in terms])
    ax.set(xlabel="polynomials N", ylabel="monomials S", title=f"degree up to {degree}")


def _draw_levels(ax: Axes, x: Any, y: Any, heat: Any, tau: float) -> None:
    """Lines where the largest tau is ``tau`` and where it is 1, if they cross the map."""
    from matplotlib.patheffects import withStroke

    for value, style in ((tau, "-"), (1.0, "--")):
        level = math.log10(value)
        if min(heat.shape) < 2 or not heat.min() < level < heat.max():
            continue
        lines = ax.contour(x, y, heat, levels=[level], colors="#111111", linestyles=style)
        for text in ax.clabel(lines, fmt=f"τ = {value:g}", fontsize=9):
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
