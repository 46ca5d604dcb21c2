r"""Factors for points that come in batches: sums over these take the place of evaluations.

A pass over the batches evaluates the accepted terms and a block of candidates, :math:`A` with one
row a term, and leaves either of two things behind, whose size does not depend on the points:

:class:`Moments`
    the matrix :math:`AA^\top/m`. A term is then its *place* in the matrix, and an inner product is
    an entry of it: :class:`MomentFactor` decides from these alone.
:class:`Triangle`
    the triangle :math:`R` of :math:`A^\top/\sqrt m = QR`, batch by batch (TSQR). Its columns have
    the inner products of the evaluations, though nothing was squared: the orthogonal path takes
    them for evaluations at a few points.

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


class Moments:
    """Sums of products of ``count`` terms, of which those of the first ``known`` are not asked."""

    def __init__(self, count: int, known: int, device: torch.device) -> None:
        self.known = known
        self.table = torch.zeros(count, count, dtype=torch.float64, device=device)

    def add(self, values: Tensor) -> None:
        """Add the terms' ``values`` (count, r) at ``r`` more points."""
        count = len(values)
        for start in range(self.known, count, PANEL_ROWS):
            stop = min(start + PANEL_ROWS, count)
            part = self.table[start:stop, :stop]
            if values.dtype == torch.float64:
                part.addmm_(values[start:stop], values[:stop].mT)
            else:  # sums over many batches need more digits than one batch has
                part += inner(values[start:stop], values[:stop])

    def finish(self, known: Tensor, n_points: int) -> Tensor:
        """Return the matrix of means, given that of the first terms."""
        self.table /= n_points
        self.table[: self.known, : self.known] = known
        for start in range(self.known, len(self.table), PANEL_ROWS):
            stop = start + PANEL_ROWS
            self.table[:start, start:stop] = self.table[start:stop, :start].mT
        return self.table


class Triangle:
    """The triangle of the values of ``count`` terms at all points so far."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.upper = torch.zeros(0, count, dtype=torch.float64, device=device)

    def add(self, values: Tensor) -> None:
        """Add the terms' ``values`` (count, r) at ``r`` more points."""
        self.upper = torch.linalg.qr(torch.cat([self.upper, values.double().mT]), mode="r").R

    def finish(self, n_points: int) -> Tensor:
        """Return one row a term, (count, w): inner products are means over the points."""
        signs = self.upper.diagonal().sign()
        signs = torch.where(signs == 0, 1.0, signs)
        return (self.upper * signs[:, None]).mT / n_points**0.5


class MomentFactor(GramFactor):
    """A Gram factor whose evaluations are places (K, b, 1) in a matrix of moments."""

    def __init__(self, *, shift: float, threshold: float, device: torch.device) -> None:
        self.table = torch.ones(1, 1, dtype=torch.float64, device=device)
        first = torch.zeros(1, 1, dtype=torch.int64, device=device)
        super().__init__(first, shift=shift, threshold=threshold)

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

    def known(self) -> Tensor:
        """Return the moments (o, o) of the accepted terms."""
        at = self.rows[0, : self.counts[0]]
        return self.inner(at, at)

    def renew(self, table: Tensor) -> None:
        """Refer to a new matrix, in which the accepted terms come first."""
        self.table = table
        places = torch.arange(self.counts[0], device=table.device)
        self.rows[0, : self.counts[0], 0] = places


class TriangleFactor(OrthogonalFactor):
    """An orthogonal factor whose evaluations are rows of a triangle."""

    def __init__(self, *, psi: float, unit: bool, device: torch.device) -> None:
        super().__init__(torch.ones(1, 1, dtype=torch.float64, device=device), psi=psi, unit=unit)

    def order(self) -> Tensor:
        """List the accepted terms as a triangle needs them: those outside of the factor last."""
        return torch.argsort(self.active[0, : self.counts[0]], descending=True, stable=True)

    def renew(self, rows: Tensor) -> None:
        """Refer to a new triangle (count, w), in which the accepted terms come first, ordered."""
        order, o, capacity = self.order(), self.counts[0], self.rows.shape[1]
        inside = order[self.active[0, order] > 0]
        n = len(inside)
        self.rows = rows.new_zeros(1, capacity, rows.shape[1])
        self.rows[0, order] = rows[:o]
        self.norms[0, order] = torch.linalg.vector_norm(rows[:o], dim=1, keepdim=True)
        # in these coordinates the rows of the factor are triangular, the basis the unit vectors
        self.basis = torch.zeros_like(self.rows)
        self.basis[0, inside, torch.arange(n, device=rows.device)] = 1
        self.lower[0, inside[:, None], inside[None, :]] = rows[:n, :n].tril()
