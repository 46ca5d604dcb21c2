"""How `engine.py` shows its results: tables on the terminal, one figure, one HTML page."""

from __future__ import annotations

import base64
import io
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

__all__ = ["Panel", "Section", "print_section", "save_figure", "write_page"]


@dataclass(frozen=True)
class Panel:
    """One picture: what `draw` puts on the axes it is given."""

    title: str
    draw: Callable[[Any], Any]
    three_d: bool = False


@dataclass(frozen=True)
class Section:
    """One experiment: what it does, a table, what the table says, polynomials, pictures."""

    name: str
    title: str
    text: str
    columns: list[str]
    rows: list[list[str]]
    polynomials: list[tuple[str, str]]
    panels: list[Panel]
    numbers: dict[str, Any] = field(repr=False)
    reading: tuple[str, ...] = ()


# --- terminal ---------------------------------------------------------------------------------


def print_section(section: Section, console: Console) -> None:
    """Print the sentences of a section, its table and its polynomials."""
    console.print()
    console.print(section.title, style="bold", highlight=False)
    console.print(section.text, highlight=False, markup=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, column in enumerate(section.columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in section.rows:
        table.add_row(*row)
    console.print(table)
    for paragraph in section.reading:
        console.print(paragraph + "\n", highlight=False, markup=False)
    for caption, polynomial in section.polynomials:
        line = f"  {caption}: {polynomial}"
        wrapped = textwrap.fill(line, console.width, subsequent_indent="      ")
        console.print(wrapped, highlight=False, markup=False)


# --- figure -----------------------------------------------------------------------------------


def _draw(panel: Panel, figure: Figure, *place: int) -> None:
    ax = figure.add_subplot(*place, projection="3d" if panel.three_d else None)
    panel.draw(ax)
    ax.set_title(panel.title, fontsize=11)


def save_figure(sections: list[Section], path: Path) -> None:
    """All panels of all sections in one picture, three in a row."""
    panels = [panel for section in sections for panel in section.panels]
    rows = -(-len(panels) // 3)
    figure = Figure(figsize=(12, 3.5 * rows), layout="constrained")
    for i, panel in enumerate(panels):
        _draw(panel, figure, rows, 3, i + 1)
    figure.savefig(path, dpi=110)


def _embedded(panel: Panel) -> str:
    """The panel as a picture inside the page."""
    figure = Figure(figsize=(3.9, 3.6), layout="constrained")
    _draw(panel, figure, 1, 1, 1)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(panel.title)}" src="data:image/png;base64,{data}">'


# --- page -------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: #fff; color: #1b2a41;
  font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 0 0 .5rem; }
p { margin: 0 0 1rem; max-width: 46rem; }
section { border-top: 1px solid #d8dee6; padding: 1.6rem 0 1rem; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr) 20rem; gap: 0 2rem; }
.beside .panels { grid-column: 2; grid-row: 1 / 3; }
.below dl { columns: 2 28rem; column-gap: 2rem; }
.panels { display: flex; flex-wrap: wrap; gap: 1rem; align-content: flex-start;
  margin-bottom: 1rem; }
.panels img { flex: 1 1 17rem; min-width: 0; max-width: 24rem; width: 100%; height: auto; }
table { border-collapse: collapse; margin: 0 0 1rem; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #e7ebf0; }
th { font-weight: 600; vertical-align: bottom; color: #52606f; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
dl { margin: 0 0 1rem; }
dl div { break-inside: avoid; }
dt { font-size: .85rem; color: #52606f; }
dd { margin: 0 0 .55rem; font-family: Georgia, "DejaVu Serif", serif; }
dd span { white-space: nowrap; }
sub, sup { font-size: .7em; line-height: 0; }
footer { border-top: 1px solid #d8dee6; padding-top: 1rem; font-size: .85rem; color: #52606f; }
@media (max-width: 60rem) { .beside { display: block; } }
@media (max-width: 40rem) {
  body { padding: 1rem; }
  thead { display: none; }
  table, tbody { display: block; }
  tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.2rem; margin-bottom: .8rem;
    padding-left: .7rem; border-left: 3px solid #c1440e; }
  td { display: flex; justify-content: space-between; gap: .6rem; padding: .15rem 0; border: 0; }
  td:first-child { grid-column: 1 / 3; font-weight: 600; }
  td:empty { display: none; }
  td:not(:first-child)::before { content: attr(data-column); color: #52606f; text-align: left; }
}
"""


def write_page(
    sections: list[Section], path: Path, *, title: str, introduction: str, footer: str
) -> None:
    """Write one HTML file that loads nothing: style and pictures are inside it."""
    body = "\n".join(_section(section) for section in sections)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p>{escape(introduction)}</p>
{body}
<footer>{escape(footer)}</footer>
</body>
</html>
"""
    path.write_text(page, encoding="utf-8")


def _section(section: Section) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in section.columns)
    rows = "\n".join(
        "<tr>"
        + "".join(
            f'<td data-column="{escape(column)}">{escape(cell)}</td>'
            for column, cell in zip(section.columns, row, strict=True)
        )
        + "</tr>"
        for row in section.rows
    )
    items = "\n".join(
        f"<div><dt>{escape(caption)}</dt><dd>{_typeset(polynomial)}</dd></div>"
        for caption, polynomial in section.polynomials
    )
    panels = "\n".join(_embedded(panel) for panel in section.panels)
    reading = "\n".join(
        f"<p>{_subscripts(escape(paragraph, quote=False))}</p>" for paragraph in section.reading
    )
    kind = "beside" if len(section.panels) == 1 else "below"
    return f"""<section>
<h2>{escape(section.title)}</h2>
<div class="{kind}">
<div>
<p>{_subscripts(escape(section.text, quote=False))}</p>
<table><thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody></table>
{reading}
</div>
<div class="panels">
{panels}
</div>
<dl>
{items}
</dl>
</div>
</section>"""


def _typeset(polynomial: str) -> str:
    """`0.61*x1^2 - 1e-05*x0` with subscripts, exponents and no line break inside a term."""
    text = escape(polynomial).replace("-", "−")
    text = re.sub(r"e−0*(\d+)", r"·10^−\1", text)
    text = re.sub(r"\^(−?\d+)", r"<sup>\1</sup>", _subscripts(text)).replace("*", "\u2009")
    terms = re.split(r" (?=[+−] )", text)
    return " ".join(f"<span>{term}</span>" for term in terms)


def _subscripts(text: str) -> str:
    """Variables such as x0 with their number below the line."""
    return re.sub(r"\b([a-z])(\d+)", r"<i>\1</i><sub>\2</sub>", text)
