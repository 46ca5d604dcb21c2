"""Heads to compare with: linear on the map, its mean, or components; with one hidden layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.core.checks import one_of, optional_positive_int
from vinets.heads import pieces, vanishing
from vinets.heads.base import FeatureHead, Head, HeadOptions, LastLayer, build_like
from vinets.heads.pieces import HeadMaps, LinearMap, parameter_count
from vinets.heads.polynomial_layer import affine_of
from vinets.heads.vanishing import BaselineOptions, GlobalPolynomials, SizeOptions
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
        self.order = one_of("ComponentsHead", "order", order, vanishing.ORDERS)
        self.rescale, self.projection = rescale, projection

    @classmethod
    def make(cls, latents: Latents, options: BaselineOptions, seed: int) -> Self:
        like = build_like(latents, options.like, seed)
        assert isinstance(like, GlobalPolynomials)  # its options are those of a vanishing head
        inputs = copy.deepcopy(like.rescale), copy.deepcopy(like.projection)
        return cls(*inputs, latents.n_classes, order=like.order)

    def features(self, latents: Tensor) -> Tensor:
        return vanishing.components(latents, self.rescale, self.projection, self.order)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        if self.projection.weight.requires_grad:
            return None
        return self.features, LastLayer(nn.Identity(), self.norm, self.linear)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        size = shape[0] * shape[1]
        before, _ = vanishing.component_maps(self.rescale, self.projection, self.order, size)
        return HeadMaps(before, LinearMap("linear", self.linear.weight))

    def parts(self) -> dict[str, int]:
        return {"projection": parameter_count(self.rescale, self.projection), **super().parts()}

    def config(self) -> dict[str, Any]:
        inputs = pieces.inputs_config(self.rescale, self.projection)
        return super().config() | {"order": self.order, **inputs}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        rescale, projection = pieces.inputs_from(config)
        if projection is None:
            raise ValueError("a head on components has a projection.")
        options = {name: config[name] for name in ("classes", "order", "normalized")}
        return cls(rescale, projection, **options)


class MLPHead(Head):
    """One hidden layer of ReLUs on the flattened map, standardised unless the head is folded.

    ``inputs`` are channels times positions. :meth:`matched` finds the width for a number of
    parameters.
    """

    kind, label = "mlp", "MLP"
    Options = SizeOptions

    def __init__(self, inputs: int, classes: int, *, width: int, normalized: bool = True) -> None:
        super().__init__()
        optional_positive_int("MLPHead", "width", width)
        self.first_norm = nn.BatchNorm1d(inputs) if normalized else None
        self.hidden = nn.Linear(inputs, width)
        self.norm = nn.BatchNorm1d(width) if normalized else None
        self.linear = nn.Linear(width, classes)

    @classmethod
    def matched(cls, inputs: int, classes: int, *, parameters: int) -> Self:
        """Make the widest head that stores, folded, at most that many parameters."""
        each = inputs + 1 + classes
        return cls(inputs, classes, width=max(1, (parameters - classes) // each))

    @classmethod
    def make(cls, latents: Latents, options: SizeOptions, seed: int) -> Self:
        inputs = latents.shape[0] * latents.shape[1]
        size = options.size(latents, seed)
        return cls.matched(inputs, latents.n_classes, parameters=size)

    def forward(self, latents: Tensor) -> Tensor:
        z = latents.flatten(1)
        z = self.hidden(z if self.first_norm is None else self.first_norm(z))
        z = (z if self.norm is None else self.norm(z)).relu()
        return self.linear(z)

    @torch.no_grad()
    def folded(self) -> Self:
        plain = super().folded()
        if self.first_norm is not None:
            folded = pieces.folded_linear(self.first_norm, self.hidden)
            plain.hidden, plain.first_norm = folded, None
        if self.norm is not None:
            hidden, (gain, offset) = plain.hidden, affine_of(self.norm)
            hidden.weight.copy_(gain[:, None] * hidden.weight.double())
            hidden.bias.copy_(gain * hidden.bias.double() + offset)
            plain.norm = None
        return plain

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        hidden = LinearMap("hidden", self.hidden.weight)
        return HeadMaps((hidden,), LinearMap("linear", self.linear.weight))

    def parts(self) -> dict[str, int]:
        return {"linear": parameter_count(self)}

    def config(self) -> dict[str, Any]:
        (width, inputs), normalized = self.hidden.weight.shape, self.norm is not None
        classes = self.linear.out_features
        return {"inputs": inputs, "classes": classes, "width": width, "normalized": normalized}
