"""Results of experiments: tables and figures as plain data, written and read as JSON.

An experiment is one JSON file. Whoever makes results builds these dataclasses and writes
:meth:`Experiment.to_dict`; :func:`vinets.report.read_results` reads a folder of them back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

__all__ = [
    "Axis",
    "Column",
    "Experiment",
    "Figure",
    "Row",
    "Rule",
    "Series",
    "Table",
    "wrong",
]

FORMAT = re.compile(r"\+?,?(\.\d{1,2})?[defg%]?")
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
KINDS = ("lines", "scatter")
BETTER = ("higher", "lower")


# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
        Key of its values in every row.
    label : str
        Its heading; the name if empty.
    format : str or None
        Python format of its numbers, such as ``".2f"`` or ``","``; None for text.
    std : str or None
        Key of the standard deviations of its values.
    better : {"higher", "lower"} or None
        Which values are good ones, where that can be said.
    difference : bool
        Whether our value less the paper's says something.
    """

    name: str
    label: str = ""
    format: str | None = None
    std: str | None = None
    better: str | None = None
    difference: bool = True

    def __post_init__(self) -> None:
        _check_format(self.format)
        if self.better is not None and self.better not in BETTER:
            raise wrong("better", "'higher', 'lower' or null", self.better)


@dataclass(frozen=True)
class Row:
    """Values of a row by column, those of the paper, and the heading of its part of the table."""

    values: Mapping[str, Any]
    paper: Mapping[str, Any] = field(default_factory=dict)
    section: str | None = None


@dataclass(frozen=True)
class Table:
    """A table; the first column names its rows."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        _check_identifier("id", self.id)
        if not self.columns:
            raise wrong("columns", "a list of at least one column", [])


# --- figures ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """An axis: its label, whether it is logarithmic, the Python format of its numbers."""

    label: str
    log: bool = False
    format: str | None = None

    def __post_init__(self) -> None:
        _check_format(self.format)


@dataclass(frozen=True)
class Series:
    """Points of a figure that belong together.

    Attributes
    ----------
    name : str
        What stands in the legend. The first name that begins with "VI-Net" stands out.
    x, y : tuple of float
        As many of both; None in ``y`` where there is no value.
    labels : tuple of str
        Name of every point, such as its cut; or empty.
    std : tuple of float or None
        Standard deviation of every y.
    dashed : bool
        Whether its line is dashed.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    labels: tuple[str, ...] = ()
    std: tuple[float | None, ...] | None = None
    dashed: bool = False

    def __post_init__(self) -> None:
        count = len(self.x)
        for name, values in (("y", self.y), ("labels", self.labels or self.x), ("std", self.std)):
            if values is not None and len(values) != count:
                raise wrong(name, f"a list of {count} entries, as many as x", len(values))


@dataclass(frozen=True)
class Rule:
    """A value to compare with: a dashed horizontal line."""

    name: str
    y: float


@dataclass(frozen=True)
class Figure:
    """Series over a pair of axes; ``kind`` is "lines" or "scatter"."""

    id: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    kind: str = "lines"
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        _check_identifier("id", self.id)
        if self.kind not in KINDS:
            raise wrong("kind", "'lines' or 'scatter'", self.kind)


# --- experiments ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """What an experiment found, and how it was run.

    Attributes
    ----------
    experiment : str
        Its name: letters, digits, hyphens.
    title : str
        Heading.
    order : float
        Its place among the others.
    paper : str
        Where the paper has it, such as "Table 2".
    text : tuple of str
        Paragraphs.
    tables, figures : tuple of Table, tuple of Figure
        What was found.
    notes : tuple of str
        Remarks, such as what differs from the paper.
    command : tuple of str
        The command with its arguments.
    machine : dict
        See :func:`vinets.measure.machine`.
    seeds : tuple of int
        Those that were averaged over.
    settings : dict
        Name and value of what else decides the outcome.
    seconds : float or None
        How long it took.

    Examples
    --------
    >>> table = Table("t", "Sizes", (Column("model"),), (Row({"model": "VI-Net"}),))
    >>> found = Experiment("table-sizes", "Sizes", tables=(table,)).to_dict()
    >>> found["tables"][0]["rows"]
    [{'values': {'model': 'VI-Net'}, 'paper': {}, 'section': None}]
    """

    experiment: str
    title: str
    order: float = 0
    paper: str = ""
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None

    def __post_init__(self) -> None:
        _check_identifier("experiment", self.experiment)
        for name in ("tables", "figures"):
            ids = [part.id for part in getattr(self, name)]
            if len(set(ids)) < len(ids):
                raise wrong(name, "a list in which every id occurs once", ids)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values; numbers that are not finite become None."""
        found: dict[str, Any] = _plain(self)
        return found


# --- values -----------------------------------------------------------------------------------


def _check_format(spec: str | None) -> None:
    if spec is not None and not FORMAT.fullmatch(spec):
        raise wrong("format", "a format such as '.2f', ',' or '.1%', or null for text", spec)


def _check_identifier(name: str, value: str) -> None:
    if not IDENTIFIER.fullmatch(value):
        accepted = "letters and digits, with hyphens, dots or underscores between them"
        raise wrong(name, accepted, value)


def wrong(name: str, accepted: str, got: Any) -> ValueError:
    """The error for a key of a result; what came is cut short."""
    shown = repr(got)
    if len(shown) > 80:
        shown = f"{shown[:77]}..."
    return ValueError(f"'{name}' must be {accepted}. Got {shown} instead.")


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    return str(value)
