r"""The Cholesky factor of a growing, shifted Gram matrix.

Let :math:`G = MM^\top` over the accepted terms. Two rules, one factor:

**unit** (shift :math:`\psi`, threshold 0). Every accepted prefix has
:math:`\lambda_{\min}(G) > \psi`, so :math:`G - \psi I = LL^\top` exists, and

.. math:: \lambda_{\min}\begin{pmatrix} G & b \\ b^\top & \beta\end{pmatrix} > \psi
          \iff \beta - \psi - \lVert L^{-1} b\rVert^2 > 0 .

**leading** (shift 0, threshold :math:`\psi`). The least-squares residual is
:math:`\beta - \lVert L^{-1} b\rVert^2`.

No eigenvalue and no least-squares problem is solved to decide.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs
from torch import Tensor

from vinets.algebra.growing import (
    HALF_PRECISION,
    Candidates,
    GrowingFactor,
    gather_rows,
    scatter_mask,
)
from vinets.algebra.terms import Index

Array: TypeAlias = NDArray[np.float64]

DEPENDENT_ROUNDINGS = 1e3  # a residual of fewer roundings of the term itself is none


class GramFactor(GrowingFactor):
    """Growing Cholesky factor of ``G - shift * I``; see the module's formulas."""

    def __init__(self, constant: Tensor, *, psi: float, unit: bool) -> None:
        super().__init__(constant, psi=psi, unit=unit)
        self.threshold = 0.0 if unit else psi
        one = constant[:, None]
        self.lower[:, 0, 0] = (self.inner(one, one)[:, 0, 0] - self.shift).sqrt()

    def screen(self, values: Tensor, valid: Tensor) -> Candidates:
        o = self.size
        products = self.inner(values, self.rows[:, :o])  # (K, b, o)
        products *= self.active[:, None, :o]  # terms outside the factor get no coordinate
        coordinates = torch.linalg.solve_triangular(
            self.lower[:, :o, :o].mT, products, upper=True, left=False
        )
        square = self.squares(values)
        gap = square - self.shift - coordinates.square().sum(-1)
        threshold = torch.full_like(gap, self.threshold)
        undecided = valid & (gap > threshold)
        return Candidates(
            values, square, coordinates, gap, threshold, undecided, torch.zeros_like(valid)
        )

    def squares(self, values: Tensor) -> Tensor:
        """Return the squared norms (K, b) of evaluations (K, b, m)."""
        wide = values.float() if values.dtype in HALF_PRECISION else values
        return torch.linalg.vector_norm(wide, dim=-1).square().to(self.work_dtype)

    def take_panel(self, block: Candidates, index: Tensor, chosen: Tensor) -> None:
        if len(index) == 1 and index.device.type == "cpu" and self.rows.dtype == self.work_dtype:
            return self._take_alone(block, index[0, chosen[0]].numpy())
        values = gather_rows(block.values, index)
        coordinates = gather_rows(block.coordinates, index)
        # the Schur complement of the panel: its Gram matrix, less what lies in the span of O
        schur = self.inner(values, values) - coordinates @ coordinates.mT
        schur.diagonal(dim1=1, dim2=2).sub_(self.shift)
        order, columns = _eliminate(schur, chosen, self.threshold)
        block.undecided &= ~scatter_mask(index, chosen, block.undecided.shape[1])

        steps = columns.shape[-1]
        if steps == 0:
            return
        kept = order >= 0  # (K, steps): set k accepted order[k, t] at its step t
        at = order.clamp(min=0)
        corner = gather_rows(columns, at).tril()
        eye = torch.eye(steps, dtype=corner.dtype, device=corner.device)
        # sets that accepted fewer are padded by the identity, which solves to what it is given
        corner = torch.where((kept[:, :, None] & kept[:, None, :]), corner, eye)
        positions = index.gather(1, at)
        picked = [p[k].tolist() for p, k in zip(positions.cpu(), kept.cpu(), strict=True)]
        before = self._append(block, picked, corner)

        # everyone else's coordinates along the new terms: one product, one small triangle
        mask = kept[:, :, None].to(self.work_dtype)
        cross = self.inner(block.values, gather_rows(values, at))
        cross -= block.coordinates @ gather_rows(coordinates, at).mT
        fresh = torch.linalg.solve_triangular(corner.mT, cross * mask.mT, upper=True, left=False)
        self._extend(block, fresh, before)
        block.gap -= fresh.square().sum(-1)
        block.undecided &= block.gap > block.threshold

    def _take_alone(self, block: Candidates, index: Index) -> None:
        """Take the panel of one set on a CPU, where to start a step of torch costs more than it."""
        coordinates = block.coordinates[0].numpy()
        # a copy: values lie in memory that others resize, which an array over it would forbid
        panel = block.values[0].index_select(0, torch.from_numpy(index)).numpy()
        known = coordinates[index]
        schur = panel @ panel.T - known @ known.T
        schur.flat[:: len(schur) + 1] -= self.shift
        order, columns = pivots_of(schur, self.threshold)
        block.undecided[0, torch.from_numpy(index)] = False
        if len(order) == 0:
            return
        corner = columns[order]
        cross = (torch.from_numpy(panel[order]) @ block.values[0].mT).numpy()
        cross -= known[order] @ coordinates.T
        fresh = dtrtrs(corner, cross, lower=1)[0].T
        before = self._append(block, [index[order].tolist()], torch.from_numpy(corner)[None])
        self._extend(block, torch.from_numpy(fresh)[None], before)
        gap = block.gap[0].numpy()
        gap -= np.einsum("bi,bi->b", fresh, fresh)
        undecided = block.undecided[0].numpy()
        undecided &= gap > self.threshold

    def force(self, values: Tensor) -> None:
        one = torch.ones(1, 1, dtype=torch.bool, device=values.device)
        block = self.screen(values[None, None], one)
        # a pivot of rounding noise would make every later coordinate noise as well
        eps = torch.finfo(self.work_dtype).eps
        noise = DEPENDENT_ROUNDINGS * eps * float(block.square) * self.size
        if float(block.gap) <= noise:
            self._append_dependent(values)
        else:
            self._append(block, [[0]], block.gap.sqrt()[:, :, None])


def _eliminate(schur: Tensor, chosen: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Accept what can be accepted, in order; see :func:`_skip_pivot_cholesky`."""
    if bool(chosen.all()):  # often enough, all of them: then this is a plain factorisation
        lower, failed = torch.linalg.cholesky_ex(schur)
        pivots = lower.diagonal(dim1=1, dim2=2).square()
        if bool(((failed == 0)[:, None] & (pivots > threshold)).all()):
            n_sets, width = chosen.shape
            return torch.arange(width, device=schur.device).expand(n_sets, width), lower
    # a copy, which the elimination may overwrite; what was not chosen has the pivot 0
    schur = schur * (chosen[:, :, None] & chosen[:, None, :])
    return _skip_pivot_cholesky(schur, threshold)


def widened(table: NDArray[Any], width: int) -> NDArray[Any]:
    """Append columns of zeros to those of a table."""
    wide = np.zeros((len(table), width), dtype=table.dtype)
    wide[:, : table.shape[1]] = table
    return wide


def pivots_of(schur: Array, threshold: float) -> tuple[list[int], Array]:
    """Return what :func:`_eliminate` does, for one matrix, and zeros above the pivots."""
    lower, failed = dpotrf(schur, lower=1, clean=1)
    if not failed and float(lower.diagonal().min()) ** 2 > threshold:
        return list(range(len(schur))), lower
    upper = np.zeros(schur.shape)
    order: list[int] = []
    pivots = schur.diagonal().copy()  # what is left of the pivots so far
    for i, row in enumerate(schur):
        if (pivot := float(pivots[i])) > threshold:
            known = upper[: len(order), i:]
            fresh = (row[i:] - known[:, 0] @ known) / math.sqrt(pivot)
            upper[len(order), i:] = fresh
            pivots[i:] -= fresh * fresh
            order.append(i)
    return order, upper[: len(order)].T


def _skip_pivot_cholesky(schur: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Factor small matrices (Cholesky), and skip every pivot at or below the threshold.

    ``schur`` (K, q, q) is overwritten. Returns ``order`` (K, steps), the position accepted by each
    set at each step (-1 when it had none left), and ``columns`` (K, q, steps), the coordinates of
    all positions along the accepted ones.
    """
    n_sets, width, _ = schur.shape
    sets = torch.arange(n_sets, device=schur.device)
    diagonal = schur.diagonal(dim1=1, dim2=2)
    ahead = torch.ones(n_sets, width, dtype=torch.bool, device=schur.device)
    place = torch.arange(width, device=schur.device)
    order, columns = [], []
    for _ in range(width):
        open_ = ahead & (diagonal > threshold)
        alive, pivot_at = open_.max(dim=1)  # first open position, if any
        if not bool(alive.any()):
            break
        column = schur[sets, :, pivot_at]
        pivot = column.gather(1, pivot_at[:, None])
        # abs: a set that has none left takes a pivot that may be negative, and drops the column
        column = torch.where(alive[:, None], column * pivot.abs().rsqrt(), 0.0)
        schur.baddbmm_(column[:, :, None], column[:, None, :], alpha=-1)  # diagonal is a view of it
        ahead = place > torch.where(alive, pivot_at, width)[:, None]
        order.append(torch.where(alive, pivot_at, -1))
        columns.append(column)
    if not order:
        empty = schur.new_zeros(n_sets, width, 0)
        return torch.zeros(n_sets, 0, dtype=torch.long, device=schur.device), empty
    return torch.stack(order, dim=1), torch.stack(columns, dim=2)
