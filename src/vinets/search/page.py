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
    Details,
    Facts,
    Figure,
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
        Column("mmacs", "million multiply-adds", ",.2f", better="lower", short="MMAC"),
        Column("latency", batch, ".3g", std="spread", better="lower", short="ms"),
        Column("speed", "examples/s", ",.0f", better="higher", short="ex/s"),
        Column("faster", "", ".2f×"),
        Column("memory", "peak memory, MB", ",.0f", better="lower", short="RAM MB"),
        Column("seconds", "training, s", ".0f", short="s"),
    ]
    rows = []
    for one in (result.uncut, *result.finished):
        rows.append(_row(one, result))
        rows += [_row(one.int8, result, ", int8")] if one.int8 else []
    return _known("finalists", caption, columns, rows)


def rounds_table(search: SearchResult | SearchPlan) -> Table:
    """Return all attempts with their costs and accuracies on the validation examples by epochs.

    Those of a plan are what would be tried.
    """
    columns = [
        *(Column("network"), Column("cut"), Column("parameters", format=",", short="params")),
        Column("macs", LIMITS["macs"].unit, ","),
        Column("expected", "ms", ".3f", std="expected spread"),
    ]
    if isinstance(search, SearchPlan):
        rows = [_row(one, None) for one in search.candidates]
        return _known("plan", "What would be tried", columns, rows)
    attempts = sorted(search.attempts, key=lambda one: one.cost.parameters)
    for n in sorted({count for one in attempts for count in one.accuracies}):
        columns.append(Column(str(n), f"{counted(n, 'epoch')}, %", ".2f", short=f"{n} ep."))
    caption = "All that was tried, on the validation examples"
    return _known("rounds", caption, columns, [_row(one, search) for one in attempts])


def _row(one: Attempt, result: SearchResult | None, suffix: str = "") -> Row:
    """Return all that is known of a network; a table shows what it has columns for."""
    cost, cut = one.cost, "" if one.candidate is None else one.candidate.cut
    values: dict[str, Value] = {"network": one.label + suffix, "cut": cut}
    values |= {"parameters": cost.parameters, "size": cost.size / 1e6}
    values |= {"command": shlex.join(one.command)}
    values |= {str(count): 100 * right for count, right in one.accuracies.items()}
    trained = one.candidate is not None and not suffix
    scaled = {
        **{"macs": (1, cost.macs), "mmacs": (1e-6, cost.macs)},
        **{"expected": (1e3, cost.latency), "expected spread": (1e3, cost.spread)},
        **{"latency": (1e3, one.latency), "spread": (1e3, one.spread)},
        **{"accuracy": (100, one.test), "speed": (1, one.speed), "memory": (1e-6, one.memory)},
        "seconds": (1, one.seconds if trained else None),
    }
    values |= {name: scale * value for name, (scale, value) in scaled.items() if value is not None}
    if result is None:
        return Row(values)
    values["share"] = cost.parameters / result.uncut.cost.parameters
    if one is not result.uncut:
        values |= {} if (gap := result.gap(one)) is None else {"gap": gap}
        values |= {} if (faster := result.faster(one)) is None else {"faster": faster}
    return Row(values, marked=one.name == result.chosen and not suffix)


def _known(id: str, caption: str, columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    """Return a table of the columns in which anything is known."""
    known = {name for row in rows for name in row.values} | {"network"}
    return Table(id, caption, tuple(one for one in columns if one.name in known), tuple(rows))


def command_lines(result: SearchResult) -> list[str]:
    """Return two lines for every row of the table of finalists: what it is, and its command."""
    lines = []
    for values in (row.values for row in finalists_table(result).rows if row.values["command"]):
        behind = f" behind {values['cut']}" if values["cut"] else ""
        lines.append(f"{values['network']}{behind}, {values['parameters']:,} parameters:")
        lines.append(f"  {values['command']}")
    return lines


def frontier_figure(result: SearchResult) -> Figure:
    """Draw accuracy against parameters, with the frontier, its knee, the choice and the uncut."""
    points = [(one.cost.parameters, one.accuracy, one) for one in result.attempts]
    front = frontier(points)
    knee = knee_of([(one.cost.parameters, one.accuracy, one) for one in front])
    kinds = {ProductsHead.kind: ProductsHead.label, VanishingHead.kind: VanishingHead.label}
    named = ("chosen, at the knee", "chosen", *kinds.values(), "other heads", "knee")
    groups: dict[str, list[Attempt]] = {name: [] for name in named}
    for one in result.attempts:
        assert one.candidate is not None
        name = "knee" if one is knee else kinds.get(one.candidate.head, "other heads")
        if one is result.choice:
            name = "chosen, at the knee" if one is knee else "chosen"
        groups[name].append(one)

    def series(name: str, attempts: Sequence[Attempt], **look: Any) -> Series:
        sizes = tuple(one.cost.parameters for one in attempts)
        right = tuple(100 * one.accuracy for one in attempts)
        labels = (f"{one}, {counted(one.epochs, 'epoch')}" for one in attempts)
        return Series(name, sizes, right, labels=tuple(labels), **look)

    uncut, right = result.uncut, 100 * result.uncut.accuracy
    drawn = [series("frontier", front, joined=True, marks=())]
    drawn.append(Series("uncut", (uncut.cost.parameters,), (right,), labels=(str(uncut),)))
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
        f"{'; '.join(map(str, front))}.",
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
    (least, low, _), (most, high, _) = front[0], front[-1]

    def above(point: tuple[float, float, T]) -> float:
        wide = math.log(point[0] / least) / math.log(most / least)
        return (point[1] - low) / (high - low) - wide

    best = max(front, key=above)
    return best[2] if above(best) > 1e-9 else None


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
            repeated.append(Details("What was not trained to the end", (Code(text),)))
        sections.append(Section("To make each again", tuple(repeated), "commands"))
    about = [("seconds", round(result.seconds, 1)), *result.machine.items()]
    how: list[Block] = [facts_table("about", "How it was run", about)]
    if result.command:
        how.insert(0, Code(shlex.join(result.command)))
    sections.append(Section("How it was run", (Details("Command and machine", tuple(how)),)))
    return Page(f"A small network for {result.data}", tuple(_lead(result)), tuple(sections))


def _lead(result: SearchResult) -> list[Block]:
    """Return what stands on top: whether the budget is met, numbers, the verdict."""
    verdict, blocks = sentences(result), list[Block]()
    uncut, chosen = result.uncut, result.choice
    if chosen is not None:
        met = Notice(f"The budget, {result.budget}, is met.", "good")
        blocks.append(met if result.met else Notice(verdict.pop(0), "bad"))
        facts: list[tuple[str, str, str]] = []
        if (gap := result.gap(chosen)) is not None:
            remark = f"{gap:+.2f} points ± one image, which is {100 / result.tested:.2f}"
            if chosen.interval is not None:
                low, high = chosen.interval
                remark = f"{gap:+.2f} points, 95 % from {low:+.2f} to {high:+.2f}"
            facts.append(("accuracy", f"{chosen.test:.2%}", remark.replace("-", "−")))
        share = chosen.cost.parameters / uncut.cost.parameters
        words = f"{share:.1%} of the uncut network's {uncut.cost.parameters:,}"
        facts.append(("parameters", f"{chosen.cost.parameters:,}", words))
        if (faster := result.faster(chosen)) and chosen.latency is not None:
            words = f"{faster:.2f} times as fast, {uncut.milliseconds} before"
            facts.append((f"time at batch {result.batch}", chosen.milliseconds, words))
        size, before = (one.cost.size / 1e6 for one in (chosen, uncut))
        facts.append(("size", f"{size:.3g} MB", f"{before:.3g} MB before"))
        if chosen.memory is not None and uncut.memory is not None:
            words = f"{uncut.memory / 1e6:,.0f} MB before, at batch {result.batch}"
            facts.append(("peak memory", f"{chosen.memory / 1e6:,.0f} MB", words))
        blocks.append(Facts(tuple(facts)))
    blocks.append(verdict[0])
    if verdict[1:]:
        blocks.append(Bullets(tuple(verdict[1:])))
    blocks.append(
        f"Budget: {result.budget}. Chosen on {result.validation:,} examples that no network was "
        f"trained on; accuracies below are those of {result.tested:,} others, looked at once."
    )
    return blocks
