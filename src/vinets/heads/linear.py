"""Linear heads to compare with, on the whole map, on its mean, or on the components."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

from torch import Tensor, nn

from vinets.core.checks import one_of
from vinets.heads.base import FeatureHead, HeadOptions, LastLayer, build_like
from vinets.heads.pieces import HeadMaps, LinearMap, inputs_config, inputs_from, parameter_count
from vinets.heads.vanishing import (
    ORDERS,
    BaselineOptions,
    GlobalPolynomials,
    component_maps,
    components,
)
from vinets.latent.collect import Latents
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale


class _LinearOn(FeatureHead):
    """Batch normalisation, unless it is folded, and a linear layer on values of the latents."""

    def __init__(self, inputs: int, classes: int, *, normalized: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(inputs) if normalized else None
        self.linear = nn.Linear(inputs, classes)

    def config(self) -> dict[str, Any]:
        return super().config() | {"inputs": self.linear.in_features}


class LinearHead(_LinearOn):
    """A linear layer on the flattened map of channels times positions."""

    kind, label = "linear", "linear, flat"

    @classmethod
    def make(cls, latents: Latents, options: HeadOptions, seed: int) -> Self:
        return cls(latents.shape[0] * latents.shape[1], latents.n_classes)

    def features(self, latents: Tensor) -> Tensor:
        return latents.flatten(1)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        return HeadMaps((), LinearMap("linear", self.linear.weight))


class PooledHead(_LinearOn):
    """A linear layer on the channels, averaged over positions."""

    kind, label = "pooled", "linear, pooled"

    @classmethod
    def make(cls, latents: Latents, options: HeadOptions, seed: int) -> Self:
        return cls(latents.shape[0], latents.n_classes)

    def features(self, latents: Tensor) -> Tensor:
        return latents.mean(-1)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        return HeadMaps((), LinearMap("linear", self.linear.weight, averaged=shape[1]))


class ComponentsHead(_LinearOn):
    """A linear layer on the variables of a vanishing head: its polynomials left out.

    ``rescale``, ``projection`` and their ``order`` are those of that head.
    """

    kind, label = "components", "linear, components"
    Options = BaselineOptions
    training_defaults = GlobalPolynomials.training_defaults

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection,
        classes: int,
        *,
        order: str = "tanh-pca",
        normalized: bool = True,
    ) -> None:
        super().__init__(len(projection.bias), classes, normalized=normalized)
        self.order = one_of("ComponentsHead", "order", order, ORDERS)
        self.rescale, self.projection = rescale, projection

    @classmethod
    def make(cls, latents: Latents, options: BaselineOptions, seed: int) -> Self:
        like = build_like(latents, options.like, seed)
        assert isinstance(like, GlobalPolynomials)  # its options are those of a vanishing head
        inputs = copy.deepcopy(like.rescale), copy.deepcopy(like.projection)
        return cls(*inputs, latents.n_classes, order=like.order)

    def features(self, latents: Tensor) -> Tensor:
        return components(latents, self.rescale, self.projection, self.order)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        if self.projection.weight.requires_grad:
            return None
        return self.features, LastLayer(nn.Identity(), self.norm, self.linear)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        size = shape[0] * shape[1]
        before, _ = component_maps(self.rescale, self.projection, self.order, size)
        return HeadMaps(before, LinearMap("linear", self.linear.weight))

    def parts(self) -> dict[str, int]:
        return {"projection": parameter_count(self.rescale, self.projection), **super().parts()}

    def config(self) -> dict[str, Any]:
        inputs = inputs_config(self.rescale, self.projection)
        return super().config() | {"order": self.order, **inputs}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        rescale, projection = inputs_from(config)
        if projection is None:
            raise ValueError("a head on components has a projection.")
        options = {name: config[name] for name in ("classes", "order", "normalized")}
        return cls(rescale, projection, **options)
