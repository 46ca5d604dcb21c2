r"""A head without training: logits from the distances to the classes.

.. math:: \ell_c(x) = b_c - t \log K_c(x)

for the Christoffel functions :math:`K_c` of :mod:`vinets.heads.class_distances` on latents averaged
over positions, with a temperature and a bias for every class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.core.progress import Progress
from vinets.heads.base import Head, HeadOptions
from vinets.heads.class_distances import ClassDistances
from vinets.heads.maps import HeadMaps, LinearMap, PolynomialMap
from vinets.heads.pieces import parameter_count
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.latent.collect import Latents


class DistanceHead(Head):
    """Distances to the classes as logits; the temperature and the biases can be trained."""

    kind, label = "distance", "distances"
    needs_training = False

    @classmethod
    def make(
        cls, latents: Latents, options: HeadOptions, seed: int, progress: Progress | None
    ) -> Head:
        from vinets.heads.closed import solve_distances  # it knows all heads in closed form

        return solve_distances(latents, seed)

    def __init__(self, distances: ClassDistances) -> None:
        super().__init__()
        self.distances = distances
        self.temperature = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(distances.classes))

    def forward(self, latents: Tensor) -> Tensor:
        # logarithms of rounded sums of squares would be rough
        logs = self.distance(latents).log()
        return self.bias - self.temperature * logs.to(self.bias.dtype)

    def distance(self, latents: Tensor) -> Tensor:
        """K of every class (B, classes), 1 or more."""
        found: Tensor = self.distances(latents.mean(-1))
        return found

    def parts(self) -> dict[str, int]:
        linear = parameter_count(self) - parameter_count(self.distances)
        return self.distances.parts() | {"linear": linear}

    def config(self) -> dict[str, Any]:
        return self.distances.config()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        return cls(ClassDistances.from_config(config, state, "distances."))

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        d = self.distances
        rows = d.forms.expand(d.classes, -1, -1).flatten(0, 1)
        layer = PolynomialLayer(d.monomials.terms, len(rows), standardized=False).to(rows)
        with torch.no_grad():
            layer.weight.copy_(rows)
            layer.bias.copy_(d.offsets.flatten())
        # log(1 + |p|^2) has slope 1 at most in the length of p: a row of that norm bounds it
        size = rows.shape[1]
        mean = torch.full((size,), size**-0.5).to(rows)
        final = self.temperature.abs() * torch.block_diag(*[mean[None]] * d.classes)
        first = LinearMap("projection", d.weight, averaged=shape[1])
        return HeadMaps(
            (first,), LinearMap("distances", final), PolynomialMap(layer, final, reach=1.0)
        )
