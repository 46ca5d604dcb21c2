r"""Factors for points that come in batches: sums over these take the place of evaluations.

A pass over the batches evaluates the accepted terms and a block of candidates, :math:`A` with one
row a term, and leaves either of two things behind, whose size does not depend on the points:

:class:`MomentFactor`
    the matrix :math:`AA^\top/m`. A term is then its *place* in the matrix, and an inner product is
    an entry of it.
:class:`TriangleFactor`
    the triangle :math:`R` of :math:`A^\top/\sqrt m = QR`, batch by batch (TSQR). Its columns have
    the inner products of the evaluations, though nothing was squared: they are taken for
    evaluations at a few points.

J. Demmel, L. Grigori, M. Hoemmen and J. Langou, *Communication-optimal parallel and sequential QR
and LU factorizations*, 2012.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import inner
from vinets.algebra.orthogonal import OrthogonalFactor

PANEL_ROWS = 192  # rows that one product adds to, so that little is computed above the diagonal


class MomentFactor(GramFactor):
    """A Gram factor whose evaluations are places (K, b, 1) in a matrix of moments."""

    sums: Tensor  # what the pass under way has added up, (count, count)

    def __init__(self, *, psi: float, unit: bool, device: torch.device) -> None:
        self.table = torch.ones(1, 1, dtype=torch.float64, device=device)
        first = torch.zeros(1, 1, dtype=torch.int64, device=device)
        super().__init__(first, psi=psi, unit=unit)

    def begin(self, count: int) -> None:
        """Begin a pass over the values of ``count`` terms, the accepted ones first."""
        self.sums = self.table.new_zeros(count, count)

    def add(self, values: Tensor) -> None:
        """Add the terms' ``values`` (count, r) at ``r`` more points."""
        count = len(values)
        for start in range(self.counts[0], count, PANEL_ROWS):  # what is known is not summed again
            stop = min(start + PANEL_ROWS, count)
            part = self.sums[start:stop, :stop]
            if values.dtype == torch.float64:
                part.addmm_(values[start:stop], values[:stop].mT)
            else:  # sums over many batches need more digits than one batch has
                part += inner(values[start:stop], values[:stop])

    def finish(self, n_points: int) -> Tensor:
        """Refer to the matrix of this pass; return the places (b, 1) of its candidates."""
        known, table = self.counts[0], self.sums
        table /= n_points
        at = self.rows[0, :known]
        table[:known, :known] = self.inner(at, at)
        for start in range(known, len(table), PANEL_ROWS):
            stop = start + PANEL_ROWS
            table[:start, start:stop] = table[start:stop, :start].mT
        self.table = table
        places = torch.arange(len(table), device=table.device)[:, None]
        self.rows[0, :known] = places[:known]
        return places[known:]

    def inner(self, left: Tensor, right: Tensor) -> Tensor:
        return self.table[left, right.mT]

    def squares(self, values: Tensor) -> Tensor:
        return self.table.diagonal()[values[..., 0]]

    def rotation(self, k: int, count: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        places = self.rows[k, :count]
        values, vectors = torch.linalg.eigh(self.inner(places, places))
        kept = values > count * torch.finfo(values.dtype).eps * values[-1]
        roots, vectors = values[kept].sqrt(), vectors[:, kept]

        def turn(place: Tensor) -> Tensor:
            along = self.inner(place[None], places)[0] @ vectors / roots
            rest = self.squares(place[None])[0] - along.square().sum()
            return torch.cat([along, rest.clamp(min=0).sqrt()[None]])

        return roots[:, None] * vectors.mT, turn


class TriangleFactor(OrthogonalFactor):
    """An orthogonal factor whose evaluations are rows of a triangle."""

    order: Tensor  # places of the terms in the pass: those outside of the factor come last
    upper: Tensor

    def __init__(self, *, psi: float, unit: bool, device: torch.device) -> None:
        super().__init__(torch.ones(1, 1, dtype=torch.float64, device=device), psi=psi, unit=unit)

    def begin(self, count: int) -> None:
        """Begin a pass over the values of ``count`` terms, the accepted ones first."""
        active = self.active[0, : self.counts[0]]
        order = torch.argsort(active, descending=True, stable=True)
        candidates = torch.arange(len(active), count, device=active.device)
        self.order, self.upper = torch.cat([order, candidates]), self.lower.new_zeros(0, count)

    def add(self, values: Tensor) -> None:
        """Add the terms' ``values`` (count, r) at ``r`` more points."""
        table = torch.cat([self.upper, values[self.order].double().mT])
        self.upper = torch.linalg.qr(table, mode="r").R

    def finish(self, n_points: int) -> Tensor:
        """Refer to the triangle of this pass; return its rows (b, w) of the candidates."""
        signs = self.upper.diagonal().sign()
        signs = torch.where(signs == 0, 1.0, signs)
        # one row a term; inner products are means over the points
        rows = (self.upper * signs[:, None]).mT / n_points**0.5
        o, capacity = self.counts[0], self.rows.shape[1]
        order = self.order[:o]
        inside = order[self.active[0, order] > 0]
        n = len(inside)
        self.rows = rows.new_zeros(1, capacity, rows.shape[1])
        self.rows[0, order] = rows[:o]
        self.norms[0, order] = torch.linalg.vector_norm(rows[:o], dim=1, keepdim=True)
        # in these coordinates the rows of the factor are triangular, the basis the unit vectors
        self.basis = torch.zeros_like(self.rows)
        self.basis[0, inside, torch.arange(n, device=rows.device)] = 1
        self.lower[0, inside[:, None], inside[None, :]] = rows[:n, :n].tril()
        return rows[o:]
