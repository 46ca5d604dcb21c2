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
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from vinets.core.checks import optional_positive_int
from vinets.heads import fused, pieces
from vinets.heads.base import FeatureHead, LastLayer
from vinets.heads.pieces import HeadMaps, LinearMap, by_parts, in_use, traced
from vinets.heads.polynomial_layer import batch_moments

KEPT_VALUES = 2**22  # forms of an image above which gradients compute them once more


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
        # This is no matmul, which would transpose the values to make it one product.
        patterns = self.patterns.to(y).expand(y.shape[0], -1, -1)
        return (torch.bmm(patterns, y) * self.weight).sum(1)

    def of_rows(self, y: Tensor) -> Tensor:
        """Return the same sums of values (B, N, P), which may change, without gradients."""
        if len(y) == 1 or (y.is_cuda and not traced()):
            return ((y @ self.patterns.mT) * self.weight.mT).sum(-1)
        # These are few passes over the values; a compiler joins them with what made the values.
        return y.mul_(self.weight.mT @ self.patterns).sum(-1)

    def matrix(self) -> Tensor:
        """Return the weight of every unit at every position, (P, N)."""
        return self.patterns.mT @ self.weight


def _frequencies(positions: int, rank: int) -> Tensor:
    """Return the ``rank`` lowest cosines on the positions, each of mean square one, (R, P)."""
    side = math.isqrt(positions)
    lengths = (side, side) if side * side == positions else (1, positions)
    waves = []
    for length in lengths:
        steps = torch.arange(length)
        wave = torch.cos(math.pi / length * torch.outer(steps, steps + 0.5))
        waves.append(wave / wave.square().mean(1, keepdim=True).sqrt())
    places = ((i, j) for i in range(lengths[0]) for j in range(lengths[1]))
    lowest = sorted((i * i + j * j, i, j) for i, j in places)[:rank]
    return torch.stack([torch.outer(waves[0][i], waves[1][j]).flatten() for _, i, j in lowest])


class NormalizedForms(nn.Module):
    r"""Affine forms of the last axis, each batch-normalised: (..., C) to (..., M).

    Mean and variance of a form :math:`a^\top h` are :math:`a^\top \mu` and
    :math:`a^\top \Sigma\, a`. So the statistics of all forms follow from mean and covariance of
    the channels, and normalised forms are one matrix product: their values, of which there may be
    many times more than channels, are never read again to be normalised. The channels are
    standardised, too. Momentum and epsilon are those of :class:`torch.nn.BatchNorm1d`.
    """

    momentum, eps = 0.1, 1e-5

    mean: Tensor
    covariance: Tensor

    def __init__(self, channels: int, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, channels) * channels**-0.5)
        self.gain = nn.Parameter(torch.ones(count))
        self.bias = nn.Parameter(torch.zeros(count))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("covariance", torch.eye(channels))

    def forward(self, h: Tensor) -> Tensor:
        return F.linear(h, *self.affine(h))

    def affine(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return weight (M, C) and bias (M,) of the normalised forms of a batch ``h``."""
        # This is in full precision, because the variance is a difference of two sums.
        with torch.autocast(h.device.type, enabled=False):
            mean, covariance = self.mean, self.covariance
            if self.training:
                rows = h.reshape(-1, h.shape[-1]).to(self.weight.dtype)
                mean, covariance = batch_moments(rows)
                with torch.no_grad():
                    unbiased = covariance * (len(rows) / max(1, len(rows) - 1))
                    self.mean.lerp_(mean, self.momentum)
                    self.covariance.lerp_(unbiased, self.momentum)
            return self._affine(mean, covariance)

    def _affine(self, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the forms that have mean 0 and the gain for deviation at these moments."""
        scaled = self.weight * (covariance.diagonal() + self.eps).rsqrt()
        variance = ((scaled @ covariance) * scaled).sum(1)
        weight = scaled * (self.gain * (variance + self.eps).rsqrt())[:, None]
        return weight, self.bias - weight @ mean

    @torch.no_grad()
    def folded(self) -> nn.Linear:
        """Return a linear layer with the same outputs in eval mode."""
        exact = copy.deepcopy(self).double()
        weight, bias = (t.to(self.weight) for t in exact._affine(exact.mean, exact.covariance))
        return pieces.linear_of(weight, bias)


class UnitsHead(FeatureHead):
    """Affine forms of the channels, units of them, sums over the positions, a linear layer.

    While training, forms and sums are batch-normalised; a folded head has no normalisation. It has
    ``count`` units of ``factors`` forms each, which share ``rank`` patterns over the positions.
    """

    # Units are products of forms (False) or ReLUs of them (True), as the kernel for GPUs makes
    # them; None: it makes no such units.
    rectified: ClassVar[bool | None] = None
    watched = False  # whether a pass in training leaves values for the loss

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
        width = factors * count  # rows: the first forms of all units, then the second
        self.forms = NormalizedForms(channels, width) if normalized else nn.Linear(channels, width)
        self.spatial = SpatialPatterns(count, positions, rank)
        self.norm = nn.BatchNorm1d(count) if normalized else None
        self.linear = nn.Linear(count, classes)

    @abstractmethod
    def units(self, forms: Tensor, axis: int = -1) -> Tensor:
        """Compute units (B, P, N) of forms (B, P, factors N).

        With ``axis=1`` forms are (B, factors N, P), and may change, without gradients.
        """

    def last_layer(self) -> LastLayer | None:
        return None  # the forms are trained with it

    def features(self, latents: Tensor) -> Tensor:
        """Return the sums of the units over the positions, (B, N)."""
        h, forms = latents.mT, self.forms
        if isinstance(forms, nn.Linear) and in_use():
            return self._in_use(latents, forms)
        if isinstance(forms, NormalizedForms):
            h = h.contiguous()  # once for statistics and products
            weight, bias = forms.affine(h)
        else:
            weight, bias = forms.weight, forms.bias

        def sums(part: Tensor) -> Tensor:
            return self.spatial(self.units(F.linear(part, weight, bias)))

        size = self.shape[1] * len(weight)
        if size <= KEPT_VALUES or self.watched or traced() or not torch.is_grad_enabled():
            return by_parts(sums, h, size)
        # Gradients would keep several times so many values until the whole batch is done.
        return by_parts(lambda part: checkpoint(sums, part, use_reentrant=False), h, size)

    def _in_use(self, latents: Tensor, forms: nn.Linear) -> Tensor:
        """Return sums (B, N) for inference: channels stay first, and values change in place."""
        if self.rectified is not None and fused.usable(latents, forms.weight):
            spatial = self.spatial.patterns, self.spatial.weight
            return fused.sums(latents, forms.weight, forms.bias, *spatial, relu=self.rectified)
        if latents.is_cuda and not traced() and latents.mT.is_contiguous():
            # Channels are last: one product adds the bias, which baddbmm would copy to all images.
            return self.spatial(self.units(forms(latents.mT)))
        weight, bias = forms.weight, forms.bias[:, None]

        def sums(part: Tensor) -> Tensor:
            values = torch.baddbmm(bias, weight.expand(len(part), -1, -1), part)
            return self.spatial.of_rows(self.units(values, 1))

        return by_parts(sums, latents, self.shape[1] * len(weight))

    @torch.no_grad()
    def folded(self) -> Self:
        plain = super().folded()
        if isinstance(self.forms, NormalizedForms):
            plain.forms = self.forms.folded()
        return plain

    def parts(self) -> dict[str, int]:
        linear = pieces.parameter_count(self.spatial, self.norm, self.linear)
        return {"coefficients": pieces.parameter_count(self.forms), "linear": linear}

    lipschitz = 1.0  # Lipschitz constant of a unit in its forms

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        positions = shape[1]
        forms = LinearMap("forms", self.forms.weight, positions, lipschitz=self.lipschitz)
        final = (self.linear.weight[:, None] * self.spatial.matrix()).flatten(1)  # (K, P N)
        return HeadMaps((forms,), LinearMap("W_F", final))

    def config(self) -> dict[str, Any]:
        (channels, positions), rank = self.shape, len(self.spatial.weight)
        sizes = {"channels": channels, "positions": positions, "count": self.count, "rank": rank}
        return super().config() | sizes


def rank_of(shape: tuple[int, int], wanted: int | None) -> int:
    """Return how many patterns there are: at most one for every position."""
    return min(wanted or shape[1], shape[1])


def fitting(shape: tuple[int, int], classes: int, rank: int, factors: int, parameters: int) -> int:
    """Count the units that fit into a folded head of at most ``parameters``; at least one."""
    each = factors * (shape[0] + 1) + rank + classes
    count = max(1, (parameters - rank * shape[1] - classes) // each)
    # Products of matrices are faster where rows begin at multiples of 16 bytes; of many units, a
    # few less cost nothing.
    return count - count % 8 if count >= 256 else count
