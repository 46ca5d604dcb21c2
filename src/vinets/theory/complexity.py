r"""Spectral complexity of whole networks: plain ones, and a backbone with a head behind a cut.

A head says itself which linear maps it consists of; see :class:`vinets.heads.HeadMaps`. Polynomials
between them are :math:`W_M` with the InEx activation and :math:`W_C` with the absolute value. The
paper counts these and :math:`W_F` only; rescaling and projection are there as well, so they count.

Where a matrix acts at all :math:`P` positions, :math:`I_P \otimes W`, the spectral norm is that of
:math:`W`, the (2,1) norm :math:`P` times that of :math:`W`. Means over positions divide both by
:math:`\sqrt{P}`. The weighted sum over the positions of a local head belongs to :math:`W_F`. A
linear path beside the others is a shortcut around them, by the rule ``stacked`` of
:mod:`vinets.theory.layers`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from vinets.core.device import call, device_of, evaluating
from vinets.heads import Head, LinearMap
from vinets.latent.reader import first_tensor
from vinets.models.origin import example_inputs
from vinets.networks.network import CutNetwork
from vinets.theory.bounds import PolynomialBounds, encode_polynomials, polynomial_bounds
from vinets.theory.layers import Layer, average_pool_constant, read_layers
from vinets.theory.norms import (
    Complexity,
    LayerNorms,
    kernel_bound,
    linear_map,
    matrix_norms,
    row_norms,
    spectral_norm,
    stacked_norm,
)


def layer_norms(layer: Layer, tolerance: float = 1e-4, seed: int = 0) -> LayerNorms:
    """Compute both norms of a layer, with the shortcut beside a fork, a carry or a join."""
    operator, shape, role = layer.operator, layer.input_shape, layer.role
    rows, cheap = row_norms(operator, shape), kernel_bound(operator)
    two_one = float(rows.sum())
    if layer.shortcut is not None:  # a fork has its operator and the shortcut one above the other
        maps = [linear_map(part, shape) for part in (operator, layer.shortcut)]
        found = stacked_norm(maps, shape, tolerance, seed, operator.weight.device)
        two_one += float(row_norms(layer.shortcut, shape).sum())
        cheap = math.hypot(cheap, kernel_bound(layer.shortcut))
    else:
        found = spectral_norm(operator, shape, tolerance, seed)
        two_one += layer.carried
    norms = [found.value, min(found.upper, cheap), cheap]
    # The identity beside the operator; its norms are closed forms.
    if role == "carry":
        norms = [max(norm, 1.0) for norm in norms]
    elif role in ("fork", "join") and layer.shortcut is None:
        norms = [math.hypot(norm, 1.0) for norm in norms]
    if role == "join":
        two_one = float((rows.square() + 1).sqrt().sum())
    value, upper, cheap = norms
    # Where both agree but for rounding, the bound must not lie below the value.
    bounds = cheap, max(value, upper)
    return LayerNorms(layer.name, value, two_one, layer.lipschitz, *bounds, found.converged, role)


@dataclass(frozen=True)
class HeadNorms:
    """The layers of a head, from the latents to the logits."""

    layers: tuple[LayerNorms, ...]
    sizes: tuple[int, ...]  # how many numbers enter the head, and how many every layer returns
    bounds: PolynomialBounds | None = None  # at one position, for a head of polynomials
    variables_bound: float = 1.0  # B, of the variables of polynomials, whatever the input

    def guaranteed(self) -> tuple[LayerNorms, ...]:
        r"""Return the layers with Lipschitz constants that hold for variables beyond 1, too.

        The InEx activation then has :math:`d\,B^{d-1}` instead of :math:`d`.
        """
        degree = 1 if self.bounds is None else self.bounds.size.degree
        growth = {"W_M": max(1.0, self.variables_bound) ** (degree - 1)}
        return tuple(
            replace(layer, lipschitz=layer.lipschitz * growth.get(layer.name, 1.0))
            for layer in self.layers
        )


@torch.no_grad()
def head_norms(head: Head, shape: tuple[int, int]) -> HeadNorms:
    """Compute the norms of every layer of a head on latents of C channels at P positions.

    It is not changed, and folded first: batch normalisation counts in the matrices around it.
    """
    maps = head.folded().double().cpu().maps(shape)
    layers = [_norms(each) for each in maps.before]
    sizes = [shape[0] * shape[1], *(len(each.matrix) * each.copies for each in maps.before)]
    bounds, reach, polynomials = None, 1.0, maps.polynomials
    if polynomials is not None:
        positions, reach = polynomials.positions, polynomials.reach
        encoded = encode_polynomials(polynomials.layer)
        bounds = polynomial_bounds(encoded, polynomials.weight)
        for layer in (bounds.sums, bounds.coefficients):
            layers.append(replace(layer, two_one=layer.two_one * positions))
        sizes += [positions * encoded.sums.shape[0], positions * len(encoded.coefficients)]
    layers.append(_norms(maps.final))
    if maps.path is not None:
        layers = _around(layers, maps.before[0], maps.final, maps.path)
    return HeadNorms(tuple(layers), (*sizes, len(maps.final.matrix)), bounds, reach)


def _norms(linear: LinearMap) -> LayerNorms:
    """Compute the norms of a linear map at all of its positions."""
    if linear.matrix.ndim == 1:  # a diagonal
        size = linear.matrix.abs()
        norms = LayerNorms(linear.name, float(size.max()), float(size.sum()))
    else:
        norms = matrix_norms(linear.matrix, linear.name)
    shrink = 1 / math.sqrt(linear.averaged)
    spectral, two_one = norms.spectral * shrink, norms.two_one * shrink * linear.copies
    return replace(norms, spectral=spectral, two_one=two_one, lipschitz=linear.lipschitz)


def _around(
    layers: list[LayerNorms], first: LinearMap, final: LinearMap, path: Tensor
) -> list[LayerNorms]:
    """Put a path (K, C P) beside the layers: a fork, carries and a join."""
    matrix, diagonal = first.matrix, first.matrix.ndim == 1
    rows = matrix.abs() if diagonal else matrix.norm(dim=1)
    # Both see the latents, so that the norm is that of one matrix above the other.
    top = (lambda z: matrix * z) if diagonal else (lambda z: matrix @ z)
    # To nine digits, because heads are small and their other norms are exact.
    found = stacked_norm([top, lambda z: path @ z], (matrix.shape[-1],), 1e-9)
    two_one = float(rows.sum() + path.norm(dim=1).sum())
    known = {"upper": found.upper, "converged": found.converged, "role": "fork"}
    stacked = [LayerNorms(first.name, found.value, two_one, **known)]  # type: ignore[arg-type]
    for layer in layers[1:-1]:
        spectral, two_one = max(1.0, layer.spectral), layer.two_one + len(path)
        stacked.append(replace(layer, spectral=spectral, two_one=two_one, role="carry"))
    spectral = math.hypot(layers[-1].spectral, 1)
    two_one = float((final.matrix.square().sum(1) + 1).sqrt().sum())
    return [*stacked, replace(layers[-1], spectral=spectral, two_one=two_one, role="join")]


@dataclass(frozen=True)
class CutComplexity:
    """Norms of a backbone, the truncated network alone, and of the head behind its cut."""

    backbone: Complexity
    head: HeadNorms

    @property
    def whole(self) -> Complexity:
        """Backbone and head, with the Lipschitz constants of the theorem."""
        return Complexity((*self.backbone.layers, *self.head.layers))

    @property
    def guaranteed(self) -> Complexity:
        """The same, also where variables of the polynomials may leave [-1, 1]."""
        return Complexity((*self.backbone.layers, *self.head.guaranteed()))


def spectral_complexity(
    network: nn.Module, example: Tensor | None = None, *, tolerance: float = 1e-4, seed: int = 0
) -> Complexity:
    """Compute the spectral complexity of ``network`` at the size of ``example``.

    It has linear and convolutional layers, batch normalisation, Lipschitz activations, pooling and
    residual blocks, or is a :class:`vinets.CutNetwork` with such a backbone, which knows its own
    example. It is not changed, and counts in eval mode. One input is enough. Spectral norms stop at
    a relative residual of ``tolerance``; ``seed`` is that of their random start.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    >>> _ = nn.init.eye_(net[0].weight)
    >>> round(spectral_complexity(net, torch.zeros(1, 2)).R, 6)
    2.0
    """
    if isinstance(network, CutNetwork):
        return cut_complexity(network, example, tolerance=tolerance, seed=seed).whole
    if example is None:
        raise ValueError("spectral_complexity needs an example of the inputs of this network.")
    layers = read_layers(network, example)
    return Complexity(tuple(layer_norms(layer, tolerance, seed) for layer in layers))


def cut_complexity(
    network: CutNetwork, example: Tensor | None = None, *, tolerance: float = 1e-4, seed: int = 0
) -> CutComplexity:
    """Compute the norms of a VI-Net or a baseline, those of backbone and head apart."""
    if example is None:
        known = example_inputs(network.record.inputs, device=device_of(network))
        if not isinstance(known, Tensor):
            raise ValueError("spectral complexity needs a network with one tensor as its input.")
        example = known
    alone = spectral_complexity(network.backbone, example, tolerance=tolerance, seed=seed)
    with evaluating(network.backbone):
        output = first_tensor(call(network.backbone, example[:1]))
    # The reader may pool: its constant belongs to what follows the last layer of the backbone.
    *norms, last = alone.layers
    constant = average_pool_constant(network.reader, tuple(output.shape[1:]))
    backbone = Complexity((*norms, replace(last, lipschitz=last.lipschitz * constant)))
    channels, positions = network.reader(output).shape[1:]
    return CutComplexity(backbone, head_norms(network.head, (channels, positions)))
