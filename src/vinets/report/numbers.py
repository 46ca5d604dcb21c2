"""Write numbers as a reader sees them: in their format, with a spread, as a difference.

A format is one of Python, such as ``".2f"``, ``","`` or ``".1%"``. ``"10^.2f"`` is for logarithms,
shown as powers of ten, and ``"×"`` at the end for factors.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vinets.report.values import Column, Row


NOTHING = "–"


def number(value: Any, spec: str | None, std: Any = None) -> str:
    """Return a value in its format, with its standard deviation where there is one.

    Text stays as it is. What is missing or not finite becomes a dash.

    Examples
    --------
    >>> number(88.404, ".2f", 0.123), number(-1234, ","), number(True, None), number(None, ".1f")
    ('88.40 ± 0.12', '−1,234', 'yes', '–')
    >>> number(-0.5, "10^.2f"), number(1.5, ".1f×")
    ('10^−0.50', '1.5×')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _is_finite(value):
        return NOTHING if value is None or isinstance(value, Real) else str(value)
    if spec is None:
        return str(value)
    text = _formatted(value, spec)
    if _is_finite(std):
        text += f" ± {_formatted(std, spec.replace('+', ''))}"
    return text


def difference(ours: Any, paper: Any, spec: str | None) -> str:
    """Return ours less the paper's with its sign, in their format; nothing where one is missing.

    Examples
    --------
    >>> difference(88.40, 88.62, ".2f"), difference(1300, 100, ","), difference(1.001, 1, ".2f")
    ('−0.22', '+1,200', '0.00')
    """
    if not (_is_finite(ours) and _is_finite(paper)):
        return ""
    plain = (spec or ".4g").removeprefix("10^").replace("+", "")
    return _formatted(ours - paper, f"+{plain}")


def cell(column: Column, row: Row) -> str:
    """Return our value of a row; empty where the row has none."""
    if column.name not in row.values:
        return ""
    return number(row.values[column.name], column.format, row.values.get(column.std or ""))


def paper_cell(column: Column, row: Row) -> str:
    """Return the paper's value of a row; empty where the paper has none."""
    value, std = row.paper.get(column.name), row.paper.get(column.std or "")
    return "" if value is None else number(value, column.format, std)


def both(column: Column, row: Row) -> str:
    """Return our value, and the paper's in brackets where there is one."""
    ours, paper = cell(column, row), paper_cell(column, row)
    return f"{ours} ({paper})" if paper else ours


def _is_finite(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def _formatted(value: Any, spec: str) -> str:
    power, factor = spec.startswith("10^"), spec.endswith("×")
    spec = spec.removeprefix("10^").removesuffix("×")
    if spec.endswith("d"):  # which takes whole numbers only
        value = round(value)
    text = format(value, spec).replace("-", "−")
    if not any(digit in text.partition("e")[0] for digit in "123456789"):
        text = text.lstrip("+−")  # zero has no sign
    return "10^" * power + text + "×" * factor
