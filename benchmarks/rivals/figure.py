"""Accuracy against what networks cost: parameters, images per second, seconds of training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rivals.frontier import COSTS, Cost, Found, frontier, is_equal, name_of
from benchmarks.tuning import JOINT
from benchmarks.tuning_tables import TITLES
from vinets.report import Axis, Figure, ReferenceLine, Series
from vinets.report.figures import GREY, INK, STYLE, color_of, looks, marker_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {  # in the order of their colours; files call product heads "vi-net"
    "vi-net": "product heads behind a cut",
    "other head": "other heads behind the same cuts",
    "classic": "ResNet-20, 32, 44, distilled",
    "narrow": "narrow networks, distilled",
    "pruned": "Torch-Pruning, distilled",
    "tuned": "the uncut network, tuned on",
}
LOOKS = dict(zip(KINDS, looks(KINDS.values()), strict=True))
DEPTH = 10  # points below the uncut network at which pictures end
PANEL = (5.2, 4.2)  # inches
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))  # of a mark


def figure(own: Sequence[Found], given: str, cost: Cost) -> Figure:
    """One given network and one cost: what was trained for equal epochs."""
    known = [row for row in own if row.get(cost.key)]
    uncut = next(row["uncut"] for row in own if "uncut" in row)
    series = []
    for kind, title in KINDS.items():
        kept = [r for r in known if r["kind"] == kind and is_equal(r) and _shown(r, uncut)]
        series.append(
            Series(
                title,
                tuple(row[cost.key] / cost.unit for row in kept),
                tuple(row["accuracy"] for row in kept),
                tuple(map(name_of, kept)),
                tuple(row.get("std") for row in kept),
            )
        )
    axes = Axis(cost.label, log=True, format=cost.format), Axis("accuracy, %", format=".2f")
    level = ReferenceLine("the uncut network", uncut)
    title = f"In place of {TITLES[given]}"
    name = f"frontier-{given}-{cost.short.lower()}"
    return Figure(name, title, *axes, tuple(series), "scatter", (level,))


def left_out(own: Iterable[Found]) -> list[Found]:
    """Those that are too far below the uncut network to be shown."""
    return [row for row in own if "uncut" in row and not _shown(row, row["uncut"])]


def _shown(row: Found, uncut: float) -> bool:
    return bool(row["accuracy"] >= uncut - DEPTH)


def save(found: Sequence[Found], folder: Path) -> list[Path]:
    """One picture for every given network, with a panel for every cost that is known."""
    made = []
    for given in dict.fromkeys(row["given"] for row in found):
        own = [row for row in found if row["given"] == given and row.get("accuracy")]
        known = [cost for cost in COSTS if any(row.get(cost.key) for row in own)]
        folder.mkdir(parents=True, exist_ok=True)
        made.append(folder / f"frontier-{given}.svg")
        _save(own, given, known, made[-1])
        below = [f"{name_of(row)} ({row['accuracy']:.2f} %)" for row in left_out(own)]
        print(f"{made[-1].name}; too low to be shown: {'; '.join(below) or 'none'}")
    return made


def _save(own: Sequence[Found], given: str, costs: Sequence[Cost], path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    from vinets.report.figures import draw_figure

    across = min(2, len(costs))
    down = -(-len(costs) // across)
    with rc_context(STYLE | {"axes.grid": True}):
        sheet = Sheet((PANEL[0] * across, PANEL[1] * down + 0.8), layout="constrained")
        panels = [sheet.add_subplot(down, across, k + 1) for k in range(len(costs))]
        handles: dict[str, Any] = {}
        for ax, cost in zip(panels, costs, strict=True):
            one = figure(own, given, cost)
            draw_figure(ax, one)
            sheet.suptitle(one.title, fontsize=11, x=0.02, ha="left")
            legend = ax.get_legend()
            if legend is not None:
                legend.remove()
            _adorn(ax, own, cost, one)
            empty = {series.name for series in one.series if not series.x}
            drawn, names = ax.get_legend_handles_labels()
            found = zip(names, drawn, strict=True)
            handles |= {name: handle for name, handle in found if name not in empty}
        sheet.legend(
            handles.values(), handles.keys(), loc="outside lower left", ncols=2 * across - 1
        )
        FigureCanvasAgg(sheet).draw()  # places are known from here on
        for ax, cost in zip(panels, costs, strict=True):
            _label(ax, own, cost)
        sheet.savefig(path, metadata={"Date": None})


def _adorn(ax: Axes, own: Sequence[Found], cost: Cost, one: Figure) -> None:
    """The frontier, the uncut network and, hollow, what was trained for longer."""
    from matplotlib.ticker import LogLocator

    best = [row for row in frontier(own, cost) if _shown(row, one.levels[0].y)]
    points = sorted((row[cost.key] / cost.unit, row["accuracy"]) for row in best)
    style: dict[str, Any] = {"color": INK, "lw": 1, "zorder": 1, "alpha": 0.6}
    style["drawstyle"] = "steps-pre" if cost.more else "steps-post"  # nothing lies between two
    ax.plot(*zip(*points, strict=True), label=f"frontier of ≤ {JOINT.epochs} epochs", **style)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for row in own:
        if not row.get(cost.key):
            continue
        mark: dict[str, Any] = {"ls": "none", "color": _color(row), "marker": "D"}
        if row["kind"] in LOOKS:
            mark["marker"] = marker_of(LOOKS[row["kind"]])
        place = row[cost.key] / cost.unit, row["accuracy"]
        if row["kind"] == "uncut":
            ax.plot(*place, **mark | {"marker": "*"}, ms=9)
        elif not is_equal(row) and _shown(row, one.levels[0].y):
            who = KINDS.get(row["kind"], "public ResNet-20, 32, 44")
            ax.plot(*place, **mark, ms=6, mfc="none", label=f"{who}, {row['epochs']} epochs")


def _color(row: Found) -> str:
    """That of its kind; grey for what is given or public."""
    return color_of(LOOKS[row["kind"]]) if row["kind"] in LOOKS else GREY


def _short(row: Found) -> str:
    """What stands beside a mark; its colour says the rest."""
    name: str = row["network"]
    if row["kind"] == "vi-net":
        return name.split(".bn")[0]
    return name.removeprefix("resnet") if row["kind"] in ("classic", "public") else ""


def _label(ax: Axes, own: Sequence[Found], cost: Cost) -> None:
    """Cuts of product heads and depths of other networks, where they hide least."""
    low, high = ax.get_ylim()
    shown = [row for row in own if row.get(cost.key) and low <= row["accuracy"] <= high]
    to_pixels = ax.transData.transform
    marks = [to_pixels((row[cost.key] / cost.unit, row["accuracy"])) for row in shown]
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in marks]
    inside = ax.get_window_extent()
    for row, (x, y) in zip(shown, marks, strict=True):
        if not _short(row):
            continue
        text = ax.annotate(
            _short(row),
            (row[cost.key] / cost.unit, row["accuracy"]),
            (0, 0),
            textcoords="offset points",
            fontsize=7.5,
            zorder=1.5,  # above lines, below marks
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.3},
            color=_color(row),
        )
        size = text.get_window_extent()
        moves = [
            (
                dx * (7 + size.width / 2) - size.width / 2,
                dy * (5 + size.height / 2) - size.height / 2,
            )
            for dx, dy in SIDES
        ]
        boxes = {
            (dx, dy): (x + dx, y + dy, x + dx + size.width, y + dy + size.height)
            for dx, dy in moves
        }
        fitting = {k: v for k, v in boxes.items() if inside.x0 <= v[0] and v[2] <= inside.x1}
        move, box = min(
            (fitting or boxes).items(), key=lambda one: sum(_overlap(one[1], o) for o in taken)
        )
        points = 72 / ax.figure.dpi
        text.set_position((points * move[0], points * move[1]))
        taken.append(box)


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    tall = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0) * max(tall, 0)
