r"""Norms of the layers of a head, as the definition of spectral complexity takes them.

A head says itself which linear maps it consists of; see :mod:`vinets.nn.heads.maps`. Polynomials
between them are :math:`W_M` with the InEx activation and :math:`W_C` with the absolute value. The
paper counts these and :math:`W_F` only; rescaling and projection are there as well, so they count.

Where a matrix acts at all :math:`P` positions, :math:`I_P \otimes W`, the spectral norm is that of
:math:`W`, the (2,1) norm :math:`P` times that of :math:`W`. Means over positions divide both by
:math:`\sqrt{P}`. The weighted sum over the positions of a local head belongs to :math:`W_F`.

A linear path beside the others is a shortcut around them and follows the rule ``stacked`` of
:mod:`vinets.theory.layers`: the logits of the path are computed in the first layer and carried
beside the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vinets.nn.heads import Head, LinearMap
from vinets.theory.bounds import (
    PolynomialBounds,
    encode_polynomials,
    matrix_norms,
    polynomial_bounds,
)
from vinets.theory.complexity import LayerNorms
from vinets.theory.norms import stacked_norm

__all__ = ["HeadNorms", "head_norms"]


@dataclass(frozen=True)
class HeadNorms:
    r"""The layers of a head, from the latents to the logits.

    ``variables_bound`` bounds the absolute values of the polynomials' variables, whatever the
    input. The theorem assumes 1. Above, the InEx activation has the Lipschitz constant
    :math:`d\,B^{d-1}` instead of :math:`d`; see :meth:`guaranteed`.
    """

    layers: tuple[LayerNorms, ...]
    sizes: tuple[int, ...]  # how many numbers enter the head, and how many every layer returns
    bounds: PolynomialBounds | None = None  # at one position, for a head of polynomials
    variables_bound: float = 1.0

    def guaranteed(self) -> tuple[LayerNorms, ...]:
        """The layers with a Lipschitz constant that holds for variables beyond 1, too."""
        if self.bounds is None or self.variables_bound <= 1:
            return self.layers
        growth = self.variables_bound ** (self.bounds.size.degree - 1)
        return tuple(
            replace(layer, lipschitz=layer.lipschitz * growth) if layer.name == "W_M" else layer
            for layer in self.layers
        )


@torch.no_grad()
def head_norms(head: Head, shape: tuple[int, int]) -> HeadNorms:
    """Norms of every layer of ``head`` on latents of C channels at P positions.

    The head is folded first, so that batch normalisation counts in the matrices around it, and not
    changed. ``shape`` is C and P.

    Examples
    --------
    >>> from vinets.nn.heads import LinearHead
    >>> head = LinearHead(2, 3)
    >>> _ = head.linear.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    >>> head.norm = None
    >>> [(layer.spectral, layer.two_one) for layer in head_norms(head, (2, 1)).layers]
    [(4.0, 7.0)]
    """
    maps = head.folded().double().cpu().maps(shape)
    layers = [_norms(each) for each in maps.before]
    sizes = [shape[0] * shape[1], *(len(each.matrix) * each.copies for each in maps.before)]
    bounds, reach = None, 1.0
    if maps.polynomials is not None:
        positions, reach = maps.polynomials.positions, maps.polynomials.reach
        encoded = encode_polynomials(maps.polynomials.layer)
        bounds = polynomial_bounds(encoded, maps.polynomials.weight)
        layers += [_repeated(layer, positions) for layer in (bounds.sums, bounds.coefficients)]
        sizes += [positions * encoded.sums.shape[0], positions * len(encoded.coefficients)]
    layers.append(_norms(maps.final))
    sizes.append(len(maps.final.matrix))
    if maps.path is not None:
        _, *inner, last = layers
        carried = [_carried(layer, sizes[-1]) for layer in inner]
        layers = [_fork(maps.before[0], maps.path), *carried, _joined(last, maps.final)]
    return HeadNorms(tuple(layers), tuple(sizes), bounds, reach)


def _norms(linear: LinearMap) -> LayerNorms:
    if linear.matrix.ndim == 1:  # a diagonal
        size = linear.matrix.abs()
        norms = LayerNorms(linear.name, float(size.max()), float(size.sum()))
    else:
        norms = matrix_norms(linear.matrix, linear.name)
    shrink = 1 / math.sqrt(linear.averaged)
    norms = replace(
        norms,
        spectral=norms.spectral * shrink,
        two_one=norms.two_one * shrink,
        lipschitz=linear.lipschitz,
    )
    return _repeated(norms, linear.copies)


def _repeated(layer: LayerNorms, positions: int) -> LayerNorms:
    return replace(layer, two_one=layer.two_one * positions)


def _fork(first: LinearMap, shortcut: Tensor) -> LayerNorms:
    """The first map with the path below it, which both see the latents."""
    matrix = first.matrix
    rows = matrix.abs() if matrix.ndim == 1 else matrix.norm(dim=1)

    top = (lambda z: matrix * z) if matrix.ndim == 1 else (lambda z: matrix @ z)
    found = stacked_norm([top, lambda z: shortcut @ z], (matrix.shape[-1],), 1e-9)
    two_one = float(rows.sum() + shortcut.norm(dim=1).sum())
    return LayerNorms(
        first.name, found.value, two_one, upper=found.upper, converged=found.converged, role="fork"
    )


def _carried(layer: LayerNorms, count: int) -> LayerNorms:
    spectral = max(1.0, layer.spectral)
    return replace(layer, spectral=spectral, two_one=layer.two_one + count, role="carry")


def _joined(norms: LayerNorms, final: LinearMap) -> LayerNorms:
    two_one = float((final.matrix.square().sum(1) + 1).sqrt().sum())
    return replace(norms, spectral=math.hypot(norms.spectral, 1), two_one=two_one, role="join")
