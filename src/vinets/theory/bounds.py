r"""Norms of the encoded polynomial layer next to the paper's bounds on them.

With :math:`N` polynomials over :math:`S` monomials of degree at most :math:`d`, coefficient rows of
:math:`\ell_1` norm at most :math:`\tau`, and the encoding :math:`W_C \circ \sigma \circ W_M` of
:mod:`vinets.theory.inex`:

.. math::
   \|W_M\|_2 \le 2^{d/2} d \sqrt{S}, \quad \|W_M^T\|_{2,1} \le 2^d S \|W_M\|_2, \quad
   \|W_C\|_2 \le \sqrt{N} \tau, \quad \|W_C^T\|_{2,1} \le N \sqrt{S} \|W_C\|_2

The norm :math:`\|W^T\|_{2,1}` is the sum of the Euclidean norms of the rows of :math:`W`.

Text and proof of the main theorem differ in two places. The stated product bound has
:math:`2^d`, the proof gives :math:`2^{d/2}`; both are here, by name. And the condition on the
final layer is printed as :math:`\|W_F\|_{2,1} \le \lambda_2 \|W_F\|_2`, while the sum that it
bounds holds :math:`\|W_F^T\|_{2,1}`: with the printed condition the bound is false (take a column
of ones as :math:`W_F`), so :math:`\lambda_2` bounds the transposed norm here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array
from torch import Tensor

from vinets.algebra.shared import SharedPolynomials
from vinets.core.checks import parameter_error
from vinets.core.options import check_value, whole
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.theory.inex import InExEncoding, encode
from vinets.theory.norms import Complexity, LayerNorms, largest_of

Polynomials: TypeAlias = PolynomialLayer | BlockPolynomialLayer | SharedPolynomials

ROUNDING = 1e-9  # bounds may be attained; norms carry rounding errors


def matrix_norms(matrix: Tensor, name: str = "W", *, lipschitz: float = 1.0) -> LayerNorms:
    """Compute both norms of a dense matrix, or of a sparse one of few columns, in float64."""
    weight = matrix.detach().double().cpu()
    weight = weight.coalesce() if weight.is_sparse else weight
    entries = weight.values() if weight.is_sparse else weight
    if weight.ndim != 2 or not entries.isfinite().all():
        accepted, got = "a matrix of finite numbers", f"shape {tuple(weight.shape)}"
        raise parameter_error("matrix_norms", "matrix", accepted, got, "Look for nan and inf.")
    # The ratio of both norms is undefined for zeros.
    if not entries.any():
        raise parameter_error("matrix_norms", "matrix", "a matrix that is not zero", "zeros")
    if not weight.is_sparse:
        two_one = float(weight.norm(dim=1).sum())
        return LayerNorms(name, largest_of(weight[None]), two_one, lipschitz)
    index = tuple(weight.indices().numpy())
    rows = csr_array((entries.numpy(), index), shape=tuple(weight.shape))
    # The Gram matrix is small, and W_M holds small integers, so that it is even exact. Squaring
    # costs the small singular values their digits, but not the largest.
    spectral = np.sqrt(np.linalg.eigvalsh((rows.T @ rows).toarray())[-1])
    two_one = float(np.sqrt(rows.power(2).sum(axis=1)).sum())
    return LayerNorms(name, float(spectral), two_one, lipschitz)


def kappa(
    kept: Sequence[LayerNorms], removed: Sequence[LayerNorms], added: Sequence[LayerNorms]
) -> float:
    r"""Compute the factor :math:`\kappa = R_{\tilde\phi} / R_\phi` of the main theorem.

    Both networks have the layers ``kept``, the uncut one ``removed`` behind them, and the VI-Net
    ``added``. In the paper these are W_M with Lipschitz constant d, W_C and W_F; see
    :attr:`PolynomialBounds.layers`. A projection before the polynomials is a layer too.

    Examples
    --------
    >>> one, two, four = (LayerNorms("", norm, norm) for norm in (1.0, 2.0, 4.0))
    >>> kappa([one], [one, four], [two, one])
    0.5
    """
    if not kept and not removed:
        raise parameter_error("kappa", "removed", "the layers of an uncut network", [])
    before, after = Complexity((*kept, *removed)), Complexity((*kept, *added))
    products = Complexity(tuple(added)).product / Complexity(tuple(removed)).product
    return products * (after.total / before.total) ** 1.5


@dataclass(frozen=True)
class PolynomialSize:
    """The four numbers that the bounds depend on, and the bounds."""

    degree: int  # d, the highest
    monomials: int  # S
    polynomials: int  # N
    tau: float  # bound on the l1 norm of every coefficient row

    def __post_init__(self) -> None:
        owner = "PolynomialSize"
        for name in ("degree", "monomials", "polynomials"):
            check_value(owner, name, whole(), getattr(self, name))
        if not 0 < self.tau < math.inf:
            raise parameter_error(owner, "tau", "a positive number", self.tau)

    @property
    def sums_spectral(self) -> float:
        r"""Bound :math:`2^{d/2} d \sqrt{S}` on :math:`\|W_M\|_2`."""
        return 2 ** (self.degree / 2) * self.degree * math.sqrt(self.monomials)

    @property
    def sums_ratio(self) -> float:
        r"""Bound :math:`2^d S` on :math:`\|W_M^T\|_{2,1} / \|W_M\|_2`."""
        return float(2**self.degree * self.monomials)

    @property
    def coefficients_spectral(self) -> float:
        r"""Bound :math:`\sqrt{N} \tau` on :math:`\|W_C\|_2`."""
        return math.sqrt(self.polynomials) * self.tau

    @property
    def coefficients_ratio(self) -> float:
        r"""Bound :math:`N \sqrt{S}` on :math:`\|W_C^T\|_{2,1} / \|W_C\|_2`."""
        return self.polynomials * math.sqrt(self.monomials)

    def product(self, lambda_1: float, constant: str = "proved") -> float:
        r"""Bound :math:`2^{d/2} d\tau\lambda_1\sqrt{NS}` on the three spectral norms.

        As stated, it has :math:`2^d`. The Lipschitz constant ``d`` of the activation comes on top
        of it in the complexity.
        """
        proved = self.sums_spectral * self.coefficients_spectral * lambda_1
        return proved if constant == "proved" else 2 ** (self.degree / 2) * proved

    def sum_of_ratios(self, lambda_2: float) -> float:
        r"""Bound :math:`(2^d S)^{2/3} + (N \sqrt{S})^{2/3} + \lambda_2^{2/3}` on the sum."""
        ratios = (self.sums_ratio, self.coefficients_ratio, lambda_2)
        return math.fsum(ratio ** (2 / 3) for ratio in ratios)


@dataclass(frozen=True)
class Bound:
    """One bound, of a statement of the paper, and the value that it bounds."""

    quantity: str
    source: str
    actual: float
    bound: float
    tightness: float = field(init=False)  # 1 where the bound is attained, above 1 where broken
    holds: bool = field(init=False)  # the value is at most the bound, up to rounding

    def __post_init__(self) -> None:
        object.__setattr__(self, "tightness", self.actual / self.bound)
        object.__setattr__(self, "holds", self.tightness <= 1 + ROUNDING)


@dataclass(frozen=True)
class PolynomialBounds:
    """The norms of an encoded polynomial layer next to their bounds."""

    size: PolynomialSize
    sums: LayerNorms  # W_M, with Lipschitz constant d
    coefficients: LayerNorms  # W_C
    final: LayerNorms | None = None  # W_F, where it was given
    bounds: tuple[Bound, ...] = field(init=False)  # two lemmas and, with W_F, the theorem

    def __post_init__(self) -> None:
        size, sums, coefficients = self.size, self.sums, self.coefficients
        wm, wc = "lemma on W_M", "lemma on W_C"
        bounds = [
            Bound("||W_M||_2", wm, sums.spectral, size.sums_spectral),
            Bound("||W_M^T||_2,1 / ||W_M||_2", wm, sums.ratio, size.sums_ratio),
            Bound("||W_C||_2", wc, coefficients.spectral, size.coefficients_spectral),
            Bound("||W_C^T||_2,1 / ||W_C||_2", wc, coefficients.ratio, size.coefficients_ratio),
        ]
        if self.final is not None:
            product = math.prod(layer.spectral for layer in self.layers)
            for constant in ("proved", "stated"):
                bound = size.product(self.final.spectral, constant)
                source = f"theorem, as {constant}"
                bounds.append(Bound("product of ||W||_2", source, product, bound))
            total, bound = Complexity(self.layers).total, size.sum_of_ratios(self.final.ratio)
            bounds.append(Bound("sum of ratios^(2/3)", "theorem", total, bound))
        object.__setattr__(self, "bounds", tuple(bounds))

    @property
    def layers(self) -> tuple[LayerNorms, ...]:
        """What :func:`kappa` takes as ``added``: W_M, W_C and, where known, W_F."""
        known = (self.sums, self.coefficients, self.final)
        return tuple(layer for layer in known if layer is not None)

    @property
    def holds(self) -> bool:
        """Whether every bound holds."""
        return all(bound.holds for bound in self.bounds)


def encode_polynomials(polynomials: Polynomials | InExEncoding) -> InExEncoding:
    """Encode a polynomial layer, folded first, or generators."""
    if isinstance(polynomials, InExEncoding):
        return polynomials
    if isinstance(polynomials, SharedPolynomials):
        return encode(polynomials.terms, polynomials.coefficients, polynomials.constants)
    if isinstance(polynomials, PolynomialLayer | BlockPolynomialLayer):
        plain = polynomials.folded()  # a copy with the normalisation in its weights
        weight = plain.weight if isinstance(plain, PolynomialLayer) else plain.dense()
        return encode(plain.monomials.terms, weight, plain.bias)
    accepted = "a PolynomialLayer, BlockPolynomialLayer, SharedPolynomials or InExEncoding"
    raise parameter_error("encode_polynomials", "polynomials", accepted, type(polynomials).__name__)


def polynomial_bounds(
    polynomials: Polynomials | InExEncoding, final: Tensor | None = None
) -> PolynomialBounds:
    """Compute the norms of an encoded polynomial layer and set the bounds next to them.

    Parameters
    ----------
    polynomials : PolynomialLayer, BlockPolynomialLayer, SharedPolynomials or InExEncoding
        Its constants belong to the activation and count neither in W_C nor in tau.
    final : Tensor of shape (K, N) or None, default=None
        The weights W_F of the linear layer behind it, batch normalisation folded in. Its own
        norms serve as lambda_1 and lambda_2. None leaves the bounds of the theorem out.

    Examples
    --------
    >>> import torch
    >>> from vinets.algebra.terms import TermSet
    >>> encoded = encode(TermSet.from_exponents([[1, 0], [1, 1]]), torch.tensor([[3.0, -4.0]]))
    >>> [(round(b.actual, 3), round(b.bound, 3)) for b in polynomial_bounds(encoded).bounds]
    [(1.902, 5.657), (2.321, 8.0), (5.0, 7.0), (1.0, 1.414)]
    """
    encoded = encode_polynomials(polynomials)
    matrix = encoded.coefficients
    if final is not None and (final.ndim != 2 or final.shape[1] != len(matrix)):
        accepted = f"a matrix of {len(matrix)} columns, one a polynomial"
        raise parameter_error("polynomial_bounds", "final", accepted, tuple(final.shape))
    # The smallest tau with which the bounds hold for these very rows.
    tau = float(matrix.abs().sum(dim=1).max())
    size = PolynomialSize(encoded.degree, len(encoded.terms), len(matrix), tau)
    return PolynomialBounds(
        size,
        matrix_norms(encoded.sums, "W_M", lipschitz=float(size.degree)),
        matrix_norms(matrix, "W_C"),
        None if final is None else matrix_norms(final, "W_F"),
    )
