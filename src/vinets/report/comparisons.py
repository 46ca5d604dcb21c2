"""Networks side by side as a table, and as charts over cuts and epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import stdev
from typing import TYPE_CHECKING, Literal

from vinets.palette import COLORS, GREY, OURS
from vinets.pipeline.comparison import Comparison, NetworkResult
from vinets.report.figures import legend_above
from vinets.report.formats import number
from vinets.report.values import Axis, Column, Figure, ReferenceLine, Row, Series, Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["accuracy_figure", "comparison_table", "draw_parts", "training_figure"]

PARTS = {  # short heading and colour
    "backbone": ("back.", GREY),
    "projection": ("proj.", COLORS[0]),
    "monomials": ("mono.", COLORS[2]),
    "coefficients": ("coeffs", OURS),
    "linear": ("lin.", COLORS[1]),
}
OTHER = ("", COLORS[3])
SEEN = "The network that was cut has seen the held-out images, the heads have not."
LOSSES = {"loss": "training loss", "validation_loss": "loss on the held-out part"}


def comparison_table(comparison: Comparison) -> Table:
    """The uncut network and the heads behind a cut; what was not measured has no column.

    Accuracies are in percent, differences Δ to the uncut network in percentage points.
    """
    networks = (comparison.uncut, *comparison.networks)
    parts = _parts(networks)
    columns = [
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std", "higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        *(Column(part, format=",", short=PARTS.get(part, OTHER)[0]) for part in parts),
        Column("parameters", "total", ","),
        Column("speed", "images/s", ",.0f", better="higher", short="img/s"),
        Column("seconds", "", ".1f", short="s"),
    ]
    rows = [_row(network, comparison.uncut) for network in networks]
    known = {name for row in rows for name in row}
    channels, positions = comparison.shape
    return Table(
        "comparison",
        f"Cut at {comparison.cut}: {channels} channels at {positions} positions",
        tuple(column for column in columns if column.name in known),
        tuple(Row(values, marked=index == 1) for index, values in enumerate(rows)),
    )


def _row(network: NetworkResult, uncut: NetworkResult) -> dict[str, Value]:
    values: dict[str, Value] = {"network": network.name, "accuracy": 100 * network.accuracy}
    if len(network.accuracies) > 1:
        values["accuracy_std"] = 100 * stdev(network.accuracies)
    if network is not uncut:
        values["gap"] = 100 * (network.accuracy - uncut.accuracy)
    values |= network.parts | {"parameters": network.parameters}
    if network.speed is not None:
        values["speed"] = network.speed.mean
    if network.seconds:
        values["seconds"] = network.seconds
    return values


def _parts(networks: Iterable[NetworkResult]) -> list[str]:
    """Names of all parts, those of a VI-Net first and in their order."""
    found = dict.fromkeys(part for network in networks for part in network.parts)
    return [part for part in dict.fromkeys([*PARTS, *found]) if part in found]


def accuracy_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Accuracy against the cut, a line for every head; a level for the uncut network."""
    found: dict[str, dict[int, float]] = {}
    for place, comparison in enumerate(comparisons):
        for network in comparison.networks:
            found.setdefault(network.name, {})[place] = 100 * network.accuracy
    uncut = comparisons[0].uncut
    return Figure(
        "accuracy",
        "Accuracy against the cut",
        Axis("cut, earliest first", names=tuple(comparison.cut for comparison in comparisons)),
        Axis("test accuracy, %", format=".2f"),
        tuple(Series(name, tuple(mine), tuple(mine.values())) for name, mine in found.items()),
        levels=(ReferenceLine(uncut.name, 100 * uncut.accuracy),),
    )


def training_figure(
    comparison: Comparison, field: Literal["loss", "validation_loss"]
) -> Figure | None:
    """A loss at every epoch, a line for every head, a mark at the epoch whose weights were kept.

    None where there is no such loss, for nothing was trained or held out.
    """
    series = []
    for network in comparison.networks:
        history = network.history
        if history is None or any(getattr(epoch, field) is None for epoch in history.epochs):
            continue
        x = tuple(epoch.epoch for epoch in history.epochs)
        y = tuple(getattr(epoch, field) for epoch in history.epochs)
        labels = tuple("kept" if epoch == history.best else "" for epoch in x)
        series.append(Series(network.name, x, y, labels, marks=(history.best - 1,)))
    if not series:
        return None
    label = LOSSES[field]
    axes = Axis("epoch", format=""), Axis(label, log=True, format=".3g")
    title, kept = f"Training of the heads: {label}", "The mark shows the weights that were kept."
    caption = f"{kept} {SEEN}" if field == "validation_loss" else kept
    return Figure(field, title, *axes, tuple(series), caption=caption)


def draw_parts(ax: Axes, comparisons: Sequence[Comparison]) -> None:
    """Parameters by part, a bar for every network; the uncut network on top."""
    uncut = comparisons[0].uncut
    bars = {uncut.name: uncut} | {
        f"{comparison.cut}: {network.name}": network
        for comparison in comparisons
        for network in comparison.networks
    }
    starts = [0] * len(bars)
    for part in _parts(bars.values()):
        widths = [network.parts.get(part, 0) for network in bars.values()]
        _, color = PARTS.get(part, OTHER)
        ax.barh(list(bars), widths, left=starts, color=color, label=part, height=0.75)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    for name, label in zip(bars, ax.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if "VI-Net" in name else "normal")
    ax.invert_yaxis()
    ax.margins(y=0.01)
    ax.xaxis.set_major_formatter(lambda value, _: number(value, ",.0f"))
    ax.set(xlabel="parameters")
    legend_above(ax)
