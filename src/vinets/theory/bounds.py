r"""Polynomials as a network of two layers, and the paper's bounds on the norms of these.

A product of :math:`d` numbers is a signed sum of :math:`d`-th powers of their partial sums:

.. math:: \prod_{i=1}^d x_i
   = \frac{1}{d!} \sum_{\emptyset \ne I \subseteq [d]} (-1)^{d-|I|} \Bigl(\sum_{i \in I} x_i\Bigr)^d

So polynomials are :math:`W_C \circ \sigma \circ W_M`: the partial sums are the rows of
:math:`W_M`, the signed powers are the InEx activation :math:`\alpha^d`, and :math:`W_C` holds the
coefficients. With :math:`N` polynomials over :math:`S` monomials of degree at most :math:`d` and
coefficient rows of :math:`\ell_1` norm at most :math:`\tau`,

.. math::
   \|W_M\|_2 \le 2^{d/2} d \sqrt{S}, \quad \|W_M^\top\|_{2,1} \le 2^d S \|W_M\|_2, \quad
   \|W_C\|_2 \le \sqrt{N} \tau, \quad \|W_C^\top\|_{2,1} \le N \sqrt{S} \|W_C\|_2

Differs from the paper in what it prints wrongly, as docs/theory.md explains: every subset counts
once in :math:`\alpha^d`, :math:`\lambda_2` bounds the transposed norm of :math:`W_F`, and the
product bound has :math:`2^{d/2}` as proved, and :math:`2^d` as stated, by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.common_terms import SharedPolynomials
from vinets.algebra.terms import TermSet
from vinets.core.checks import parameter_error, point_shape
from vinets.core.options import check_value, whole
from vinets.core.settings import POSITIVE
from vinets.heads.polynomial_layer import MonomialLayer
from vinets.theory.norms import Complexity, LayerNorms, matrix_norms

MAX_ENTRIES = 2**27  # entries of W_M before merging, about 3 GiB of indices and values
ROUNDING = 1e-9  # relative excess over a bound that rounding may cause where it is attained


def subsets(degree: int) -> NDArray[np.bool_]:
    """List the non-empty subsets of ``degree`` elements, smallest first: (2^d - 1, d) masks."""
    members = (c for size in range(1, degree + 1) for c in combinations(range(degree), size))
    return np.array([[i in chosen for i in range(degree)] for chosen in members])


def inex_signs(degree: int) -> NDArray[np.int64]:
    """List the sign (-1)^(d - |I|) of every subset, in the order of :func:`subsets`."""
    sizes = np.arange(1, degree + 1)
    return np.repeat((-1) ** (degree - sizes), [math.comb(degree, size) for size in sizes])


def inex(sums: Tensor, degree: int) -> Tensor:
    r"""Apply the InEx activation :math:`\alpha^d` to the last dimension: (..., 2^d - 1) to (...).

    The partial sums are in the order of :func:`subsets`. It is d-Lipschitz on the image of the cube
    [-1, 1]^n under W_M, and may be steeper elsewhere.
    """
    if sums.shape[-1:] != (2**degree - 1,):
        accepted = f"a tensor of shape (..., {2**degree - 1}) at degree {degree}"
        raise parameter_error("inex", "sums", accepted, tuple(sums.shape))
    # Powers first and signs last, as in the formula: it is this rounding that is to be measured.
    signs = torch.from_numpy(inex_signs(degree)).to(sums)
    return (sums**degree) @ signs / math.factorial(degree)


def sums_matrix(terms: TermSet) -> Tensor:
    """Build the sparse matrix W_M: a row for each term and each non-empty subset of its variables.

    A power repeats its variable, so that entries are small integers. The rows of a term lie
    together, in the order of :func:`subsets`.
    """
    if len(terms) == 0 or len(terms.blocks[0]):
        raise ValueError(
            "the encoding takes terms of degree 1 and more; pass the constants on their own."
        )
    # A term of degree d has d 2^(d-1) entries: each of its factors lies in half of the subsets.
    entries = sum(len(block) * d * 2**d // 2 for d, block in enumerate(terms.blocks))
    if entries > MAX_ENTRIES:
        raise ValueError(
            f"the encoding of {len(terms)} terms up to degree {len(terms.blocks) - 1} needs "
            f"{entries:,} entries; at most {MAX_ENTRIES:,} are built. "
            "Use fewer terms or a lower degree."
        )
    parts, height = [], 0
    for degree, block in enumerate(terms.blocks[1:], 1):
        subset, place = np.nonzero(subsets(degree))
        first = height + (2**degree - 1) * np.arange(len(block))
        parts.append(np.stack([(first[:, None] + subset).ravel(), block[:, place].ravel()]))
        height += len(block) * (2**degree - 1)
    index = torch.from_numpy(np.concatenate(parts, axis=1))
    ones, shape = torch.ones(index.shape[1], dtype=torch.float64), (height, terms.n_variables)
    # Coalescing adds up the ones of a variable that a term holds several times.
    return torch.sparse_coo_tensor(index, ones, shape, check_invariants=True).coalesce()


@dataclass(frozen=True, eq=False)
class InExEncoding:
    r"""``N`` polynomials of ``n`` variables as :math:`W_C\, \sigma(W_M x) + b`.

    The constants stand outside of both matrices, as a shift of the activation that follows; the
    absolute value of a shifted number is still 1-Lipschitz.
    """

    terms: TermSet  # S, without the constant
    sums: Tensor  # W_M (s, n), sparse
    coefficients: Tensor  # W_C (N, S), float64
    constants: Tensor  # b (N,), float64

    def activate(self, sums: Tensor) -> Tensor:
        """Apply the stacked activations: (m, s) to the values (m, S) of the terms."""
        values = []
        for degree, block in enumerate(self.terms.blocks[1:], 1):
            part, sums = sums.tensor_split([len(block) * (2**degree - 1)], dim=1)
            values.append(inex(part.unflatten(1, (len(block), 2**degree - 1)), degree))
        return torch.cat(values, dim=1)

    def evaluate(self, points: Tensor) -> Tensor:
        """Evaluate at ``points`` (m, n), in their precision; (m, N)."""
        point_shape(tuple(points.shape), self.terms.n_variables)
        sums = torch.sparse.mm(self.sums.to(points), points.mT).mT
        values = self.activate(sums)
        return values @ self.coefficients.to(values).mT + self.constants.to(values)


def encode(terms: TermSet, coefficients: Tensor, constants: Tensor | None = None) -> InExEncoding:
    """Encode polynomials as a network of two layers.

    There are S terms without the constant, coefficients (N, S) with a row for every polynomial,
    and their constant terms (N,), which are zeros where there are none.
    """
    if coefficients.ndim != 2 or coefficients.shape[1] != len(terms):
        accepted = f"a matrix of {len(terms)} columns, one a term"
        raise parameter_error("encode", "coefficients", accepted, tuple(coefficients.shape))
    matrix = coefficients.detach().double().cpu()
    shifts = matrix.new_zeros(len(matrix)) if constants is None else constants.detach().to(matrix)
    if shifts.shape != (len(matrix),):
        accepted = f"a vector of {len(matrix)} numbers, one a polynomial"
        raise parameter_error("encode", "constants", accepted, tuple(shifts.shape))
    if not (matrix.isfinite().all() and shifts.isfinite().all()):
        accepted = "finite, with their constants"
        raise parameter_error("encode", "coefficients", accepted, "nan or inf")
    return InExEncoding(terms, sums_matrix(terms), matrix, shifts)


Polynomials: TypeAlias = MonomialLayer | SharedPolynomials | InExEncoding


def encode_polynomials(polynomials: Polynomials) -> InExEncoding:
    """Encode a polynomial layer, folded first, or generators."""
    if isinstance(polynomials, InExEncoding):
        return polynomials
    if isinstance(polynomials, SharedPolynomials):
        return encode(polynomials.terms, polynomials.coefficients, polynomials.constants)
    if isinstance(polynomials, MonomialLayer):
        plain = polynomials.folded()  # a copy with the normalisation in its weights
        return encode(plain.monomials.terms, plain.coefficients, plain.bias)
    accepted = "a PolynomialLayer, BlockPolynomialLayer, SharedPolynomials or InExEncoding"
    raise parameter_error("encode_polynomials", "polynomials", accepted, type(polynomials).__name__)


def kappa(
    kept: Sequence[LayerNorms], removed: Sequence[LayerNorms], added: Sequence[LayerNorms]
) -> float:
    r"""Compute :math:`\kappa = R_{\text{VI-Net}} / R_{\text{uncut}}` of the main theorem.

    Both networks have the layers ``kept``, the uncut one ``removed`` behind them, and the VI-Net
    ``added``: :attr:`PolynomialBounds.layers`, and a projection before the polynomials.
    """
    if not kept and not removed:
        raise parameter_error("kappa", "removed", "the layers of an uncut network", [])
    before, after = Complexity((*kept, *removed)), Complexity((*kept, *added))
    return 10.0 ** (after.log10_R - before.log10_R)


@dataclass(frozen=True)
class PolynomialSize:
    """The four numbers that the bounds depend on, and the bounds."""

    degree: int  # d, the highest
    monomials: int  # S
    polynomials: int  # N
    tau: float  # bound on the l1 norm of every coefficient row

    def __post_init__(self) -> None:
        for name in ("degree", "monomials", "polynomials"):
            check_value("PolynomialSize", name, whole(), getattr(self, name))
        check_value("PolynomialSize", "tau", POSITIVE, self.tau)

    @property
    def lemmas(self) -> tuple[float, float, float, float]:
        """Norm and ratio of W_M and of W_C, each at most this; see the module's text."""
        d, root = self.degree, math.sqrt(self.monomials)
        first = 2 ** (d / 2) * d * root, float(2**d * self.monomials)
        return *first, math.sqrt(self.polynomials) * self.tau, self.polynomials * root

    def product(self, lambda_1: float, constant: str = "proved") -> float:
        r"""Bound :math:`2^{d/2} d\tau\lambda_1\sqrt{NS}` on the three spectral norms.

        As stated, it has :math:`2^d`. The Lipschitz constant ``d`` of the activation comes on top
        of it in the complexity.
        """
        sums, _, coefficients, _ = self.lemmas
        stated = 2 ** (self.degree / 2) if constant == "stated" else 1
        return sums * coefficients * lambda_1 * stated

    def sum_of_ratios(self, lambda_2: float) -> float:
        r"""Bound :math:`(2^d S)^{2/3} + (N \sqrt{S})^{2/3} + \lambda_2^{2/3}` on the sum."""
        _, sums, _, coefficients = self.lemmas
        return math.fsum(ratio ** (2 / 3) for ratio in (sums, coefficients, lambda_2))


@dataclass(frozen=True)
class Bound:
    """One bound, of a statement of the paper, and the value that it bounds."""

    quantity: str
    source: str
    actual: float
    bound: float
    tightness: float  # actual / bound: 1 where the bound is attained, above 1 where it is broken
    holds: bool  # the value is at most the bound, up to rounding


@dataclass(frozen=True)
class PolynomialBounds:
    """The norms of an encoded polynomial layer next to their bounds."""

    size: PolynomialSize
    sums: LayerNorms  # W_M, with Lipschitz constant d
    coefficients: LayerNorms  # W_C
    final: LayerNorms | None  # W_F, where it was given
    bounds: tuple[Bound, ...]  # two lemmas and, with W_F, the theorem

    @property
    def layers(self) -> tuple[LayerNorms, ...]:
        """The layers that :func:`kappa` takes as ``added``: W_M, W_C and, where known, W_F."""
        return tuple(filter(None, (self.sums, self.coefficients, self.final)))

    @property
    def holds(self) -> bool:
        """Whether every bound holds."""
        return all(bound.holds for bound in self.bounds)


def polynomial_bounds(polynomials: Polynomials, final: Tensor | None = None) -> PolynomialBounds:
    """Compute the norms of an encoded polynomial layer and set the bounds next to them.

    Parameters
    ----------
    polynomials : PolynomialLayer, BlockPolynomialLayer, SharedPolynomials or InExEncoding
        Its constants belong to the activation and count neither in W_C nor in tau.
    final : Tensor of shape (K, N) or None, default=None
        The weights W_F of the linear layer behind it, batch normalisation folded in. Its own
        norms serve as lambda_1 and lambda_2. None leaves the bounds of the theorem out.
    """
    encoded = encode_polynomials(polynomials)
    matrix = encoded.coefficients
    if final is not None and (final.ndim != 2 or final.shape[1] != len(matrix)):
        accepted = f"a matrix of {len(matrix)} columns, one a polynomial"
        raise parameter_error("polynomial_bounds", "final", accepted, tuple(final.shape))
    # The smallest tau with which the bounds hold for these very rows.
    tau = float(matrix.abs().sum(dim=1).max())
    size = PolynomialSize(int(encoded.terms.degrees.max()), len(encoded.terms), len(matrix), tau)
    sums = matrix_norms(encoded.sums, "W_M", lipschitz=float(size.degree))
    coefficients = matrix_norms(matrix, "W_C")
    norm_M, ratio_M, norm_C, ratio_C = size.lemmas
    statements = [
        ("‖W_M‖₂", "lemma on W_M", sums.spectral, norm_M),
        ("‖W_Mᵀ‖₂,₁ / ‖W_M‖₂", "lemma on W_M", sums.ratio, ratio_M),
        ("‖W_C‖₂", "lemma on W_C", coefficients.spectral, norm_C),
        ("‖W_Cᵀ‖₂,₁ / ‖W_C‖₂", "lemma on W_C", coefficients.ratio, ratio_C),
    ]
    last = None if final is None else matrix_norms(final, "W_F")
    if last is not None:
        layers = sums, coefficients, last
        product = math.prod(layer.spectral for layer in layers)
        total, limit = Complexity(layers).total, size.sum_of_ratios(last.ratio)
        for constant in ("proved", "stated"):
            bound = size.product(last.spectral, constant)
            statements.append(("product of ‖W‖₂", f"theorem, as {constant}", product, bound))
        statements.append(("sum of ratios^(2/3)", "theorem", total, limit))
    bounds = tuple(
        Bound(quantity, source, actual, bound, actual / bound, actual / bound <= 1 + ROUNDING)
        for quantity, source, actual, bound in statements
    )
    return PolynomialBounds(size, sums, coefficients, last, bounds)
