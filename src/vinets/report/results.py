"""Rows of ``results.json``, and the same as cells of a table on the terminal or on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vinets.report.charts import PARTS

__all__ = ["COLUMNS", "NARROW_COLUMNS", "result_cells", "result_row", "signed"]

COLUMNS = ["", "accuracy %", "Δ", *PARTS, "total", "images/s", "seconds"]
NARROW_COLUMNS = [
    "",
    "right\nin %",
    "Δ",
    "back-\nbone",
    "proj-\nection",
    "mono-\nmials",
    "coef-\nfi-\ncients",
    "linear",
    "total",
    "images\nper s",
    "s",
]
"""The same for terminals, where width is scarce."""


def result_row(
    name: str, parts: Mapping[str, int], wrong: Sequence[Sequence[int]], tests: int, **facts: Any
) -> dict[str, Any]:
    """What is known of one network, as plain JSON values.

    Parameters
    ----------
    name : str
        Of the network.
    parts : dict
        Numbers stored by each part, among them ``backbone``.
    wrong : sequence of sequence of int
        For every seed, the test examples that the network gets wrong.
    tests : int
        How many test examples there are.
    **facts
        Whatever else belongs to the row.

    Examples
    --------
    >>> row = result_row("MLP", {"backbone": 9, "linear": 5}, [[3], [3, 4, 8]], 10, cut="pool")
    >>> row["accuracy"], row["parameters"], row["parameters_head"], row["cut"]
    (0.8, 14, 5, 'pool')
    """
    accuracies = [1 - len(examples) / tests for examples in wrong]
    total = sum(parts.values())
    return {
        "name": name,
        "accuracy": sum(accuracies) / len(accuracies),
        "accuracies": accuracies,
        "wrong": [list(examples) for examples in wrong],
        "parameters": total,
        "parameters_head": total - parts["backbone"],
        "parts": dict(parts),
    } | facts


def result_cells(rows: Sequence[Mapping[str, Any]], uncut: Mapping[str, Any]) -> list[list[str]]:
    """The uncut network, then ``rows``; Δ is in percentage points.

    Parameters
    ----------
    rows : sequence of dict
        Heads behind one cut.
    uncut : dict
        The uncut network, with its speed next to theirs.
    """
    return [
        [
            row["name"],
            f"{100 * row['accuracy']:.2f}",
            "" if row is uncut else signed(100 * (row["accuracy"] - uncut["accuracy"])),
            *(f"{row['parts'][part]:,}" if part in row["parts"] else "" for part in PARTS),
            f"{row['parameters']:,}",
            f"{row['images_per_second']:,.0f}",
            f"{row['seconds']:.1f}",
        ]
        for row in (uncut, *rows)
    ]


def signed(points: float) -> str:
    """A difference with two digits and a real minus sign.

    Examples
    --------
    >>> signed(-1.234), signed(0.0), signed(0.5)
    ('−1.23', '0.00', '+0.50')
    """
    rounded = round(points, 2)
    sign = "−" if rounded < 0 else "+" if rounded > 0 else ""
    return f"{sign}{abs(rounded):.2f}"
