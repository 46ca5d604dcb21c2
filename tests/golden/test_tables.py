"""The committed results give the tables, findings and numbers that they gave with version 0.2.

Three files hold what 0.2 made of them: ``tables.txt`` the tables of the documentation,
``findings.txt`` those of the paper's experiments with the points of their figures, and
``trials.txt`` a line on every trial in a store. Numbers and the labels in tables are compared;
sentences count for their numbers alone, and commands for nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from benchmarks.record import RESULTS
from benchmarks.tables import fill
from vinets import pretrained
from vinets.paper.plan import EXPERIMENTS, Plan
from vinets.runs.store import Store

GOLDEN = Path(__file__).parent / "0.2"
# What is called otherwise since then: the label of 0.2 and the new one.
LABELS = {
    "VI-Net": "product head",
    "**products**": "**product head**",
    "| vi |": "| product head |",
    "| network | preset |": "| in place of | size |",
    **{f"| best-{size} |": f"| {size} |" for size in ("tiny", "small", "medium", "large")},
    # The oracle of these series took no step: it started at least squares, where it could stop.
    "| OAVI-CG |": "| OAVI-CG from least squares |",
    "| OAVI-AGD |": "| OAVI-AGD from least squares |",
    "OAVI-CG 1.46, OAVI-AGD 1.71": (
        "OAVI-CG from least squares 1.46, OAVI-AGD from least squares 1.71"
    ),
    "^T‖_2,1": "ᵀ‖₂,₁",
    "‖_2": "‖₂",
    **pretrained.RENAMED,
}
# How rows begin that 0.2 had not.
NEW = (
    "| `vinets/digits-cnn-vinet` |",
    "| `vinets/resnet18-cifar10-vinet` |",
    "| VI-Net, kept vanishing by ",
)
GONE = ("cascade", "search_signals")  # tables of what was taken out, their results with it

MARKER = re.compile(r"<!-- table: ([\w-]+) -->\n(.*?)\n<!-- end -->", re.DOTALL)
TABLES = dict(MARKER.findall((GOLDEN / "tables.txt").read_text()))
for name in GONE:
    del TABLES[name]
FINDINGS = dict(MARKER.findall((GOLDEN / "findings.txt").read_text()))


def plain(text: str) -> list[str]:
    """Return the lines that are compared: rows of tables, and the numbers of sentences."""
    lines = []
    for line in text.splitlines():
        if line.startswith(NEW):
            continue
        if line.startswith("|"):
            for old, new in LABELS.items():
                line = line.replace(old, new)
            lines.append(line)
        else:
            words = re.sub(r"`[^`]*`", "", line)  # commands
            if words.startswith(">"):  # the judgement in a verdict is by another rule since then
                words = words.split(". ")[0]
            lines.append(" ".join(re.findall(r"\d[\d.,]*(?<=\d)", words)))
    return [line for line in lines if line]


def assert_same(text: str, golden: str) -> None:
    differences = list(unified_diff(plain(golden), plain(text), "0.2", "now", lineterm="", n=0))
    assert not differences, "\n".join(differences[:40])


def render_table(name: str) -> str:
    """Return a table of the documentation, made anew from the results."""
    [(_, text)] = MARKER.findall(fill(f"<!-- table: {name} -->\n<!-- end -->"))
    return text


def render_findings(name: str) -> str:
    """Return all that an experiment says, made anew from its trials."""
    found = EXPERIMENTS[name].findings(Plan(), Store(RESULTS / "paper"))
    lines = [*found.text, *map(str, found.tables), *found.notes]
    for figure in found.figures:
        for series in figure.series:
            for key, values in (("x", series.x), ("y", series.y), ("std", series.std or ())):
                shown = ("" if v is None else f"{v:.6g}" for v in values)
                lines.append(f"| {figure.id} | {series.name} | {key} | {' | '.join(shown)} |")
        lines += [f"| {figure.id} | {level.name} | {level.y:.6g} |" for level in figure.levels]
    return "\n".join(lines)


def results_in(store: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield what every trial of a store changes, and its result."""
    for line in (store / "trials.jsonl").read_text().splitlines():
        record = json.loads(line)
        yield record["trial"], record["result"]


def numbers_in(values: Any) -> Iterator[float]:
    """Yield the numbers that a JSON value holds, however it is nested."""
    if isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            yield from numbers_in(value)
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield values


def render_stores() -> str:
    """Return a line for every trial in the repository: where it cuts, how many numbers, their sum.

    Neither the names of files nor those of settings are in it.
    """
    lines = []
    for path in sorted(RESULTS.glob("**/store.json")):
        store, rows = path.parent, []
        if not (store / "trials.jsonl").is_file():
            continue
        for trial, result in results_in(store):
            numbers = list(numbers_in(result))
            place = f"{trial['network']} | {trial.get('cut')} | {trial.get('seed', 0)}"
            rows.append(f"| {place} | {len(numbers)} | {fsum(numbers)!r} |")
        lines += [f"| {store.relative_to(RESULTS)} | {len(rows)} trials |", *sorted(rows)]
    return "\n".join(lines)


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_of_the_documentation_is_that_of_the_release(name):
    assert_same(render_table(name), TABLES[name])


@pytest.mark.parametrize("name", list(FINDINGS))
def test_an_experiment_finds_what_it_found(name):
    assert_same(render_findings(name), FINDINGS[name])


def test_no_trial_of_the_release_is_lost():
    golden, now = (
        Counter(line for line in plain(text) if " trials |" not in line)
        for text in ((GOLDEN / "trials.txt").read_text(), render_stores())
    )
    assert not golden - now  # there may be further ones
