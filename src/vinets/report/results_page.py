"""Results of experiments, read from files and shown as one page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from vinets.core.files import read_json
from vinets.core.plain import from_plain
from vinets.report.formats import number
from vinets.report.values import (
    Beside,
    Block,
    Bullets,
    Code,
    ExperimentResult,
    Folded,
    Notice,
    Page,
    Section,
    facts_table,
)

LEAD = (
    "Every table has our values. Below them, where the paper prints one, stand its value and ours "
    "less the paper's. ± is one standard deviation. In the figures, point at a mark or go "
    "from mark to mark with the arrow keys to read it, and click on a name to hide its series."
)

QUICK_LEAD = (
    "In the figures, point at a mark or go from mark to mark with the arrow keys to read it, and "
    "click on a name to hide its series."
)
NOT_DONE = (
    "Not complete: {} of its trials were still to be done when this was written. The same command "
    "goes on where it was."
)
KINDS = {"title", "tables", "figures"}  # one of them tells a result from other JSON


def read_results(folder: str | Path) -> list[ExperimentResult]:
    """Results of a folder, a JSON file each, in their order.

    Other files, JSON that is no experiment and folders inside it are passed over, and so are
    quick results of an experiment that has others. An error names the file that is broken, and
    the key.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the one into which vinets reproduce wrote."
        )
    found: dict[tuple[str, bool], tuple[Path, ExperimentResult]] = {}
    for path in sorted(folder.glob("*.json")):
        values = read_json(path) if path.is_file() else None
        if not (isinstance(values, dict) and "experiment" in values and KINDS & values.keys()):
            continue
        result = from_plain(ExperimentResult, values, path.name)
        key = result.experiment, bool(result.quick)
        known, _ = found.setdefault(key, (path, result))
        if known is not path:
            raise ValueError(
                f"{known.name} and {path.name} are both results of {result.experiment!r}. Keep one."
            )
    if not found:
        raise ValueError(
            f"{folder} holds no results of experiments. Write some with vinets reproduce."
        )
    kept = (
        one for (name, quick), (_, one) in found.items() if not quick or (name, False) not in found
    )
    return sorted(kept, key=lambda one: (one.order, one.experiment))


def results_page(results: Iterable[ExperimentResult], title: str = "Results") -> Page:
    """The page of results such as those of :func:`vinets.report.read_results`."""
    found = list(results)
    versions = sorted({str(one.machine.get("vinets", "unknown")) for one in found})
    footer = f"Written by vinets report. Results of vinets {', '.join(versions)}."
    quick = [one for one in found if one.quick]
    if quick:
        title += ", a quick run"
    lead: list[Block] = [Notice(text) for text in dict.fromkeys(one.quick for one in quick)]
    if 0 < len(quick) < len(found):
        lead.append(f"Quick runs are: {', '.join(one.title for one in quick)}.")
    lead.append(QUICK_LEAD if len(quick) == len(found) else LEAD)
    return Page(title, tuple(lead), tuple(map(experiment_section, found)), footer)


def result_in_short(result: ExperimentResult) -> Page:
    """An experiment for the terminal: its tables and remarks."""
    remark = f"{result.experiment}{', quick run' * bool(result.quick)}"
    lead: tuple[Block, ...] = (*result.tables, *result.figures, Bullets(result.notes))
    return Page(f"{result.title} ({remark})", lead, ())


def experiment_section(result: ExperimentResult) -> Section:
    """Make the section of an experiment, with how it was run folded away."""
    figures = result.figures if len(result.figures) < 2 else (Beside(result.figures),)
    seconds = None if result.seconds is None else number(result.seconds, ",.1f")
    settings = [("seeds", result.seeds or None), ("seconds in all", seconds)]
    tables = (
        facts_table("settings", "Settings", [*settings, *result.settings.items()]),
        facts_table("machine", "Versions and machine", result.machine.items()),
    )
    run: list[Block] = [Code(shlex.join(result.command))] if result.command else []
    if filled := tuple(table for table in tables if table.rows):
        run.append(Beside(filled))
    folded = Folded("How it was run", tuple(run) or ("The results do not say.",))
    missing = [Notice(NOT_DONE.format(result.missing))] * bool(result.missing)
    blocks = (*missing, *result.text, *result.tables, *figures, Bullets(result.notes), folded)
    remarks = (result.paper, "quick run" * bool(result.quick), "not complete" * len(missing))
    return Section(result.title, blocks, result.experiment, ", ".join(filter(None, remarks)))
