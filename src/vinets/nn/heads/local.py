r"""The local head: the same polynomials at every position of the map.

.. math:: y_j = \sum_p s_{jp}\,\bigl|p_j(h_p)\bigr|

with trained spatial weights :math:`s`. The variables of the polynomials are the channels at a
position, rescaled, or a few principal components of them, squashed, or both.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.nn.heads.base import (
    Head,
    LinearPath,
    SpatialSum,
    folded_linear,
    numbers,
    polynomials_from,
)
from vinets.nn.polynomial import PolynomialLayer

__all__ = ["LocalHead", "LocalReLUHead", "local_variables", "relu_like"]


class LocalHead(Head):
    """Polynomials of the descriptors at every position, summed with spatial weights.

    Parameters
    ----------
    rescale : Rescale
        Rescales the latents per channel and position, (C, P).
    projection : Projection or None
        From the ``C`` channels to ``q`` components; their tanh are variables too.
    polynomials : PolynomialLayer
        In the ``C`` channels, the ``q`` components, or first those and then these.
    positions, classes : int
        ``P`` and ``K``.
    channels : bool, default=True
        Whether the channels themselves are variables.
    path : LinearPath or None, default=None
        Logits linear in the latents, added to those of the polynomials.
    """

    kind = "local"

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection | None,
        polynomials: PolynomialLayer,
        positions: int,
        classes: int,
        *,
        channels: bool = True,
        path: LinearPath | None = None,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.rescale = rescale
        self.projection = projection
        self.polynomials = polynomials
        count = len(polynomials.bias)
        self.spatial = SpatialSum(count, positions)
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(count)
        self.linear = nn.Linear(count, classes)
        self.path = path

    @classmethod
    def like(cls, head: LocalHead, polynomials: PolynomialLayer) -> Self:
        """An untrained head with other polynomials behind the same variables."""
        return cls(
            copy.deepcopy(head.rescale),
            copy.deepcopy(head.projection),
            polynomials,
            head.spatial.weight.shape[0],
            head.linear.out_features,
            channels=head.channels,
            path=LinearPath.like(head.path),
        )

    def variables(self, latents: Tensor) -> Tensor:
        """What the polynomials are evaluated at, (B, P, n)."""
        return local_variables(self.rescale(latents).mT, self.projection, self.channels)

    def forward(self, latents: Tensor) -> Tensor:
        y = self.spatial(self.polynomials(self.variables(latents)))  # (B, P, N) to (B, N)
        if self.norm is not None:
            y = self.norm(y)
        logits = self.linear(y)
        return logits if self.path is None else logits + self.path(latents)

    @torch.no_grad()
    def folded(self) -> LocalHead:
        plain = copy.deepcopy(self)
        plain.polynomials = self.polynomials.folded()
        if self.norm is not None:
            plain.linear, plain.norm = folded_linear(self.norm, self.linear), None
        plain.path = None if self.path is None else self.path.folded()
        return plain

    def parts(self) -> dict[str, int]:
        counts = {"projection": numbers(self.rescale, self.projection)}
        counts |= self.polynomials.parts()
        counts["linear"] = numbers(self.spatial, self.norm, self.linear, self.path)
        return counts

    def config(self) -> dict[str, Any]:
        path, projection = self.path, self.projection
        return {
            "kind": self.kind,
            "classes": self.linear.out_features,
            "positions": self.spatial.weight.shape[0],
            "channels": self.channels,
            "rescale": list(self.rescale.mean.shape),
            "squash": self.rescale.squash,
            "projection": None if projection is None else list(projection.weight.shape),
            "trained_projection": projection is not None and projection.weight.requires_grad,
            "polynomials": self.polynomials.config(),
            "folded": self.norm is None,
            "path": None if path is None else path.config(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        shape = tuple(config["rescale"])
        rescale = Rescale(torch.zeros(shape), torch.ones(shape), squash=config["squash"])
        projection = None
        if config["projection"] is not None:
            n, d = config["projection"]
            projection = Projection(
                torch.zeros(n, d), torch.zeros(n), trainable=config["trained_projection"]
            )
        polynomials = polynomials_from(config["polynomials"], state)
        if not isinstance(polynomials, PolynomialLayer):
            raise ValueError("a local head has shared polynomials.")
        path = LinearPath.from_config(config["path"], config["classes"])
        head = cls(
            rescale,
            projection,
            polynomials,
            config["positions"],
            config["classes"],
            channels=config["channels"],
            path=path,
        )
        if config["folded"]:
            head.norm = None
        return head


class LocalReLUHead(LocalHead):
    """The local head with ReLU in place of the absolute value: the control."""

    kind = "local-relu"


def relu_like(head: LocalHead, *, seed: int = 0) -> LocalReLUHead:
    """The control of ``head``: the same shape and monomials, random coefficients, ReLU."""
    own = head.polynomials
    layer = PolynomialLayer(
        own.monomials.terms, len(own.bias), normalized=own.norm is not None, activation="relu"
    )
    layer.draw(torch.Generator().manual_seed(seed))
    if own.shift is not None and own.scale is not None:
        layer.set_moments(own.shift.cpu(), own.scale.cpu())
    return LocalReLUHead.like(head, layer)


def local_variables(h: Tensor, projection: nn.Module | None, channels: bool) -> Tensor:
    """Variables of the polynomials for rescaled descriptors ``h`` (..., C)."""
    if projection is None:
        return h
    z = torch.tanh(projection(h))
    return torch.cat([h, z], -1) if channels else z
