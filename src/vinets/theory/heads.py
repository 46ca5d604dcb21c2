r"""Norms of the layers of a head, as the definition of spectral complexity takes them.

A head of polynomials is, in this order: rescaling, a diagonal matrix followed by tanh; projection;
:math:`W_M` with the InEx activation; :math:`W_C` with the absolute value; :math:`W_F`. The paper
counts the last three only; the others are there as well, so they count. Where the projection comes
first, it and the rescaling are one matrix.

In a local head each matrix acts at all :math:`P` positions, :math:`W \otimes I_P`: the spectral
norm is that of :math:`W`, the (2,1) norm :math:`P` times that of :math:`W`. The weighted sum over
the positions belongs to :math:`W_F`.

A linear path beside the polynomials is a shortcut around them and follows the rule ``stacked`` of
:mod:`vinets.theory.layers`: the logits of the path are computed in the first layer and carried
beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vinets.nn.heads import ComponentsHead, Head, LinearHead, LocalHead, MLPHead, VanishingHead
from vinets.nn.heads.base import LinearPath
from vinets.theory.bounds import PolynomialBounds, matrix_norms, polynomial_bounds
from vinets.theory.complexity import LayerNorms
from vinets.theory.norms import largest_singular_value

__all__ = ["HeadNorms", "head_norms"]


@dataclass(frozen=True)
class HeadNorms:
    r"""The layers of a head.

    Attributes
    ----------
    layers : tuple of LayerNorms
        From the latents to the logits.
    bounds : PolynomialBounds or None
        The theorem's bounds at one position, for a head of polynomials.
    variables_bound : float
        A bound on the absolute values of the polynomials' variables, whatever the input. The
        theorem assumes 1. Above, the InEx activation has the Lipschitz constant
        :math:`d\,B^{d-1}` instead of :math:`d`; see :meth:`guaranteed`.
    """

    layers: tuple[LayerNorms, ...]
    bounds: PolynomialBounds | None = None
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

    Parameters
    ----------
    head : Head
        Of polynomials, or one of its baselines. It is folded first, so that batch normalisation
        counts in the matrices around it.
    shape : (int, int)
        ``C`` and ``P``.

    Examples
    --------
    >>> head = LinearHead(2, 1, 3)
    >>> _ = head.linear.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    >>> head.norm = None
    >>> [(layer.spectral, layer.two_one) for layer in head_norms(head, (2, 1)).layers]
    [(4.0, 7.0)]
    """
    plain = head.folded().double().cpu()
    if isinstance(plain, LinearHead):
        norms = matrix_norms(plain.linear.weight, "linear")
        shrink = 1.0 if plain.pooling == "flat" else 1 / math.sqrt(shape[1])
        return HeadNorms((_scaled(norms, shrink, shrink),))
    if isinstance(plain, MLPHead):
        hidden = matrix_norms(plain.hidden.weight, "hidden")
        return HeadNorms((hidden, matrix_norms(plain.linear.weight, "linear")))
    if isinstance(plain, ComponentsHead):
        first, others, _ = _inputs(plain, shape)
        return HeadNorms((first.norms, *others, matrix_norms(plain.linear.weight, "linear")))
    if isinstance(plain, VanishingHead):
        return _vanishing(plain, shape)
    if isinstance(plain, LocalHead):
        return _local(plain, shape)
    raise ValueError(
        f"spectral complexity is defined for polynomial, linear and MLP heads. "
        f"Got one of kind {head.kind!r} instead."
    )


def _vanishing(head: VanishingHead, shape: tuple[int, int]) -> HeadNorms:
    first, others, reach = _inputs(head, shape)
    return _assemble(head, first, others, shape, reach)


def _inputs(
    head: VanishingHead | ComponentsHead, shape: tuple[int, int]
) -> tuple[_Entry, tuple[LayerNorms, ...], float]:
    """Layers in front of the variables, and the largest value that a variable takes."""
    weight, offset = head.projection.weight, head.projection.bias
    gain = (1 / head.rescale.std).flatten()
    bound = 1.0 if head.rescale.squash else math.inf
    if head.order == "pca-tanh":
        matrix = gain[:, None] * weight
        first = _entry("projection, rescaling", matrix.mv, matrix.norm(dim=1), matrix.shape[1])
        return first, (), bound
    first = _diagonal(gain.expand(shape[0] * shape[1]))
    reach = float((bound * weight.abs().sum(1) + offset.abs()).max())
    return first, (matrix_norms(weight, "projection"),), reach


def _local(head: LocalHead, shape: tuple[int, int]) -> HeadNorms:
    first = _diagonal((1 / head.rescale.std).expand(shape))
    reach = 1.0 if head.rescale.squash else math.inf
    if head.projection is None:
        return _assemble(head, first, (), shape, reach)
    weight: Tensor = head.projection.weight
    if head.channels:
        weight = torch.cat([torch.eye(weight.shape[1], dtype=weight.dtype), weight])
    else:
        reach = 1.0
    lift = _scaled(matrix_norms(weight, "projection"), 1.0, shape[1])
    return _assemble(head, first, (lift,), shape, reach)


@dataclass(frozen=True)
class _Entry:
    """The first layer as an operator, which a linear path may join."""

    name: str
    apply: Callable[[Tensor], Tensor]
    rows: Tensor
    inputs: int
    spectral: float

    @property
    def norms(self) -> LayerNorms:
        return LayerNorms(self.name, self.spectral, float(self.rows.sum()))


def _entry(
    name: str, apply: Callable[[Tensor], Tensor], rows: Tensor, inputs: int, spectral: float = 0.0
) -> _Entry:
    norm = spectral or largest_singular_value(apply, (inputs,), 1e-9).value
    return _Entry(name, apply, rows, inputs, norm)


def _diagonal(gain: Tensor) -> _Entry:
    flat = gain.flatten()
    return _entry("rescaling", lambda z: flat * z, flat.abs(), len(flat), float(flat.abs().max()))


def _assemble(
    head: VanishingHead | LocalHead,
    entry: _Entry,
    front: tuple[LayerNorms, ...],
    shape: tuple[int, int],
    reach: float,
) -> HeadNorms:
    """All layers: what stands before the polynomials, W_M, W_C, W_F, and the path beside them."""
    final, positions = head.linear.weight, 1
    if isinstance(head, LocalHead):
        positions = shape[1]
        final = (final[:, None] * head.spatial.weight).flatten(1)  # (K, P N)
    bounds = polynomial_bounds(head.polynomials, head.linear.weight)
    middle = [_scaled(layer, 1.0, positions) for layer in (bounds.sums, bounds.coefficients)]
    last = matrix_norms(final, "W_F")
    inner = [*front, *middle]
    if head.path is None:
        return HeadNorms((entry.norms, *inner, last), bounds, reach)
    start = _fork(entry, _path_matrix(head.path))
    carried = [_carried(layer, len(final)) for layer in inner]
    return HeadNorms((start, *carried, _joined(final)), bounds, reach)


def _path_matrix(path: LinearPath) -> Tensor:
    """The path as one matrix (K, C P)."""
    out = path.out.weight / path.scale
    if path.reduce is None:
        return out
    spread = out.unflatten(1, (path.width, -1))  # (K, width, P)
    return torch.einsum("kwp,wc->kcp", spread, path.reduce.weight[..., 0]).flatten(1)


def _fork(entry: _Entry, shortcut: Tensor) -> LayerNorms:
    def both(z: Tensor) -> Tensor:
        return torch.cat([entry.apply(z), shortcut @ z])

    found = largest_singular_value(both, (entry.inputs,), 1e-9)
    two_one = float(entry.rows.sum() + shortcut.norm(dim=1).sum())
    return LayerNorms(
        entry.name, found.value, two_one, upper=found.upper, converged=found.converged, role="fork"
    )


def _carried(layer: LayerNorms, count: int) -> LayerNorms:
    spectral = max(1.0, layer.spectral)
    return replace(layer, spectral=spectral, two_one=layer.two_one + count, role="carry")


def _joined(final: Tensor) -> LayerNorms:
    norms = matrix_norms(final, "W_F")
    two_one = float((final.square().sum(1) + 1).sqrt().sum())
    return replace(norms, spectral=math.hypot(norms.spectral, 1), two_one=two_one, role="join")


def _scaled(layer: LayerNorms, spectral: float, two_one: float) -> LayerNorms:
    return replace(
        layer, spectral=layer.spectral * spectral, two_one=layer.two_one * two_one, upper=None
    )
