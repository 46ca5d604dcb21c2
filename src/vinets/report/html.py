"""Write a page as HTML: one file with its style and pictures inside, and without scripts.

``page.html.j2`` says how every block looks. Jinja escapes whatever text stands in a block.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

from vinets.report.figures import can_draw, figure_data, svg
from vinets.report.numbers import cell, difference, paper_cell
from vinets.report.values import Block, Column, Drawing, Figure, Page, Row, Table

# Jinja is imported when a page is written, because most commands only print a table.
if TYPE_CHECKING:
    from jinja2 import Template

MAX_PLAIN_COLUMNS = 3  # rows of wider tables become cards on narrow screens


def html(page: Page) -> str:
    """Return the page as one file, with its style and its pictures inside."""
    drawn = can_draw()
    missing = not drawn and page.holds(Figure, Drawing)
    return _template().render(page=page, drawn=drawn, missing=missing)


def in_notebook(*parts: str | Table) -> str:
    """Return sentences and tables as HTML for a notebook, which has a style of its own."""
    show: Any = _template("tables.html.j2").module
    texts = (show.text(part) if isinstance(part, str) else show.table(part) for part in parts)
    return "\n".join(map(str, texts))


@cache
def _template(name: str = "page.html.j2") -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("vinets.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "style": files("vinets.report").joinpath("style.css").read_text(encoding="utf-8"),
        "kind_of": _kind_of,
        "picture": lambda block, prefix: Markup(svg(block, prefix)),  # matplotlib escapes its text
        "figure_data": figure_data,
        "cell": cell,
        "compared": _compared,
        "max_plain_columns": MAX_PLAIN_COLUMNS,
    }
    return environment.get_template(name)


def _kind_of(block: Block) -> str:
    if not isinstance(block, get_args(Block)):
        raise TypeError(f"{type(block).__name__} is no block of a page.")
    return type(block).__name__


def _compared(column: Column, row: Row) -> dict[str, str]:
    """Return our value, the paper's and the difference, each with the class of its colour."""
    ours, paper = cell(column, row), paper_cell(column, row)
    verdict = moved = kind = ""
    if column.better == "yes" and ours:
        verdict = ours if ours in ("yes", "no") else "partly" * ours.startswith("in ")
        verdict = f"verdict {verdict}".rstrip()
    if paper and column.difference:
        moved = difference(row.values.get(column.name), row.paper[column.name], column.format)
        if column.better is not None and moved.strip("+−0.,%"):
            kind = "gain" if moved.startswith("+") == (column.better == "higher") else "loss"
    return {"ours": ours, "verdict": verdict, "paper": paper, "moved": moved, "kind": kind}
