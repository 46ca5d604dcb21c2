"""Charts of results: accuracy by cut, training, where the parameters are.

Needs matplotlib, the extra ``plots``. Every function draws on the axes that it is given; ``rows``
and ``histories`` are those of ``results.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "PARTS", "draw_accuracy", "draw_parts", "draw_training"]

PARTS = ("backbone", "projection", "monomials", "coefficients", "linear")
OURS = "#d4541c"
COLORS = ("#3b87b5", "#6f9a3d", "#9467bd", "#b8901a", "#17a2a2", "#d16ba5", "#8c6d5a")
GREY = "#7f8c9b"
PART_COLORS = (GREY, "#3b87b5", "#9467bd", OURS, "#6f9a3d")
MARKERS = "sD^vP*X"


def draw_accuracy(ax: Axes, rows: Sequence[Mapping[str, Any]], uncut: float) -> None:
    """Accuracy against the cut, a line for every head; the uncut network is dashed."""
    cuts = list(dict.fromkeys(row["cut"] for row in rows))
    for name, look in _looks(row["name"] for row in rows).items():
        mine = {row["cut"]: 100 * row["accuracy"] for row in rows if row["name"] == name}
        places = [i for i, cut in enumerate(cuts) if cut in mine]
        ax.plot(places, [mine[cuts[i]] for i in places], label=name, markersize=5, **look)
    ax.axhline(100 * uncut, color=GREY, linestyle="--", label="uncut network")
    ax.set_xticks(range(len(cuts)), cuts)
    ax.set(xlabel="cut, earliest first", ylabel="test accuracy in %")
    ax.margins(x=0.08)
    ax.legend(fontsize=9)


def draw_training(
    ax: Axes, histories: Mapping[str, Mapping[str, Any]], field: str, label: str
) -> None:
    """A quantity of every epoch, a line for every head; the dot is the epoch that was kept."""
    for name, look in _looks(histories).items():
        epochs = histories[name]["epochs"]
        values = [epoch[field] for epoch in epochs]
        if None in values:
            continue
        marker, style = look.pop("marker"), look
        ax.plot([epoch["epoch"] for epoch in epochs], values, label=name, **style)
        best = histories[name]["best"]
        ax.plot([best], [values[best - 1]], marker, color=style["color"], markersize=6)
    ax.set(xlabel="epoch", ylabel=label, yscale="log")
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize=9)


def draw_parts(ax: Axes, rows: Sequence[Mapping[str, Any]], uncut: int) -> None:
    """Stored numbers by part, a bar for every network; the uncut network on top."""
    names = ["uncut network", *(f"{row['cut']}: {row['name']}" for row in rows)]
    parts = [{"backbone": uncut}, *(row["parts"] for row in rows)]
    starts = [0] * len(names)
    for part, color in zip(PARTS, PART_COLORS, strict=True):
        widths = [numbers.get(part, 0) for numbers in parts]
        ax.barh(names, widths, left=starts, color=color, label=part, height=0.75)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    for name, label in zip(names, ax.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if "VI-Net" in name else "normal")
    ax.invert_yaxis()
    ax.margins(y=0.01)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set(xlabel="stored numbers")
    ax.legend(fontsize=9, loc="lower right")


def _looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and width of every head: the VI-Net stands out, baselines differ."""
    looks: dict[str, dict[str, Any]] = {}
    baselines = 0
    for name in dict.fromkeys(names):
        if name.startswith("VI-Net"):
            looks[name] = {"color": OURS, "marker": "o", "linewidth": 2.6, "zorder": 3}
            continue
        color, marker = COLORS[baselines % len(COLORS)], MARKERS[baselines % len(MARKERS)]
        looks[name] = {"color": color, "marker": marker, "linewidth": 1.4}
        baselines += 1
    return looks
