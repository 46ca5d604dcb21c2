"""Options that are written as text: sizes, shapes, counts and shares."""

from __future__ import annotations

__all__ = ["count_or_all", "cut_of", "integers", "share_or_count"]


def integers(option: str, text: str) -> tuple[int, ...]:
    """Positive integers with commas in between.

    Examples
    --------
    >>> integers("--shape", "3,32,32")
    (3, 32, 32)
    """
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise ValueError(
            f"{option} must be positive integers with commas in between, such as 3,32,32. "
            f"Got {text!r} instead."
        )
    return values


def count_or_all(option: str, text: str) -> int | None:
    """A positive integer, or None for ``all``."""
    if text == "all":
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ValueError(f"{option} must be a positive integer or 'all'. Got {text!r} instead.")
    return value


def share_or_count(option: str, text: str) -> int | float | None:
    """A positive integer, a share such as ``50%``, or None for ``all``.

    Examples
    --------
    >>> share_or_count("--keep", "50%"), share_or_count("--keep", "128")
    (0.5, 128)
    """
    if not text.endswith("%"):
        return count_or_all(option, text)
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"{option} must be a share up to 100%. Got {text!r} instead.")
    return share


def cut_of(text: str) -> str | int:
    """An index into the cut points, a share of layers such as ``50%``, or a name."""
    try:
        return int(text)
    except ValueError:
        return text
