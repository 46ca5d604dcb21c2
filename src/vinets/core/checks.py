"""Refuse bad parameters in one wording: which one, what it must be, what came, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

MAX_INPUT_VALUES = 1 << 24  # an image of 2,000 by 2,000 pixels has twelve million


class DoubtWarning(UserWarning):
    """A network or data are hardly what they should be."""


def parameter_error(owner: str, name: str, accepted: str, got: Any, remedy: str = "") -> ValueError:
    """Build the error for a parameter outside its domain: a sentence, and perhaps what to do."""
    shown = shortened(repr(got), 300)  # it may be a whole file
    text = f"The '{name}' parameter of {owner} must be {accepted}. Got {shown} instead. {remedy}"
    return ValueError(text.rstrip())


def file_error(path: object, accepted: str, got: Any, remedy: str = "") -> ValueError:
    """Build the error for a file or folder that holds something else than it should."""
    return ValueError(f"{path} must hold {accepted}. Got {got} instead. {remedy}".rstrip())


def bounded_float(
    owner: str, name: str, value: Any, low: float, high: float, *, remedy: str = ""
) -> float:
    """Return ``value`` as a float in ``[low, high)``, or raise."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not low <= float(value) < high:  # NaN is in no interval
        raise parameter_error(owner, name, f"a float in [{low:g}, {high:g})", value, remedy)
    return float(value)


def optional_positive_int(owner: str, name: str, value: Any, remedy: str = "") -> int | None:
    """Return ``value`` as a positive int, or None; raise for anything else."""
    if value is not None and not is_whole(value):
        raise parameter_error(owner, name, "a positive integer or None", value, remedy)
    return None if value is None else int(value)


def is_whole(value: Any, low: int = 1) -> bool:
    """Say whether a value is an integer of at least ``low``; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= low


def one_of(owner: str, name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``, or raise."""
    if isinstance(value, str) and value in choices:
        return value
    raise parameter_error(owner, name, "one of " + ", ".join(map(repr, choices)), value)


def point_shape(shape: tuple[int, ...], n_variables: int) -> None:
    """Raise unless ``shape`` is that of points in ``n_variables`` dimensions."""
    if len(shape) != 2 or shape[1] != n_variables:
        raise ValueError(
            f"points must have shape (m, {n_variables}), one point a row. Got {shape} instead."
        )


def rows_within(memory_limit: int, bytes_per_row: int, *, at_least: int = 1) -> int:
    """Return how many rows fit into ``memory_limit`` bytes; never below ``at_least``."""
    return max(at_least, int(memory_limit // max(1, bytes_per_row)))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, for messages: 1 term, 1,200 terms."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_bytes(count: float) -> str:
    """Return a number of bytes as people read it, for messages: 3.0 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def reason_of(error: BaseException | str) -> str:
    """Return what an error says, to stand in a sentence: one line of bounded length, no stop."""
    return shortened(" ".join(str(error).split()).rstrip(".") or type(error).__name__, 200)


def first_reason_of(error: BaseException) -> str:
    """Return what the first line of an error says, where advice and traces follow it."""
    return reason_of((str(error).strip().splitlines() or [type(error).__name__])[0])


def shortened(text: str, most: int) -> str:
    """Return a text, or its beginning if it has more than ``most`` letters."""
    return text if len(text) <= most else f"{text[:most]}..."
