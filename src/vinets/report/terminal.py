"""Print tables and pages on the terminal, and write tables as Markdown for documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vinets.report import values as blocks
from vinets.report.numbers import both
from vinets.report.values import Block, Drawing, Figure, Page, Table

# rich is imported when something is printed, because tables are also made on machines that lack it.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

PIPE_COLUMNS = 200  # so that a pipe, which nobody watches, gets whole rows
TEXT_COLUMNS = 100  # longer lines are hard to read


def print_table(table: Table) -> None:
    """Print a table to standard output.

    Text gives way to numbers, which are never broken. Where the terminal is too narrow even so,
    every row becomes a list of its values.
    """
    _show_table(table, _console())


def print_page(page: Page, pictures: str = "") -> None:
    """Print all of a page but its pictures, and a sentence on where to find these."""
    console = _console()
    console.print(page.title, style="bold")
    for block in page.lead:
        _show(block, console)
    for section in page.sections:
        console.print(f"\n{section.title}", style="bold underline")
        for block in section.blocks:
            _show(block, console)
    if pictures and page.holds(Figure, Drawing):
        _show(pictures, console)


def _console() -> Console:
    from rich.console import Console

    # Names of classes and files may hold square brackets, which are no markup here.
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    return console


def _show(block: Block, console: Console) -> None:
    """Print a block; figures and drawings leave no trace."""
    watched = console.is_terminal
    match block:
        case str(text) | blocks.Notice(text):
            console.print()
            width = min(console.width, TEXT_COLUMNS) if watched else None
            console.print(text, width=width, soft_wrap=not watched)
        case blocks.Bullets(items):
            for item in items:
                _show(f"- {item}", console)
        case blocks.Facts(facts):
            console.print()
            for name, value, remark in facts:
                console.print(f"{name}: {value} ({remark})", soft_wrap=not watched)
        case blocks.Code(text):
            console.print(f"\n{text}", soft_wrap=True)
        case blocks.Beside(parts) | blocks.Details(_, parts):
            for inner in parts:
                _show(inner, console)
        case Table():
            _show_table(block, console)


def _show_table(table: Table, console: Console) -> None:
    console.print(f"\n{table.caption}", style="bold", soft_wrap=not console.is_terminal)
    # What rich measures ends at the width that it is given, where everything would seem to fit.
    wide = console.options.update(max_width=10_000)
    for tight in (False, True):
        grid = _grid(table, tight)
        if console.measure(grid, options=wide).minimum <= console.width:
            console.print(grid)
            return
    first, *others = table.columns
    for row in table.rows:
        console.print(both(first, row), style="bold" if row.marked else None)
        for column in others:
            if text := both(column, row):
                console.print(f"  {column.heading}: {text}")


def _grid(table: Table, tight: bool) -> Grid:
    """Lay the table out in columns; a tight one has short headings and little room between them."""
    from rich.align import Align
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid

    box = None if tight else SIMPLE_HEAD
    grid = Grid(box=box, show_edge=False, pad_edge=False, padding=(0, 1 if tight else 2, 0, 0))
    for column in table.columns:
        # Headings are broken at blanks where they are wider than what stands below them.
        room = max([1 if tight else 8, *(len(both(column, row)) for row in table.rows)])
        name = (tight and column.short) or column.heading
        lines = textwrap.wrap(name, room, break_long_words=False)
        if column.format is None:
            heading = Align.left("\n".join(lines), vertical="bottom")
            grid.add_column(heading, overflow="fold", min_width=min(12, max(map(len, lines))))
        else:
            heading = Align.right("\n".join(lines), vertical="bottom")
            grid.add_column(heading, justify="right", no_wrap=True)
    for section, rows in table.parts():
        if section is not None:
            grid.add_row(section, style="bold")
        for row in rows:
            cells = (both(column, row) for column in table.columns)
            grid.add_row(*cells, style="bold" if row.marked else None)
    return grid


def markdown(table: Table) -> str:
    r"""Return a table with numbers to the right and the paper's in brackets behind ours.

    Examples
    --------
    >>> from vinets.report.values import Column, Row
    >>> columns = (Column("model"), Column("n", "numbers", ","))
    >>> rows = (Row({"model": "A|B", "n": 1200}, {"n": 1300}, marked=True),)
    >>> print(markdown(Table("t", "Sizes", columns, rows)))
    | model | numbers |
    |---|---:|
    | **A\|B** | 1,200 (1,300) |
    """

    def line(cells: Iterable[str]) -> str:  # a bar would end a cell
        shown = (cell.replace("||", "‖").replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(shown)} |"

    others = table.columns[1:]
    rule = "|---|" + "".join("---|" if column.format is None else "---:|" for column in others)
    lines = [line(column.heading for column in table.columns), rule]
    for section, rows in table.parts():
        if section is not None:
            lines.append(line([f"**{section}**"]) + " |" * len(others))
        for row in rows:
            name, *cells = (both(column, row) for column in table.columns)
            lines.append(line([f"**{name}**" if row.marked else name, *cells]))
    return "\n".join(lines)
