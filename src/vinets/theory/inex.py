r"""Polynomials as a network of two layers, :math:`W_C \circ \sigma \circ W_M`.

A product of :math:`d` numbers is a signed sum of :math:`d`-th powers of their partial sums, by
inclusion and exclusion:

.. math:: \prod_{i=1}^d x_i
   = \frac{1}{d!} \sum_{\emptyset \ne I \subseteq [d]} (-1)^{d-|I|} \Bigl(\sum_{i \in I} x_i\Bigr)^d

The partial sums are the rows of :math:`W_M`, the signed powers are the activation
:math:`\alpha^d`. The encoding serves proofs, not speed: it has :math:`2^d - 1` rows a term, and
the sum cancels badly as :math:`d` grows, which ``python -m benchmarks.theory`` measures.

The printed definition sums over :math:`j_{k-1} \le j \le j_k`, so that neighbouring sizes share an
index. Here every non-empty subset counts once, with the sign of its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.terms import TermSet
from vinets.core.checks import parameter_error, point_shape

MAX_ENTRIES = 2**27  # W_M before merging takes about 3 GiB of indices and values then
MAX_DEGREE = 20


def subsets(degree: int) -> NDArray[np.bool_]:
    """List the non-empty subsets of ``degree`` elements, smallest first: (2^d - 1, d) masks."""
    masks = np.zeros((2**degree - 1, degree), dtype=np.bool_)
    members = (c for size in range(1, degree + 1) for c in combinations(range(degree), size))
    for mask, chosen in zip(masks, members, strict=True):
        mask[list(chosen)] = True
    return masks


def inex_signs(degree: int) -> NDArray[np.int64]:
    """List the sign (-1)^(d - |I|) of every subset, in the order of :func:`subsets`."""
    sizes = np.arange(1, degree + 1)
    return np.repeat((-1) ** (degree - sizes), [math.comb(degree, size) for size in sizes])


def inex(sums: Tensor, degree: int) -> Tensor:
    r"""Apply the InEx activation :math:`\alpha^d` to the last dimension: (..., 2^d - 1) to (...).

    The partial sums are in the order of :func:`subsets`, for a degree from 1 to 20. With inputs of
    the product in [-1, 1] it is d-Lipschitz on the partial sums that can occur, the image of W_M.
    Between points off that image it is steeper: at the sums of (1, 1, 1) its gradient has the
    norm 5.7.

    Examples
    --------
    >>> x, y = 3.0, 5.0
    >>> inex(torch.tensor([x, y, x + y]), 2)
    tensor(15.)
    """
    if not 1 <= degree <= MAX_DEGREE:
        remedy = "The encoding needs 2^d rows a term."
        accepted = f"an integer from 1 to {MAX_DEGREE}"
        raise parameter_error("inex", "degree", accepted, degree, remedy)
    if sums.shape[-1:] != (2**degree - 1,):
        accepted = f"a tensor of shape (..., {2**degree - 1}) at degree {degree}"
        raise parameter_error("inex", "sums", accepted, tuple(sums.shape))
    # Powers first and signs last, as in the formula: it is this rounding that is to be measured.
    signs = torch.from_numpy(inex_signs(degree)).to(sums)
    return (sums**degree) @ signs / math.factorial(degree)


def sums_matrix(terms: TermSet) -> Tensor:
    """Build the matrix W_M: one row for each term and each non-empty subset of its variables.

    A power repeats its variable, so that entries are small integers. The rows of a term lie
    together, in the order of :func:`subsets`. The matrix (s, n) is sparse (COO, coalesced,
    float64), with ``s`` the sum of 2^d - 1 over the degrees ``d`` of the terms.
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
    rows, columns, height = [], [], 0
    for degree, block in enumerate(terms.blocks[1:], 1):
        if len(block) == 0:
            continue
        masks = subsets(degree)
        subset, place = np.nonzero(masks)
        first = height + len(masks) * np.arange(len(block))
        rows.append((first[:, None] + subset).ravel())
        columns.append(block[:, place].ravel())
        height += len(block) * len(masks)
    index = torch.from_numpy(np.stack([np.concatenate(rows), np.concatenate(columns)]))
    ones = torch.ones(index.shape[1], dtype=torch.float64)
    shape = (height, terms.n_variables)
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

    @property
    def degree(self) -> int:
        """The highest degree ``d`` of a term."""
        return int(self.terms.degrees.max())

    def activate(self, sums: Tensor) -> Tensor:
        """Apply the stacked activations: (m, s) to the values (m, S) of the terms."""
        values, start = [], 0
        for degree, block in enumerate(self.terms.blocks[1:], 1):
            width = len(block) * (2**degree - 1)
            part = sums[:, start : start + width].reshape(len(sums), len(block), 2**degree - 1)
            values.append(inex(part, degree))
            start += width
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

    Examples
    --------
    >>> terms = TermSet.from_exponents([[1, 0], [1, 2]])
    >>> encoded = encode(terms, torch.tensor([[1.0, -2.0]]), torch.tensor([0.5]))
    >>> encoded.evaluate(torch.tensor([[3.0, 2.0]], dtype=torch.float64))
    tensor([[-20.5000]], dtype=torch.float64)
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
