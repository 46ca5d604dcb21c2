"""Options that are written as text: sizes, shapes, counts and shares."""

from __future__ import annotations

__all__ = ["cut_of", "integers"]


def integers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Positive integers with commas in between; None where nothing was given.

    Examples
    --------
    >>> integers("--shape", "3,32,32")
    (3, 32, 32)
    """
    if text is None:
        return None
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


def cut_of(text: str) -> str | int:
    """An index into the cut points, a share of layers such as ``50%``, or a name."""
    try:
        return int(text)
    except ValueError:
        return text
