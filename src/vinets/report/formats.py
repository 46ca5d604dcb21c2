"""Numbers as a reader sees them: in their format, with a spread, as a difference."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

__all__ = ["difference", "number"]

NOTHING = "–"


def number(value: Any, spec: str | None, std: Any = None) -> str:
    """A value in its Python format, with its standard deviation where there is one.

    Text stays as it is. What is missing or not finite becomes a dash.

    Examples
    --------
    >>> number(88.404, ".2f", 0.123), number(-1234, ","), number(True, None), number(None, ".1f")
    ('88.40 ± 0.12', '−1,234', 'yes', '–')
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
    """Ours less the paper's with its sign, in the format of both; nothing where one is missing.

    Examples
    --------
    >>> difference(88.40, 88.62, ".2f"), difference(1300, 100, ","), difference(1.001, 1, ".2f")
    ('−0.22', '+1,200', '0.00')
    """
    if not (_is_finite(ours) and _is_finite(paper)):
        return ""
    text = _formatted(ours - paper, f"+{(spec or '.4g').replace('+', '')}")
    is_zero = not any(digit in text.partition("e")[0] for digit in "123456789")
    return text.lstrip("+−") if is_zero else text


def _is_finite(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def _formatted(value: Any, spec: str) -> str:
    if spec.endswith("d"):  # for whole numbers only
        value = round(value)
    return format(value, spec).replace("-", "−")
