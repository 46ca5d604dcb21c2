r"""The polynomial layer :math:`|C\,m(z)|`.

While training, monomials are standardised and the rows of the coefficient matrix start at unit
norm. Both are linear, so they fold into plain coefficients and a bias when training is over.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.algebra.shared import SharedPolynomials
from vinets.algebra.terms import TermSet
from vinets.checks import one_of
from vinets.nn.monomials import OnMonomials

__all__ = ["ACTIVATIONS", "PolynomialLayer"]

ACTIVATIONS = ("abs", "relu", "none")


class PolynomialLayer(OnMonomials):
    r"""Absolute values of polynomials of the last dimension: (..., n) to (..., N).

    .. math:: y_j = \Bigl| b_j + \sum_s A_{js}\, \frac{m_s(z) - \mu_s}{\sigma_s} \Bigr|

    Parameters
    ----------
    terms, count : TermSet, int
        The ``S`` monomials, without the constant; the number ``N`` of polynomials.
    standardized : bool, default=True
        Hold :math:`\mu` and :math:`\sigma`; a folded layer has none.
    masked : bool, default=False
        Hold a mask of the coefficients that may be non-zero.
    normalized : bool, default=False
        Batch normalisation before the absolute value, folded like the rest.
    activation : {"abs", "relu", "none"}, default="abs"
        What is applied to the values. ReLU is the control without vanishing semantics.

    Examples
    --------
    >>> terms = TermSet.from_exponents([[1, 0], [0, 1], [2, 0]])
    >>> layer = PolynomialLayer(terms, 4)
    >>> layer(torch.zeros(5, 2)).shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        terms: TermSet,
        count: int,
        *,
        standardized: bool = True,
        masked: bool = False,
        normalized: bool = False,
        activation: str = "abs",
    ) -> None:
        super().__init__(terms, standardized=standardized)
        self.activation = one_of("PolynomialLayer", "activation", activation, ACTIVATIONS)
        size = len(terms)
        self.weight = nn.Parameter(torch.randn(count, size) / size**0.5)
        self.bias = nn.Parameter(torch.zeros(count))
        self.mask: Tensor | None
        self.register_buffer("mask", torch.ones(count, size, dtype=torch.bool) if masked else None)
        self.norm = nn.BatchNorm1d(count) if normalized else None

    @classmethod
    def from_polynomials(
        cls,
        polynomials: SharedPolynomials,
        moments: tuple[Tensor, Tensor],
        *,
        sparse: bool = False,
        normalized: bool = False,
        activation: str = "abs",
    ) -> PolynomialLayer:
        """Start from given polynomials, up to a positive factor each.

        ``moments`` are mean and standard deviation of every term, each (S,); see
        :func:`vinets.algebra.shared.term_moments`. Where ``sparse``, coefficients that are zero
        now stay zero.
        """
        layer = cls(
            polynomials.terms,
            len(polynomials),
            masked=sparse,
            normalized=normalized,
            activation=activation,
        )
        mean, std = (m.double().cpu() for m in moments)
        plain = polynomials.coefficients.double().cpu()
        weight = plain * std
        bias = polynomials.constants.double().cpu() + plain @ mean
        norm = weight.norm(dim=1).clamp_min(1e-30)
        with torch.no_grad():
            layer.weight.copy_(weight / norm[:, None])
            layer.bias.copy_(bias / norm)
        layer.set_moments(mean, std)
        if layer.mask is not None:
            layer.mask.copy_(plain != 0)
        return layer

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Random rows of unit norm in place of polynomials."""
        weight = torch.randn(self.weight.shape, generator=generator)
        self.weight.copy_(weight / weight.norm(dim=1, keepdim=True))

    @property
    def coefficients(self) -> Tensor:
        """The weights that are used, (N, S): masked ones are zero."""
        return self.weight if self.mask is None else self.weight * self.mask

    def values(self, z: Tensor) -> Tensor:
        """The polynomials without the absolute value, (..., N)."""
        y = F.linear(self.scaled(z), self.coefficients, self.bias)
        if self.norm is not None:
            y = self.norm(y.flatten(0, -2)).view_as(y)
        return y

    def forward(self, z: Tensor) -> Tensor:
        y = self.values(z)
        if self.activation == "abs":
            return y.abs()
        return y.relu() if self.activation == "relu" else y

    @torch.no_grad()
    def folded(self) -> PolynomialLayer:
        """A layer of plain coefficients and a bias with the same outputs."""
        mean, std = self.moments()
        weight = self.coefficients.double() / std
        bias = self.bias.double() - weight @ mean
        if self.norm is not None:
            gain, offset = affine_of(self.norm)
            weight, bias = gain[:, None] * weight, gain * bias + offset
        plain = copy.deepcopy(self)
        plain.weight.copy_(weight)
        plain.bias.copy_(bias)
        plain.shift = plain.scale = plain.mask = plain.norm = None
        return plain

    def parts(self) -> dict[str, int]:
        """Stored numbers: the indices of the monomials, and everything else."""
        stored = [self.weight, self.bias, self.shift, self.scale]
        count = sum(t.numel() for t in stored if t is not None)
        if self.norm is not None:
            count += 4 * self.norm.num_features
        return {"monomials": self.indices(), "coefficients": count}

    def config(self) -> dict[str, object]:
        """What makes the layer again, besides its state."""
        return {
            "kind": "shared",
            "n_variables": self.monomials.terms.n_variables,
            "count": len(self.weight),
            "standardized": self.shift is not None,
            "masked": self.mask is not None,
            "normalized": self.norm is not None,
            "activation": self.activation,
        }


def affine_of(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Gain and offset of batch normalisation in eval mode, in float64."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("batch normalisation without running statistics cannot be folded.")
    gain = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    return gain, norm.bias.double() - gain * norm.running_mean.double()
