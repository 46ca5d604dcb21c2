"""Charts of spectral complexity: layer by layer, certified sizes of a head, margins.

Needs matplotlib, the extra ``plots``. Every function draws on the axes that it is given, from what
:meth:`vinets.theory.Study.to_dict` returns or a part of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from vinets.checks import parameter_error
from vinets.report.charts import COLORS, GREY, OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_layers", "draw_margins", "draw_region", "draw_shares"]

MARKED = "#1d8a4b"


def draw_layers(
    ax: Axes,
    uncut: Mapping[str, Any],
    networks: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """The product of norms and Lipschitz constants up to every layer; a star at the end is R.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    uncut : dict
        Of :meth:`vinets.theory.Complexity.to_dict`.
    networks : dict or None, default=None
        The same of networks behind a cut, by name. They run along the uncut network up to the cut.
        The layers of a single one are named in the chart.
    """
    others = dict(networks or {})
    first = OURS if len(others) == 1 else COLORS[0]
    colors = [first, *COLORS[1:]]
    end = max(len(facts["layers"]) for facts in (uncut, *others.values()))
    for index, (name, facts) in enumerate(others.items()):
        _run(ax, facts, end, name, color=colors[index % len(colors)], zorder=3)
    _run(ax, uncut, end, "uncut network", color=GREY, linestyle="--", zorder=2)
    if len(others) == 1:
        _name_added(ax, uncut, next(iter(others.values())), OURS)
    names = [layer["name"] for layer in uncut["layers"]]
    names += [""] * (end - len(names))
    ax.set_xticks(range(end + 1), [*names, "R"])
    if sum(map(len, names)) > 60:  # side by side they would touch
        ax.tick_params(axis="x", labelrotation=90, labelsize=9)
    ax.axhline(0, color=GREY, linewidth=0.6)
    ax.set(xlabel="layers of the uncut network", ylabel="log₁₀ of the product of ρ‖W‖₂")
    ax.margins(y=0.12)
    ax.legend(fontsize=9, loc="upper left")


def draw_shares(ax: Axes, facts: Mapping[str, Any], color: str = GREY) -> None:
    """Share of every layer in the sum of ratios, the first layer on top."""
    layers = facts["layers"]
    bars = ax.barh(range(len(layers)), [100 * layer["share"] for layer in layers], color=color)
    ax.bar_label(bars, [f"{layer['share']:.1%}" for layer in layers], padding=3, fontsize=8)
    ax.set_yticks(range(len(layers)), [layer["name"] for layer in layers], fontsize=9)
    ax.invert_yaxis()
    ax.margins(x=0.14, y=0.01)
    ax.set(xlabel="share of the sum in %")


def draw_region(ax: Axes, advice: Mapping[str, Any], degree: int) -> None:
    """Largest certified tau over polynomials and monomials at one degree.

    Blue sizes are certified at the tau of the advice, red ones are not. Lines mark where the
    largest tau is that tau, and where it is 1. A diamond marks the recommended size.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    advice : dict
        Of :meth:`vinets.theory.Advice.to_dict`.
    degree : int
        One of the degrees in its rows.
    """
    from matplotlib.colors import TwoSlopeNorm

    rows = [row for row in advice["rows"] if row["degree"] == degree]
    if not rows:
        accepted = f"one of {sorted({row['degree'] for row in advice['rows']})}"
        raise parameter_error("draw_region", "degree", accepted, degree)
    counts = sorted({row["polynomials"] for row in rows})
    terms = sorted({row["monomials"] for row in rows})
    found = {(row["monomials"], row["polynomials"]): row["log10_tau_max"] for row in rows}
    heat = np.array([[found[s, n] for n in counts] for s in terms])
    middle = math.log10(advice["tau"])
    every = [row["log10_tau_max"] for row in advice["rows"]]  # one scale for all degrees
    norm = TwoSlopeNorm(middle, min(middle - 1, *every), max(middle + 1, *every))
    x, y = np.log2(counts), np.log2(terms)
    mesh = ax.pcolormesh(x, y, heat, cmap="RdBu", norm=norm, shading="nearest", rasterized=True)
    bar = ax.figure.colorbar(mesh, ax=ax, label="log₁₀ of the largest τ")
    bar.ax.set_yscale("linear")  # colours are spread unevenly, numbers need not be
    _levels(ax, x, y, heat, advice["tau"])
    setting = advice["setting"]
    if setting is not None and setting["degree"] == degree:
        place = np.log2([setting["polynomials"]]), np.log2([setting["monomials"]])
        ax.plot(*place, "D", color=MARKED, markeredgecolor="white", markersize=9, zorder=4)
    ax.set_xticks(x, [f"{n:,}" for n in counts], rotation=45)
    ax.set_yticks(y, [f"{s:,}" for s in terms])
    ax.set(xlabel="polynomials N", ylabel="monomials S", title=f"degree up to {degree}")


def draw_margins(ax: Axes, corollary: Mapping[str, Any], names: Sequence[str] = ()) -> None:
    """Margin loss of both networks against their positive margins; further right is better.

    Margins are divided by R and the mean size of an input, so that both networks have one unit,
    and stay as they are where a network has no positive R.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    corollary : dict
        Of :meth:`vinets.theory.Corollary.to_dict`.
    names : sequence of str, default=()
        Two names for the legend; empty for "uncut network" and "VI-Net".
    """
    sides = [corollary["uncut"], corollary["network"]]
    normal = all(_finite(side["log10_R"]) for side in sides)
    looks: list[dict[str, Any]] = [{"color": GREY, "linestyle": "--"}, {"color": OURS}]
    for side, look, name in zip(sides, looks, names or ("uncut network", "VI-Net"), strict=True):
        gamma, loss = (np.asarray(side["curve"][key]) for key in ("gamma", "loss"))
        size = 0.0
        if normal:
            size = side["log10_R"] + math.log10(side["input_norm"] / side["margins"]["examples"])
        right = gamma > 0
        ax.plot(np.log10(gamma[right]) - size, 100 * loss[right], label=name, **look)
    unit = "normalised margin γm / (‖X‖R)" if normal else "margin γ"
    ax.set(xlabel=f"log₁₀ of the {unit}", ylabel="margin loss in %", ylim=(0, 102))
    ax.legend(fontsize=9, loc="upper left")


def _run(ax: Axes, facts: Mapping[str, Any], end: int, name: str, **look: Any) -> None:
    """A line from layer to layer, and from the last one to R."""
    values = _running(facts["layers"])
    ax.plot(range(len(values)), values, marker="o", markersize=4, linewidth=1.6, **look)
    total = facts["log10_R"]
    shown = "R = 0" if total is None else f"R = 10^{total:.1f}"
    ax.plot([], [], marker="o", markersize=4, label=f"{name}, {shown}", **look)
    if total is None or not values:
        return
    lead = look | {"linestyle": ":"}
    ax.plot([len(values) - 1, end], [values[-1], total], linewidth=1.2, **lead)
    ax.plot([end], [total], "*", markersize=11, color=look["color"], zorder=4)


def _running(layers: Sequence[Mapping[str, Any]]) -> list[float]:
    """Logarithms of the product up to every layer, as far as no layer is zero."""
    factors = [layer["lipschitz"] * layer["spectral"] for layer in layers]
    whole = factors.index(0) if 0 in factors else len(factors)
    return list(accumulate(math.log10(factor) for factor in factors[:whole]))


def _name_added(ax: Axes, uncut: Mapping[str, Any], network: Mapping[str, Any], color: str) -> None:
    """Write the names of the layers that the uncut network does not have at their place."""
    values = _running(network["layers"])
    known = [layer["name"] for layer in uncut["layers"]]
    for index, (layer, value) in enumerate(zip(network["layers"], values, strict=False)):
        if index < len(known) and layer["name"] == known[index]:
            continue
        rising = index == 0 or value >= values[index - 1]
        ax.annotate(
            layer["name"],
            (index, value),
            (-4, 5) if rising else (0, -6),
            textcoords="offset points",
            fontsize=9,
            color=color,
            ha="right" if rising else "center",
            va="bottom" if rising else "top",
        )


def _levels(ax: Axes, x: Any, y: Any, heat: Any, tau: float) -> None:
    """Lines where the largest tau is ``tau`` and where it is 1, if they cross the map."""
    from matplotlib.patheffects import withStroke

    for value, style in ((tau, "-"), (1.0, "--")):
        level = math.log10(value)
        if min(heat.shape) < 2 or not heat.min() < level < heat.max():
            continue
        lines = ax.contour(x, y, heat, levels=[level], colors="#111111", linestyles=style)
        texts = ax.clabel(lines, fmt=f"τ = {value:g}", fontsize=9)
        for text in texts:
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
