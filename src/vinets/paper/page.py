"""Read results of experiments from a folder, and make one page of them.

Results on CIFAR stand beside the paper's numbers. Those on digits get a page for a reader who has
not read the paper.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from vinets.core.files import read_json
from vinets.core.plain import from_plain
from vinets.ideals.plot import plot_generators
from vinets.paper import text
from vinets.report import values as blocks
from vinets.report.numbers import number
from vinets.report.values import Block, Column, ExperimentResult, Page, Section, Table

NEEDED = (
    *("fig-vanishing", "fig-kept", "fig-truncation", "fig-parameters", "claims"),
    "table-efficiency",
)
"""Experiments that the page on digits begins with; without one of them there is no such page."""

# --- results ----------------------------------------------------------------------------------


def read_results(folder: str | Path) -> list[ExperimentResult]:
    """Read the results of a folder, a JSON file each, in their order.

    Other files, JSON that is no experiment and folders inside it are passed over, and so are
    quick results of an experiment that has others. An error names the file that is broken, and
    the key.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the one into which vinets reproduce wrote."
        )
    results: dict[tuple[str, bool], tuple[str, ExperimentResult]] = {}
    for path in filter(Path.is_file, sorted(folder.glob("*.json"))):
        values = read_json(path)
        keys = {*values} if isinstance(values, dict) else set()
        if "experiment" not in keys or keys.isdisjoint(("title", "tables", "figures")):
            continue
        result = from_plain(ExperimentResult, values, path.name)
        known, _ = results.setdefault((result.experiment, bool(result.quick)), (path.name, result))
        if known != path.name:
            raise ValueError(
                f"{known} and {path.name} are both results of {result.experiment!r}. Keep one."
            )
    if not results:
        raise ValueError(
            f"{folder} holds no results of experiments. Write some with vinets reproduce."
        )
    # A quick one comes first, so that a full one takes its place.
    best = {name: one for (name, _), (_, one) in sorted(results.items(), reverse=True)}
    return sorted(best.values(), key=lambda one: (one.order, one.experiment))


def result_in_short(result: ExperimentResult) -> Page:
    """Return an experiment for the terminal: its tables and remarks."""
    remark = f"{result.experiment}{', quick run' * bool(result.quick)}"
    lead: tuple[Block, ...] = (*result.tables, *result.figures, blocks.Bullets(result.notes))
    return Page(f"{result.title} ({remark})", lead, ())


def results_page(results: Iterable[ExperimentResult], title: str = "Results") -> Page:
    """Return the page of results such as those of :func:`read_results`, a section each."""
    results = list(results)
    quick = [one for one in results if one.quick]
    lead: list[Block] = [blocks.Notice(text) for text in dict.fromkeys(one.quick for one in quick)]
    if 0 < len(quick) < len(results):
        lead.append(f"Quick runs are: {', '.join(one.title for one in quick)}.")
    lead += [_score(one) for one in results if one.experiment == "claims" and one.tables]
    if len(quick) < len(results):  # quick runs are not held against the paper
        lead.append(text("page", "lead"))
    title += ", a quick run" * bool(quick)
    return Page(title, tuple(lead), tuple(map(_section, results)), _footer(results))


def _footer(results: Sequence[ExperimentResult]) -> str:
    versions = sorted({str(one.machine.get("vinets", "unknown")) for one in results})
    return f"Written by vinets report. Results of vinets {', '.join(versions)}."


def _score(claims: ExperimentResult) -> Block:
    """Count the claims that hold."""
    kinds = Counter(str(row.values.get("verdict")) for row in claims.tables[0].rows)
    partly = sum(count for verdict, count in kinds.items() if verdict.startswith("in "))
    others = kinds.total() - kinds["yes"] - kinds["no"] - partly
    score = text(
        "page", "score", all=kinds.total(), partly=partly, yes=kinds["yes"], no=kinds["no"]
    )
    return blocks.Notice(score + (text("page", "machines", count=others) if others else ""))


def _section(result: ExperimentResult) -> Section:
    """Return the section of an experiment, with how it was run folded away."""
    figures = result.figures if len(result.figures) < 2 else (blocks.Beside(result.figures),)
    seconds = None if result.seconds is None else number(result.seconds, ",.1f")
    settings = {"seeds": result.seeds or None, "seconds in all": seconds, **result.settings}
    tables = (
        blocks.facts_table("settings", "Settings", settings.items()),
        blocks.facts_table("machine", "Versions and machine", result.machine.items()),
    )
    run: list[Block] = [blocks.Code(shlex.join(result.command))] if result.command else []
    if filled := tuple(table for table in tables if table.rows):
        run.append(blocks.Beside(filled))
    folded = blocks.Details("How it was run", tuple(run) or ("The results do not say.",))
    notice = blocks.Notice(text("page", "missing", missing=result.missing))
    missing = [notice] * bool(result.missing)
    shown = (*result.text, *result.tables, *figures, blocks.Bullets(result.notes), folded)
    remarks = (result.paper, "quick run" * bool(result.quick), "not complete" * len(missing))
    remark = ", ".join(filter(None, remarks))
    return Section(result.title, (*missing, *shown), result.experiment, remark)


# --- digits -----------------------------------------------------------------------------------


def can_show(results: Sequence[ExperimentResult]) -> bool:
    """Tell whether there are results for :func:`newcomers_page`."""
    complete = {one.experiment for one in results if not (one.missing or one.quick)}
    return complete.issuperset(NEEDED)


def newcomers_page(results: Sequence[ExperimentResult]) -> Page:
    """Make one page of the experiments on digits: what vanishes, what it gains, what holds.

    All tables and figures of the paper follow, an experiment each.
    """
    by_name = {one.experiment: one for one in results}
    vanishing, *first, efficiency = (by_name[name] for name in NEEDED)
    kept, truncation, parameters, claims = first
    texts = {
        part: text("page-on-digits", part) for part in ("ideals", "truncation", "level", "next")
    }
    comparisons = (texts["level"], blocks.Details("Every comparison", truncation.tables))
    layers: tuple[Block, ...] = (texts["truncation"], *truncation.figures, *comparisons)
    sections = (
        Section("Every polynomial on every class", _kept(kept), "kept"),
        Section("Accuracy against removed layers", layers, "truncation"),
        Section("Accuracy against parameters", parameters.figures, "parameters"),
        Section("The paper's claims", (*claims.text, *claims.tables), "claims"),
        *(_section(one) for one in results if one not in first),
        Section("What next", (blocks.Code(texts["next"]),), "next"),
    )
    title = "Networks of vanishing polynomials, on handwritten digits"
    lead = (_score(claims), texts["ideals"], *_lead(vanishing, efficiency))
    return Page(title, lead, sections, _footer(results))


def _lead(vanishing: ExperimentResult, efficiency: ExperimentResult) -> tuple[Block, ...]:
    """Return the numbers to know, and one polynomial with its means."""
    measured = vanishing.tables[1].rows[-1].values
    *variants, uncut = (row.values for row in efficiency.tables[0].rows)
    best = max(variants, key=lambda values: float(values["accuracy"]))
    ours, theirs = (f"{number(one['accuracy'], '.2f')} %" for one in (best, uncut))
    share = f"{best['total'] / uncut['total']:.0%} of its parameters"
    remark = f"the uncut network has {theirs}; this one stores {share}"
    smallest = "polynomials that are smallest on their own class"
    facts = (
        (f"accuracy of {best['model']}", ours, remark),
        (smallest, f"{measured['smallest_own']:.0%}", "on test images, after training"),
    )
    said, _, polynomial = vanishing.text[1].partition(": p = ")
    means = vanishing.figures[0].series[0].y
    columns = (Column("digit"), *(Column(str(k), format=".3f") for k in range(len(means))))
    caption, row = "On the test images of every digit", ("mean of |p|", *means)
    table = Table.from_rows("one", caption, columns, [row])
    formula = blocks.Code(f"p = {polynomial.removesuffix('.')}")
    read = text("page-on-digits", "read", label=said.rpartition(" ")[2])
    return blocks.Facts(facts), read, formula, table


def _kept(kept: ExperimentResult) -> tuple[Block, ...]:
    """Return pictures of polynomials times classes, as found and after training, and the rest."""
    rows = [row for row in kept.tables[0].rows if "means" in row.values]
    cut = (rows[-1].section or "").rpartition(", ")[2]
    titles = {None: "built", 0: "free", 1: "bound"}  # by the weight on vanishing
    drawings: list[Block] = []
    for row in rows:
        values, weight = row.values, row.values["weight"]
        if weight in titles and (row.section or "").endswith(f", {cut}"):
            title = text("page-on-digits", titles[weight])
            means = np.array([line.split() for line in values["means"]], dtype=float).T
            draw = partial(plot_generators, means, np.array(values["owners"]), range(len(means)))
            caption = f"{title}: {number(values['accuracy'], '.2f')} % right; mean on the own "
            caption += f"class {number(values['ratio'], '.3f')} of that on the others"
            alt = f"Polynomials by class, {title}"
            drawings.append(blocks.Drawing(f"means-{len(drawings)}", alt, caption, draw))
    picture = text("page-on-digits", "picture", cut=cut)
    pictures = (picture, blocks.Beside(tuple(drawings))) if drawings else ()
    return (*pictures, *kept.text, *kept.tables, *kept.figures)
