r"""Heads of units at every position: affine forms of the channels, something on them, a sum.

.. math:: y_j = \sum_p s_{jp}\, u_j(A h_p + b), \qquad s_{jp} = \sum_r c_{jr}\, e_{rp}

The weights :math:`s` of a unit over the positions are a combination of a few patterns :math:`e`
that all units share: a unit costs no more where the map is large.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from vinets.checks import optional_positive_int
from vinets.nn.heads.base import Head, Reference
from vinets.nn.heads.maps import HeadMaps, LinearMap
from vinets.nn.heads.pieces import folded_linear, numbers, scaled_outputs

__all__ = ["ReLUUnits", "SpatialPatterns", "UnitsHead"]


class SpatialPatterns(nn.Module):
    """Sums over positions whose weights are combinations of shared patterns: (B, P, N) to (B, N).

    The patterns start as low frequencies, the first of them constant; square maps have two axes.
    """

    def __init__(self, units: int, positions: int, rank: int) -> None:
        super().__init__()
        rank = min(rank, positions)
        self.patterns = nn.Parameter(_frequencies(positions, rank) / positions)  # (R, P)
        weight = 0.1 * torch.randn(rank, units)
        weight[0] += 1.0  # a mean, to begin with
        self.weight = nn.Parameter(weight)  # (R, N)

    def forward(self, y: Tensor) -> Tensor:
        return (torch.matmul(self.patterns.to(y), y) * self.weight).sum(1)

    def matrix(self) -> Tensor:
        """The weight of every unit at every position, (P, N)."""
        return self.patterns.mT @ self.weight


def _frequencies(positions: int, rank: int) -> Tensor:
    """The ``rank`` lowest cosines on the positions, each of mean square one, (R, P)."""
    side = math.isqrt(positions)
    rows, columns = (side, side) if side * side == positions else (1, positions)
    waves = [_cosines(length) for length in (rows, columns)]
    order = sorted((i * i + j * j, i, j) for i in range(rows) for j in range(columns))[:rank]
    return torch.stack([torch.outer(waves[0][i], waves[1][j]).flatten() for _, i, j in order])


def _cosines(length: int) -> Tensor:
    steps = torch.arange(length)
    waves = torch.cos(math.pi / length * torch.outer(steps, steps + 0.5))
    return waves / waves.square().mean(1, keepdim=True).sqrt()


class UnitsHead(Head):
    """Affine forms of the channels, units of them, sums over the positions, a linear layer.

    While training, channels, forms and sums are batch-normalised; a folded head has none of it.

    Parameters
    ----------
    channels, positions, classes : int
        Of the latents (B, C, P) and of the logits (B, K).
    count : int
        Units ``N``.
    rank : int
        Patterns over the positions that the units share.
    factors : int
        Forms that a unit is made of.
    """

    stands_beside: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        channels: int,
        positions: int,
        classes: int,
        *,
        count: int,
        rank: int,
        factors: int = 1,
        normalized: bool = True,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        optional_positive_int(owner, "count", count)
        optional_positive_int(owner, "rank", rank)
        self.shape, self.count, self.factors = (channels, positions), count, factors
        width = factors * count
        self.channel_norm = nn.BatchNorm1d(channels, affine=False) if normalized else None
        self.forms = nn.Linear(channels, width)  # rows: the first forms of all units, the second
        nn.init.normal_(self.forms.weight, std=channels**-0.5)
        self.form_norm = nn.BatchNorm1d(width) if normalized else None
        self.spatial = SpatialPatterns(count, positions, rank)
        self.norm = nn.BatchNorm1d(count) if normalized else None
        self.linear = nn.Linear(count, classes)

    @abstractmethod
    def units(self, forms: Tensor) -> Tensor:
        """Units (B, P, N) of forms (B, P, factors N)."""

    @classmethod
    def fitting(cls, reference: Reference, factors: int) -> int:
        """How many units there are room for."""
        channels, positions = reference.shape
        rank = cls.rank_of(reference)
        each = factors * (channels + 1) + rank + reference.classes
        return max(1, (reference.parameters - rank * positions - reference.classes) // each)

    @staticmethod
    def rank_of(reference: Reference) -> int:
        """Patterns over the positions: as many as there are, if nothing is said."""
        return min(reference.shaping.spatial_rank or reference.positions, reference.positions)

    def forward(self, latents: Tensor) -> Tensor:
        h = _normalized(self.channel_norm, latents.mT)  # (B, P, C)
        y = self.spatial(self.units(_normalized(self.form_norm, self.forms(h))))
        return self.linear(_normalized(self.norm, y))

    @torch.no_grad()
    def folded(self) -> Self:
        plain = copy.deepcopy(self)
        if self.channel_norm is not None:
            plain.forms, plain.channel_norm = folded_linear(self.channel_norm, self.forms), None
        if self.form_norm is not None:
            plain.forms, plain.form_norm = scaled_outputs(plain.forms, self.form_norm), None
        if self.norm is not None:
            plain.linear, plain.norm = folded_linear(self.norm, self.linear), None
        return plain

    def parts(self) -> dict[str, int]:
        forms = numbers(self.channel_norm, self.forms, self.form_norm)
        return {"coefficients": forms, "linear": numbers(self.spatial, self.norm, self.linear)}

    @property
    def lipschitz(self) -> float:
        """Of a unit in its forms."""
        return 1.0

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        positions = shape[1]
        forms = LinearMap("forms", self.forms.weight, positions, lipschitz=self.lipschitz)
        final = (self.linear.weight[:, None] * self.spatial.matrix()).flatten(1)  # (K, P N)
        return HeadMaps((forms,), LinearMap("W_F", final))

    def config(self) -> dict[str, Any]:
        return {
            "channels": self.shape[0],
            "positions": self.shape[1],
            "classes": self.linear.out_features,
            "count": self.count,
            "rank": len(self.spatial.weight),
            "normalized": self.norm is not None,
        }


class ReLUUnits(UnitsHead):
    """The control of products: as many numbers, a ReLU for every form."""

    kind, label, rank = "relu-units", "local ReLU units", 120

    def units(self, forms: Tensor) -> Tensor:
        return forms.relu()

    @classmethod
    def beside(cls, reference: Reference) -> Self:
        count = cls.fitting(reference, 1)
        return cls(*reference.shape, reference.classes, count=count, rank=cls.rank_of(reference))


def _normalized(norm: nn.BatchNorm1d | None, values: Tensor) -> Tensor:
    """Batch normalisation of the last axis, if there is any."""
    if norm is None:
        return values
    return norm(values.reshape(-1, values.shape[-1])).view(values.shape)
