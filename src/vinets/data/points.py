"""Read points from a table: CSV with or without a header, or a ``.npy`` array."""

from __future__ import annotations

import csv
import io
import re
import reprlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinets.core.checks import reason_of
from vinets.core.files import read_bytes
from vinets.data.npy import read_array

MAX_TABLE_BYTES = 1 << 30
DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, eq=False)
class Points:
    """Points in rows."""

    values: NDArray[np.float64]  # (m, n), finite
    names: tuple[str, ...]  # one a variable, fit to be written in a polynomial
    labels: NDArray[Any] | None  # (m,), the class of every point, as text


def read_points(path: str | Path, label: str | None = None) -> Points:
    """Read points, and the column ``label`` (a name or a number from 0) as their classes."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return _from_array(path, label)
    header, rows = _table(path)
    width = len(rows[0][1])
    at = None if label is None else _column(path, label, header, width)
    kept = [k for k in range(width) if k != at]
    if not kept:
        raise ValueError(f"{path} holds no columns of numbers besides the label.")
    titles = header or [f"x{k}" for k in range(width)]
    # Cells without a number become NaN here.
    values = np.array([[_number(row[k]) for k in kept] for _, row in rows], dtype=np.float64)
    bad = np.argwhere(~np.isfinite(values)).tolist()
    if bad:
        (line, row), k = rows[bad[0][0]], kept[bad[0][1]]
        got = reprlib.repr(row[k].strip()) if row[k].strip() else "nothing"
        raise ValueError(
            f"{path} must hold finite numbers. Row {line}, column {k + 1} ({titles[k]}) has {got}. "
            "Drop or fill such rows, or, if the column holds classes, name it as the label "
            f"(--label {shlex.quote(titles[k])})."
        )
    labels = None if at is None else np.array([row[at].strip() for _, row in rows])
    if labels is not None and (labels == "").any():
        line = rows[int(np.argmin(labels != ""))][0]
        raise ValueError(f"{path} must have a class in every row. Row {line} has none.")
    names = [titles[k] for k in kept] if header else [f"x{i}" for i in range(len(kept))]
    return Points(values, _written(names), labels)


def _from_array(path: Path, label: str | None) -> Points:
    array = read_array(path)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not array.size:
        raise ValueError(
            f"{path} must hold numbers of shape (points, variables). Got {array.dtype} of shape "
            f"{array.shape} instead."
        )
    values = array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"{path} must hold finite numbers. Row {row}, column {column}, both counted from 0, "
            f"has {values[row, column]}. Drop or fill such rows."
        )
    labels = None
    if label is not None:
        at = _column(path, label, None, values.shape[1])
        labels = array[:, at].astype(str)
        values = np.delete(values, at, axis=1)
    if not values.shape[1]:
        raise ValueError(f"{path} holds no columns of numbers besides the label.")
    return Points(values, tuple(f"x{i}" for i in range(values.shape[1])), labels)


def _table(path: Path) -> tuple[list[str] | None, list[tuple[int, list[str]]]]:
    """Read the header, if the first row has no numbers, and the rows with their line numbers."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    try:
        # Spreadsheets begin a file with a mark.
        text = read_bytes(path, MAX_TABLE_BYTES).decode("utf-8-sig")
        # The most frequent one of the first line; without any, a comma.
        delimiter = max(DELIMITERS, key=text.partition("\n")[0].count)
        reader = csv.reader(io.StringIO(text), delimiter=delimiter)
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path} must be a CSV file in UTF-8. It cannot be read: {reason_of(error)}."
        ) from None
    header = None
    if rows and not any(_number(cell) is not None for cell in rows[0][1]):
        header = [cell.strip() for cell in rows.pop(0)[1]]
    if not rows:
        raise ValueError(f"{path} holds no rows of numbers.")
    width = len(header or rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise ValueError(
                f"{path} must have {width} cells in every row. Row {line} has {len(row)}."
            )
    return header, rows


def _column(path: Path, label: str, header: list[str] | None, width: int) -> int:
    if header is not None and label in header:
        return header.index(label)
    if label.isdecimal() and int(label) < width:
        return int(label)
    named = f"one of {reason_of(', '.join(header))}, or " if header else ""
    raise ValueError(
        f"The label must be {named}a number from 0 to {width - 1}, a column of {path}. "
        f"Got {label!r} instead."
    )


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000 as a number
    except ValueError:
        return None


def _written(names: list[str]) -> tuple[str, ...]:
    """Rewrite names without blanks or signs, which would be misread in a polynomial."""
    plain = [re.sub(r"\W+", "_", name).strip("_") for name in names]
    if len(set(plain)) < len(plain) or not all(p and not p[0].isdigit() for p in plain):
        return tuple(f"x{i}" for i in range(len(names)))
    return tuple(plain)
