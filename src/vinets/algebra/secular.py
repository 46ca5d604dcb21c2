r"""Smallest eigenvectors of bordered Gram matrices with one and the same leading block.

With the eigenvalues :math:`\mu_i` and eigenvectors :math:`p_i` of the leading block :math:`G`, a
candidate's products :math:`b` rotated to :math:`\tilde b = P^\top b`, and
:math:`y_i = \tilde b_i/\sqrt{\mu_i}`, the smallest eigenvalue of the bordered matrix is the root
below :math:`\mu_{\min}` of

.. math:: h(\lambda) = \frac{\rho^2}{1 + \sum_i y_i^2/(\mu_i - \lambda)} - \lambda,

the secular equation rearranged so that nothing cancels: :math:`\rho^2` is the least-squares
residual, and the fraction is concave and decreasing (the reciprocal of a Stieltjes function), so
Newton's iteration from the right of the root is monotone and takes half a dozen steps. The
eigenvector is :math:`(-\sum_i \frac{\tilde b_i}{\mu_i-\lambda}p_i,\ 1)`, normalised. One
decomposition and two matrix products serve every candidate of the block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

MAX_STEPS = 100
LAST_STEP = 1e-9  # relative to psi; the error left behind it is of the order of its square
ROUGH_STEP = 1e-4
NEAR = 24  # poles that the first steps keep
CACHED = 1024  # rows worked on at a time on a CPU


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a leading block, and how coordinates rotate into its eigenvectors.

    ``rotation`` maps coordinates in the triangular factor to ``y``; ``vectors`` are the columns
    :math:`p_i`. Eigenvalues increase.
    """

    values: Tensor  # (o,)
    vectors: Tensor  # (o, o)
    rotation: Tensor  # (o, o)

    @classmethod
    def of_gram(cls, gram: Tensor, lower: Tensor) -> Spectrum:
        """From ``G`` and the factor that coordinates refer to, ``b = lower @ w``."""
        values, vectors = torch.linalg.eigh(gram)
        return cls(values, vectors, (lower.mT @ vectors) / values.sqrt())

    @classmethod
    def of_factor(cls, lower: Tensor) -> Spectrum:
        """From a factor of ``G`` itself, by singular values: accurate for tiny eigenvalues."""
        left, sigma, right = torch.linalg.svd(lower)
        # singular values decrease; eigenvalues are to increase
        return cls(sigma.square().flip(0), left.flip(1), right.mT.flip(1))


def secular_eigenvectors(
    spectrum: Spectrum, coordinates: Tensor, square: Tensor, residual: Tensor | None, psi: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Unit eigenvectors of the smallest eigenvalues, which ``psi`` bounds from above.

    ``coordinates`` (g, o) are those of the candidates in the triangular factor that the spectrum
    was made from, ``square`` (g,) their squared norms. ``residual`` (g,) are the least-squares
    residuals, where they are known without cancellation; None computes them from the others.

    Returns the coefficients over the block (g, o), those of the candidates themselves (g,), and
    the eigenvalues (g,).
    """
    y = coordinates @ spectrum.rotation  # (g, o)
    last, values = torch.empty_like(square), torch.empty_like(square)
    width = max(1, min(CACHED, len(y)) if y.device.type == "cpu" else len(y))
    scratch = y.new_empty(3, width, y.shape[1])  # pieces that stay in the cache
    for start in range(0, len(y), width):
        rows = slice(start, start + width)
        part, known = y[rows], None if residual is None else residual[rows]
        # turns the rows of y into eigenvectors in the rotated basis
        last[rows], values[rows] = _normalise(
            spectrum.values, part, square[rows], known, psi, scratch[:, : len(part)]
        )
    return y @ spectrum.vectors.mT, last, values


def stacked_eigenvectors(
    gram: Tensor, lower: Tensor, coordinates: Tensor, square: Tensor, prefix: Tensor, psi: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for many small leading blocks of one matrix, all of them at once.

    ``gram`` and ``lower`` (o, o) are the matrix and the factor that coordinates refer to, which are
    zero beyond the prefix. ``prefix`` (g,) holds the sizes of the leading blocks; equal ones stand
    together.
    """
    sizes, inverse, counts = torch.unique_consecutive(
        prefix, return_inverse=True, return_counts=True
    )
    inside = torch.arange(len(gram), device=gram.device) < sizes[:, None]  # (p, o)
    both = inside[:, :, None] & inside[:, None, :]
    # what is outside a block gets eigenvalues of its own, and nothing has a part in them
    outside = torch.diag_embed(~inside * gram.diagonal().amax())
    values, vectors = torch.linalg.eigh(gram * both + outside)
    rotation = ((lower * both).mT @ vectors) / values.sqrt()[:, None]
    first = counts.cumsum(0) - counts
    slot = torch.arange(len(prefix), device=gram.device) - first[inverse]
    table = coordinates.new_zeros(len(sizes), int(counts.max()), coordinates.shape[1])
    table[inverse, slot] = coordinates
    y = (table @ rotation)[inverse, slot]
    last, found = _normalise(values[inverse], y, square, None, psi, y.new_empty(3, *y.shape))
    table[inverse, slot] = y  # which _normalise has turned into eigenvectors; the padding stays 0
    return (table @ vectors.mT)[inverse, slot].mul_(inside[inverse]), last, found


def _normalise(
    poles: Tensor,
    y: Tensor,
    square: Tensor,
    residual: Tensor | None,
    psi: float,
    scratch: Tensor,
) -> tuple[Tensor, Tensor]:
    """Turn ``y`` in place into eigenvectors in the rotated basis; their last entry and value.

    The value is the root of h in [0, psi], by Newton's iteration from the right, where it is
    monotone. The first steps, which only have to come close, keep the smallest poles and replace
    the smooth sum over the others by its expansion at 0; the last ones use all poles.
    """
    weights, inverse, ratio = scratch  # contents undefined: every use writes before it reads
    torch.mul(y, y, out=weights)
    if residual is None:
        residual = (square - weights.sum(1)).clamp_(min=0)
    # the least-squares polynomial, scaled to unit norm, bounds the eigenvalue from above
    value = (residual / torch.div(weights, poles, out=ratio).sum(1).add_(1)).clamp_(max=psi)
    if poles.ndim == 1 and len(poles) > 2 * NEAR:
        far = poles[NEAR:].reciprocal()
        tail = weights[:, NEAR:] @ torch.stack([far, far.square(), far**3], dim=1)  # (g, 3)
        near = _Sum(poles[:NEAR], weights[:, :NEAR], inverse[:, :NEAR], ratio[:, :NEAR])
        value = _newton(near, residual, value, psi, ROUGH_STEP, tail)
    value = _newton(_Sum(poles, weights, inverse, ratio), residual, value, psi, LAST_STEP)
    torch.sub(poles, value[:, None], out=inverse)
    # y becomes b / (mu - value), then is scaled to unit norm with the entry 1 of the candidate
    y.mul_(poles.sqrt()).div_(inverse)
    last = torch.mul(y, y, out=ratio).sum(1).add_(1).rsqrt_()
    y.mul_(-last[:, None])
    return last, value


class _Sum(NamedTuple):
    """The sum over poles in h, with scratch memory of its size: Newton allocates nothing large."""

    poles: Tensor  # (o,) or (g, o)
    weights: Tensor  # (g, o)
    inverse: Tensor  # (g, o), scratch
    ratio: Tensor  # (g, o), scratch


def _newton(
    terms: _Sum,
    residual: Tensor,
    value: Tensor,
    psi: float,
    last_step: float,
    tail: Tensor | None = None,
) -> Tensor:
    """Newton's iteration for the root of h; ``tail`` (g, 3) expands the sum over other poles."""
    poles, weights, inverse, ratio = terms
    for _ in range(MAX_STEPS):
        torch.sub(poles, value[:, None], out=inverse).reciprocal_()
        total = torch.mul(weights, inverse, out=ratio).sum(1).add_(1)
        slope = ratio.mul_(inverse).sum(1)
        if tail is not None:
            total.add_(tail[:, 0] + value * (tail[:, 1] + value * tail[:, 2]))
            slope.add_(tail[:, 1] + 2 * value * tail[:, 2])
        step = (residual / total - value) / (1 + residual * slope / total.square())
        value = (value + step).clamp_(0, psi)
        if bool(step.abs().max() <= last_step * psi):
            break
    return value
