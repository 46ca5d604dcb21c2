"""Results of experiments as one page: tables beside the paper's, figures, how it was run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

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
    """The page of results such as those of :func:`vinets.report.read_results`."""
    found = list(results)
    versions = sorted({str(one.machine.get("vinets", "unknown")) for one in found})
    footer = f"Written by vinets report. Results of vinets {', '.join(versions)}."
    return Page(title, (lead,), tuple(map(_section, found)), footer)


def _section(result: ExperimentResult) -> Section:
    figures = result.figures if len(result.figures) < 2 else (Beside(result.figures),)
    said: tuple[Block, ...] = (*result.text, *result.tables, *figures, Bullets(result.notes))
    blocks = (*said, _how_it_was_run(result))
    return Section(result.title, blocks, result.experiment, result.paper)


def _how_it_was_run(result: ExperimentResult) -> Folded:
    seconds = None if result.seconds is None else number(result.seconds, ",.1f")
    settings = [("seeds", result.seeds or None), ("seconds in all", seconds)]
    tables = (
        facts_table("settings", "Settings", [*settings, *result.settings.items()]),
        facts_table("machine", "Versions and machine", result.machine.items()),
    )
    filled = tuple(table for table in tables if table.rows)
    command = (Code(shlex.join(result.command)),) if result.command else ()
    blocks: tuple[Block, ...] = (*command, *((Beside(filled),) if filled else ()))
    return Folded("How it was run", blocks or ("The results do not say.",))
