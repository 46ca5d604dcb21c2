"""A search as tables, a figure and a page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any, TypeVar

from vinets.core.checks import counted
from vinets.heads import ProductsHead, VanishingHead
from vinets.report.values import (
    Axis,
    Block,
    Code,
    Column,
    Figure,
    Folded,
    Page,
    ReferenceLine,
    Row,
    Section,
    Series,
    Table,
    Value,
    facts_table,
)
from vinets.search.result import SearchPlan, SearchResult, Tried, Uncut, frontier

T = TypeVar("T")


def finalists_table(result: SearchResult) -> Table:
    """The uncut network and those that were trained to the end, on the test examples.

    A row has the ``command`` that makes its network again, which is no column.
    """
    caption = f"Trained to the end, on {result.tested:,} test examples not used for choosing"
    if result.recorded:
        caption += "; passes timed as CUDA graphs"
    columns = [
        Column("network"),
        Column("cut"),
        Column("accuracy", "accuracy %", ".2f", better="higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        Column("parameters", format=",", better="lower", short="params"),
        Column("share", "share of uncut", ".1%", short="share"),
        Column("size", "MB", ".3f"),
        Column("latency", f"ms at batch {result.batch}", ".3g", better="lower", short="ms"),
        Column("speed", "examples/s", ",.0f", better="higher", short="ex/s"),
        Column("faster", "", ".2f×"),
        Column("seconds", "training, s", ".0f", short="s"),
    ]
    uncut, rows = result.uncut, [_row(result, result.uncut, "uncut", "")]
    rows += _int8_rows(result, "uncut", "uncut", uncut)
    for one in result.finished:
        candidate = one.candidate
        rows.append(_row(result, one, candidate.label, candidate.cut))
        rows += _int8_rows(result, candidate.name, candidate.label, one)
    known = {name for row in rows for name in row.values}
    shown = tuple(column for column in columns if column.name in known)
    return Table("finalists", caption, shown, tuple(rows))


def _row(result: SearchResult, one: Tried | Uncut, name: str, cut: str) -> Row:
    uncut, cost = result.uncut, one.cost
    values: dict[str, Value] = {"network": name, "cut": cut}
    values |= {"parameters": cost.parameters, "size": cost.size / 1e6}
    values |= _measured(result, one.test, one.speed, one.latency)
    values |= {"share": cost.parameters / uncut.cost.parameters}
    if isinstance(one, Tried):
        values |= {"seconds": one.seconds}
    else:  # what it is compared with
        values = {key: value for key, value in values.items() if key not in ("gap", "faster")}
    marked = isinstance(one, Tried) and one.candidate.name == result.chosen
    return Row(values | _repeated(one.command), marked=marked)


def _int8_rows(result: SearchResult, of: str, name: str, one: Tried | Uncut) -> list[Row]:
    """The same network in int8, where that was measured."""
    cost, cut = one.cost, one.candidate.cut if isinstance(one, Tried) else ""
    values: dict[str, Value] = {"network": f"{name}, int8", "cut": cut}
    values |= {"parameters": cost.parameters}
    values |= {"share": cost.parameters / result.uncut.cost.parameters}
    return [
        Row(
            values
            | {"size": file.size / 1e6}
            | _measured(result, file.test, file.speed, file.latency)
            | _repeated(file.command)
        )
        for file in result.int8
        if file.of == of
    ]


def _measured(
    result: SearchResult, test: float | None, speed: float | None, latency: float | None
) -> dict[str, Value]:
    uncut, values = result.uncut, dict[str, Value]()
    if test is not None and uncut.test is not None:
        values |= {"accuracy": 100 * test, "gap": 100 * (test - uncut.test)}
    if speed is not None and uncut.speed is not None:
        values |= {"speed": speed, "faster": speed / uncut.speed}
    if latency is not None:
        values["latency"] = 1e3 * latency
    return values


def _repeated(command: tuple[str, ...]) -> dict[str, Value]:
    return {"command": shlex.join(command)} if command else {}


def command_lines(result: SearchResult) -> list[str]:
    """For every row of the table of finalists, a line that says what it is, and its command."""
    return [
        line
        for row in finalists_table(result).rows
        if "command" in row.values
        for line in (_title(row), f"  {row.values['command']}")
    ]


def _title(row: Row) -> str:
    behind = f" behind {row.values['cut']}" if row.values.get("cut") else ""
    return f"{row.values['network']}{behind}, {row.values['parameters']:,} parameters:"


def plan_table(plan: SearchPlan) -> Table:
    """What would be tried."""
    rows = tuple(Row(_facts(one)) for one in plan.candidates)
    return Table("plan", "What would be tried", tuple(_columns(plan.candidates)), rows)


def rounds_table(result: SearchResult) -> Table:
    """Everything that was tried, on the validation examples, by the epochs of every round."""
    epochs = sorted({count for one in result.tried for count in one.accuracies})
    columns = _columns(result.tried)
    columns += [
        Column(str(n), f"{counted(n, 'epoch')}, %", ".2f", short=f"{n} ep.") for n in epochs
    ]
    rows = []
    for one in sorted(result.tried, key=lambda one: one.cost.parameters):
        reached = {str(count): 100 * right for count, right in one.accuracies.items()}
        rows.append(Row(_facts(one) | reached, marked=one.candidate.name == result.chosen))
    caption = "All that was tried, on the validation examples"
    return Table("rounds", caption, tuple(columns), tuple(rows))


def _columns(tried: Sequence[Tried]) -> list[Column]:
    columns = [Column("network"), Column("cut"), Column("parameters", format=",", short="params")]
    if any(one.cost.latency is not None for one in tried):
        columns.append(Column("latency", "ms", ".3f"))
    return columns


def _facts(one: Tried) -> dict[str, Value]:
    """What a candidate is, and what it costs."""
    facts: dict[str, Value] = {"network": one.candidate.label, "cut": one.candidate.cut}
    facts["parameters"] = one.cost.parameters
    if one.cost.latency is not None:
        facts["latency"] = 1e3 * one.cost.latency
    return facts


def frontier_figure(result: SearchResult) -> Figure:
    """Validation accuracy against parameters, after the longest training of each."""
    points = [(one.cost.parameters, one) for one in result.tried]
    axis = Axis("parameters", log=True, format=",")
    size = result.uncut.cost.parameters
    return _against("frontier", "Accuracy against size", axis, result, points, size)


def latency_figure(result: SearchResult) -> Figure | None:
    """The same against latency, of those that were timed; None where the uncut one was not.

    Before training, all are timed if a budget asks for it; the finalists always, at the end.
    """
    early = result.budget.latency is not None
    own: float | None = result.uncut.cost.latency if early else result.uncut.latency
    timed = [(one.cost.latency if early else one.latency, one) for one in result.tried]
    points = [(1e3 * seconds, one) for seconds, one in timed if seconds is not None]
    if own is None or not points:
        return None
    axis = Axis(f"ms of a pass of {result.batch} on this machine", log=True, format=".3g")
    title = "Accuracy against measured latency"
    return _against("latency", title, axis, result, points, 1e3 * own)


def _against(
    id: str,
    title: str,
    axis: Axis,
    result: SearchResult,
    points: Sequence[tuple[float, Tried]],
    uncut: float,
) -> Figure:
    """Accuracy against a cost, with the frontier, its knee, the choice and the uncut network."""
    cost = {one.candidate.name: value for value, one in points}
    tried = [one for _, one in points]
    front = frontier((value, one.accuracy, one) for value, one in points)
    knee = knee_of([(cost[one.candidate.name], one.accuracy, one) for one in front])
    chosen = next((one for one in tried if one.candidate.name == result.chosen), None)
    plain = [one for one in tried if one is not chosen and one is not knee]
    both = chosen is not None and chosen is knee
    groups = {
        "chosen, at the knee" if both else "chosen": [chosen] if chosen else [],
        ProductsHead.label: [one for one in plain if one.candidate.head == "vi"],
        VanishingHead.label: [one for one in plain if one.candidate.head == VanishingHead.kind],
        "other heads": [one for one in plain if not one.candidate.polynomial],
        "knee": [knee] if knee and not both else [],
    }

    def series(name: str, found: Sequence[Tried], **look: Any) -> Series:
        return Series(
            name,
            tuple(cost[one.candidate.name] for one in found),
            tuple(100 * one.accuracy for one in found),
            labels=tuple(_point(one) for one in found),
            **look,
        )

    right = 100 * result.uncut.validation
    drawn = [series("frontier", front, joined=True, marks=())]
    drawn.append(Series("uncut", (uncut,), (right,), labels=("the uncut network",)))
    drawn += [series(name, found) for name, found in groups.items() if found]
    return Figure(
        id,
        title,
        axis,
        Axis("accuracy on the validation examples, %", format=".2f"),
        tuple(drawn),
        kind="scatter",
        levels=(ReferenceLine("accuracy of the uncut", right),),
        caption="Each after its longest training. On the frontier, from small to large: "
        + "; ".join(map(_told, front))
        + ".",
    )


def _told(one: Tried) -> str:
    """What it is, and how large."""
    candidate = one.candidate
    return f"{candidate.label} behind {candidate.cut}, {one.cost.parameters:,} parameters"


def _point(one: Tried) -> str:
    return f"{_told(one)}, {counted(one.epochs, 'epoch')}"


def knee_of(front: Sequence[tuple[float, float, T]]) -> T | None:
    """Of (cost, gain, thing), where a frontier bends most: farthest above the line of its ends.

    The cost counts by its logarithm. None where nothing lies above that line.

    Examples
    --------
    >>> knee_of([(1, 0.1, "a"), (10, 0.9, "b"), (100, 1.0, "c")])
    'b'
    >>> knee_of([(1, 0.1, "a"), (10, 0.2, "b"), (100, 1.0, "c")])
    """
    if len(front) < 3:
        return None
    xs = [math.log(cost) for cost, _, _ in front]
    ys = [gain for _, gain, _ in front]
    wide, high = xs[-1] - xs[0], ys[-1] - ys[0]
    above = [(y - ys[0]) / high - (x - xs[0]) / wide for x, y in zip(xs, ys, strict=True)]
    best = max(range(len(front)), key=above.__getitem__)
    return front[best][2] if above[best] > 1e-9 else None


def search_page(result: SearchResult) -> Page:
    """Everything on one page."""
    lead: tuple[Block, ...] = (
        result.verdict,
        f"Budget: {result.budget}. Chosen on {result.validation:,} examples that no network was "
        f"trained on; accuracies below are those of {result.tested:,} others, looked at once.",
    )
    latency = latency_figure(result)
    figures = (frontier_figure(result), *([] if latency is None else [latency]))
    sections = [
        Section("Networks", (finalists_table(result), *result.notes), "networks"),
        Section("The frontier", figures, "frontier"),
        Section("All that was tried", (rounds_table(result),), "tried"),
    ]
    if result.uncut.command:
        sections.append(_repeating(result))
    about = facts_table(
        "about", "How it was run", [("seconds", round(result.seconds, 1)), *result.machine.items()]
    )
    how: list[Block] = [about]
    if result.command:
        how.insert(0, Code(shlex.join(result.command)))
    sections.append(Section("How it was run", (Folded("Command and machine", tuple(how)),)))
    return Page(f"A small network for {result.data}", lead, tuple(sections))


def _repeating(result: SearchResult) -> Section:
    """The command of every network."""
    text = (
        "The same weights come out on the same device, versions and number of threads. A command "
        f"tests on all {result.validation + result.tested:,} test examples, those to choose by "
        "among them."
    )
    others = [one for one in result.tried if one.test is None and one.command]
    lines = [
        f"{_point(one)}:\n  {shlex.join(one.command)}"
        for one in sorted(others, key=lambda one: one.cost.parameters)
    ]
    blocks: list[Block] = [text, Code("\n".join(command_lines(result)))]
    if lines:
        blocks.append(Folded("What was not trained to the end", (Code("\n".join(lines)),)))
    return Section("To make each again", tuple(blocks), "commands")
