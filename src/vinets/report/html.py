"""Pages as HTML that needs nothing but itself.

Figures are drawn by ``interactive.js`` from the data beside them; where no script runs, a table
stands in their place. Drawings are SVG by matplotlib.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from vinets.core.palette import looks
from vinets.report.figures import can_draw, svg
from vinets.report.formats import cell, difference, number, paper_cell
from vinets.report.values import (
    Axis,
    Beside,
    Block,
    Bullets,
    Code,
    Column,
    Drawing,
    Facts,
    Figure,
    Folded,
    Notice,
    Page,
    Row,
    Series,
    Table,
)

NO_DRAWINGS = (
    'Some figures are missing because matplotlib is not installed: pip install "vinets[plots]".'
)
COMPARED = "In grey: the paper’s, and ours less the paper’s."
NO_SCRIPT = "Without JavaScript there is no figure. The table below has its data."
FEW_COLUMNS = 3  # that fit on any screen; the rows of larger tables become cards on narrow ones


def html(page: Page) -> str:
    """The page as one file, with its style, pictures and scripts inside."""
    lead = "\n".join(_html(block, "") for block in page.lead)
    if not can_draw() and page.holds(Drawing):
        lead += _html(NO_DRAWINGS, "")
    contents, sections = "", []
    for section in page.sections:
        name, title, remark = section.id, escape(section.title), _remark(section.remark)
        if name:
            contents += f'<li><a href="#{name}">{title}</a>{remark}</li>\n'
        # No identifier holds a colon, so that figures of two sections cannot share a name.
        blocks = "\n".join(_html(block, f"{name}:" if name else "") for block in section.blocks)
        opening = f'<section id="{name}">' if name else "<section>"
        sections.append(f"{opening}\n<h2>{title}{remark}</h2>\n{blocks}\n</section>\n")
    if contents:
        contents = f'<nav class="contents" aria-label="Contents">\n<ol>\n{contents}</ol>\n</nav>\n'
    script = f"<script>\n{_asset('interactive.js')}</script>\n" if page.holds(Figure) else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<style>
{_asset("style.css")}</style>
</head>
<body>
<header>
<h1>{escape(page.title)}</h1>
{lead}
{contents}</header>
<main>
{"".join(sections)}</main>
<footer>{escape(page.footer)}</footer>
{script}</body>
</html>
"""


def _asset(name: str) -> str:
    return files("vinets.report").joinpath(name).read_text(encoding="utf-8")


def _remark(text: str) -> str:
    return f" <small>{escape(text)}</small>" if text else ""


# --- blocks -----------------------------------------------------------------------------------


def _html(block: Block, prefix: str) -> str:
    """A block; identifiers inside it begin with the prefix, that of its section."""
    match block:
        case str():
            return f"<p>{escape(block, quote=False)}</p>"
        case Notice(text):
            return f'<p class="notice">{escape(text, quote=False)}</p>'
        case Bullets(items):
            rows = "\n".join(f"<li>{escape(item, quote=False)}</li>" for item in items)
            return f"<ul>\n{rows}\n</ul>" if rows else ""
        case Facts(facts):
            cells = "\n".join(
                f"<div><dt>{escape(name)}</dt><dd>{escape(value)}"
                f"<small>{escape(remark)}</small></dd></div>"
                for name, value, remark in facts
            )
            return f'<dl class="facts">\n{cells}\n</dl>'
        case Code(text, alt):
            role = f' role="img" aria-label="{escape(alt)}"' if alt else ""
            return f'<pre tabindex="0"{role}>{escape(text, quote=False)}</pre>'
        case Beside(blocks):
            inner = "\n".join(filter(None, (_html(one, prefix) for one in blocks)))
            return f'<div class="columns">\n{inner}\n</div>' if inner else ""
        case Folded(title, blocks):
            inner = "\n".join(_html(one, prefix) for one in blocks)
            summary = f"<summary>{escape(title)}</summary>"
            return f'<details class="folded">{summary}\n{inner}\n</details>'
        case Drawing(caption=caption):
            if not can_draw():
                return ""
            return (
                f'<figure class="drawing">\n{svg(block)}\n'
                f"<figcaption>{escape(caption, quote=False)}</figcaption>\n</figure>"
            )
        case Table():
            return _table(block)
        case Figure():
            return _figure(block, prefix)
    raise TypeError(f"{type(block).__name__} is no block of a page.")


# --- tables -----------------------------------------------------------------------------------


def _table(table: Table) -> str:
    """Each cell carries its heading, for narrow screens make cards of the rows."""
    first, *others = table.columns
    body = []
    for section, rows in table.parts():
        if section is not None:
            span = f'colspan="{len(table.columns)}"'
            body.append(f'<tr class="part"><th scope="colgroup" {span}>{escape(section)}</th></tr>')
        for row in rows:
            name = f'<th scope="row" class="name">{escape(cell(first, row))}</th>'
            cells = "".join(
                f'<td{_words(column)} data-label="{escape(column.heading)}">'
                f"{_cell(column, row)}</td>"
                for column in others
            )
            body.append(f"<tr{_kind('marked' * row.marked)}>{name}{cells}</tr>")
    head = "".join(f'<th scope="col"{_words(c)}>{escape(c.heading)}</th>' for c in others)
    caption = escape(table.caption)
    below = _remark(COMPARED if table.is_compared else "")
    words = all(column.format is None for column in table.columns)
    kinds = ("stack" * (len(table.columns) > FEW_COLUMNS), "prose" * words)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">\n'
        f"<table{_kind(*kinds)}>\n<caption>{caption}{below}</caption>\n"
        f'<thead><tr><th scope="col" class="name">{escape(first.heading)}</th>{head}</tr></thead>\n'
        "<tbody>\n" + "\n".join(body) + "\n</tbody>\n</table>\n</div>"
    )


def _cell(column: Column, row: Row) -> str:
    """Our value; below it the paper's and the difference, where the paper has one."""
    ours, paper = escape(cell(column, row)), escape(paper_cell(column, row))
    if column.better == "yes" and ours:
        verdict = ours if ours in ("yes", "no") else "partly" * ours.startswith("in ")
        ours = f'<span class="verdict {verdict}">{ours}</span>'
    if not paper:
        return ours
    values = row.values.get(column.name), row.paper.get(column.name)
    moved = difference(*values, column.format) if column.difference else ""
    kind = ""
    if column.better is not None and moved.strip("+−0.,%"):
        kind = "gain" if moved.startswith("+") == (column.better == "higher") else "loss"
    delta = f" <span{_kind(kind)}>{moved}</span>" if moved else ""
    return f'{ours}<small><abbr title="the paper’s">{paper}</abbr>{delta}</small>'


def _words(column: Column) -> str:
    return _kind("words" * (column.format is None))


def _kind(*names: str) -> str:
    text = " ".join(filter(None, names))
    return f' class="{text}"' if text else ""


# --- figures ----------------------------------------------------------------------------------


def _figure(figure: Figure, prefix: str) -> str:
    """What the script draws stands beside it as JSON; numbers to be read are text in there."""
    styles = looks(one.name for one in figure.series)
    data = {
        "kind": figure.kind,
        "x": {"label": figure.x.label, "log": figure.x.log, "names": figure.x.names},
        "y": {"label": figure.y.label, "log": figure.y.log},
        "series": [
            {
                "name": one.name,
                "look": look,
                "dashed": one.dashed,
                "joined": figure.joins(one),
                "points": _points(figure, one),
            }
            for one, look in zip(figure.series, styles, strict=True)
        ],
        "levels": [
            {"name": level.name, "y": level.y, "text": _read(level.y, figure.y)}
            for level in figure.levels
        ],
    }
    # Inside a script element no "<" may stand that could end it.
    stored = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    title = escape(figure.title)
    caption = f"<p>{escape(figure.caption, quote=False)}</p>\n" if figure.caption else ""
    return (
        f'<figure class="chart" id="{prefix}{figure.id}">\n<figcaption>{title}</figcaption>\n'
        f'<div class="legend" role="group" aria-label="Series of: {title}"></div>\n'
        f'<div class="plot"><svg role="group" aria-label="{title}"></svg></div>\n'
        f"{caption}<noscript><p>{NO_SCRIPT}</p></noscript>\n"
        f"<details open><summary>Show data</summary>\n{_table(_data_table(figure))}\n"
        f'</details>\n<script type="application/json">{stored}</script>\n</figure>'
    )


def _points(figure: Figure, series: Series) -> list[dict[str, Any]]:
    count = len(series.x)
    labels, stds = series.labels or ("",) * count, series.std or (None,) * count
    found = zip(series.x, series.y, stds, labels, strict=True)
    return [
        {
            "index": index,
            "x": x,
            "y": y,
            "std": std,
            "label": label,
            "marked": series.marks is None or index in series.marks,
            "xText": _read(x, figure.x),
            "yText": _read(y, figure.y, std),
        }
        for index, (x, y, std, label) in enumerate(found)
    ]


def _read(value: float | None, axis: Axis, std: float | None = None) -> str:
    if axis.names and value is not None:
        return axis.names[int(value)]
    return number(value, axis.format or ".4g", std)


def _data_table(figure: Figure) -> Table:
    """A row for every x and a column for every series; a row for every point of a scatter plot."""
    points = [_points(figure, series) for series in figure.series]
    labelled = any(point["label"] for series in points for point in series)
    levels = "".join(f"; {level.name}: {_read(level.y, figure.y)}" for level in figure.levels)
    keyed = [{(p["x"], p["xText"], p["label"]): p["yText"] for p in series} for series in points]
    names = [one.name for one in figure.series]
    x = Column("x", figure.x.label, None if figure.x.names else "")
    label = [Column("label", "point")] * labelled
    # Points that share x and label would overwrite each other in a row.
    if figure.kind == "lines" and all(map(lambda k, p: len(k) == len(p), keyed, points)):
        columns = [*label, x, *(Column(f"y{i}", name, "") for i, name in enumerate(names))]
        rows = [
            [*[key[2]] * labelled, key[1], *(series.get(key, "") for series in keyed)]
            for key in sorted({key for series in keyed for key in series})
        ]
    else:
        columns = [Column("series"), *label, x, Column("y", figure.y.label, "")]
        rows = [
            [name, *[p["label"]] * labelled, p["xText"], p["yText"]]
            for name, series in zip(names, points, strict=True)
            for p in series
        ]
    return Table.from_rows(figure.id, f"{figure.y.label}{levels}", columns, rows)
