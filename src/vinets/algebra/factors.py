r"""Quadratic polynomials as products of two affine forms, or the nearest there is.

A polynomial of degree 2 is :math:`\hat z^\top M \hat z` with :math:`\hat z = (1, z)` and a
symmetric matrix :math:`M`. With its largest eigenvalue :math:`\lambda`, its smallest
:math:`-\mu` and their eigenvectors,

.. math:: \lambda (u^\top \hat z)^2 - \mu (v^\top \hat z)^2
    = (\sqrt\lambda\, u + \sqrt\mu\, v)^\top \hat z\;(\sqrt\lambda\, u - \sqrt\mu\, v)^\top \hat z ,

which is the polynomial itself if :math:`M` has no other eigenvalues.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vinets.algebra.shared import SharedPolynomials


def nearest_products(polynomials: SharedPolynomials) -> Tensor:
    """Two affine forms for every polynomial of degree 2 at most: (2, N, 1 + n), constants first.

    Examples
    --------
    >>> from vinets.algebra.terms import TermSet
    >>> terms = TermSet.from_exponents([[1, 0], [2, 0], [0, 2]])
    >>> one, none = torch.zeros(1), torch.zeros(1, dtype=torch.int64)
    >>> p = SharedPolynomials(terms, torch.tensor([[0.0, 1.0, -4.0]]), one, none)
    >>> first, second = nearest_products(p)  # x^2 - 4 y^2 = (x + 2 y) (x - 2 y)
    >>> z = torch.tensor([1.0, 3.0, 1.0], dtype=torch.float64)  # the point (3, 1), behind a one
    >>> ((first @ z) * (second @ z)).round(decimals=6)
    tensor([5.], dtype=torch.float64)
    """
    terms = polynomials.terms
    if len(terms.blocks) > 3:
        raise ValueError(
            "products of two forms have degree 2. Got polynomials of degree "
            f"{len(terms.blocks) - 1} instead."
        )
    values = polynomials.coefficients.double()
    matrix = values.new_zeros(len(values), terms.n_variables + 1, terms.n_variables + 1)
    matrix[:, 0, 0] = polynomials.constants.double()
    start = 0
    for block in terms.blocks[1:]:
        rows = torch.from_numpy(block).to(values.device) + 1  # behind the constant
        first = rows[:, 0] if block.shape[1] == 2 else torch.zeros_like(rows[:, 0])
        second = rows[:, -1]
        half = values[:, start : start + len(block)] / 2
        # an off-diagonal entry stands twice, and on the diagonal both halves meet
        matrix[:, first, second] += half
        matrix[:, second, first] += half
        start += len(block)
    found, vectors = torch.linalg.eigh(matrix)  # ascending
    positive = found[:, -1].clamp_min(0).sqrt()[:, None] * vectors[:, :, -1]
    negative = (-found[:, 0]).clamp_min(0).sqrt()[:, None] * vectors[:, :, 0]
    # a definite one is plus or minus a square: then one of the two is zero
    return torch.stack([positive + negative, positive - negative])
