r"""Smallest eigenvectors of bordered Gram matrices with one and the same leading block.

With the singular values :math:`L = P\,\mathrm{diag}(\sigma)\,V^\top` of the triangular factor, the
coordinates :math:`w` of a candidate rotated to :math:`y = V^\top w` and its least-squares residual
:math:`\rho^2`, the smallest eigenvalue of the bordered matrix is the root below
:math:`\sigma_{\min}^2` of

.. math:: h(\lambda) = \rho^2 - \lambda\Bigl(1 + \sum_i \frac{y_i^2}{\sigma_i^2 - \lambda}\Bigr),

the secular equation rearranged so that nothing cancels, however small the eigenvalue. ``h`` is
concave and decreasing there, so Newton's iteration from the right of the root is monotone. The
eigenvector is :math:`(-\sum_i \frac{\sigma_i y_i}{\sigma_i^2-\lambda}p_i,\ 1)`, normalised. One
decomposition and two matrix products serve every candidate of the block.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["secular_eigenvectors"]

MAX_STEPS = 200


def secular_eigenvectors(
    lower: Tensor, coordinates: Tensor, residual: Tensor, psi: float
) -> tuple[Tensor, Tensor]:
    """Unit eigenvectors (g, o + 1) and eigenvalues (g,) of the smallest eigenvalues.

    Parameters are as in :func:`vinets.algebra.eigen.smallest_eigenvectors`, with ``lower`` (o, o)
    and ``coordinates`` (g, o) cut to the common prefix.
    """
    left, sigma, right = torch.linalg.svd(lower)
    rotated = coordinates @ right.mT  # (g, o)
    poles, weights = sigma.square(), rotated.square()
    value = _root(poles, weights, residual, psi)
    head = -(sigma * rotated / (poles - value[:, None])) @ left.mT
    vectors = torch.cat([head, torch.ones_like(value)[:, None]], dim=1)
    return torch.nn.functional.normalize(vectors, dim=1, eps=0.0), value


def _root(poles: Tensor, weights: Tensor, residual: Tensor, psi: float) -> Tensor:
    """Root of h in [0, psi], by Newton's iteration from the right."""
    value = torch.full_like(residual, psi)
    floor = torch.finfo(residual.dtype).eps * psi
    for _ in range(MAX_STEPS):
        inverse = 1 / (poles - value[:, None])
        ratio = weights * inverse
        sums = 1 + ratio.sum(1)
        slope = sums + value * (ratio * inverse).sum(1)
        step = (residual - value * sums) / slope
        value = (value + step).clamp(0, psi)
        if bool((step.abs() <= floor).all()):
            break
    return value
