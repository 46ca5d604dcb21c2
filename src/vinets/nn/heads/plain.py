"""Heads without polynomials, to compare with."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.checks import one_of, optional_positive_int
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.nn.heads.base import Head, folded_linear, inputs_config, inputs_from, numbers
from vinets.nn.heads.vanishing import ORDERS, VanishingHead, components
from vinets.nn.polynomial import affine_of

__all__ = ["ComponentsHead", "LinearHead", "MLPHead"]


class _LinearOn(Head):
    """Batch normalisation and a linear layer on ``width`` values that a head derives."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, classes)

    @abstractmethod
    def variables(self, latents: Tensor) -> Tensor:
        """What the linear layer sees, (B, width)."""

    def forward(self, latents: Tensor) -> Tensor:
        z = self.variables(latents)
        return self.linear(z if self.norm is None else self.norm(z))

    @torch.no_grad()
    def folded(self) -> Self:
        plain = copy.deepcopy(self)
        if self.norm is not None:
            plain.linear, plain.norm = folded_linear(self.norm, self.linear), None
        return plain


class LinearHead(_LinearOn):
    """A linear layer on the flattened map, or on its average over positions.

    Parameters
    ----------
    channels, positions, classes : int
        Shape of the latents and number of logits.
    pooling : {"flat", "pooled"}, default="flat"
        Every value of the map, or the mean of every channel.
    """

    kind = "linear"

    def __init__(
        self, channels: int, positions: int, classes: int, *, pooling: str = "flat"
    ) -> None:
        one_of("LinearHead", "pooling", pooling, ("flat", "pooled"))
        super().__init__(channels * positions if pooling == "flat" else channels, classes)
        self.pooling = pooling
        self.shape = channels, positions

    def variables(self, latents: Tensor) -> Tensor:
        return latents.flatten(1) if self.pooling == "flat" else latents.mean(-1)

    def parts(self) -> dict[str, int]:
        return {"linear": numbers(self.norm, self.linear)}

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "classes": self.linear.out_features,
            "pooling": self.pooling,
            "folded": self.norm is None,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        channels, positions = config["shape"]
        head = cls(channels, positions, config["classes"], pooling=config["pooling"])
        if config["folded"]:
            head.norm = None
        return head


class ComponentsHead(_LinearOn):
    """A linear layer on the variables of a :class:`VanishingHead`: its polynomials left out.

    Parameters
    ----------
    rescale, projection
        As those of the vanishing head.
    classes : int
        Number of logits.
    order : {"tanh-pca", "pca-tanh"}, default="tanh-pca"
        Which of the two comes first.
    """

    kind = "linear-components"

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection,
        classes: int,
        *,
        order: str = "tanh-pca",
    ) -> None:
        super().__init__(len(projection.bias), classes)
        self.order = one_of("ComponentsHead", "order", order, ORDERS)
        self.rescale, self.projection = rescale, projection

    @classmethod
    def of(cls, head: VanishingHead) -> Self:
        """The baseline of ``head``, untrained."""
        inputs = copy.deepcopy(head.rescale), copy.deepcopy(head.projection)
        return cls(*inputs, head.linear.out_features, order=head.order)

    def variables(self, latents: Tensor) -> Tensor:
        return components(latents, self.rescale, self.projection, self.order)

    def parts(self) -> dict[str, int]:
        return {
            "projection": numbers(self.rescale, self.projection),
            "linear": numbers(self.norm, self.linear),
        }

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "classes": self.linear.out_features,
            "order": self.order,
            **inputs_config(self.rescale, self.projection),
            "folded": self.norm is None,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        rescale, projection = inputs_from(config)
        assert projection is not None
        head = cls(rescale, projection, config["classes"], order=config["order"])
        if config["folded"]:
            head.norm = None
        return head


class MLPHead(Head):
    """One hidden layer of ReLUs on the flattened, standardised map.

    Parameters
    ----------
    channels, positions, classes : int
        Shape of the latents and number of logits.
    width : int
        Hidden units; :meth:`matched` finds the width for a number of parameters.
    """

    kind = "mlp"

    def __init__(self, channels: int, positions: int, classes: int, *, width: int) -> None:
        super().__init__()
        optional_positive_int("MLPHead", "width", width)
        self.shape = channels, positions
        self.first_norm: nn.BatchNorm1d | None = nn.BatchNorm1d(channels * positions)
        self.hidden = nn.Linear(channels * positions, width)
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, classes)

    @classmethod
    def matched(cls, channels: int, positions: int, classes: int, *, numbers: int) -> MLPHead:
        """The widest head that stores, folded, at most ``numbers`` numbers (one unit at least)."""
        each = channels * positions + 1 + classes
        return cls(channels, positions, classes, width=max(1, (numbers - classes) // each))

    def forward(self, latents: Tensor) -> Tensor:
        z = latents.flatten(1)
        z = self.hidden(z if self.first_norm is None else self.first_norm(z))
        z = (z if self.norm is None else self.norm(z)).relu()
        return self.linear(z)

    @torch.no_grad()
    def folded(self) -> MLPHead:
        plain = copy.deepcopy(self)
        if self.first_norm is not None:
            plain.hidden, plain.first_norm = folded_linear(self.first_norm, self.hidden), None
        if self.norm is not None:
            plain.hidden, plain.norm = _scaled_outputs(plain.hidden, self.norm), None
        return plain

    def parts(self) -> dict[str, int]:
        return {"linear": numbers(self)}

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "classes": self.linear.out_features,
            "width": self.hidden.out_features,
            "folded": self.norm is None,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        channels, positions = config["shape"]
        head = cls(channels, positions, config["classes"], width=config["width"])
        if config["folded"]:
            head.first_norm = head.norm = None
        return head


def _scaled_outputs(linear: nn.Linear, norm: nn.BatchNorm1d) -> nn.Linear:
    """A linear layer followed by batch normalisation, as one linear layer."""
    gain, offset = affine_of(norm)
    plain = copy.deepcopy(linear)
    plain.weight.copy_(gain[:, None] * linear.weight.double())
    plain.bias.copy_(gain * linear.bias.double() + offset)
    return plain
