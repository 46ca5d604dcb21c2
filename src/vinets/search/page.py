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
    Bullets,
    Code,
    Column,
    Facts,
    Figure,
    Folded,
    Notice,
    Page,
    ReferenceLine,
    Row,
    Section,
    Series,
    Table,
    Value,
    facts_table,
)
from vinets.search.budget import LIMITS
from vinets.search.result import Attempt, SearchPlan, SearchResult, frontier, sentences

T = TypeVar("T")


def finalists_table(result: SearchResult) -> Table:
    """Return a table of the uncut network and the finalists, on the test examples.

    A row has the ``command`` that makes its network again, which is no column.
    """
    caption = f"Trained to the end, on {result.tested:,} test examples not used for choosing"
    if result.recorded:
        caption += "; passes timed as CUDA graphs"
    batch = f"ms at batch {result.batch}"
    columns = [
        Column("network"),
        Column("cut"),
        Column("accuracy", "accuracy %", ".2f", better="higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        Column("parameters", format=",", better="lower", short="params"),
        Column("share", "share of uncut", ".1%", short="share"),
        Column("size", "MB", ".3f"),
        Column("macs", "million multiply-adds", ",.2f", better="lower", short="MMAC"),
        Column("latency", batch, ".3g", std="spread", better="lower", short="ms"),
        Column("speed", "examples/s", ",.0f", better="higher", short="ex/s"),
        Column("faster", "", ".2f×"),
        Column("seconds", "training, s", ".0f", short="s"),
    ]
    rows = []
    for one in (result.uncut, *result.finished):
        rows.append(_row(result, one))
        if one.int8 is not None:
            rows.append(_row(result, one.int8, quantized=True))
    known = {name for row in rows for name in row.values}
    shown = tuple(column for column in columns if column.name in known)
    return Table("finalists", caption, shown, tuple(rows))


def _row(result: SearchResult, one: Attempt, quantized: bool = False) -> Row:
    uncut, cost, reference = result.uncut, one.cost, one.name == "uncut" and not quantized
    values: dict[str, Value] = {"network": f"{one.label}, int8" if quantized else one.label}
    values["cut"] = "" if one.candidate is None else one.candidate.cut
    values |= {"parameters": cost.parameters, "size": cost.size / 1e6}
    values["share"] = cost.parameters / uncut.cost.parameters
    if cost.macs is not None:
        values["macs"] = cost.macs / 1e6
    if one.test is not None and uncut.test is not None:
        values["accuracy"] = 100 * one.test
        if not reference:
            values["gap"] = 100 * (one.test - uncut.test)
    if one.speed is not None and uncut.speed is not None:
        values["speed"] = one.speed
        if not reference:
            values["faster"] = one.speed / uncut.speed
    if one.latency is not None:
        values["latency"] = 1e3 * one.latency
        if one.spread is not None:
            values["spread"] = 1e3 * one.spread
    if one.candidate is not None and not quantized:
        values["seconds"] = one.seconds
    if one.command:
        values["command"] = shlex.join(one.command)
    return Row(values, marked=one.name == result.chosen and not quantized)


def command_lines(result: SearchResult) -> list[str]:
    """Return two lines for every row of the table of finalists: what it is, and its command."""
    lines = []
    for row in finalists_table(result).rows:
        if "command" in row.values:
            behind = f" behind {row.values['cut']}" if row.values["cut"] else ""
            lines.append(
                f"{row.values['network']}{behind}, {row.values['parameters']:,} parameters:"
            )
            lines.append(f"  {row.values['command']}")
    return lines


def plan_table(plan: SearchPlan) -> Table:
    """Return a table of what would be tried."""
    return _costs_table("plan", "What would be tried", plan.candidates, None)


def rounds_table(result: SearchResult) -> Table:
    """Return a table of all attempts, on the validation examples, by the epochs of every round."""
    attempts = sorted(result.attempts, key=lambda one: one.cost.parameters)
    caption = "All that was tried, on the validation examples"
    return _costs_table("rounds", caption, attempts, result.chosen)


def _costs_table(id: str, caption: str, attempts: Sequence[Attempt], chosen: str | None) -> Table:
    """Return costs of attempts, as far as they are known, and what they reached."""
    columns = [
        *(Column("network"), Column("cut"), Column("parameters", format=",", short="params")),
        Column("macs", LIMITS["macs"].unit, ","),
        Column("latency", "ms", ".3f", std="spread"),
    ]
    epochs = sorted({count for one in attempts for count in one.accuracies})
    columns += [
        Column(str(n), f"{counted(n, 'epoch')}, %", ".2f", short=f"{n} ep.") for n in epochs
    ]
    rows = []
    for one in attempts:
        cost, cut = one.cost, "" if one.candidate is None else one.candidate.cut
        values: dict[str, Value] = {"network": one.label, "cut": cut}
        values["parameters"] = cost.parameters
        if cost.macs is not None:
            values["macs"] = cost.macs
        if cost.latency is not None:
            values["latency"] = 1e3 * cost.latency
        if cost.spread is not None:
            values["spread"] = 1e3 * cost.spread
        values |= {str(count): 100 * right for count, right in one.accuracies.items()}
        rows.append(Row(values, marked=one.name == chosen))
    known = {name for row in rows for name in row.values} | {"network"}
    shown = tuple(column for column in columns if column.name in known)
    return Table(id, caption, shown, tuple(rows))


def frontier_figure(result: SearchResult) -> Figure:
    """Return validation accuracy against parameters, after the longest training of each.

    The figure has the frontier, its knee, the choice and the uncut network.
    """
    points = [(one.cost.parameters, one.accuracy, one) for one in result.attempts]
    front = frontier(points)
    knee = knee_of([(one.cost.parameters, one.accuracy, one) for one in front])
    chosen = result.choice
    others = [one for one in result.attempts if one is not chosen and one is not knee]
    kinds = {ProductsHead.kind: ProductsHead.label, VanishingHead.kind: VanishingHead.label}
    both = chosen is not None and chosen is knee
    groups: dict[str, list[Attempt]] = {
        "chosen, at the knee" if both else "chosen": [] if chosen is None else [chosen],
        **{label: [] for label in kinds.values()},
        "other heads": [],
        "knee": [] if knee is None or both else [knee],
    }
    for one in others:
        assert one.candidate is not None
        groups[kinds.get(one.candidate.head, "other heads")].append(one)

    def series(name: str, attempts: Sequence[Attempt], **look: Any) -> Series:
        return Series(
            name,
            tuple(one.cost.parameters for one in attempts),
            tuple(100 * one.accuracy for one in attempts),
            labels=tuple(f"{one}, {counted(one.epochs, 'epoch')}" for one in attempts),
            **look,
        )

    right = 100 * result.uncut.accuracy
    size = result.uncut.cost.parameters
    drawn = [series("frontier", front, joined=True, marks=())]
    drawn.append(Series("uncut", (size,), (right,), labels=("the uncut network",)))
    drawn += [series(name, attempts) for name, attempts in groups.items() if attempts]
    return Figure(
        "frontier",
        "Accuracy against size",
        Axis("parameters", log=True, format=","),
        Axis("accuracy on the validation examples, %", format=".2f"),
        tuple(drawn),
        kind="scatter",
        levels=(ReferenceLine("accuracy of the uncut", right),),
        caption="Each after its longest training. On the frontier, from small to large: "
        + "; ".join(map(str, front))
        + ".",
    )


def knee_of(front: Sequence[tuple[float, float, T]]) -> T | None:
    """Return where a frontier of (cost, gain, thing) bends most: farthest above its ends.

    The cost counts by its logarithm. None is returned where nothing lies above the line through
    the first and the last point.

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
    """Return one page: three numbers, the verdict, a picture, the networks, how to use one."""
    sections = [
        Section("Size and accuracy", (frontier_figure(result),), "frontier"),
        Section("Networks", (finalists_table(result), *result.notes), "networks"),
        Section("All that was tried", (rounds_table(result),), "tried"),
    ]
    if result.saved:
        folder, _, own = result.saved.partition("@")
        backbone = f", backbone={own.rpartition(':')[2]}()" if ".py:" in own else ""
        lines = (
            "from vinets import CutNetwork",
            f"network = CutNetwork.from_pretrained({folder!r}{backbone})  # an nn.Module",
            "",
            "# or for other runtimes, from a shell",
            f"vinets export {shlex.quote(result.saved)} --out small.onnx",
        )
        sections.insert(1, Section("Use it", (Code("\n".join(lines)),), "use"))
    if result.uncut.command:
        others = [one for one in result.attempts if one.test is None and one.command]
        repeated: list[Block] = [
            "The same weights come out on the same device, versions and number of threads. A "
            f"command tests on all {result.validation + result.tested:,} test examples, those to "
            "choose by among them.",
            Code("\n".join(command_lines(result))),
        ]
        if others:
            text = "\n".join(
                f"{one}, {counted(one.epochs, 'epoch')}:\n  {shlex.join(one.command)}"
                for one in sorted(others, key=lambda one: one.cost.parameters)
            )
            repeated.append(Folded("What was not trained to the end", (Code(text),)))
        sections.append(Section("To make each again", tuple(repeated), "commands"))
    about = [("seconds", round(result.seconds, 1)), *result.machine.items()]
    how: list[Block] = [facts_table("about", "How it was run", about)]
    if result.command:
        how.insert(0, Code(shlex.join(result.command)))
    sections.append(Section("How it was run", (Folded("Command and machine", tuple(how)),)))
    return Page(f"A small network for {result.data}", tuple(_lead(result)), tuple(sections))


def _lead(result: SearchResult) -> list[Block]:
    """Return what stands on top: a missed budget, three numbers, the verdict."""
    said, blocks = sentences(result), list[Block]()
    uncut, chosen = result.uncut, result.choice
    if chosen is not None:
        if not result.met:
            blocks.append(Notice(said.pop(0)))
        share = chosen.cost.parameters / uncut.cost.parameters
        facts = [("parameters", f"{chosen.cost.parameters:,}", f"{share:.1%} of the uncut network")]
        if chosen.speed and uncut.speed and chosen.latency is not None:
            spread = "" if chosen.spread is None else f" ± {1e3 * chosen.spread:.2g}"
            remark = f"{1e3 * chosen.latency:.3g}{spread} ms at batch {result.batch}"
            facts.append(("speed", f"{chosen.speed / uncut.speed:.2f}×", remark))
        if chosen.test is not None and uncut.test is not None:
            gap, one = 100 * (chosen.test - uncut.test), 100 / result.tested
            remark = f"{gap:+.2f} points ± one image, which is {one:.2f}"
            if chosen.interval is not None:
                low, high = chosen.interval
                remark = f"{gap:+.2f} points, 95 % from {low:+.2f} to {high:+.2f}"
            facts.append(("accuracy", f"{chosen.test:.2%}", remark.replace("-", "−")))
        blocks.append(Facts(tuple(facts)))
    blocks.append(said[0])
    if said[1:]:
        blocks.append(Bullets(tuple(said[1:])))
    blocks.append(
        f"Budget: {result.budget}. Chosen on {result.validation:,} examples that no network was "
        f"trained on; accuracies below are those of {result.tested:,} others, looked at once."
    )
    return blocks
