r"""The local head: the same polynomials at every position of the map.

.. math:: y_j = \sum_p s_{jp}\,\bigl|p_j(h_p)\bigr|

with trained spatial weights :math:`s`. The variables of the polynomials are the channels at a
position, rescaled, or a few principal components of them, squashed, or both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.heads.base import Reference
from vinets.heads.maps import HeadMaps, LinearMap
from vinets.heads.pieces import (
    LinearPath,
    SpatialSum,
    TrainedTail,
    by_parts,
    in_use,
    parameter_count,
    traced,
)
from vinets.heads.polynomial import PolynomialHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale


class LocalPolynomials(PolynomialHead):
    """Polynomials of the descriptors at every position, summed with spatial weights.

    Parameters
    ----------
    rescale : Rescale
        Rescales the latents per channel and position, (C, P).
    projection : Projection or None
        From the ``C`` channels to ``q`` components; their tanh are variables too.
    polynomials : PolynomialLayer
        In the ``C`` channels, the ``q`` components, or first those and then these.
    classes, positions : int
        The number of logits ``K``, and of positions ``P``.
    channels : bool, default=True
        Whether the channels themselves are variables.
    path : LinearPath or None, default=None
        Logits linear in the latents, added to those of the polynomials.
    """

    local = True
    polynomials: PolynomialLayer

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection | None,
        polynomials: PolynomialLayer,
        classes: int,
        *,
        positions: int,
        channels: bool = True,
        path: LinearPath | None = None,
    ) -> None:
        if not isinstance(polynomials, PolynomialLayer):
            raise ValueError("a local head has shared polynomials.")
        super().__init__(rescale, projection, polynomials, classes, path)
        self.channels = channels
        self.spatial = SpatialSum(len(polynomials.bias), positions)

    def arguments(self) -> dict[str, Any]:
        return {"positions": self.spatial.weight.shape[0], "channels": self.channels}

    def variables(self, latents: Tensor) -> Tensor:
        """What the polynomials are evaluated at, (B, P, n)."""
        return local_variables(self.rescale(latents).mT, self.projection, self.channels)

    def features(self, latents: Tensor) -> Tensor:
        """Weighted sums over the positions of the absolute values, (B, N)."""
        layer, size = self.polynomials, self.spatial.weight.numel()
        forms = self.projection is None and layer.monomials.variables_only
        # for one image, turning the spatial weights around would cost more than it saves
        if forms and layer.plain and len(latents) > 1 and not self.training and in_use():
            return self._sums_of_forms(latents)
        if not self.training:  # every image is on its own
            return by_parts(lambda part: self.spatial(layer(self.variables(part))), latents, size)
        return _summed(layer, self.spatial, layer.scaled(self.variables(latents)))

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        trained = self.projection is not None and self.projection.weight.requires_grad
        if self.path is not None or trained:
            return None
        layer = self.polynomials
        few = layer.monomials.variables_only  # else there are more monomials than variables

        def front(latents: Tensor) -> Tensor:
            z = self.variables(latents)
            return (layer.scaled(z) if few else z).contiguous()

        return front, TrainedTail(_Sums(layer, self.spatial, few), self.norm, self.linear)

    def _sums_of_forms(self, latents: Tensor) -> Tensor:
        """What polynomials of degree 1 give for inference: channels stay first, as they come."""
        layer, spatial = self.polynomials, self.spatial.weight.mT.contiguous()
        weight, bias = layer.weight, layer.bias[:, None]

        def sums(part: Tensor) -> Tensor:
            h = self.rescale(part)
            values = torch.baddbmm(bias, weight.expand(len(h), -1, -1), h)
            return layer.activated(values).mul_(spatial).sum(-1)

        return by_parts(sums, latents, spatial.numel())

    def parts(self) -> dict[str, int]:
        counts = super().parts()
        return counts | {"linear": counts["linear"] + parameter_count(self.spatial)}

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        positions = shape[1]
        before = [LinearMap("rescaling", (1 / self.rescale.std).expand(shape).flatten())]
        reach = 1.0 if self.rescale.squash else math.inf
        if self.projection is not None:
            weight: Tensor = self.projection.weight
            if self.channels:  # they stand beside the components
                weight = torch.cat([torch.eye(weight.shape[1]).to(weight), weight])
            else:
                reach = 1.0
            before.append(LinearMap("projection", weight, copies=positions))
        final = (self.linear.weight[:, None] * self.spatial.weight).flatten(1)  # (K, P N)
        return self.maps_between(tuple(before), final, reach, positions)


class _Sums(nn.Module):
    """Sums of polynomials behind variables (B, P, n) or monomials of them, to be trained there."""

    def __init__(self, polynomials: PolynomialLayer, spatial: SpatialSum, scaled: bool) -> None:
        super().__init__()
        self.polynomials, self.spatial, self.scaled = polynomials, spatial, scaled

    def forward(self, z: Tensor) -> Tensor:
        layer, spatial = self.polynomials, self.spatial
        if self.training:
            return _summed(layer, spatial, z if self.scaled else layer.scaled(z))

        def sums(part: Tensor) -> Tensor:
            m = part if self.scaled else layer.scaled(part)
            return spatial(layer.activated(layer.values_on(m)))

        return by_parts(sums, z, spatial.weight.numel())


def _summed(layer: PolynomialLayer, spatial: SpatialSum, m: Tensor) -> Tensor:
    """Sums of polynomials for a batch of monomials (B, P, S) that they learn from."""
    m, size = m.contiguous(), spatial.weight.numel()
    if layer.watched:
        return spatial(layer.watch(layer.activated(layer.values_on(m))))
    affine = layer.affine(m)  # statistics are those of the whole batch
    if affine is None:
        return spatial(layer.activated(layer.values_on(m)))
    if traced() or not m.is_cpu or torch.is_autocast_enabled("cpu"):
        return by_parts(lambda part: spatial(layer.activated(F.linear(part, *affine))), m, size)
    return spatial.of_forms(m, *affine, layer.slope)


class LocalHead(LocalPolynomials):
    """The local head whose polynomials vanish on the classes."""

    kind, label, rank = "local", "VI-Net", 0
    from_ideals = True
    placement = "local"


class LocalReLUHead(LocalPolynomials):
    """A control: the same shape and monomials, random coefficients, ReLU for absolute values."""

    kind, label, rank = "local-relu", "local ReLU", 60
    stands_beside = ("local",)

    @classmethod
    def beside(cls, reference: Reference) -> Self | None:
        head = reference.head
        if not isinstance(head, LocalPolynomials):
            return None
        own = head.polynomials
        layer = PolynomialLayer(
            own.monomials.terms, len(own.bias), normalized=own.norm is not None, activation="relu"
        )
        layer.draw(torch.Generator().manual_seed(reference.seed))
        if own.shift is not None and own.scale is not None:
            layer.set_moments(own.shift.cpu(), own.scale.cpu())
        return cls.like(head, layer)


def local_variables(h: Tensor, projection: nn.Module | None, channels: bool) -> Tensor:
    """Variables of the polynomials for rescaled descriptors ``h`` (..., C)."""
    if projection is None:
        return h
    z = torch.tanh(projection(h))
    return torch.cat([h, z], -1) if channels else z
