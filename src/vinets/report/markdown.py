"""Tables as Markdown, for the README and the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from vinets.report.formats import both
from vinets.report.values import Table

__all__ = ["markdown"]


def markdown(table: Table) -> str:
    r"""A table with numbers to the right and the paper's in brackets behind ours.

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
    first, *others = table.columns
    lines = [
        _line(_escaped(column.heading) for column in table.columns),
        "|---|" + "".join("---|" if column.format is None else "---:|" for column in others),
    ]
    for section, rows in table.parts():
        if section is not None:
            lines.append(f"| **{_escaped(section)}** |" + " |" * len(others))
        for row in rows:
            name = _escaped(both(first, row))
            cells = (_escaped(both(column, row)) for column in others)
            lines.append(_line([f"**{name}**" if row.marked else name, *cells]))
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("||", "‖").replace("|", "\\|")  # a bar would end the cell


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
