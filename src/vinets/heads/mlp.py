"""The head with one hidden layer, to compare with."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.core.checks import optional_positive_int
from vinets.heads.base import Head
from vinets.heads.pieces import HeadMaps, LinearMap, folded_linear, parameter_count
from vinets.heads.polynomial_layer import affine_of
from vinets.heads.vanishing import SizeOptions
from vinets.latent.collect import Latents


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
            plain.hidden, plain.first_norm = folded_linear(self.first_norm, self.hidden), None
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
        return {
            "inputs": self.hidden.in_features,
            "classes": self.linear.out_features,
            "width": self.hidden.out_features,
            "normalized": self.norm is not None,
        }
