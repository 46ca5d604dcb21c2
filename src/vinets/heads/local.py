r"""The local head: the same polynomials at every position of the map.

.. math:: y_j = \sum_p s_{jp}\,\bigl|p_j(h_p)\bigr|

with trained spatial weights :math:`s`. The variables of the polynomials are the channels at a
position, rescaled, or a few principal components of them, squashed, or both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.options import count, share
from vinets.core.settings import IdealOptions
from vinets.heads.base import LastLayer, redefined
from vinets.heads.pieces import HeadMaps, LinearMap, LinearPath, SpatialSum, by_parts
from vinets.heads.polynomial_head import PolynomialHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.vanishing import GeneratorHead, GeneratorOptions, Variables, project
from vinets.latent.collect import Latents
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale


@dataclass(frozen=True)
class LocalOptions(GeneratorOptions):
    """Options of :class:`LocalHead`."""

    kind: ClassVar[str] = "local"
    max_degree: int | str | None = redefined(  # type: ignore[assignment]
        IdealOptions,
        "max_degree",
        "auto",
        domain=count(auto=True),
        shown="2, or 1 in the channels",
    )
    normalization: str | None = redefined(IdealOptions, "normalization", None)
    components: int | None = redefined(
        GeneratorOptions,
        "components",
        None,
        help="Variables of the polynomials: principal components of the channels, or the channels.",
        shown="the channels",
    )
    keep: int | float | str | None = redefined(
        GeneratorOptions, "keep", "auto", domain=share(auto=True), shown="512 in all"
    )
    monomials: int | None = redefined(GeneratorOptions, "monomials", None, shown="all")

    def for_classes(self, classes: int) -> Self:
        """Return the options with what was left open chosen.

        A local layer is evaluated at every position, so that its size is bounded in all. Many
        variables at every position leave no more than lines.
        """
        if "auto" not in (self.keep, self.max_degree):
            return self
        keep = max(1, 512 // classes) if self.keep == "auto" else self.keep
        degree = self.max_degree
        if degree == "auto":
            degree = 1 if self.components is None else 2
        return replace(self, keep=keep, max_degree=degree)


class LocalPolynomials(PolynomialHead):
    """Polynomials of the descriptors at every position, summed with spatial weights.

    Their variables are the ``C`` channels, tanh of the components that a projection makes of these,
    or first those and then these, if ``channels`` are to be variables next to components.
    """

    local = True
    polynomials: PolynomialLayer
    training_defaults: ClassVar[Mapping[str, Any]] = {"weight_decay": 2e-3}

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
        super().__init__(rescale, projection, polynomials, classes, path=path)
        self.channels = channels
        self.spatial = SpatialSum(len(polynomials.bias), positions)

    def arguments(self) -> dict[str, Any]:
        return {"positions": self.spatial.weight.shape[0], "channels": self.channels}

    def variables(self, latents: Tensor) -> Tensor:
        h = self.rescale(latents).mT
        if self.projection is None:
            return h
        z = torch.tanh(self.projection(h))
        return torch.cat([h, z], -1) if self.channels else z

    def features(self, latents: Tensor) -> Tensor:
        """Sum the absolute values over the positions by weights, (B, N)."""
        return self._sums(lambda z: self.polynomials.scaled(self.variables(z)), latents)

    def _sums(self, scaled: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
        """Sum polynomials over the positions; ``scaled`` makes monomials (B, P, S) of ``z``."""
        layer, spatial = self.polynomials, self.spatial
        size = spatial.weight.numel()

        def plain(m: Tensor) -> Tensor:
            return spatial(layer.watch(layer.activated(layer.values_on(m))))

        if not layer.training:  # every image is on its own
            return by_parts(lambda part: plain(scaled(part)), z, size)
        m = scaled(z).contiguous()
        affine = None if layer.watched else layer.affine(m)  # by statistics of the whole batch
        if affine is None:
            return plain(m)
        return by_parts(lambda part: spatial(layer.activated(F.linear(part, *affine))), m, size)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        if not self.frozen:
            return None
        layer = self.polynomials
        few = layer.monomials.variables_only  # else there are more monomials than variables

        def front(latents: Tensor) -> Tensor:
            z = self.variables(latents)
            return (layer.scaled(z) if few else z).contiguous()

        sums = partial(self._sums, (lambda m: m) if few else layer.scaled)
        return front, LastLayer(sums, self.norm, self.linear, layer, self.spatial)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        positions = shape[1]
        before = [LinearMap("rescaling", (1 / self.rescale.std).expand(shape).flatten())]
        reach = 1.0 if self.rescale.squash else math.inf
        if self.projection is not None:
            weight: Tensor = self.projection.weight
            if self.channels:  # these are variables next to the components
                weight = torch.cat([torch.eye(weight.shape[1]).to(weight), weight])
            else:
                reach = 1.0
            before.append(LinearMap("projection", weight, copies=positions))
        final = (self.linear.weight[:, None] * self.spatial.weight).flatten(1)  # (K, P N)
        return self.maps_between(tuple(before), final, reach, positions)


def descriptors(latents: Latents, rescale: Rescale, seed: int) -> Tensor:
    """Return the channels at one position of every example, drawn and rescaled: (m, C)."""
    store, positions = latents.store, latents.shape[1]
    generator = torch.Generator().manual_seed(seed)  # on the CPU: the same draws on any device
    draws = torch.randint(positions, (len(store),), generator=generator)
    rows = []
    for (values, _), part in zip(store.chunks(1024), draws.split(1024), strict=True):
        rows.append(rescale(values)[torch.arange(len(part)), :, part])
    return torch.cat(rows)


def find_local(latents: Latents, options: LocalOptions, seed: int) -> Variables:
    """Take the channels at one position of every example, drawn at random, and project them."""

    def find() -> Variables:
        begin = time.perf_counter()
        rescale = Rescale.fit(latents.store)
        h = descriptors(latents, rescale, seed)
        n, projection, explained, points = options.components, None, None, h
        if n is not None and n < h.shape[1]:
            projection, explained = project(lambda: [h], n, options.pca, "unit", seed)
            points = torch.tanh(projection(h)).detach()
        facts = latents.store.labels.to(points.device), explained, time.perf_counter() - begin
        return Variables(rescale, projection, points, *facts, {"positions": latents.shape[1]})

    key = options.kind, options.components, options.pca, seed
    return latents.once("variables", key, find)


class LocalHead(GeneratorHead, LocalPolynomials):
    """The local head whose polynomials vanish on the classes."""

    kind, label = "local", "VI-Net"
    Options = LocalOptions
    rivals = ("linear", "pooled", "mlp", "local-random", "local-same-degrees", "local-relu")
    find_variables = staticmethod(find_local)

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        return {}
