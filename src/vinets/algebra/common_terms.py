r"""Polynomials of several sets over one list of terms, as a matrix: what a layer evaluates.

The constant term is kept apart, as a bias: :math:`p_j = c_j + \sum_s C_{js} t_s` with
:math:`C \in \mathbb{R}^{N \times S}`. Columns that no row uses are not there.

A polynomial of degree 2 is :math:`\hat z^\top M \hat z` with :math:`\hat z = (1, z)` and a
symmetric matrix :math:`M`. With its largest eigenvalue :math:`\lambda`, its smallest
:math:`-\mu` and their eigenvectors,

.. math:: \lambda (u^\top \hat z)^2 - \mu (v^\top \hat z)^2
    = (\sqrt\lambda\, u + \sqrt\mu\, v)^\top \hat z\;(\sqrt\lambda\, u - \sqrt\mu\, v)^\top \hat z ,

which is the polynomial itself if :math:`M` has no other eigenvalues, and otherwise the product of
two affine forms that is nearest to it: :func:`nearest_products`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.evaluation import EvaluationPlan
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import Index, TermSet, locate_rows
from vinets.core.checks import parameter_error, point_shape


@dataclass(frozen=True, eq=False)
class SharedPolynomials:
    """``N`` polynomials over ``S`` shared terms."""

    terms: TermSet  # without the constant
    coefficients: Tensor  # (N, S)
    constants: Tensor  # (N,) constant terms
    owners: Tensor  # (N,) which of the given sets each polynomial came from
    leading: Tensor | None = None  # (N,) positions of leading terms; -1 where one was dropped

    @classmethod
    def of(cls, sets: Sequence[PolynomialSet]) -> SharedPolynomials:
        """Put the polynomials of ``sets`` over the union of the terms that they use."""
        sets = [polynomials.compact() for polynomials in sets]
        terms, places = union_of_terms([t for p in sets for t in (p.terms, p.leading)])
        like = sets[0].tail
        matrix = like.new_zeros(sum(map(len, sets)), len(terms))
        start = 0
        for index, polynomials in enumerate(sets):
            rows = torch.arange(start, start + len(polynomials), device=like.device)
            shared = torch.from_numpy(places[2 * index]).to(like.device)
            leading = torch.from_numpy(places[2 * index + 1]).to(like.device)
            matrix[rows[:, None], shared[None, :]] = polynomials.tail.to(matrix)
            # added, because a leading term of one polynomial may be a shared term of others
            matrix[rows, leading] += polynomials.lead.to(matrix)
            start += len(polynomials)
        owners = torch.repeat_interleave(torch.tensor([len(p) for p in sets]))
        constants = matrix.new_zeros(len(matrix))
        leading = torch.from_numpy(np.concatenate(places[1::2]))
        if len(terms.blocks[0]):  # the constant is the first of all terms
            constants, matrix, leading = matrix[:, 0].clone(), matrix[:, 1:], leading - 1
            terms = terms.select(np.arange(1, len(terms)))
        return cls(terms, matrix.contiguous(), constants, owners, leading)

    def __len__(self) -> int:
        return len(self.coefficients)

    def evaluate(self, points: Tensor) -> Tensor:
        """Return the values at ``points`` (m, n) as (m, N)."""
        point_shape(tuple(points.shape), self.terms.n_variables)
        values = EvaluationPlan.of(self.terms).evaluate(points)
        return values @ self.coefficients.to(values).T + self.constants.to(values)

    def compact(self) -> SharedPolynomials:
        """Leave out the terms that no polynomial uses, and polynomials that are constant."""
        rows = (self.coefficients != 0).any(dim=1)
        columns = (self.coefficients != 0).any(dim=0)
        chosen = self._with_terms(columns.nonzero()[:, 0])
        kept = rows.to(self.owners.device)
        return replace(
            chosen,
            coefficients=chosen.coefficients[rows],
            constants=self.constants[rows],
            owners=self.owners[kept],
            leading=None if chosen.leading is None else chosen.leading[kept],
        )

    def _with_terms(self, keep: Tensor) -> SharedPolynomials:
        """Leave out all terms but those at ``keep``, sorted positions."""
        leading = self.leading
        if leading is not None:
            place = leading.new_full((len(self.terms) + 1,), -1)  # the last one is for position -1
            place[keep.to(place.device)] = torch.arange(len(keep), device=place.device)
            leading = place[leading]
        return replace(
            self,
            terms=self.terms.select(keep.cpu().numpy()),
            coefficients=self.coefficients[:, keep],
            leading=leading,
        )

    def restrict(self, count: int, spread: Tensor) -> SharedPolynomials:
        r"""Keep the ``count`` terms of the largest influence :math:`\sum_j |C_{js}| \sigma_s`.

        ``spread`` (S,) holds the standard deviations :math:`\sigma_s` of the terms. What was a
        small contribution is dropped, so the polynomials change; polynomials that lose all their
        terms go too.
        """
        if count >= len(self.terms):
            return self.compact()
        influence = self.coefficients.abs().sum(0) * spread.to(self.coefficients)
        # in term order again, because degrees have to stay sorted
        return self._with_terms(influence.topk(count).indices.sort().values).compact()


def union_of_terms(sets: Sequence[TermSet]) -> tuple[TermSet, list[Index]]:
    """List the terms that occur in any of ``sets``, sorted, and where those of each set lie."""
    n = sets[0].n_variables
    blocks: list[Index] = []
    for degree in range(max(len(terms.blocks) for terms in sets)):
        rows = np.concatenate([t.blocks[degree] for t in sets if degree < len(t.blocks)])
        blocks.append(np.unique(rows, axis=0))
    offsets = np.cumsum([0] + [len(block) for block in blocks])
    places = []
    for terms in sets:
        found = [
            offset + locate_rows(rows, block, n)
            for rows, block, offset in zip(terms.blocks, blocks, offsets, strict=False)
        ]
        places.append(np.concatenate(found) if found else np.zeros(0, dtype=np.int64))
    return TermSet.of_blocks(n, blocks), places


def count_monomials(sets: Sequence[PolynomialSet]) -> int:
    """Count the monomials that evaluation of all polynomials takes, without the constant.

    Those that sets share count once, and terms that no polynomial uses do not count.
    """
    compact = [polynomials.compact() for polynomials in sets]
    terms, _ = union_of_terms([t for p in compact for t in (p.terms, p.leading)])
    return len(terms) - len(terms.blocks[0])


def term_moments(terms: TermSet, points: Tensor, *, chunk: int = 4096) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (S,) of the terms over ``points`` (m, n), in float64.

    A term that is constant on the points gets the standard deviation 1.
    """
    plan = EvaluationPlan.of(terms)
    count = len(points)
    total = torch.zeros(len(terms), dtype=torch.float64, device=points.device)
    square = torch.zeros_like(total)
    shift = plan.evaluate(points[:1].double())[0]  # against cancellation in the squares
    for part in points.split(chunk):
        values = plan.evaluate(part.double()) - shift
        total += values.sum(0)
        square += values.square().sum(0)
    mean = total / count
    std = (square / count - mean.square()).clamp_min(0).sqrt()
    return mean + shift, torch.where(std > 1e-8, std, torch.ones_like(std))


def nearest_products(polynomials: SharedPolynomials) -> Tensor:
    """Find two affine forms for every polynomial of degree 2: (2, N, 1 + n), constants first.

    With x^2 - 4 y^2 = (x + 2 y) (x - 2 y), for instance, nothing is lost.
    """
    terms = polynomials.terms
    if len(terms.blocks) > 3:
        got = f"degree {len(terms.blocks) - 1}"
        raise parameter_error("nearest_products", "polynomials", "of degree 2 at most", got)
    values = polynomials.coefficients.double()
    matrix = values.new_zeros(len(values), terms.n_variables + 1, terms.n_variables + 1)
    matrix[:, 0, 0] = polynomials.constants.double()
    start = 0
    for block in terms.blocks[1:]:
        rows = torch.from_numpy(block).to(values.device) + 1  # behind the constant
        first = rows[:, 0] if block.shape[1] == 2 else torch.zeros_like(rows[:, 0])
        second = rows[:, -1]
        half = values[:, start : start + len(block)] / 2
        # an off-diagonal entry stands twice, and on the diagonal both halves meet
        matrix[:, first, second] += half
        matrix[:, second, first] += half
        start += len(block)
    found, vectors = torch.linalg.eigh(matrix)  # ascending
    positive = found[:, -1].clamp_min(0).sqrt()[:, None] * vectors[:, :, -1]
    negative = (-found[:, 0]).clamp_min(0).sqrt()[:, None] * vectors[:, :, 0]
    # a definite one is plus or minus a square: then one of the two is zero
    return torch.stack([positive + negative, positive - negative])
