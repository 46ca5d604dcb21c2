"""Results of experiments as one page: tables beside the paper's, figures that answer to a pointer.

The page needs nothing but itself. Its figures are drawn by ``interactive.js`` from the data beside
them; where no script runs, a table stands in their place.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from vinets.report.figures import series_looks
from vinets.report.formats import difference, number
from vinets.report.page import Markup, beside, code, listing, page, paragraph, table
from vinets.report.reading import read_results
from vinets.report.schema import Column, Experiment, Figure, Row, Series, Table

__all__ = ["results_page"]

TITLE = "Results"
LEAD = (
    "Every table has our values and, where the paper prints one, its value; Δ is ours less the "
    "paper's. ± is one standard deviation. In the figures, point at a mark or go "
    "from mark to mark with the arrow keys to read it, and click on a name to hide its series."
)
NO_SCRIPT = "Without JavaScript there is no figure. The table below has its data."


def results_page(
    results: str | Path | Iterable[Experiment], title: str = TITLE, *, lead: str = LEAD
) -> str:
    """The page as HTML.

    Parameters
    ----------
    results : str, Path or iterable of Experiment
        A folder, see :func:`vinets.report.read_results`, or the experiments themselves.
    title : str
        Of the page.
    lead : str
        What stands below the title.
    """
    if isinstance(results, str | Path):
        results = read_results(results)
    experiments = list(results)
    script = files("vinets.report").joinpath("interactive.js").read_text(encoding="utf-8")
    body = Markup(
        f'<div class="report">\n{_contents(experiments)}\n<div class="experiments">\n'
        + "\n".join(_experiment(experiment) for experiment in experiments)
        + f"\n</div>\n</div>\n<script>\n{script}</script>"
    )
    versions = sorted({str(one.machine.get("vinets", "unknown")) for one in experiments})
    footer = f"Written by vinets report. Results of vinets {', '.join(versions)}."
    return page(title, [paragraph(lead)], [body], footer)


def _contents(experiments: Iterable[Experiment]) -> Markup:
    links = "\n".join(
        f'<li><a href="#{one.experiment}">{escape(one.title)}</a>{_aside(one.paper)}</li>'
        for one in experiments
    )
    return Markup(
        f'<nav class="contents" aria-label="Contents">\n<strong>Contents</strong>\n'
        f"<ol>\n{links}\n</ol>\n</nav>"
    )


def _aside(text: str) -> str:
    return f" <small>{escape(text)}</small>" if text else ""


def _experiment(found: Experiment) -> Markup:
    figures = [_figure(f"{found.experiment}:{one.id}", one) for one in found.figures]
    blocks = [
        *(paragraph(text) for text in found.text),
        *(_table(one) for one in found.tables),
        *([beside(*figures)] if len(figures) > 1 else figures),
        *([Markup(f'<div class="notes">{listing(found.notes)}</div>')] if found.notes else []),
        _how_it_was_run(found),
    ]
    head = f"<h2>{escape(found.title)}{_aside(found.paper)}</h2>"
    return Markup(
        f'<section id="{found.experiment}">\n{head}\n' + "\n".join(blocks) + "\n</section>"
    )


# --- tables -----------------------------------------------------------------------------------


def _table(found: Table) -> Markup:
    compared = {
        column.name
        for column in found.columns[1:]
        if any(row.paper.get(column.name) is not None for row in found.rows)
    }
    width = len(found.columns) + sum(
        1 + column.difference for column in found.columns if column.name in compared
    )
    body, section = [], None
    for row in found.rows:
        if row.section is not None and row.section != section:
            body.append(
                f'<tr class="part"><th scope="colgroup" colspan="{width}">'
                f"<span>{escape(row.section)}</span></th></tr>"
            )
            section = row.section
        cells = "".join(_cells(column, row, compared) for column in found.columns[1:])
        first = found.columns[0]
        name = escape(number(row.values.get(first.name), first.format))
        body.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    caption = escape(found.caption)
    words = all(column.format is None for column in found.columns)
    kind = "scroll compared prose" if words else "scroll compared"
    return Markup(
        f'<div class="{kind}" role="region" tabindex="0" aria-label="{caption}">\n'
        f"<table>\n<caption>{caption}</caption>\n<thead>{_head(found, compared)}</thead>\n<tbody>\n"
        + "\n".join(body)
        + "\n</tbody>\n</table>\n</div>"
    )


def _head(found: Table, compared: set[str]) -> str:
    """Headings; below those of columns that the paper has, ours, paper and difference."""
    upper, lower = [], []
    for column in found.columns:
        label = escape(column.label or column.name)
        if column.name in compared:
            span = 2 + column.difference
            upper.append(f'<th scope="colgroup" colspan="{span}" class="group">{label}</th>')
            lower.append(
                '<th scope="col" class="group">ours</th><th scope="col" class="paper">paper</th>'
            )
            if column.difference:
                lower.append('<th scope="col"><abbr title="ours less the paper’s">Δ</abbr></th>')
        else:
            rows = ' rowspan="2"' if compared else ""
            kind = ' class="words"' if column.format is None else ""
            upper.append(f'<th scope="col"{rows}{kind}>{label}</th>')
    second = f"<tr>{''.join(lower)}</tr>" if lower else ""
    return f"<tr>{''.join(upper)}</tr>{second}"


def _cells(column: Column, row: Row, compared: set[str]) -> str:
    ours = escape(_with_std(column, row.values))
    if column.name not in compared:
        kind = ' class="words"' if column.format is None else ""
        return f"<td{kind}>{ours}</td>"
    paper = escape(_with_std(column, row.paper))
    both = f'<td class="group">{ours}</td><td class="paper">{paper}</td>'
    if not column.difference:
        return both
    value, printed = row.values.get(column.name), row.paper.get(column.name)
    change = difference(value, printed, column.format)
    kind = ""
    if column.better is not None and change.strip("+−0.,%"):
        is_gain = change.startswith("+") == (column.better == "higher")
        kind = ' class="gain"' if is_gain else ' class="loss"'
    return f"{both}<td{kind}>{change}</td>"


def _with_std(column: Column, values: Mapping[str, Any]) -> str:
    std = values.get(column.std) if column.std is not None else None
    return number(values.get(column.name), column.format, std)


# --- figures ----------------------------------------------------------------------------------


def _figure(name: str, found: Figure) -> Markup:
    title = escape(found.title)
    # Inside a script element no "<" may stand that could end it.
    data = json.dumps(_figure_data(found), allow_nan=False).replace("<", "\\u003c")
    return Markup(
        f'<figure class="chart" id="{name}">\n<figcaption>{title}</figcaption>\n'
        f'<div class="legend" role="group" aria-label="Series of: {title}"></div>\n'
        f'<div class="plot"><svg role="group" aria-label="{title}"></svg></div>\n'
        f"<noscript><p>{NO_SCRIPT}</p></noscript>\n"
        f"<details open><summary>Show data</summary>\n{_data_table(found)}\n</details>\n"
        f'<script type="application/json">{data}</script>\n</figure>'
    )


def _figure_data(found: Figure) -> dict[str, Any]:
    """What the script draws; numbers to be read come as text, in their formats."""
    looks = series_looks(one.name for one in found.series)
    return {
        "kind": found.kind,
        "x": {"label": found.x.label, "log": found.x.log},
        "y": {"label": found.y.label, "log": found.y.log},
        "series": [
            {"name": one.name, "look": look, "dashed": one.dashed, "points": _points(found, one)}
            for one, look in zip(found.series, looks, strict=True)
        ],
        "rules": [
            {"name": rule.name, "y": rule.y, "text": number(rule.y, found.y.format or ".4g")}
            for rule in found.rules
        ],
    }


def _points(found: Figure, series: Series) -> list[dict[str, Any]]:
    count = len(series.x)
    labels = series.labels or ("",) * count
    stds = series.std or (None,) * count
    return [
        {
            "index": index,
            "x": x,
            "y": y,
            "std": std,
            "label": label,
            "xText": number(x, found.x.format or ".4g"),
            "yText": number(y, found.y.format or ".4g", std),
        }
        for index, (x, y, std, label) in enumerate(
            zip(series.x, series.y, stds, labels, strict=True)
        )
    ]


def _data_table(found: Figure) -> Markup:
    """A row for every x and a column for every series; a row for every point of a scatter plot."""
    points = [_points(found, series) for series in found.series]
    has_labels = any(point["label"] for series in points for point in series)
    rules = "".join(
        f"; {rule.name}: {number(rule.y, found.y.format or '.4g')}" for rule in found.rules
    )
    caption = f"{found.y.label}{rules}"
    keyed = [{(p["x"], p["xText"], p["label"]): p["yText"] for p in series} for series in points]
    is_grid = found.kind == "lines" and all(map(lambda k, p: len(k) == len(p), keyed, points))
    if is_grid:
        keys = sorted({key for series in keyed for key in series})
        names = [series.name for series in found.series]
        columns = [*([""] if has_labels else []), found.x.label, *names]
        rows = [
            [*([label] if has_labels else []), text, *(s.get((x, text, label), "") for s in keyed)]
            for x, text, label in keys
        ]
        return table(caption, columns, rows)
    columns = ["series", *([""] if has_labels else []), found.x.label, found.y.label]
    rows = [
        [one.name, *([p["label"]] if has_labels else []), p["xText"], p["yText"]]
        for one, series in zip(found.series, points, strict=True)
        for p in series
    ]
    return table(caption, columns, rows)


# --- how it was run ---------------------------------------------------------------------------


def _how_it_was_run(found: Experiment) -> Markup:
    facts = [  # a setting may have any name
        ("seeds", ", ".join(map(str, found.seeds))),
        ("seconds in all", number(found.seconds, ",.1f") if found.seconds is not None else ""),
        *((name, _shown(value)) for name, value in found.settings.items()),
    ]
    machine = {name: _shown(value) for name, value in found.machine.items() if value is not None}
    settings = [[name, text] for name, text in facts if text]
    tables = [
        table(caption, ["", "value"], rows)
        for caption, rows in (
            ("Settings", settings),
            ("Versions and machine", [[name, text] for name, text in machine.items()]),
        )
        if rows
    ]
    blocks = [code(shlex.join(found.command))] if found.command else []
    if tables:
        blocks.append(beside(*tables))
    if not blocks:
        blocks.append(paragraph("The results do not say."))
    return Markup(
        '<details class="run"><summary>How it was run</summary>\n'
        + "\n".join(blocks)
        + "\n</details>"
    )


def _shown(value: Any) -> str:
    """A setting as text: lists without brackets, what is nested as JSON."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return number(value, None)
