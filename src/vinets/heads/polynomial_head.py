"""The base of all heads of polynomials, which differ in how they see the latents."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from vinets.heads import pieces
from vinets.heads.base import FeatureHead, LastLayer
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.pieces import HeadMaps, LinearMap, LinearPath
from vinets.heads.polynomial_layer import MonomialLayer, Monomials, PolynomialLayer
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale


class PolynomialHead(FeatureHead):
    """Variables, absolute values of polynomials, linear layer; perhaps a linear path next to them.

    Subclasses say how the variables are made. ``rescale`` and ``projection`` make them of latents,
    the ``path`` gives logits linear in the latents, to be added.
    """

    local: ClassVar[bool]  # whether the polynomials see one position at a time, or the whole map

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection | None,
        polynomials: MonomialLayer,
        classes: int,
        *,
        path: LinearPath | None = None,
    ) -> None:
        super().__init__()
        self.rescale, self.projection, self.polynomials = rescale, projection, polynomials
        count = len(polynomials.bias)
        self.norm, self.linear = nn.BatchNorm1d(count), nn.Linear(count, classes)
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
        logits = super().forward(latents)
        return logits if self.path is None else logits + self.path(latents)

    @property
    def frozen(self) -> bool:
        """Whether training changes neither the variables nor anything next to the polynomials."""
        trained = self.projection is not None and self.projection.weight.requires_grad
        return self.path is None and not trained

    def last_layer(self) -> LastLayer | None:
        return super().last_layer() if self.path is None else None

    @classmethod
    def like(cls, head: PolynomialHead, polynomials: MonomialLayer) -> Self:
        """Make an untrained head with other polynomials behind the same variables."""
        inputs = copy.deepcopy(head.rescale), copy.deepcopy(head.projection)
        path = head.path and LinearPath(*head.path.shape, scale=float(head.path.scale))
        return cls(*inputs, polynomials, head.linear.out_features, path=path, **head.arguments())

    @torch.no_grad()
    def folded(self) -> Self:
        plain = super().folded()
        plain.polynomials = self.polynomials.folded()
        plain.path = None if self.path is None else self.path.folded()
        return plain

    def parts(self) -> dict[str, int]:
        inputs = pieces.parameter_count(self.rescale, self.projection)
        linear = pieces.parameter_count(self) - inputs - pieces.parameter_count(self.polynomials)
        return {"projection": inputs, **self.polynomials.parts(), "linear": linear}

    def maps_between(
        self, before: tuple[LinearMap, ...], final: Tensor, reach: float, positions: int = 1
    ) -> HeadMaps:
        """Put the polynomials between the maps to their variables and W_F, a matrix ``final``."""
        polynomials = pieces.PolynomialMap(self.polynomials, self.linear.weight, reach, positions)
        path = None if self.path is None else self.path.matrix()
        return HeadMaps(before, LinearMap("W_F", final), polynomials, path)

    def config(self) -> dict[str, Any]:
        return {
            "classes": self.linear.out_features,
            "arguments": self.arguments(),
            **pieces.inputs_config(self.rescale, self.projection),
            "polynomials": self.polynomials.config(),
            "folded": self.norm is None,
            "path": None if self.path is None else list(self.path.shape),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        options = dict(config["polynomials"])
        kind, n_variables = options.pop("kind"), options.pop("n_variables")
        terms = Monomials.terms_of(state, "polynomials.monomials.", n_variables)
        polynomials: MonomialLayer
        if kind == "shared":
            polynomials = PolynomialLayer(terms, options.pop("count"), **options)
        else:
            columns = [state[f"polynomials.columns_{k}"] for k in range(len(options["sizes"]))]
            leading = state["polynomials.leading"]
            for at in (*columns, leading):
                if at.dtype != torch.int64 or at.ndim != 1 or ((at < 0) | (at >= len(terms))).any():
                    raise ValueError(f"blocks must hold positions of the {len(terms)} terms.")
            polynomials = BlockPolynomialLayer(terms, columns, leading, options["counts"])
        path = None if config["path"] is None else LinearPath(*config["path"])
        arguments = config["arguments"] | {"path": path}
        head = cls(*pieces.inputs_from(config), polynomials, config["classes"], **arguments)
        if config["folded"]:
            head.norm = None
        return head
