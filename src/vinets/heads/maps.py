r"""A head as theory reads it: linear maps with 1-Lipschitz activations between them.

.. math:: h \mapsto W_F\,\sigma\bigl(\dots \sigma(W_2\,\sigma(W_1 h))\bigr) + S h

for latents :math:`h` in :math:`\mathbb{R}^{CP}`; polynomials may stand before :math:`W_F`, and the
path :math:`S` may be missing. Offsets do not matter to a Lipschitz constant and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.polynomial_layer import PolynomialLayer


@dataclass(frozen=True, eq=False)
class LinearMap:
    r"""One linear map, without the zeros and repetitions of its matrix.

    It acts at ``copies`` positions alike, :math:`I_P \otimes W`, or on means over ``averaged``
    positions, :math:`W \otimes (1, \dots, 1) / P`.
    """

    name: str  # of the layer in tables
    matrix: Tensor  # W of shape (rows, columns), or (columns,) for the diagonal of one
    copies: int = 1
    averaged: int = 1
    lipschitz: float = 1.0  # of the activation behind it

    def dense(self) -> Tensor:
        """The whole matrix; for small ones, to check or to look at."""
        matrix = torch.diag(self.matrix) if self.matrix.ndim == 1 else self.matrix
        wide = (matrix / self.averaged).repeat_interleave(self.averaged, dim=1)
        return torch.block_diag(*[wide] * self.copies)


@dataclass(frozen=True, eq=False)
class PolynomialMap:
    """Absolute values of polynomials in what the maps before them return."""

    layer: PolynomialLayer | BlockPolynomialLayer  # the N polynomials, folded
    weight: Tensor  # (K, N), the linear layer behind them, without a sum over positions
    reach: float  # bound on the absolute values of the variables, whatever the input
    positions: int = 1  # at which they are evaluated


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """All maps of a folded head, from the latents to the logits."""

    before: tuple[LinearMap, ...]  # each with an activation, or none, behind it
    final: LinearMap  # to the K logits
    polynomials: PolynomialMap | None = None  # between those
    path: Tensor | None = None  # (K, C P): logits linear in the latents, added to the others

    def __post_init__(self) -> None:
        # theory stacks a path below the first matrix and beside the last one
        ends = (*self.before[:1], self.final)
        plain = all(each.copies == each.averaged == 1 for each in ends)
        if self.path is not None and not (self.before and plain):
            raise ValueError(
                "a path goes around two maps or more, the first and the last of them without "
                "copies and averages. Add the path to the matrix, or write the maps out."
            )
