"""The base of all heads of polynomials, which differ in how they see the latents."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from vinets.heads.base import Head, LastLayer
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.pieces import (
    HeadMaps,
    LinearMap,
    LinearPath,
    PolynomialMap,
    folded_linear,
    inputs_config,
    inputs_from,
    parameter_count,
)
from vinets.heads.polynomial_layer import Monomials, PolynomialLayer
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale


class PolynomialHead(Head):
    """Variables, absolute values of polynomials, linear layer; perhaps a linear path next to them.

    Subclasses say how the variables are made. ``rescale`` and ``projection`` make them of latents,
    the ``path`` gives logits linear in the latents, to be added.
    """

    local: ClassVar[bool]  # whether the polynomials see one position at a time, or the whole map

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection | None,
        polynomials: PolynomialLayer | BlockPolynomialLayer,
        classes: int,
        path: LinearPath | None,
    ) -> None:
        super().__init__()
        self.rescale = rescale
        self.projection = projection
        self.polynomials = polynomials
        count = len(polynomials.bias)
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(count)
        self.linear = nn.Linear(count, classes)
        self.path = path

    @abstractmethod
    def variables(self, latents: Tensor) -> Tensor:
        """Return what the polynomials are evaluated at, (B, ..., n)."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments of the class's own, as plain JSON values."""

    def features(self, latents: Tensor) -> Tensor:
        """Return the absolute values of the polynomials, (B, N)."""
        return self.polynomials(self.variables(latents))

    def forward(self, latents: Tensor) -> Tensor:
        y = self.features(latents)
        if self.norm is not None:
            y = self.norm(y)
        logits = self.linear(y)
        return logits if self.path is None else logits + self.path(latents)

    def last_layer(self) -> LastLayer | None:
        if self.path is not None:
            return None
        return LastLayer(self.features, self.norm, self.linear)

    @classmethod
    def of(
        cls,
        rescale: Rescale,
        projection: Projection | None,
        polynomials: PolynomialLayer | BlockPolynomialLayer,
        classes: int,
        path: LinearPath | None,
        arguments: Mapping[str, Any],
    ) -> Self:
        """Make the head; ``arguments`` are keyword arguments of the class's own."""
        kind: Any = cls
        head: Self = kind(rescale, projection, polynomials, classes, path=path, **arguments)
        return head

    @classmethod
    def like(
        cls, head: PolynomialHead, polynomials: PolynomialLayer | BlockPolynomialLayer
    ) -> Self:
        """Make an untrained head with other polynomials behind the same variables."""
        inputs = copy.deepcopy(head.rescale), copy.deepcopy(head.projection)
        path = None if head.path is None else head.path.like()
        return cls.of(*inputs, polynomials, head.linear.out_features, path, head.arguments())

    @torch.no_grad()
    def folded(self) -> Self:
        plain = copy.deepcopy(self)
        plain.polynomials = self.polynomials.folded()
        if self.norm is not None:
            plain.linear, plain.norm = folded_linear(self.norm, self.linear), None
        plain.path = None if self.path is None else self.path.folded()
        return plain

    def parts(self) -> dict[str, int]:
        counts = {"projection": parameter_count(self.rescale, self.projection)}
        counts |= self.polynomials.parts()
        counts["linear"] = parameter_count(self.norm, self.linear, self.path)
        return counts

    def maps_between(
        self, before: tuple[LinearMap, ...], final: Tensor, reach: float, positions: int = 1
    ) -> HeadMaps:
        """Put the polynomials between the maps to their variables and W_F, a matrix ``final``."""
        polynomials = PolynomialMap(self.polynomials, self.linear.weight, reach, positions)
        path = None if self.path is None else self.path.matrix()
        return HeadMaps(before, LinearMap("W_F", final), polynomials, path)

    def config(self) -> dict[str, Any]:
        return {
            "classes": self.linear.out_features,
            "arguments": self.arguments(),
            **inputs_config(self.rescale, self.projection),
            "polynomials": self.polynomials.config(),
            "folded": self.norm is None,
            "path": None if self.path is None else list(self.path.shape),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        polynomials = _polynomials_from(config["polynomials"], state)
        path = None if config["path"] is None else LinearPath(*config["path"])
        inputs = inputs_from(config)
        head = cls.of(*inputs, polynomials, config["classes"], path, config["arguments"])
        if config["folded"]:
            head.norm = None
        return head


def _polynomials_from(
    config: Mapping[str, Any], state: Mapping[str, Tensor]
) -> PolynomialLayer | BlockPolynomialLayer:
    """Make the polynomial layer of the shapes that ``config`` and ``state`` tell."""
    options = dict(config)
    kind, n_variables = options.pop("kind"), options.pop("n_variables")
    terms = Monomials.terms_of(state, "polynomials.monomials.", n_variables)
    if kind == "shared":
        return PolynomialLayer(terms, options.pop("count"), **options)
    counts, sizes = options["counts"], options["sizes"]
    columns = [state[f"polynomials.columns_{k}"] for k in range(len(sizes))]
    leading = state["polynomials.leading"]
    for index in (*columns, leading):
        inside = index.dtype == torch.int64 and index.ndim == 1
        if not inside or ((index < 0) | (index >= len(terms))).any():
            raise ValueError(f"blocks must hold positions of the {len(terms)} terms.")
    return BlockPolynomialLayer(terms, columns, leading, counts)
