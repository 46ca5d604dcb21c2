r"""The paper's head: latents rescaled and projected to one vector, polynomials, a linear layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from vinets.core.checks import one_of
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.maps import HeadMaps, LinearMap
from vinets.heads.pieces import LinearPath, TrainedTail
from vinets.heads.polynomial import PolynomialHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale

ORDERS = ("tanh-pca", "pca-tanh")


class GlobalPolynomials(PolynomialHead):
    """Rescaling, projection, absolute values of polynomials, linear layer.

    Parameters
    ----------
    rescale : Rescale
        The map z -> tanh((z - mean) / std).
    projection : Projection
        From latents to the ``n`` variables of the ``N`` polynomials.
    order : {"tanh-pca", "pca-tanh"}, default="tanh-pca"
        Which of the first two comes first: the paper's text rescales the latents themselves; its
        theory needs the polynomials' inputs in [-1, 1], which rescaling last gives.
    path : LinearPath or None, default=None
        Logits linear in the latents, added to those of the polynomials.
    """

    local = False
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
        self.order = one_of(type(self).__name__, "order", order, ORDERS)

    def arguments(self) -> dict[str, Any]:
        return {"order": self.order}

    def variables(self, latents: Tensor) -> Tensor:
        """What the polynomials are evaluated at, (B, n)."""
        return components(latents, self.rescale, self.projection, self.order)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        if self.path is not None or self.projection.weight.requires_grad:
            return None
        return self.variables, TrainedTail(self.polynomials, self.norm, self.linear)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        size = shape[0] * shape[1]
        before, reach = component_maps(self.rescale, self.projection, self.order, size)
        return self.maps_between(before, self.linear.weight, reach)


class VanishingHead(GlobalPolynomials):
    """The paper's head: its polynomials vanish on the classes."""

    kind, label, rank = "vanishing", "VI-Net", 0
    from_ideals = True
    placement = "global"


def components(latents: Tensor, rescale: Rescale, projection: Projection, order: str) -> Tensor:
    """Latents (B, C, P), rescaled and projected in one of the two orders, (B, n)."""
    z = latents.flatten(1)
    return projection(rescale(z)) if order == "tanh-pca" else rescale(projection(z))


def component_maps(
    rescale: Rescale, projection: Projection, order: str, size: int
) -> tuple[tuple[LinearMap, ...], float]:
    """The maps of :func:`components` on latents of ``size`` values, and a bound on the results."""
    weight, gain = projection.weight, (1 / rescale.std).flatten()
    bound = 1.0 if rescale.squash else math.inf
    if order == "pca-tanh":  # nothing stands between the two, so they are one map
        return (LinearMap("projection, rescaling", gain[:, None] * weight),), bound
    reach = float((bound * weight.abs().sum(1) + projection.bias.abs()).max())
    first = LinearMap("rescaling", gain.expand(size))
    return (first, LinearMap("projection", weight)), reach
