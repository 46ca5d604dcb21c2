r"""Smallest eigenvectors of bordered Gram matrices that share a leading block.

For a candidate with products :math:`b` with the terms of :math:`G` let

.. math:: x(\lambda) = (G - \lambda I)^{-1} b .

The smallest eigenvalue of the matrix bordered with :math:`b` is the root below
:math:`\mu_{\min}(G)` of

.. math:: h(\lambda) = \frac{\rho^2}{D(\lambda)} - \lambda, \qquad
          D(\lambda) = 1 + x(0)^\top x(\lambda) = 1 + \sum_i \frac{w_i}{\mu_i - \lambda},

the secular equation rearranged so that nothing cancels: :math:`\rho^2` is the least-squares
residual, and no :math:`w_i` is negative. Its eigenvector is :math:`(-x(\lambda), 1)`, normalised.
The derivative comes for nothing,

.. math:: D'(\lambda) = x(\lambda)^\top (x(\lambda) - x(0)) / \lambda .

A step replaces :math:`D` by :math:`a + s/(m - \lambda)` of the same value and slope, with
:math:`m \le \mu_{\min}`, and solves the quadratic equation that is left. As a function of
:math:`1/(m - \lambda)` the sum is concave, so its tangent is above it: whatever a step begins
with, it ends below the root, and the next ones increase.

With the eigenvectors of a leading block of :math:`G`, :math:`x(\lambda)` is a division for the
block, and for what :math:`G` has besides it a system of that size. So one decomposition serves all
candidates of a block, and those that met a few terms more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.linalg import vecdot
from torch.nn.functional import pad

MAX_STEPS = 100  # steps towards a root
LAST_STEP = 1e-9  # share of psi; the error left after a step is of the order of its square
CANDIDATES_AT_ONCE = 2048  # candidates whose roots are looked for together
MAX_UNDIVIDED = 128  # candidates that go on together, though some have arrived


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a leading block, and how coordinates rotate into its eigenvectors.

    ``rotation`` maps coordinates in the triangular factor to products with the eigenvectors, which
    are the columns of ``vectors``. Eigenvalues increase.
    """

    values: Tensor  # (q,)
    vectors: Tensor  # (q, q)
    rotation: Tensor  # (q, q)

    @classmethod
    def of_gram(cls, gram: Tensor, lower: Tensor) -> Spectrum:
        """Decompose ``G``, given the factor that coordinates refer to, ``b = lower @ w``."""
        values, vectors = torch.linalg.eigh(gram)
        return cls(values, vectors, lower.mT @ vectors)

    @classmethod
    def of_factor(cls, lower: Tensor) -> Spectrum:
        """Decompose a factor of ``G`` by singular values: accurate for tiny eigenvalues."""
        left, sigma, right = torch.linalg.svd(lower)
        # singular values decrease; eigenvalues are to increase
        return cls(sigma.square().flip(0), left.flip(1), (right.mT * sigma).flip(1))


@dataclass(frozen=True)
class LeadingBlocks:
    """A Gram matrix with a factor, all of whose leading blocks have their eigenvalues above psi.

    Coordinates refer to the factor, ``b = lower @ w``.
    """

    gram: Tensor  # (o, o)
    lower: Tensor  # (o, o)
    psi: float

    @classmethod
    def of(cls, lower: Tensor, psi: float) -> LeadingBlocks:
        """Make the blocks from the Cholesky factor of ``G - psi * I``."""
        gram = lower @ lower.mT
        gram.diagonal().add_(psi)
        return cls(gram, lower, psi)

    @cached_property
    def bound(self) -> Tensor:
        """Lower bounds of the smallest eigenvalues of the blocks, (o,)."""
        eye = torch.eye(len(self.lower), dtype=self.lower.dtype, device=self.lower.device)
        half = torch.linalg.solve_triangular(self.lower, eye, upper=False)
        # the traces of the inverses of all blocks less psi: 1 / (mu - psi) is at most that
        return self.psi + half.square().sum(1).cumsum(0).reciprocal_()

    def spectrum(self, size: int) -> Spectrum:
        """Decompose the block of that size."""
        return Spectrum.of_gram(self.gram[:size, :size], self.lower[:size, :size])


@dataclass(frozen=True)
class _Within:
    """Candidates that met the terms of a block that is decomposed, one for all or one for each."""

    poles: Tensor  # (q,) or (g, q)
    weights: Tensor  # (g, q)
    scratch: Tensor  # (2, g, q): allocating it anew costs as much as filling it
    bound: Tensor  # lower bounds of the smallest eigenvalue over the terms met, () or (g,)

    @classmethod
    def of(cls, poles: Tensor, linear: Tensor, scratch: Tensor) -> _Within:
        """Make them from products (g, q) with the eigenvectors, and scratch memory for three."""
        weights = torch.mul(linear, linear, out=scratch[2]).div_(poles)
        return cls(poles, weights, scratch[:2], poles[..., 0])

    def at_zero(self) -> tuple[Tensor, Tensor]:
        """Return what least squares takes from the squared norms, and the squared norm of x(0)."""
        return self.weights.sum(1), torch.div(self.weights, self.poles, out=self.scratch[0]).sum(1)

    def at(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum in D, and its derivative."""
        inverse, ratio = self.scratch
        torch.sub(self.poles, value[:, None], out=inverse).reciprocal_()
        total = torch.mul(self.weights, inverse, out=ratio).sum(1)
        return total, ratio.mul_(inverse).sum(1)

    def select(self, rows: Tensor) -> _Within:
        """Return some of the candidates. Those before may not be asked any more."""
        poles, bound = self.poles, self.bound
        if poles.ndim == 2:
            poles, bound = poles[rows], bound[rows]
        return _Within(poles, self.weights[rows], self.scratch[:, : len(rows)], bound)


@dataclass(frozen=True)
class _Beyond:
    """Candidates that met a few terms more; methods are those of :class:`_Within`."""

    spectrum: Spectrum
    corner: Tensor  # (r, r) products of the further terms
    edge: Tensor  # (r, q) products of the further terms with the eigenvectors
    linear: Tensor  # (g, q) products of the candidates with the eigenvectors
    own: Tensor  # (g, r) products of the candidates with the further terms, 0 for those not met
    inside: Tensor  # (g, r) 1 for further terms that a candidate has met
    bound: Tensor  # (g,)

    @cached_property
    def squares(self) -> Tensor:
        """Products of the rows of the edge with one another, (q, r * r)."""
        return (self.edge[:, None] * self.edge).flatten(0, 1).mT

    def solve(self, value: Tensor) -> Tensor:
        """Find x, over the eigenvectors and the further terms (g, q + r)."""
        inverse = (self.spectrum.values - value[:, None]).reciprocal_()
        along, r = inverse * self.linear, len(self.edge)
        schur = self.corner - (inverse @ self.squares).view(-1, r, r)
        schur.diagonal(dim1=1, dim2=2).sub_(value[:, None])
        # terms that were not met get rows of the identity, and 0 on the right
        schur *= self.inside[:, :, None] * self.inside[:, None, :]
        schur.diagonal(dim1=1, dim2=2).add_(1 - self.inside)
        right = self.own - (along @ self.edge.mT) * self.inside
        rest = torch.linalg.solve_ex(schur, right)[0]
        return torch.cat([along - (rest @ self.edge) * inverse, rest], dim=1)

    @cached_property
    def least(self) -> Tensor:
        """The solution of least squares: x at 0."""
        return self.solve(torch.zeros_like(self.bound))

    def at_zero(self) -> tuple[Tensor, Tensor]:
        products = torch.cat([self.linear, self.own], dim=1)
        return vecdot(products, self.least), vecdot(self.least, self.least)

    def at(self, value: Tensor) -> tuple[Tensor, Tensor]:
        x = self.solve(value)
        over = value.clamp(min=torch.finfo(value.dtype).tiny)  # the slope at 0 does not matter
        return vecdot(self.least, x), vecdot(x, x - self.least) / over

    def select(self, rows: Tensor) -> _Beyond:
        parts = (part[rows] for part in (self.linear, self.own, self.inside, self.bound))
        return _Beyond(self.spectrum, self.corner, self.edge, *parts)


def secular_eigenvectors(
    spectrum: Spectrum, coordinates: Tensor, square: Tensor, residual: Tensor | None, psi: float
) -> tuple[Tensor, Tensor]:
    """Find unit eigenvectors of the smallest eigenvalues, which ``psi`` bounds from above.

    ``coordinates`` (g, q) are those of the candidates in the triangular factor that the spectrum
    was made from, ``square`` (g,) their squared norms. ``residual`` (g,) are the least-squares
    residuals, where they are known without cancellation; None computes them from the others.

    The coefficients over the block take the place of the coordinates. Returns those of the
    candidates themselves (g,), and the eigenvalues (g,).
    """
    last, values = torch.empty_like(square), torch.empty_like(square)
    scratch = coordinates.new_empty(3, min(CANDIDATES_AT_ONCE, len(square)), coordinates.shape[1])
    for rows in _pieces(len(square)):
        y = coordinates[rows] @ spectrum.rotation
        known = None if residual is None else residual[rows]
        last[rows], values[rows] = _to_eigenvectors(
            spectrum.values, y, square[rows], known, psi, scratch[:, : len(y)]
        )
        torch.mm(y, spectrum.vectors.mT, out=coordinates[rows])
    return last, values


def further_eigenvectors(
    blocks: LeadingBlocks,
    spectrum: Spectrum,
    coordinates: Tensor,
    square: Tensor,
    prefix: Tensor,
    psi: float,
) -> tuple[Tensor, Tensor]:
    """Find those of candidates that met a few terms more than those of the spectrum.

    ``coordinates`` (g, o) are zero beyond the ``prefix`` (g,), which does not decrease. The
    spectrum is that of a leading block, smaller than them all.
    """
    last, values = torch.empty_like(square), torch.empty_like(square)
    q = len(spectrum.values)
    for rows in _pieces(len(square)):
        p = int(prefix[rows][-1])
        met = coordinates[rows, :p]
        inside = (torch.arange(q, p, device=met.device) < prefix[rows, None]).to(met.dtype)
        problem = _Beyond(
            spectrum,
            blocks.gram[q:p, q:p],
            blocks.gram[q:p, :q] @ spectrum.vectors,
            met[:, :q] @ spectrum.rotation,
            (met @ blocks.lower[q:p, :p].mT) * inside,
            inside,
            blocks.bound[prefix[rows] - 1],
        )
        values[rows] = _roots(problem, square[rows], None, psi)
        x = problem.solve(values[rows])
        last[rows] = (1 + vecdot(x, x)).rsqrt_()
        x *= -last[rows, None]
        met[:, :q], met[:, q:] = x[:, :q] @ spectrum.vectors.mT, x[:, q:]
    return last, values


def stacked_eigenvectors(
    blocks: LeadingBlocks, coordinates: Tensor, square: Tensor, prefix: Tensor, psi: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Find those of many small blocks, each decomposed, all of them at once.

    ``coordinates`` (g, o) are zero beyond the ``prefix`` (g,), and stay as they are: the
    coefficients (g, o) come first in what is returned. Equal prefixes stand together.
    """
    o = int(prefix.amax())
    gram, lower = blocks.gram[:o, :o], blocks.lower[:o, :o]
    sizes, inverse, counts = torch.unique_consecutive(
        prefix, return_inverse=True, return_counts=True
    )
    inside = torch.arange(len(gram), device=gram.device) < sizes[:, None]  # (p, o)
    both = inside[:, :, None] & inside[:, None, :]
    # what is outside a block gets eigenvalues of its own, and nothing has a part in them
    outside = torch.diag_embed(~inside * gram.diagonal().amax())
    values, vectors = torch.linalg.eigh(gram * both + outside)
    rotation = (lower * both).mT @ vectors
    first = counts.cumsum(0) - counts
    slot = torch.arange(len(prefix), device=gram.device) - first[inverse]
    table = coordinates.new_zeros(len(sizes), int(counts.max()), o)
    table[inverse, slot] = coordinates[:, :o]
    y = (table @ rotation)[inverse, slot]
    last, smallest = _to_eigenvectors(
        values[inverse], y, square, None, psi, y.new_empty(3, *y.shape)
    )
    table[inverse, slot] = y  # y are eigenvectors now; the padding stays 0
    found = (table @ vectors.mT)[inverse, slot].mul_(inside[inverse])
    return pad(found, (0, coordinates.shape[1] - o)), last, smallest


def _pieces(count: int) -> Iterator[slice]:
    return (
        slice(start, start + CANDIDATES_AT_ONCE) for start in range(0, count, CANDIDATES_AT_ONCE)
    )


def _to_eigenvectors(
    poles: Tensor, y: Tensor, square: Tensor, residual: Tensor | None, psi: float, scratch: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn products ``y`` in place into eigenvectors in the rotated basis; last entry and value."""
    value = _roots(_Within.of(poles, y, scratch), square, residual, psi)
    y.div_(torch.sub(poles, value[:, None], out=scratch[0]))
    last = torch.mul(y, y, out=scratch[0]).sum(1).add_(1).rsqrt_()
    y.mul_(-last[:, None])
    return last, value


def _roots(
    problem: _Within | _Beyond, square: Tensor, residual: Tensor | None, psi: float
) -> Tensor:
    """Find the roots of h in [0, psi]."""
    taken, norm = problem.at_zero()
    if residual is None:
        residual = (square - taken).clamp_(min=0)
    # the least-squares polynomial, scaled to unit norm, bounds the eigenvalue from above
    found = value = (residual / (1 + norm)).clamp_(max=psi)
    rows: Tensor | None = None  # None stands for all of them
    for _ in range(MAX_STEPS):
        total, slope = problem.at(value)
        after = _step(total.add_(1), slope, residual, value, problem.bound).clamp_(0, psi)
        if rows is None:
            found = after
        else:
            found[rows] = after
        moving = value.sub_(after).abs_() > LAST_STEP * psi
        value, count = after, int(torch.count_nonzero(moving))
        if not count:
            break
        if len(value) > MAX_UNDIVIDED and 2 * count < len(value):  # the others have arrived
            kept = moving.nonzero()[:, 0]
            problem, residual, value = problem.select(kept), residual[kept], after[kept]
            rows = kept if rows is None else rows[kept]
    return found


def _step(total: Tensor, slope: Tensor, residual: Tensor, at: Tensor, bound: Tensor) -> Tensor:
    r"""Find the root of h if D were ``a + s / (bound - value)``, as it is ``at`` a value.

    The smaller root of :math:`a z^2 - (a m + s + \rho^2) z + \rho^2 m`, m the bound.
    """
    rise = (bound - at).mul_(slope)  # a is the total less this, and s this times the same distance
    half = (total * bound).addcmul_(rise, at, value=-1).add_(residual).div_(2)
    end = residual * bound
    root = (half * half).addcmul_(total.sub_(rise), end, value=-1).clamp_(min=0).sqrt_()
    return end.div_(root.add_(half))
