r"""The paper's head: latents rescaled and projected to one vector, polynomials, a linear layer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.checks import one_of
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.heads.base import Head, LinearPath, folded_linear, numbers, polynomials_from
from vinets.nn.polynomial import PolynomialLayer

__all__ = ["ORDERS", "VanishingHead"]

ORDERS = ("tanh-pca", "pca-tanh")


class VanishingHead(Head):
    """Rescaling, projection, |polynomials|, linear layer.

    Parameters
    ----------
    rescale : Rescale
        The map z -> tanh((z - mean) / std).
    projection : Projection
        From latents to the ``n`` variables of the polynomials.
    polynomials : PolynomialLayer or BlockPolynomialLayer
        The ``N`` polynomials.
    classes : int
        The number of logits ``K``.
    order : {"tanh-pca", "pca-tanh"}, default="tanh-pca"
        Which of the first two comes first: the paper's text rescales the latents themselves; its
        theory needs the polynomials' inputs in [-1, 1], which rescaling last gives.
    path : LinearPath or None, default=None
        Logits linear in the latents, added to those of the polynomials.
    """

    kind = "vanishing"

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection,
        polynomials: PolynomialLayer | BlockPolynomialLayer,
        classes: int,
        *,
        order: str = "tanh-pca",
        path: LinearPath | None = None,
    ) -> None:
        super().__init__()
        self.order = one_of("VanishingHead", "order", order, ORDERS)
        self.rescale = rescale
        self.projection = projection
        self.polynomials = polynomials
        count = len(polynomials.bias)
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(count)
        self.linear = nn.Linear(count, classes)
        self.path = path

    @classmethod
    def like(cls, head: VanishingHead, polynomials: PolynomialLayer) -> Self:
        """An untrained head with other polynomials behind the same variables."""
        return cls(
            copy.deepcopy(head.rescale),
            copy.deepcopy(head.projection),
            polynomials,
            head.linear.out_features,
            order=head.order,
            path=LinearPath.like(head.path),
        )

    def variables(self, latents: Tensor) -> Tensor:
        """What the polynomials are evaluated at, (B, n)."""
        z = latents.flatten(1)
        if self.order == "tanh-pca":
            return self.projection(self.rescale(z))
        return self.rescale(self.projection(z))

    def forward(self, latents: Tensor) -> Tensor:
        y = self.polynomials(self.variables(latents))
        if self.norm is not None:
            y = self.norm(y)
        logits = self.linear(y)
        return logits if self.path is None else logits + self.path(latents)

    @torch.no_grad()
    def folded(self) -> VanishingHead:
        plain = copy.deepcopy(self)
        plain.polynomials = self.polynomials.folded()
        if self.norm is not None:
            plain.linear, plain.norm = folded_linear(self.norm, self.linear), None
        plain.path = None if self.path is None else self.path.folded()
        return plain

    def parts(self) -> dict[str, int]:
        counts = {"projection": numbers(self.rescale, self.projection)}
        counts |= self.polynomials.parts()
        counts["linear"] = numbers(self.norm, self.linear, self.path)
        return counts

    def config(self) -> dict[str, Any]:
        path = self.path
        return {
            "kind": self.kind,
            "order": self.order,
            "classes": self.linear.out_features,
            "rescale": list(self.rescale.mean.shape),
            "squash": self.rescale.squash,
            "projection": list(self.projection.weight.shape),
            "trained_projection": self.projection.weight.requires_grad,
            "polynomials": self.polynomials.config(),
            "folded": self.norm is None,
            "path": None if path is None else path.config(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        shape = tuple(config["rescale"])
        rescale = Rescale(torch.zeros(shape), torch.ones(shape), squash=config["squash"])
        n, d = config["projection"]
        projection = Projection(
            torch.zeros(n, d), torch.zeros(n), trainable=config["trained_projection"]
        )
        polynomials = polynomials_from(config["polynomials"], state)
        path = LinearPath.from_config(config["path"], config["classes"])
        head = cls(
            rescale, projection, polynomials, config["classes"], order=config["order"], path=path
        )
        if config["folded"]:
            head.norm = None
        return head
