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

from vinets.core.checks import file_error, reason_of, shortened
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
    path, header = Path(path), None
    if path.suffix.lower() == ".npy":
        cells = read_array(path)
        if cells.ndim != 2 or cells.dtype.kind not in "biuf" or not cells.size:
            accepted = "numbers of shape (points, variables)"
            raise file_error(path, accepted, f"{cells.dtype} of shape {cells.shape}")
        lines, values = list(range(1, len(cells) + 1)), cells.astype(np.float64)
    else:
        header, rows = _table(path)
        lines = [line for line, _ in rows]
        cells = np.array([[cell.strip() for cell in row] for _, row in rows])
        # Cells without a number become NaN here.
        values = np.array([[_number(cell) for cell in row] for row in cells], dtype=np.float64)
    width = cells.shape[1]
    titles = header or [f"x{k}" for k in range(width)]
    at = None
    if header and label in header:
        at = header.index(label)
    elif label is not None and label.isdecimal() and int(label) < width:
        at = int(label)
    elif label is not None:
        named = f"one of {reason_of(', '.join(header))}, or " if header else ""
        raise ValueError(
            f"The label must be {named}a number from 0 to {width - 1}, a column of {path}. "
            f"Got {label!r} instead."
        )
    kept = [k for k in range(width) if k != at]
    if not kept:
        raise ValueError(f"{path} holds no columns of numbers besides the label.")
    for row, k in np.argwhere(~np.isfinite(values[:, kept]))[:1].tolist():
        column = kept[k]
        got = reprlib.repr(cells[row, column].item()) if str(cells[row, column]) else "nothing"
        title = shortened(titles[column], 60)
        word = shlex.quote(title) if header else column
        raise ValueError(
            f"{path} must hold finite numbers. Row {lines[row]}, column {column + 1} "
            f"({title}) has {got}. Drop or fill such rows, or, if the column holds "
            f"classes, name it as the label (--label {word})."
        )
    labels = None if at is None else cells[:, at].astype(str)
    if labels is not None and (labels == "").any():
        line = lines[int(np.argmin(labels != ""))]
        raise ValueError(f"{path} must have a class in every row. Row {line} has none.")
    names = tuple(f"x{i}" for i in range(len(kept)))
    if header:
        # Blanks and signs would be misread in a polynomial.
        plain = [re.sub(r"\W+", "_", titles[k]).strip("_") for k in kept]
        if len(set(plain)) == len(plain) and all(p and not p[0].isdigit() for p in plain):
            names = tuple(plain)
    return Points(values[:, kept], names, labels)


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
    header, first = None, rows[0][1] if rows else []
    # pandas numbers columns without names: 0,1,2 above the first row is no point
    numbers = len(rows) > 1 and len(first) > 1 and first == [str(k) for k in range(len(first))]
    if first and (numbers or not any(_number(cell) is not None for cell in first)):
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


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000 as a number
    except ValueError:
        return None
