"""Hold what a report is made of, as plain data: tables, figures, text, and pages of these.

Code that has results builds these values, and nothing else. :mod:`vinets.report.terminal`
and :mod:`vinets.report.html` show them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from vinets.report.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Number: TypeAlias = int | float  # both, because counts are read back from JSON as they were
Value: TypeAlias = str | Number | bool | None

# Formats have no width, because one of a billion characters would fill the memory.
FORMAT = re.compile(r"(10\^)?\+?,?(\.\d{1,2})?[defg%]?×?")
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``name`` is the key of its values in every row, ``label`` its heading (the name if empty),
    ``short`` a shorter one for terminals. ``format`` is that of its numbers, see
    :func:`vinets.report.numbers.number`, or None for text, and ``std`` the key of their standard
    deviations. ``better`` says which values are good ones, where that can be said: "higher",
    "lower" or "yes"; ``difference``, whether our value less the paper's means something.
    """

    name: str
    label: str = ""
    format: str | None = None
    std: str | None = None
    better: str | None = None
    difference: bool = True
    short: str = ""

    def __post_init__(self) -> None:
        _check_format(self.format)
        known = self.better in ("higher", "lower", "yes", None)
        _require(known, "better", "'higher', 'lower', 'yes' or null", self.better)

    @property
    def heading(self) -> str:
        """Return what stands above the values."""
        return self.label or self.name


@dataclass(frozen=True)
class Row:
    """Values by column, the same as the paper prints them, and the section that the row is in.

    What is missing stays empty, None is a dash. A marked row is set off from the others.
    """

    # Any, because the column says what a value is: with a format, it is a number or None.
    values: Mapping[str, Any]
    paper: Mapping[str, Any] = field(default_factory=dict)
    section: str | None = None
    marked: bool = False


@dataclass(frozen=True)
class Table:
    """A table; the first column names its rows.

    Examples
    --------
    >>> table = Table.from_rows("t", "Sizes", ["model", Column("n", format=",")], [["A", 1200]])
    >>> table.rows[0].values
    {'model': 'A', 'n': 1200}
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        _check_identifier("id", self.id)
        _require(self.columns, "columns", "a list of at least one column", [])
        _check_unique("columns", "name", [column.name for column in self.columns])

    @classmethod
    def from_rows(
        cls, id: str, caption: str, columns: Sequence[Column | str], rows: Iterable[Sequence[Value]]
    ) -> Table:
        """Make a table of cells in the order of its columns; a plain name is a column of text."""
        typed = tuple(Column(c) if isinstance(c, str) else c for c in columns)
        names = [column.name for column in typed]
        made = tuple(Row(dict(zip(names, row, strict=True))) for row in rows)
        return cls(id, caption, typed, made)

    def __str__(self) -> str:
        from vinets.report.terminal import markdown  # which is made of these values

        return markdown(self)

    def _repr_html_(self) -> str:
        from vinets.report.html import in_notebook

        return in_notebook(self)

    @property
    def is_compared(self) -> bool:
        """Tell whether the paper prints a value of a column, but for the first."""
        names = [column.name for column in self.columns[1:]]
        return any(row.paper.get(name) is not None for row in self.rows for name in names)

    def parts(self) -> list[tuple[str | None, list[Row]]]:
        """Return rows by their section, in order; no heading is repeated."""
        parts: list[tuple[str | None, list[Row]]] = []
        for row in self.rows:
            # A row without a section belongs to the one above it.
            if not parts or (row.section is not None and row.section != parts[-1][0]):
                parts.append((row.section, []))
            parts[-1][1].append(row)
        return parts


def facts_table(id: str, caption: str, facts: Iterable[tuple[str, object]]) -> Table:
    """Make a table of names and values, such as settings; what is None is left out."""
    known = [(name, _shown(value)) for name, value in facts if value is not None]
    return Table.from_rows(id, caption, ["name", "value"], known)


def _shown(value: object) -> str:
    """Return a value as text: lists without brackets, what is nested as JSON."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return number(value, None)


# --- figures ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """An axis; ``names`` are those of the positions 0, 1, 2, ..., where it has no numbers."""

    label: str
    log: bool = False
    format: str | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_format(self.format)


@dataclass(frozen=True)
class Series:
    """Points of a figure that belong together.

    There are as many ``x`` as ``y``, which is None where there is no value, and as many ``labels``
    (names of points, such as cuts) and ``std`` (standard deviations of y), where there are any.
    ``marks`` are the positions of the points that get a mark on the line, None for all. Points are
    ``joined`` by a line or not; None leaves that to the kind of the figure. The first series whose
    name begins with one of :data:`vinets.report.figures.OUR_NAMES` stands out.
    """

    name: str
    x: tuple[Number, ...]
    y: tuple[Number | None, ...]
    labels: tuple[str, ...] = ()
    std: tuple[Number | None, ...] | None = None
    dashed: bool = False
    marks: tuple[int, ...] | None = None
    joined: bool | None = None

    def __post_init__(self) -> None:
        accepted = f"a list of {len(self.x)} entries, as many as x"
        for name, values in (("y", self.y), ("labels", self.labels or self.x), ("std", self.std)):
            if values is not None:
                _require(len(values) == len(self.x), name, accepted, len(values))


@dataclass(frozen=True)
class ReferenceLine:
    """A value to compare with: a dashed horizontal line."""

    name: str
    y: Number


@dataclass(frozen=True)
class Figure:
    """Series over a pair of axes; ``kind`` is "lines" or "scatter", ``caption`` stands below."""

    id: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    kind: str = "lines"
    levels: tuple[ReferenceLine, ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        _check_identifier("id", self.id)
        _require(self.kind in ("lines", "scatter"), "kind", "'lines' or 'scatter'", self.kind)


@dataclass(frozen=True)
class Drawing:
    """A picture by matplotlib that is no series chart; ``draw`` draws on the axes it is given.

    ``alt`` says what it shows to those who cannot see it, ``caption`` stands below it, ``size`` is
    its width and height in inches.
    """

    id: str
    alt: str
    caption: str
    draw: Callable[[Axes], object]
    size: tuple[float, float] = (5.6, 3.8)

    def __post_init__(self) -> None:
        _check_identifier("id", self.id)


# --- text and pages ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Notice:
    """A sentence that nobody may miss; ``kind`` is "good" or "bad" where it is a verdict."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Large numbers side by side: what each is, the number, a remark."""

    facts: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Code:
    """Lines as they are."""

    text: str


@dataclass(frozen=True)
class Beside:
    """Blocks side by side, where there is room."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Details:
    """Blocks that a reader opens to see."""

    title: str
    blocks: tuple[Block, ...]


Block: TypeAlias = (
    str | Notice | Table | Figure | Drawing | Bullets | Facts | Code | Beside | Details
)
"""What a page is made of; text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; the ``id`` puts it into the contents of the page."""

    title: str
    blocks: tuple[Block, ...]
    id: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Page:
    """A whole report; ``lead`` stands before the first section."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
    footer: str = ""

    def holds(self, *kinds: type) -> bool:
        """Tell whether it holds a block of one of these kinds, or one inside of another block."""
        waiting = [*self.lead, *(block for section in self.sections for block in section.blocks)]
        while waiting:
            block = waiting.pop()
            if isinstance(block, kinds):
                return True
            waiting += getattr(block, "blocks", ())
        return False


# --- results of experiments -------------------------------------------------------------------


@dataclass(frozen=True)
class ExperimentResult:
    """What an experiment found, and how it was run; one JSON file holds one.

    ``experiment`` is its name, ``order`` its place among the others, ``paper`` where the paper has
    it, such as "Table 2". ``text`` are paragraphs, ``notes`` remarks, such as what differs from the
    paper. ``seeds`` are those that were averaged over, ``settings`` what else decides the outcome.
    ``machines`` are all of them, where its trials ran on several. ``quick`` is the sentence that
    says so, where it was a quick run, and ``missing`` how many trials are still to be done.
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
    machine: Mapping[str, object] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    seconds: float | None = None
    machines: tuple[Mapping[str, object], ...] = ()
    quick: str = ""
    missing: int = 0

    def __post_init__(self) -> None:
        _check_identifier("experiment", self.experiment)
        for name in ("tables", "figures"):
            _check_unique(name, "id", [part.id for part in getattr(self, name)])


def _check_format(spec: str | None) -> None:
    accepted = "a format such as '.2f', ',' or '.1%', or null for text"
    _require(spec is None or FORMAT.fullmatch(spec), "format", accepted, spec)


def _check_identifier(name: str, value: str) -> None:
    accepted = "letters and digits, with hyphens, dots or underscores between them"
    _require(IDENTIFIER.fullmatch(value), name, accepted, value)


def _check_unique(name: str, what: str, values: list[str]) -> None:
    accepted = f"a list in which every {what} occurs once"
    _require(len(set(values)) == len(values), name, accepted, values)


def _require(holds: object, name: str, accepted: str, got: Any) -> None:
    if not holds:
        text = repr(got)
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise ValueError(f"'{name}' must be {accepted}. Got {shown} instead.")
