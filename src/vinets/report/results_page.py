"""Results of experiments as one page: tables beside the paper's, figures, how it was run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping

from vinets.report.formats import number
from vinets.report.values import (
    Beside,
    Block,
    Bullets,
    Code,
    ExperimentResult,
    Folded,
    Page,
    Section,
    Text,
    facts_table,
)

__all__ = ["results_page"]

TITLE = "Results"
LEAD = (
    "Every table has our values. Below them, where the paper prints one, stand its value and ours "
    "less the paper's. ± is one standard deviation. In the figures, point at a mark or go "
    "from mark to mark with the arrow keys to read it, and click on a name to hide its series."
)


def results_page(
    results: Iterable[ExperimentResult], title: str = TITLE, *, lead: str = LEAD
) -> Page:
    """The page of some results.

    Parameters
    ----------
    results : iterable of ExperimentResult
        Such as those of :func:`vinets.report.read_results`.
    title : str
        Of the page.
    lead : str
        What stands below the title.
    """
    found = list(results)
    versions = sorted({str(one.machine.get("vinets", "unknown")) for one in found})
    footer = f"Written by vinets report. Results of vinets {', '.join(versions)}."
    return Page(title, (Text(lead),), tuple(map(_section, found)), footer)


def _section(result: ExperimentResult) -> Section:
    figures = result.figures if len(result.figures) < 2 else (Beside(result.figures),)
    notes = (Bullets(result.notes),) if result.notes else ()
    blocks: tuple[Block, ...] = (
        *map(Text, result.text),
        *result.tables,
        *figures,
        *notes,
        _how_it_was_run(result),
    )
    return Section(result.title, blocks, result.experiment, result.paper)


def _how_it_was_run(result: ExperimentResult) -> Folded:
    seconds = None if result.seconds is None else number(result.seconds, ",.1f")
    settings = [
        ("seeds", _shown(result.seeds) or None),
        ("seconds in all", seconds),
        *((name, _shown(value)) for name, value in result.settings.items()),
    ]
    machine = [(name, _shown(value)) for name, value in result.machine.items() if value is not None]
    tables = (
        facts_table("settings", "Settings", settings),
        facts_table("machine", "Versions and machine", machine),
    )
    filled = tuple(table for table in tables if table.rows)
    command = (Code(shlex.join(result.command)),) if result.command else ()
    blocks: tuple[Block, ...] = (*command, *((Beside(filled),) if filled else ()))
    return Folded("How it was run", blocks or (Text("The results do not say."),))


def _shown(value: object) -> str:
    """A setting as text: lists without brackets, what is nested as JSON."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return number(value, None)
