r"""The paper's head: latents rescaled and projected to one vector, polynomials, a linear layer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from vinets.algebra.shared import term_moments
from vinets.algebra.terms import TermSet
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.heads.base import Head, LinearPath, folded_linear, numbers, polynomials_from
from vinets.nn.polynomial import PolynomialLayer

__all__ = ["ORDERS", "RandomMonomials", "VanishingHead", "random_terms"]

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
        self.order = order
        self.rescale = rescale
        self.projection = projection
        self.polynomials = polynomials
        count = len(polynomials.bias)
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(count)
        self.linear = nn.Linear(count, classes)
        self.path = path

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


class RandomMonomials(VanishingHead):
    """A vanishing head of the same shape whose monomials and coefficients are random."""

    kind = "random-monomials"

    @classmethod
    def like(
        cls, head: VanishingHead, points: Tensor, *, degrees: str = "matched", seed: int = 0
    ) -> RandomMonomials:
        """The random rival of ``head``.

        Parameters
        ----------
        head : VanishingHead
            Rescaling, projection and the numbers of monomials and polynomials are taken over.
        points : Tensor of shape (m, n)
            Training points, to standardise the random monomials.
        degrees : {"matched", "uniform"}, default="matched"
            As many monomials of each degree as ``head`` has, or degrees drawn uniformly.
        seed : int, default=0
            Seed of the draw.
        """
        own = head.polynomials.monomials.terms
        terms = random_terms(own, degrees=degrees, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        layer = PolynomialLayer(terms, len(head.polynomials.bias))
        layer.draw(generator)
        mean, std = term_moments(terms, points)
        layer.set_moments(mean.cpu(), std.cpu())
        return cls(
            copy.deepcopy(head.rescale),
            copy.deepcopy(head.projection),
            layer,
            head.linear.out_features,
            order=head.order,
            path=copy.deepcopy(head.path),
        )


def random_terms(like: TermSet, *, degrees: str = "matched", seed: int = 0) -> TermSet:
    """As many distinct random terms as ``like`` has, without the constant."""
    rng = np.random.default_rng(seed)
    top = len(like.blocks) - 1
    if degrees == "matched":
        wanted = [len(block) for block in like.blocks]
    else:
        wanted = [0, *np.bincount(rng.integers(top, size=len(like)), minlength=top)]
    blocks = [np.zeros((0, 0), dtype=np.int64)]
    spare = 0  # what a low degree cannot hold moves up
    for degree in range(1, len(wanted)):
        count = int(wanted[degree]) + spare
        found = np.zeros((0, degree), dtype=np.int64)
        for _ in range(64):
            draw = np.sort(rng.integers(like.n_variables, size=(2 * count + 8, degree)), axis=1)
            found = np.unique(np.concatenate([found, draw]), axis=0)
            if len(found) >= count:
                break
        keep = np.sort(rng.permutation(len(found))[:count])
        spare = count - len(keep)
        blocks.append(found[keep])
    return TermSet.of_blocks(like.n_variables, blocks)
