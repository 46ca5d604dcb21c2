r"""Triangular factors that grow by a row per accepted term, for many point sets at once.

With :math:`M = O(Z)/\sqrt m` stored by rows (one row a term), both factorisations keep a lower
triangular :math:`L` whose leading blocks belong to the prefixes of :math:`O`, because :math:`O`
only grows at its end. A candidate :math:`u` is represented by its coordinates :math:`w` in that
factor and a *gap*; it joins :math:`O` exactly when the gap exceeds its threshold, and it vanishes
otherwise. The two factorisations differ in how they obtain :math:`w` and the gap:

:class:`~vinets.algebra.gram.GramFactor`
    Cholesky factor of :math:`MM^\top - sI`: matrix products only.
:class:`~vinets.algebra.orthogonal.OrthogonalFactor`
    orthonormal rows spanning those of :math:`M`: the condition number is not squared.

Shapes: ``K`` point sets, ``m`` points (rows of zeros pad smaller sets), ``b`` candidates,
``o`` accepted terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

FIRST_CAPACITY = 32  # terms that a new factor has room for
HALF_PRECISION = (torch.float16, torch.bfloat16)


@dataclass
class Candidates:
    """A block of candidates being decided against a factor; grows along with it."""

    values: Tensor  # (K, b, m) evaluations / sqrt(m)
    square: Tensor  # (K, b) squared norms of the values
    coordinates: Tensor  # (K, b, o) in the triangular factor
    gap: Tensor  # (K, b) joins O where gap > threshold
    threshold: Tensor  # (K, b)
    undecided: Tensor  # (K, b) bool: still above the threshold, not yet taken
    accepted: Tensor  # (K, b) bool
    residual: Tensor | None = None  # (K, b, m) parts outside the span, on the orthogonal path


class GrowingFactor(ABC):
    """Accepted terms of ``K`` point sets and the triangular factor over them.

    ``constant`` (K, m) is the evaluation of the term 1 over ``sqrt(m)``, zero on padded points, and
    ``unit`` selects the rule.
    """

    work_dtype = torch.float64  # everything but the stored rows has it
    # Names of the arrays that grow with the terms. Places that are not in use yet are inert, so
    # that sets of different sizes share one array: rows of zeros, and rows of the identity.
    tables: ClassVar[tuple[str, ...]] = ("rows",)
    triangles: ClassVar[tuple[str, ...]] = ("lower",)

    def __init__(self, constant: Tensor, *, psi: float, unit: bool) -> None:
        self.psi, self.unit = psi, unit
        self.shift = psi if unit else 0.0
        n_sets, n_points = constant.shape
        # the constant is accepted unasked: for psi < 1 it does not vanish
        self.counts = [1] * n_sets
        self.rows = constant.new_zeros(n_sets, FIRST_CAPACITY, n_points)  # (K, capacity, m)
        self.rows[:, 0] = constant
        eye = torch.eye(FIRST_CAPACITY, dtype=self.work_dtype, device=constant.device)
        self.lower = eye.repeat(n_sets, 1, 1)  # (K, capacity, capacity)
        self.active = self.lower.new_ones(n_sets, FIRST_CAPACITY)  # 0 for terms kept out of it

    def inner(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the inner products (..., b, c) of evaluations (..., b, m) and (..., c, m)."""
        return inner(left, right).to(self.work_dtype)

    def rotation(self, k: int, count: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the first terms of a set in an orthonormal basis of theirs, and a function.

        They are (d, count). The function turns the evaluations of another term into that basis,
        (d + 1,), where the last number is the norm of what lies outside. Angles do not change.
        """
        basis, columns = torch.linalg.qr(self.rows[k, :count].to(self.work_dtype).mT)

        def turn(values: Tensor) -> Tensor:
            along = values.to(basis) @ basis
            rest = torch.linalg.vector_norm(values.to(basis) - basis @ along)
            return torch.cat([along, rest[None]])

        return columns, turn

    @property
    def size(self) -> int:
        """Largest number of accepted terms over the point sets."""
        return max(self.counts)

    @abstractmethod
    def screen(self, values: Tensor, valid: Tensor) -> Candidates:
        """Compute coordinates and gaps of candidates against the terms accepted so far."""

    @abstractmethod
    def take_panel(self, block: Candidates, index: Tensor, chosen: Tensor) -> None:
        """Decide the candidates ``index`` (K, q) in order, and update the block behind them."""

    @abstractmethod
    def force(self, values: Tensor) -> None:
        """Accept one more term of a single point set, ``values`` (m,), whatever its gap.

        A term in the span of the others joins ``O`` but stays out of the factor.
        """

    def decide(self, values: Tensor, valid: Tensor, panel: int) -> Candidates:
        """Decide a block of candidates exactly as one after the other.

        Gaps only shrink as terms are accepted, so a candidate below its threshold is settled for
        good; only those still above it are taken, ``panel`` at a time, in order.
        """
        block = self.screen(values, valid)
        while True:  # a panel at a time, so that most of the work is in large matrix products
            index, chosen = first_true(block.undecided, panel)
            if not bool(chosen.any()):
                return block
            self.take_panel(block, index, chosen)

    def truncate(self, counts: list[int]) -> None:
        """Forget the terms accepted after the first ``counts[k]`` of every set."""
        eye = torch.eye(self.lower.shape[-1], dtype=self.work_dtype, device=self.lower.device)
        for k, count in enumerate(counts):
            for name in self.tables:
                getattr(self, name)[k, count:] = 0
            for name in self.triangles:
                getattr(self, name)[k, count:] = eye[count:]
            self.active[k, count:] = 1
            self.counts[k] = count

    def _reserve(self, extra: int) -> None:
        """Make room for ``extra`` more terms."""
        need, have = self.size + extra, self.lower.shape[-1]
        if need <= have:
            return
        capacity = max(need, 2 * have)  # doubled, so that copying costs O(1) a term
        for name in self.tables:
            setattr(self, name, pad(getattr(self, name), (0, 0, 0, capacity - have)))
        for name in self.triangles:
            grown = torch.eye(capacity, dtype=self.work_dtype, device=self.lower.device)
            grown = grown.repeat(len(self.counts), 1, 1)
            grown[:, :have, :have] = getattr(self, name)
            setattr(self, name, grown)
        self.active = pad(self.active, (0, capacity - have), value=1.0)

    def _append(self, block: Candidates, picked: list[list[int]], corner: Tensor) -> list[int]:
        """Add the picked candidates; ``corner[k]`` is their own triangle. Returns old counts.

        The block learns here who was accepted; :meth:`_extend` gives it the new coordinates.
        """
        before = list(self.counts)
        self._reserve(max(len(p) for p in picked))
        # sets have accepted different numbers of terms: their new rows begin in different places
        for k, positions in enumerate(picked):
            if not positions:
                continue
            start, stop = self.counts[k], self.counts[k] + len(positions)
            at = torch.as_tensor(positions, device=self.rows.device)
            self.rows[k, start:stop] = block.values[k].index_select(0, at)
            self.lower[k, start:stop, :start] = block.coordinates[k].index_select(0, at)[:, :start]
            self.lower[k, start:stop, start:stop] = corner[k, : len(at), : len(at)]
            block.accepted[k, at] = True
            self.counts[k] = stop
        return before

    def _append_dependent(self, values: Tensor) -> None:
        """Add a term that lies in the span of the accepted ones: no row in the factor."""
        self._reserve(1)
        at = self.counts[0]
        self.rows[0, at] = values
        self.active[0, at] = 0
        self.counts[0] = at + 1

    def _extend(self, block: Candidates, fresh: Tensor, before: list[int]) -> None:
        """Write the coordinates ``fresh`` (K, b, a) along the new terms into the block."""
        missing = self.size - block.coordinates.shape[-1]
        if missing > 0:
            block.coordinates = pad(block.coordinates, (0, missing))
        for k, start in enumerate(before):
            added = self.counts[k] - start
            if added:
                block.coordinates[k, :, start : start + added] = fresh[k, :, :added]


def inner(left: Tensor, right: Tensor) -> Tensor:
    """Compute ``left @ right^T``; half-precision rows are accumulated in float32."""
    if left.dtype in HALF_PRECISION:
        left, right = left.float(), right.float()
    if left.device.type == "cpu":  # this way round MKL is half as fast again on tall ``left``
        return (right @ left.mT).mT
    return left @ right.mT


def first_true(mask: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Find the first ``count`` true entries of each row, and which of them exist.

    Returns ``index`` (K, q) and ``chosen`` (K, q); entries that do not exist point at 0.
    """
    rank = mask.cumsum(-1)
    width = min(count, int(rank[:, -1].max())) if mask.shape[1] else 0
    slots = torch.arange(1, width + 1, device=mask.device).expand(mask.shape[0], width)
    # the i-th true entry is the first place whose rank is i: no sort, no loop over the rows
    index = torch.searchsorted(rank, slots.contiguous())
    chosen = index < mask.shape[1]
    return index * chosen, chosen


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Gather the rows ``index[k]`` (K, q) of ``table[k]`` (K, b, ·)."""
    return table.gather(1, index[:, :, None].expand(-1, -1, table.shape[-1]))


def scatter_mask(index: Tensor, flags: Tensor, width: int) -> Tensor:
    """Make a mask (K, width) true at ``index[k, j]`` where ``flags[k, j]``, even if repeated."""
    # int8, because scatter_reduce_ takes no bool; plain scatter lets padding overwrite a hit
    hits = torch.zeros(index.shape[0], width, dtype=torch.int8, device=index.device)
    return hits.scatter_reduce_(1, index, flags.to(torch.int8), reduce="amax").bool()
