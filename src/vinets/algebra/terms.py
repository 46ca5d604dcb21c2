"""Monomials ("terms") as rows of sorted variable indices, grouped by degree.

The term :math:`x_0^2 x_3` is the row ``(0, 0, 3)``. A set of terms of mixed degrees is a tuple of
integer arrays, the array of degree ``d`` having shape ``(count_d, d)``. Exponent vectors, which
most people think in, are derived from this: with 128 variables and degree 3 they are forty times
larger, and a border of a million terms would not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Index = NDArray[np.int64]

OPERATORS = frozenset("+-*/^")
MOST_VARIABLES = 2**20  # variables in a file, where one number makes tables of this length


@dataclass(frozen=True, eq=False)
class TermSet:
    """An ordered set of monomials, lowest degree first.

    Parameters
    ----------
    n_variables : int
        Number of variables of the polynomial ring.
    blocks : tuple of ndarray
        ``blocks[d]`` has shape ``(count_d, d)``: the terms of degree ``d``, each a row of
        non-decreasing variable indices.
    """

    n_variables: int
    blocks: tuple[Index, ...]

    def __post_init__(self) -> None:
        for degree, block in enumerate(self.blocks):
            if block.ndim != 2 or block.shape[1] != degree:
                raise ValueError(
                    f"blocks[{degree}] must have shape (count, {degree}). Got {block.shape}."
                )

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
        if table.ndim != 2 or table.shape[1] == 0 or (table < 0).any():
            raise ValueError(
                "exponents must be a non-negative integer array of shape (count, n_variables) "
                f"with at least one variable. Got shape {table.shape} instead."
            )
        degrees = table.sum(axis=1)
        if (np.diff(degrees) < 0).any():
            raise ValueError(
                "exponents must be sorted by degree, lowest first. Sort the rows by their sum."
            )
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
        while (block := tensors.get(f"{prefix}.{len(blocks)}")) is not None:
            if block.dtype != torch.int64 or block.ndim != 2 or block.shape[1] != len(blocks):
                raise ValueError(f"{prefix}.{len(blocks)} must be an int64 table of that width.")
            rows = block.numpy()
            outside = (rows < 0).any() or (rows >= n_variables).any()
            if outside or (np.diff(rows, axis=1) < 0).any():
                raise ValueError(
                    f"{prefix}.{len(blocks)} must hold sorted variable indices below {n_variables}."
                )
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


def row_codes(*tables: Index, base: int) -> list[Index]:
    """Give equal rows equal integers, across several tables of the same width.

    Rows are folded in column by column and the running code is re-ranked after each, so codes
    stay below ``total_rows * base`` whatever the width: no overflow at high degree.
    """
    stacked = np.concatenate(tables)
    codes = np.zeros(len(stacked), dtype=np.int64)
    for column in stacked.T:
        _, codes = np.unique(codes * base + column, return_inverse=True)
    return np.split(codes, np.cumsum([len(table) for table in tables])[:-1])


def locate_rows(rows: Index, table: Index, base: int) -> Index:
    """Find the position in ``table`` of every row of ``rows``, or -1 where there is none."""
    if len(table) == 0 or len(rows) == 0:
        return np.full(len(rows), -1, dtype=np.int64)
    wanted, known = row_codes(rows, table, base=base)
    # codes are ranks, so that a table over all of them is no longer than both inputs
    position = np.full(max(int(wanted.max()), int(known.max())) + 1, -1, dtype=np.int64)
    position[known] = np.arange(len(table))
    found: Index = position[wanted]
    return found
