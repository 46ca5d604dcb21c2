r"""Polynomials given by the products and projections that made them, as VCA builds them.

Level :math:`t` starts from the products of the polynomials kept at level :math:`t-1` with the
linear ones, subtracts their projection on everything kept below, and rotates the result: some of
the rotated polynomials are kept for the next level, some vanish and are the generators. Expanded
into monomials they would be dense; evaluated level by level they are a few matrix products.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.polynomial import Polynomials
from vinets.algebra.polynomials import DEFAULT_MEMORY, PolynomialSet, for_arrays
from vinets.algebra.terms import MOST_VARIABLES, Index, TermSet, locate_rows
from vinets.core.checks import counted, rows_within
from vinets.core.tensors import read_tensors, write_tensors

EXPAND_LIMIT = 50_000  # monomials; a polynomial has a dense row of coefficients over them
CHUNK_BYTES = 128 << 20  # values that are worked on at once


@dataclass(frozen=True, eq=False)
class CompositionLevel:
    """One level: ``(products - kept @ projection) @ rotation``.

    Candidates are products of ``left`` among the polynomials kept one level below and ``right``
    among the linear ones; at level 1 candidate ``i`` is variable ``right[i]``, and ``left`` is 0.
    """

    left: Tensor  # (c,)
    right: Tensor  # (c,)
    projection: Tensor  # (f, c) onto all polynomials kept below
    keep: Tensor  # (c, k) rotation to the polynomials kept
    vanish: Tensor  # (c, v) rotation to the generators

    def to(self, like: Tensor) -> CompositionLevel:
        """Move to the device of ``like``, matrices to its precision."""
        tables = (getattr(self, name) for name in LEVEL_FIELDS)
        return CompositionLevel(
            *(t.to(like) if t.is_floating_point() else t.to(like.device) for t in tables)
        )


LEVEL_FIELDS = tuple(CompositionLevel.__dataclass_fields__)


class KeptValues:
    """Values of the kept polynomials on points (m, n), which grow level by level."""

    def __init__(self, points: Tensor) -> None:
        self.points = points
        self.kept = torch.ones(len(points), 1, dtype=points.dtype, device=points.device)  # (m, f)
        # level 1 starts from the products of the variables with the constant
        self.newest, self.linear = self.kept, points

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the candidates of the next level."""
        return self.newest[:, left] * self.linear[:, right]

    def remainder(self, level: CompositionLevel) -> Tensor:
        """Return what the projection on everything kept leaves of the candidates of ``level``."""
        return self.products(level.left, level.right) - self.kept @ level.projection

    def split(self, rows: int) -> Iterator[KeptValues]:
        """Give the same for so many points at a time."""
        for start in range(0, len(self.points), rows):
            part, some = copy.copy(self), slice(start, start + rows)
            part.points, part.kept = self.points[some], self.kept[some]
            part.newest, part.linear = self.newest[some], self.linear[some]
            yield part

    def keep(self, values: Tensor) -> None:
        """Go up one level, at which polynomials with these values were kept."""
        self.newest = values
        self.linear = values if self.linear is self.points else self.linear
        self.kept = torch.cat([self.kept, values], dim=1)


@dataclass(frozen=True, eq=False)
class CompositionSet(Polynomials):
    """Generators found by VCA; a sequence of polynomials, like :class:`PolynomialSet`."""

    n_variables: int
    levels: tuple[CompositionLevel, ...]
    memory_limit: int = DEFAULT_MEMORY
    variables: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(level.vanish.shape[1] for level in self.levels)

    @property
    def degrees(self) -> Index:
        """Degree of the level that produced each generator."""
        counts = [level.vanish.shape[1] for level in self.levels]
        return np.repeat(np.arange(1, len(counts) + 1), counts)

    @for_arrays
    def evaluate(self, points: Tensor) -> Tensor:
        """Return values at ``points`` (m, n) as (m, N): numpy for numpy, torch for torch."""
        # products, remainder, kept and vanishing values of a level all live at once
        width = sum(level.left.shape[0] * 4 for level in self.levels) + 2 * self.n_variables
        chunk = rows_within(min(self.memory_limit, CHUNK_BYTES), 8 * width)
        parts = []
        for part in points.split(chunk):
            here, values = KeptValues(part.double()), [part[:, :0].double()]
            for level in (level.to(here.points) for level in self.levels):
                remainder = here.remainder(level)
                values.append(remainder @ level.vanish)
                here.keep(remainder @ level.keep)
            parts.append(torch.cat(values, dim=1))
        return torch.cat(parts)

    def gradient(self, points: Any) -> Any:
        """Return derivatives at ``points`` (m, n) as (m, N, n), by the expanded polynomials."""
        return self.expanded.gradient(points)

    @cached_property
    def expanded(self) -> PolynomialSet:
        """The same polynomials over monomials; refused where those are too many."""
        terms, shifts = _all_terms(self.n_variables, len(self.levels))
        dtype = self.levels[0].vanish.dtype if self.levels else torch.float64
        kept = torch.zeros(1, len(terms), dtype=dtype)
        kept[0, 0] = 1.0
        newest, found = kept, []
        linear = torch.eye(self.n_variables + 1, dtype=dtype)[1:]  # the variables, at first
        for t, level in enumerate(level.to(kept) for level in self.levels):
            by = linear[level.right]
            remainder = _multiply(newest[level.left], by, shifts) - level.projection.mT @ kept
            found.append(level.vanish.mT @ remainder)
            newest = level.keep.mT @ remainder
            linear = newest[:, : self.n_variables + 1] if t == 0 else linear
            kept = torch.cat([kept, newest])
        table = torch.cat(found)
        made = _as_polynomials(terms, table, self.degrees, self.memory_limit)
        return made.named(self.variables) if self.variables else made

    def unscaled(self, scaler: Any) -> PolynomialSet:
        """Return the same polynomials in the variables before a scaling."""
        return self.expanded.unscaled(scaler)

    def compact(self) -> PolynomialSet:
        """Return the expanded polynomials without the monomials that none of them uses."""
        return self.expanded.compact()

    @property
    def sparsity(self) -> float:
        """Share of exact zeros among the expanded coefficients."""
        return self.expanded.sparsity

    def strings(self, variables: Sequence[str] | None = None, digits: int = 3) -> list[str]:
        """Write the polynomials out; as numbered names where the expansion would be too long."""
        try:
            return self.expanded.strings(variables, digits)
        except ValueError:
            # more monomials than EXPAND_LIMIT are too many to read
            return [f"degree {d} polynomial {i}" for i, d in enumerate(self.degrees.tolist())]

    def save(self, path: str | Path) -> None:
        """Write to one safetensors file."""
        tensors = {f"{t}.{n}": x for t, one in enumerate(self.levels) for n, x in vars(one).items()}
        facts: dict[str, Any] = {"n_variables": self.n_variables, "levels": len(self.levels)}
        if self.variables:
            facts["variables"] = list(self.variables)
        write_tensors(path, "compositions", tensors, facts)

    @classmethod
    def load(cls, path: str | Path) -> CompositionSet:
        """Read what :meth:`save` wrote; other files are refused."""
        tensors, facts = read_tensors(path, "compositions")
        n, count = facts.get("n_variables"), facts.get("levels")
        incomplete = ValueError(f"{path} is not a complete set of compositions.")
        if not isinstance(n, int) or not isinstance(count, int):
            raise incomplete
        if not 1 <= n <= MOST_VARIABLES or not 0 <= count <= len(tensors):
            raise incomplete
        rows = [[f"{t}.{name}" for name in LEVEL_FIELDS] for t in range(count)]
        if {name for row in rows for name in row} != tensors.keys():
            raise incomplete
        levels = tuple(CompositionLevel(*(tensors[name] for name in row)) for row in rows)
        if not _consistent(n, levels):
            raise ValueError(f"{path} holds compositions whose tables do not fit together.")
        try:
            return cls(n, levels).named_by(facts)
        except ValueError as error:
            raise ValueError(f"{path} is not a complete set of compositions: {error}") from None

    def __str__(self) -> str:
        return str(self.expanded)

    def __repr__(self) -> str:
        return (
            f"CompositionSet({counted(len(self), 'polynomial')} in "
            f"{counted(self.n_variables, 'variable')}, {counted(len(self.levels), 'level')})"
        )


def _consistent(n_variables: int, levels: tuple[CompositionLevel, ...]) -> bool:
    """Tell whether shapes and indices of stored levels fit together."""
    # numbers of polynomials that a level may refer to, as KeptValues holds them
    linear, newest, kept = n_variables, 1, 1
    for t, level in enumerate(levels):
        c = len(level.right)
        shapes_fit = (
            tuple(level.projection.shape) == (kept, c)
            and level.left.shape == level.right.shape
            and level.keep.ndim == level.vanish.ndim == 2
            and len(level.keep) == len(level.vanish) == c
            and all(t.is_floating_point() for t in (level.projection, level.keep, level.vanish))
            and level.left.dtype == level.right.dtype == torch.int64
            and level.right.ndim == 1
        )
        if not shapes_fit:
            return False
        for index, bound in ((level.left, newest), (level.right, linear)):
            if bool(((index < 0) | (index >= bound)).any()):
                return False
        newest = level.keep.shape[1]
        linear = newest if t == 0 else linear
        kept += newest
    return True


def _all_terms(n: int, degree: int) -> tuple[TermSet, Tensor]:
    """List all terms up to a degree, and where each goes if multiplied by a variable (or -1)."""
    blocks = []
    for d in range(degree + 1):
        rows = list(combinations_with_replacement(range(n), d))
        blocks.append(np.array(rows, dtype=np.int64).reshape(len(rows), d))
        if sum(len(b) for b in blocks) > EXPAND_LIMIT:
            raise ValueError(
                f"expanding polynomials of degree {degree} in {n} variables needs more than "
                f"{EXPAND_LIMIT} monomials. Evaluate them without expanding instead."
            )
    starts = np.cumsum([0] + [len(b) for b in blocks])
    shifts = np.full((n, starts[-1]), -1, dtype=np.int64)
    for d in range(degree):
        for v in range(n):
            product = np.sort(np.insert(blocks[d], d, v, axis=1), axis=1)
            places = starts[d + 1] + locate_rows(product, blocks[d + 1], n)
            shifts[v, starts[d] : starts[d + 1]] = places
    return TermSet(n, tuple(blocks)), torch.from_numpy(shifts)


def _multiply(factors: Tensor, by: Tensor, shifts: Tensor) -> Tensor:
    """Multiply polynomials (c, S) by linear ones (c, 1 + n), over the same terms."""
    out = factors * by[:, :1]
    for v, shift in enumerate(shifts):
        inside = shift >= 0  # terms of the top degree go nowhere, and have the coefficient 0
        out[:, shift[inside]] += by[:, v + 1 : v + 2] * factors[:, inside]
    return out


def _as_polynomials(
    terms: TermSet, table: Tensor, degrees: Index, memory_limit: int
) -> PolynomialSet:
    """Make a set of coefficient rows (N, S), led by their largest coefficient of top degree."""
    starts = np.cumsum([0] + [len(block) for block in terms.blocks])
    tail, blocks, leads = table.clone(), [terms.blocks[0][:0]], []
    for degree in range(1, len(terms.blocks)):
        rows = torch.from_numpy(np.flatnonzero(degrees == degree))
        top = table[rows, starts[degree] : starts[degree + 1]].abs().argmax(1)
        column = top + int(starts[degree])
        leads.append(table[rows, column])
        tail[rows, column] = 0.0
        blocks.append(terms.blocks[degree][top.numpy()])
    leading = TermSet(terms.n_variables, tuple(blocks))
    return PolynomialSet(terms, leading, tail, torch.cat(leads), memory_limit)
