r"""The paper's head: latents rescaled and projected to one vector, polynomials, a linear layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from vinets.checks import one_of
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.heads.base import LinearPath
from vinets.nn.heads.polynomial import PolynomialHead
from vinets.nn.polynomial import PolynomialLayer

__all__ = ["ORDERS", "VanishingHead", "components"]

ORDERS = ("tanh-pca", "pca-tanh")


class VanishingHead(PolynomialHead):
    """Rescaling, projection, absolute values of polynomials, linear layer.

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
    projection: Projection

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
        super().__init__(rescale, projection, polynomials, classes, path)
        self.order = one_of("VanishingHead", "order", order, ORDERS)

    def arguments(self) -> dict[str, Any]:
        return {"order": self.order}

    def variables(self, latents: Tensor) -> Tensor:
        """What the polynomials are evaluated at, (B, n)."""
        return components(latents, self.rescale, self.projection, self.order)


def components(latents: Tensor, rescale: Rescale, projection: Projection, order: str) -> Tensor:
    """Latents (B, C, P), rescaled and projected in one of the two orders, (B, n)."""
    z = latents.flatten(1)
    return projection(rescale(z)) if order == "tanh-pca" else rescale(projection(z))
