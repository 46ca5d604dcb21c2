"""A search as tables, a figure and a page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from vinets.report.values import (
    Axis,
    Block,
    Bullets,
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
from vinets.search.result import SearchPlan, SearchResult, Tried, frontier

SIGNAL_NAMES = {
    "ridge": "accuracy of a ridge classifier on the means of the channels",
    "separation": "how far generators of a class are from vanishing on others",
    "generators": "number of generators",
}


def finalists_table(result: SearchResult) -> Table:
    """The uncut network and those that were trained to the end, on the test examples."""
    uncut = result.uncut
    columns = (
        Column("network"),
        Column("cut"),
        Column("accuracy", "accuracy %", ".2f", better="higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        Column("parameters", format=",", better="lower", short="params"),
        Column("share", "of the uncut", ".1%", short="share"),
        Column("size", "MB", ".2f"),
        Column("speed", "examples/s", ",.0f", better="higher", short="ex/s"),
        Column("faster", "", ".2f×"),
        Column("seconds", "trained, s", ".0f", short="s"),
    )
    first: dict[str, Value] = {"network": "uncut", "cut": "", "share": 1.0}
    first |= {"parameters": uncut.cost.parameters, "size": uncut.cost.size / 1e6}
    if uncut.test is not None:
        first["accuracy"] = 100 * uncut.test
    if uncut.speed is not None:
        first["speed"] = uncut.speed
    rows = [Row(first)]
    rows += [_row(result, one) for one in result.finished]
    return Table("finalists", "Trained to the end, on the test examples", columns, tuple(rows))


def _row(result: SearchResult, one: Tried) -> Row:
    uncut, cost = result.uncut, one.cost
    values: dict[str, Value] = {"network": one.candidate.label, "cut": one.candidate.cut}
    values |= {"parameters": cost.parameters, "size": cost.size / 1e6, "seconds": one.seconds}
    values["share"] = cost.parameters / uncut.cost.parameters
    if one.test is not None and uncut.test is not None:
        values |= {"accuracy": 100 * one.test, "gap": 100 * (one.test - uncut.test)}
    if one.speed is not None and uncut.speed is not None:
        values |= {"speed": one.speed, "faster": one.speed / uncut.speed}
    return Row(values, marked=one.candidate.name == result.chosen)


def plan_table(plan: SearchPlan) -> Table:
    """What would be tried."""
    rows = tuple(Row(_facts(one)) for one in plan.candidates)
    return Table("plan", "What would be tried", tuple(_columns(plan.candidates)), rows)


def rounds_table(result: SearchResult) -> Table:
    """Everything that was tried, on the validation examples, by the epochs of every round."""
    epochs = sorted({count for one in result.tried for count in one.accuracies})
    columns = _columns(result.tried)
    columns += [
        Column(str(n), f"{n} epoch{'s' if n > 1 else ''}, %", ".2f", short=f"{n} ep.")
        for n in epochs
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
    front = frontier((one.cost.parameters, one.accuracy, one) for one in result.tried)
    knee, chosen = knee_of(front), result.choice
    named = {"chosen": chosen, "knee of the frontier": knee if knee is not chosen else None}
    special = [one for one in named.values() if one is not None]
    plain = [one for one in result.tried if one not in special]
    groups = {
        "VI-Net": [one for one in plain if one.candidate.head == "vi"],
        "other heads": [one for one in plain if one.candidate.head != "vi"],
    } | {name: [one] for name, one in named.items() if one is not None}
    series = [_series(name, found) for name, found in groups.items() if found]
    return Figure(
        "frontier",
        "Accuracy against size",
        Axis("parameters", log=True, format=","),
        Axis("accuracy on the validation examples, %", format=".2f"),
        tuple(series),
        kind="scatter",
        levels=(ReferenceLine("uncut", 100 * result.uncut.validation),),
        caption="Each after its longest training. On the frontier, from small to large: "
        + "; ".join(one.candidate.name for one in front)
        + ".",
    )


def _series(name: str, found: list[Tried]) -> Series:
    return Series(
        name,
        tuple(one.cost.parameters for one in found),
        tuple(100 * one.accuracy for one in found),
        labels=tuple(f"{one.candidate.name}, {one.epochs} epochs" for one in found),
    )


def knee_of(front: list[Tried]) -> Tried | None:
    """Where the frontier bends most: farthest above the line between its ends."""
    if len(front) < 3:
        return None
    xs = [math.log(one.cost.parameters) for one in front]
    ys = [one.accuracy for one in front]
    wide, high = xs[-1] - xs[0], ys[-1] - ys[0]
    above = [(y - ys[0]) / high - (x - xs[0]) / wide for x, y in zip(xs, ys, strict=True)]
    return front[max(range(len(front)), key=above.__getitem__)]


def signal_sentences(result: SearchResult) -> tuple[str, ...]:
    """How well figures that cost seconds ranked the cuts."""
    return tuple(
        f"{SIGNAL_NAMES.get(name, name)}: {value:+.2f}"
        for name, value in result.correlations.items()
        if value is not None
    )


def search_page(result: SearchResult) -> Page:
    """Everything on one page."""
    lead: tuple[Block, ...] = (
        result.verdict,
        f"Budget: {result.budget}. Chosen on {result.validation:,} examples that no network was "
        f"trained on; accuracies below are those of {result.tested:,} others, looked at once.",
    )
    sections = [
        Section("Networks", (finalists_table(result), frontier_figure(result)), "networks"),
        Section("All that was tried", (rounds_table(result),), "tried"),
    ]
    signals = signal_sentences(result)
    if signals:
        text = (
            "Rank correlation of figures that cost seconds with what the best head behind a cut "
            "reached in the first round:"
        )
        sections.append(Section("What was known early", (text, Bullets(signals)), "signals"))
    about = facts_table(
        "about", "How it was run", [("seconds", round(result.seconds, 1)), *result.machine.items()]
    )
    how: list[Block] = [about]
    if result.command:
        how.insert(0, Code(shlex.join(result.command)))
    sections.append(Section("How it was run", (Folded("Command and machine", tuple(how)),)))
    return Page(f"A small network for {result.data}", lead, tuple(sections))
