"""Vanishing Component Analysis (Livni et al. 2013)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vinets.algebra.compositions import CompositionLevel, CompositionSet, KeptValues
from vinets.algebra.polynomials import DEFAULT_MEMORY
from vinets.core.checks import format_bytes, rows_within
from vinets.core.progress import Progress, progress_of
from vinets.ideals.base import RoundingWarning, VanishingIdeal
from vinets.ideals.fit import DegreeReport, FittedIdeal

BLOCK_BYTES = 32 << 20  # candidates of as many points as fit are made at once
MAX_DRIFT = 1e-8  # between two ways to compute polynomials of mean square 1


class VCA(VanishingIdeal):
    r"""Vanishing component analysis: generators without monomials or a term order.

    Keeps a set :math:`F` of polynomials that are orthonormal on the points. Candidates of degree
    :math:`t` are products of the degree :math:`t-1` and degree 1 members of :math:`F`; what is left
    of them outside the span of :math:`F` is rotated by a singular value decomposition. Directions
    whose mean square is at most ``psi`` are generators, the others are normalised and join
    :math:`F`.

    This differs from the paper of Livni et al. in:

    1. members of :math:`F` have mean square 1 rather than sum of squares 1 on the points, so that
       ``psi`` does not depend on the number of points;
    2. the threshold is on the mean square, as for :class:`ABM` and :class:`OAVI`, rather than on
       the singular value;
    3. combinations of candidates that are the zero polynomial, such as :math:`fg - gf`, are
       removed first, so that they do not come out as generators.

    Parameters
    ----------
    psi : float, default=0.01
        Tolerance in [0, 1) on the mean square of a unit combination of candidates.
    max_degree : int or None, default=5
        Largest degree of a generator; None goes on until nothing is left.
    n_samples : int or None, default=None
    random_state : int, RandomState or None, default=0
        As for :class:`ABM`.
    memory_limit : int or None, default=None
        Bytes that the decomposition of a level may take; None means 1 GiB.

    Attributes
    ----------
    generators_ : CompositionSet
        The generators.
    mean_squares_ : ndarray of shape (n_generators,)
        Mean squared value of every generator on the points used.
    report_ : FitReport
        Counts per degree, time, held-out values.

    References
    ----------
    R. Livni et al., *Vanishing component analysis*, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from vinets import VCA
    >>> x = np.linspace(-1, 1, 30)
    >>> model = VCA(psi=1e-6, max_degree=2).fit(np.c_[x, 0.5 * x])
    >>> print(model.generators_)
    0.894*x1 - 0.447*x0
    """

    def __init__(
        self,
        psi: float = 0.01,
        *,
        max_degree: int | None = 5,
        n_samples: int | None = None,
        random_state: Any = 0,
        memory_limit: int | None = None,
    ) -> None:
        self.psi, self.max_degree, self.memory_limit = psi, max_degree, memory_limit
        self.n_samples, self.random_state = n_samples, random_state

    def _fit_sets(
        self, points: list[Tensor], progress: Progress | None = None
    ) -> list[FittedIdeal]:
        limit, watch = self.memory_limit or DEFAULT_MEMORY, progress_of(progress)
        return [_components(p, float(self.psi), self.max_degree, limit, watch) for p in points]


def _components(
    points: Tensor, psi: float, max_degree: int | None, limit: int, progress: Progress
) -> FittedIdeal:
    """Run the algorithm on one point set (m, n)."""
    n = points.shape[1]
    right = torch.arange(n, device=points.device)
    left = torch.zeros_like(right)
    here, again = KeptValues(points), KeptValues(points)
    levels: list[CompositionLevel] = []
    counts: list[DegreeReport] = []
    while len(right) and (max_degree is None or len(levels) < max_degree):
        begin = time.perf_counter()
        progress.start(f"degree {len(levels) + 1}", 0)
        need = 3 * 8 * len(right) ** 2  # bytes of the full rotation, the span, and their product
        if need > limit:
            raise MemoryError(
                f"VCA has {len(right)} candidates in the next degree, whose decomposition takes "
                f"about {format_bytes(need)}, more than memory_limit ({format_bytes(limit)}): "
                "lower max_degree, raise psi, or raise memory_limit."
            )
        parts = [*here.split(rows_within(BLOCK_BYTES, 8 * len(right)))]
        # A few points are multiplied once; of many, products are made anew whenever they are used.
        once = [parts[0].products(left, right)] if len(parts) == 1 else None
        squares = torch.zeros(len(right), dtype=points.dtype, device=points.device)
        projection = squares.new_zeros(here.kept.shape[1], len(right))
        for part, products in _remainders(parts, once, left, right):
            squares += products.square().sum(0)
            projection += part.kept.mT @ products / len(points)
        if not bool(torch.isfinite(squares.sum())):
            raise ValueError(
                f"terms of degree {len(levels) + 1} overflow on these points in float64. Rescale "
                "the points to [-1, 1]."
            )
        # twice, because after one projection a small remainder may be mostly rounding
        first, missed = projection, torch.zeros_like(projection)
        for part, remainder in _remainders(parts, once, left, right, first):
            missed += part.kept.mT @ remainder / len(points)
        projection, rest = first + missed, (parts, once, left, right, first, missed)
        span = _independent(levels, projection, left, right, points)
        # components that are rounding of the products vanish, whatever psi
        noise = 64 * torch.finfo(points.dtype).eps * float((squares.sum() / len(points)).sqrt())
        keep, vanish = _range_and_null(_remainders(*rest), len(points), span, max(psi**0.5, noise))
        level = CompositionLevel(left, right, projection, keep, vanish)
        levels.append(level)
        sizes = (span.shape[1], keep.shape[1], vanish.shape[1])
        if len(levels) == max_degree:  # nothing is built on these, so that no values are kept
            counts.append(DegreeReport(len(levels), *sizes, time.perf_counter() - begin))
            break
        # evaluation goes level upon level, and its errors grow with the degree
        rows = len(parts[0].points)
        found = torch.cat([remainder @ keep for _, remainder in _remainders(*rest)])
        evaluated = torch.cat([part.remainder(level) @ keep for part in again.split(rows)])
        if not bool(((evaluated - found).abs() <= MAX_DRIFT).all()):
            warnings.warn(
                f"VCA ends at degree {len(levels)}: polynomials that are built on those of "
                "that degree would be mostly rounding. Raise psi, or lower max_degree.",
                RoundingWarning,
                stacklevel=6,
            )
            keep, found, evaluated = keep[:, :0], found[:, :0], evaluated[:, :0]
            levels[-1] = replace(level, keep=keep)
            sizes = (sizes[0], 0, sizes[2])
        here.keep(found)
        again.keep(evaluated)
        counts.append(DegreeReport(len(levels), *sizes, time.perf_counter() - begin))
        both = (torch.arange(v.shape[1], device=v.device) for v in (here.newest, here.linear))
        left, right = torch.cartesian_prod(*both).unbind(1)
        if len(levels) == 1:  # both factors are linear: each product once
            left, right = left[left <= right], right[left <= right]
    generators = CompositionSet(n, tuple(levels), limit)
    values = generators.evaluate(points).square().mean(0)
    return FittedIdeal(generators, values, tuple(counts), "singular values")


def _independent(
    levels: list[CompositionLevel], projection: Tensor, left: Tensor, right: Tensor, points: Tensor
) -> Tensor:
    """Find orthonormal combinations (c, r) of the candidates, none of them identically zero.

    A polynomial that is zero on random points in general position is the zero polynomial.
    """
    random = torch.Generator().manual_seed(0)  # a few more points than candidates
    probe = torch.rand(len(right) + 16, points.shape[1], dtype=points.dtype, generator=random)
    # in [-1, 1], or as far as the points reach: near 0, x less a large mean looks constant
    reach = max(1.0, float(points.abs().max()))
    there = KeptValues(((2 * probe - 1) * reach).to(points.device))
    for level in levels:
        there.keep(there.remainder(level) @ level.keep)
    products = there.products(left, right)
    remainder = products - there.kept @ projection
    _, sizes, rotation = torch.linalg.svd(remainder, full_matrices=False)
    # relative to the products, of which the remainder is a difference
    rank = int((sizes > 1e-10 * torch.linalg.vector_norm(products)).sum())
    return rotation[:rank].mT


def _remainders(
    parts: Sequence[KeptValues],
    once: list[Tensor] | None,
    left: Tensor,
    right: Tensor,
    *projections: Tensor,
) -> Iterator[tuple[KeptValues, Tensor]]:
    """Give parts of the points with what projections leave of the candidates, ``once`` or anew."""
    for i, part in enumerate(parts):
        values = part.products(left, right) if once is None else once[i]
        for projection in projections:
            values = values - part.kept @ projection
        yield part, values


def _range_and_null(
    remainders: Iterable[tuple[KeptValues, Tensor]], count: int, span: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Rotate what is left of the candidates to components above the threshold, and others."""
    scaled = span.new_zeros(0, span.shape[1])
    for _, remainder in remainders:
        scaled = torch.cat([scaled, remainder @ span / count**0.5])
        if len(scaled) > scaled.shape[1]:  # a rotation of as many points would be a huge matrix
            scaled = torch.linalg.qr(scaled, mode="r").R
    # full: with fewer points than candidates the directions without a singular value vanish, too
    _, sizes, rotation = torch.linalg.svd(scaled, full_matrices=True)
    rotation = rotation @ span.mT  # (r, c)
    # signs of singular vectors differ between libraries and devices
    largest = rotation.gather(1, rotation.abs().argmax(1, keepdim=True))
    rotation = rotation * torch.where(largest < 0, -1.0, 1.0)
    above = int((sizes > threshold).sum())
    return rotation[:above].mT / sizes[:above], rotation[above:].mT
