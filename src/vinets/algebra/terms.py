"""Monomials ("terms") as rows of sorted variable indices, grouped by degree, and their borders.

The term :math:`x_0^2 x_3` is the row ``(0, 0, 3)``. A set of terms of mixed degrees is a tuple of
integer arrays, the array of degree ``d`` having shape ``(count_d, d)``. Exponent vectors, which
most people think in, are derived from this: with 128 variables and degree 3 they are forty times
larger, and a border of a million terms would not fit into memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.core.checks import parameter_error

Index = NDArray[np.int64]

OPERATORS = frozenset("+-*/^")
MOST_VARIABLES = 2**20  # variables in a file, where one number makes tables of this length
BORDERS = ("groebner", "full")
MAX_DEGREE_TERMS = 1 << 32  # more than a level ever holds, so that numbers of children differ


@dataclass(frozen=True, eq=False)
class TermSet:
    """An ordered set of monomials in ``n_variables``, lowest degree first.

    ``blocks[d]`` has shape ``(count_d, d)``: the terms of degree ``d``, each a row of
    non-decreasing variable indices.
    """

    n_variables: int
    blocks: tuple[Index, ...]

    def __post_init__(self) -> None:
        for d, block in enumerate(self.blocks):
            if block.ndim != 2 or block.shape[1] != d:
                raise ValueError(f"blocks[{d}] must have shape (count, {d}). Got {block.shape}.")

    @classmethod
    def of_blocks(cls, n_variables: int, blocks: Sequence[Index]) -> TermSet:
        """Build from blocks, without the empty ones at the end."""
        kept = list(blocks)
        while len(kept) > 1 and len(kept[-1]) == 0:
            kept.pop()
        return cls(n_variables, tuple(kept))

    @classmethod
    def from_exponents(cls, exponents: NDArray[np.integer] | Sequence[Sequence[int]]) -> TermSet:
        """Build from exponent vectors of shape (count, n), sorted by degree.

        Examples
        --------
        >>> TermSet.from_exponents([[0, 0], [1, 0], [1, 1]]).names()
        ['1', 'x0', 'x0*x1']
        """
        table = np.asarray(exponents)
        degrees = table.sum(axis=-1)
        is_table = table.ndim == 2 and table.shape[1] > 0 and not (table < 0).any()
        if not is_table or (np.diff(degrees) < 0).any():
            accepted = "non-negative integers of shape (count, n_variables), by increasing sums"
            raise parameter_error("TermSet", "exponents", accepted, table.tolist())
        n = table.shape[1]
        blocks = []
        for degree in range(int(degrees.max(initial=0)) + 1):
            rows = table[degrees == degree]
            flat = np.repeat(np.tile(np.arange(n), len(rows)), rows.ravel())
            blocks.append(flat.reshape(len(rows), degree).astype(np.int64))
        return cls(n, tuple(blocks))

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @cached_property
    def degrees(self) -> Index:
        """Degree of every term, shape (len,)."""
        counts = [len(block) for block in self.blocks]
        return np.repeat(np.arange(len(counts)), counts)

    def exponents(self) -> NDArray[np.int16]:
        """Return the exponent vectors, shape (len, n_variables)."""
        table = np.zeros((len(self), self.n_variables), dtype=np.int16)
        start = 0
        for block in self.blocks:
            rows = np.arange(start, start + len(block))
            for column in block.T:
                # a row names each variable at most once per column, so += counts multiplicity
                table[rows, column] += 1
            start += len(block)
        return table

    def select(self, index: NDArray[np.integer] | NDArray[np.bool_]) -> TermSet:
        """Return the sub-set of the given positions (increasing) or boolean mask."""
        positions = np.flatnonzero(index) if index.dtype == np.bool_ else np.asarray(index)
        if (np.diff(positions) <= 0).any():
            raise ValueError("index must be strictly increasing, so that degrees stay sorted.")
        blocks, start = [], 0
        for block in self.blocks:
            # positions count through all blocks, rows within one
            inside = (positions >= start) & (positions < start + len(block))
            blocks.append(block[positions[inside] - start])
            start += len(block)
        return TermSet.of_blocks(self.n_variables, blocks)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return the blocks as named tensors, for storage."""
        return {f"{prefix}.{d}": torch.from_numpy(b) for d, b in enumerate(self.blocks)}

    @classmethod
    def from_tensors(cls, n_variables: int, prefix: str, tensors: dict[str, Tensor]) -> TermSet:
        """Rebuild from :meth:`tensors`, refusing anything that is not a set of terms."""
        if not isinstance(n_variables, int) or not 1 <= n_variables <= MOST_VARIABLES:
            raise ValueError(f"terms must have 1 to {MOST_VARIABLES:,} variables.")
        blocks: list[Index] = []
        while (block := tensors.get(name := f"{prefix}.{len(blocks)}")) is not None:
            if block.dtype != torch.int64 or block.ndim != 2 or block.shape[1] != len(blocks):
                raise ValueError(f"{name} must be an int64 table of that width.")
            rows = block.numpy()
            outside = (rows < 0).any() or (rows >= n_variables).any()
            if outside or (np.diff(rows, axis=1) < 0).any():
                raise ValueError(f"{name} must hold sorted variable indices below {n_variables}.")
            blocks.append(rows)
        return cls(n_variables, tuple(blocks))

    def names(self, variables: Sequence[str] | None = None) -> list[str]:
        """Return readable names such as ``x0^2*x3``."""
        labels = variables or [f"x{i}" for i in range(self.n_variables)]
        return [term_name(row, labels) for block in self.blocks for row in block]


def term_name(row: Iterable[int], labels: Sequence[str]) -> str:
    """Name one term that is given as variable indices.

    Labels that look like formulas are put into brackets.

    Examples
    --------
    >>> term_name([0, 0, 2], ["x", "y", "z"])
    'x^2*z'
    >>> term_name([0, 1, 1], ["length", "width^2"])
    'length*(width^2)^2'
    """
    variables, powers = np.unique(np.asarray(list(row), dtype=np.int64), return_counts=True)
    parts = []
    for variable, power in zip(variables, powers, strict=True):
        label = labels[variable]
        name = f"({label})" if OPERATORS.intersection(label) else label
        parts.append(name if power == 1 else f"{name}^{power}")
    return "*".join(parts) if parts else "1"


def latex_name(row: Iterable[int], labels: Sequence[str]) -> str:
    r"""Name one term in LaTeX: a trailing number is an index, longer names stand upright.

    Examples
    --------
    >>> latex_name([0, 0, 1], ["x0", "width_mm"])
    'x_{0}^{2} \\mathrm{width\\_mm}'
    """
    variables, powers = np.unique(np.asarray(list(row), dtype=np.int64), return_counts=True)
    parts = []
    for variable, power in zip(variables, powers, strict=True):
        name = labels[variable].rstrip("0123456789")
        index, name = labels[variable][len(name) :], name.rstrip("_") or "x"
        shown = re.sub(r"([_%$#&{}])", r"\\\1", name)
        shown = shown if len(name) == 1 else rf"\mathrm{{{shown}}}"
        shown += f"_{{{index}}}" if index else ""
        parts.append(f"{shown}^{{{power}}}" if power > 1 else shown)
    return " ".join(parts) if parts else "1"


def locate_rows(rows: Index, table: Index, base: int) -> Index:
    """Find the position in ``table`` of every row of ``rows``, or -1 where there is none."""
    if len(table) == 0 or len(rows) == 0:
        return np.full(len(rows), -1, dtype=np.int64)
    # Equal rows get equal codes. They are ranked again after every column, so that they stay below
    # the number of rows times the base: no overflow at high degree.
    codes = np.zeros(len(rows) + len(table), dtype=np.int64)
    for column in np.concatenate([rows, table]).T:
        _, codes = np.unique(codes * base + column, return_inverse=True)
    wanted, known = codes[: len(rows)], codes[len(rows) :]
    # codes are ranks, so that a table over all of them is no longer than both inputs
    position = np.full(max(int(wanted.max()), int(known.max())) + 1, -1, dtype=np.int64)
    position[known] = np.arange(len(table))
    found: Index = position[wanted]
    return found


@dataclass(frozen=True, eq=False)
class Level:
    """Terms of one degree ``d``, in term order, tied to the terms of degree ``d - 1``.

    Term ``i`` is term ``parent[i]`` of the level below times variable ``variable[i]``, and
    ``divisors[i, j]`` is the position there of term ``i`` without its ``j``-th factor.
    """

    rows: Index  # (count, d) variable indices, non-decreasing along a row
    parent: Index  # (count,)
    variable: Index  # (count,)
    divisors: Index | None  # (count, d); None on full borders, where divisors may be missing

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, keep: Index) -> Level:
        """Return the terms at the given positions, which increase."""
        if len(keep) == len(self):
            return self
        divisors = None if self.divisors is None else self.divisors.take(keep, axis=0)
        rows = self.rows.take(keep, axis=0)
        return Level(rows, self.parent.take(keep), self.variable.take(keep), divisors)


def first_border(n_variables: int) -> Level:
    """Return the variables: the border of degree 1 of O = {1}."""
    variables = np.arange(n_variables)
    zeros = np.zeros(n_variables, dtype=np.int64)
    return Level(variables[:, None], zeros, variables, zeros[:, None])


def next_border(level: Level, n_variables: int, kind: str) -> Level:
    r"""List the border one degree above ``level``, the accepted terms of the current degree.

    With the terms :math:`O` accepted so far, there are two kinds of border of degree :math:`d`:

    ``groebner``
        terms of degree :math:`d` *all* of whose proper divisors lie in :math:`O`. Leading terms
        found on it are the corners of the complement of :math:`O`, as in a Gröbner basis, and
        :math:`O` is always closed under division.
    ``full``
        :math:`\{x_i t : t \in O_{d-1}\}`, as in a border basis. Off the exact case a term may fail
        to vanish although one of its divisors does; it then joins :math:`O`, which is no longer
        closed.

    Terms are ordered degree first, then :math:`x_0 < x_1 < \dots`: the exponent of the *last*
    variable is compared first. Other orders are permutations of the variables, done by the caller.
    """
    if kind == "groebner":
        return _groebner_border(level, n_variables)
    parent = np.repeat(np.arange(len(level)), n_variables)
    variable = np.tile(np.arange(n_variables), len(level))
    rows = np.sort(np.concatenate([level.rows[parent], variable[:, None]], axis=1), axis=1)
    order = np.lexsort(rows.T)  # the last column, the largest factor, is the primary key
    rows = rows[order]
    # One term may come from several parents. They stand together now; the first stays.
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return Level(rows[fresh], parent[order][fresh], variable[order][fresh], None)


def _groebner_border(level: Level, n_variables: int) -> Level:
    """List children by a variable not below the parent's largest, if every divisor is known.

    Each term arises once, from the parent without its largest factor. Because ``level`` is in term
    order its largest factors are non-decreasing, so the parents that variable ``i`` may extend are
    a prefix, and listing them variable by variable yields term order without sorting.
    """
    assert level.divisors is not None
    variables = np.arange(n_variables)
    eligible = level.variable.searchsorted(variables, side="right")
    variable = variables.repeat(eligible)
    parent = np.arange(len(variable)) - (eligible.cumsum() - eligible).repeat(eligible)

    # t/x_j for t = parent * variable is the child of (parent/x_j) by the same variable, and these
    # numbers of children increase along a level
    numbers = level.variable * MAX_DEGREE_TERMS + level.parent
    columns: list[Index] = []
    for divisor in level.divisors.T:
        # candidates thin out from one divisor to the next, and what is known of them with them
        wanted = variable * MAX_DEGREE_TERMS + divisor.take(parent)
        place = numbers.searchsorted(wanted)
        known = numbers.take(place, mode="clip") == wanted
        if not known.all():
            parent, variable, place = parent[known], variable[known], place[known]
            columns = [column[known] for column in columns]
        columns.append(place)
    columns.append(parent)  # the term without its largest factor, which was appended last
    rows = np.concatenate([level.rows.take(parent, axis=0), variable[:, None]], axis=1)
    return Level(rows, parent, variable, np.array(columns).T)
