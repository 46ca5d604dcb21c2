"""The base of ABM and OAVI: variable orders, the choice of a factorisation, the result."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from vinets.algebra.moments import MomentFactor, TriangleFactor
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import BORDERS, Index, TermSet, locate_rows
from vinets.core.checks import one_of, parameter_error
from vinets.core.progress import Progress
from vinets.ideals.base import VanishingIdeal, largest, verified, warn_if_wide
from vinets.ideals.construct import STORAGE, construct, grow
from vinets.ideals.fit import FittedIdeal, Rule
from vinets.ideals.stream import (
    MomentsTooCoarse,
    Stream,
    StreamTerms,
    by_correlation,
    correlation_order,
    stream_squares,
)

STREAM_MEMORY = 512 << 20  # bytes
VARIABLE_ORDERS = ("ascending", "descending", "pearson")


class MonomialIdeal(VanishingIdeal):
    """Vanishing ideals built term by term: base of :class:`ABM` and :class:`OAVI`."""

    border: str
    variable_order: str
    precision: str
    memory_limit: int | None

    @abstractmethod
    def _rule(self, **settings: Any) -> Rule:
        """Return the rule that the parameters ask for; raise for those outside their domain."""

    @property
    def order_ideal_(self) -> NDArray[np.int16]:
        """Exponents (n_terms, n) of the terms that do not vanish, in the order accepted."""
        check_is_fitted(self)
        return self._order_ideal.exponents()

    @property
    def leading_terms_(self) -> NDArray[np.int16]:
        """Exponents (n_generators, n) of the leading terms of the generators."""
        check_is_fitted(self)
        return self.generators_.leading.exponents()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "generators_")

    def _check(self) -> None:
        super()._check()
        owner = type(self).__name__
        self._rule()
        one_of(owner, "border", self.border, BORDERS)
        one_of(owner, "variable_order", self.variable_order, VARIABLE_ORDERS)
        one_of(owner, "precision", self.precision, tuple(STORAGE))

    def _store(self, fitted: FittedIdeal, **facts: Any) -> None:
        assert fitted.order_ideal is not None
        self._order_ideal = fitted.order_ideal
        closed = self.border == "groebner" or _is_closed(fitted.order_ideal)
        super()._store(fitted, closed_under_division=closed, **facts)

    def fit_stream(
        self, source: Any, *, n_points: int | None = None, progress: Progress | str | None = None
    ) -> Self:
        """Find the generators on points that come in batches and never lie in memory at once.

        The result is that of :meth:`fit` on all points: decisions are taken from the moments of
        the terms, summed up over the batches in one pass a degree. More passes are taken

        - by ``variable_order="pearson"``, one to find the order;
        - where the moments are too coarse, that is for a tiny ``psi`` or points far outside of
          [-1, 1]: the terms are then orthogonalised batch by batch instead (``report_.path`` is
          ``"orthogonal"``), again in one pass a degree, and the first is repeated if only the size
          of the points told; a last pass verifies the mean squares;
        - by a degree with more terms than fit into ``memory_limit`` together. None means 512 MiB
          here, room for about 4,700 terms.

        ``report_.passes`` counts them. Nothing is kept if the fit is interrupted.

        Parameters
        ----------
        source : array, LatentStore, re-iterable or callable
            The points, as for :class:`~vinets.ideals.stream.Stream`, best scaled to [-1, 1]:
            :func:`~vinets.ideals.stream.scale_stream` does that, in one more pass.
        n_points : int or None, default=None
            How many there are, for the time left in the first pass, where the source cannot tell.
        progress : Progress, "auto" or None, default=None
            Told of every pass.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from vinets import ABM
        >>> def batches():  # a new pass whenever it is called
        ...     for k in range(50):
        ...         angle = np.random.default_rng(k).uniform(0, 6, 1000)
        ...         yield np.c_[np.cos(angle), np.sin(angle)]
        >>> model = ABM(psi=1e-3, max_degree=2).fit_stream(batches)
        >>> print(model.generators_, model.report_.passes)
        0.577*x1^2 + 0.577*x0^2 - 0.577 2
        """
        self._check()
        owner = type(self).__name__
        if self.n_samples is not None:
            remedy = "Draw the points where the batches are made."
            raise parameter_error(owner, "n_samples", "None in fit_stream", self.n_samples, remedy)
        begin = time.perf_counter()
        stream = Stream(source, n_points=n_points, progress=progress)
        n, device = stream.peek()
        rule = self._rule_within(STREAM_MEMORY)
        order = _variable_order(self.variable_order, n, partial(correlation_order, stream))

        def build(orthogonal: bool) -> tuple[FittedIdeal, float]:
            kind: type[MomentFactor | TriangleFactor]
            kind = TriangleFactor if orthogonal else MomentFactor
            factor = kind(psi=rule.psi, unit=rule.unit, device=device)
            coarse = None if orthogonal else partial(needs_orthogonal, rule=rule)
            terms = StreamTerms(stream, order, rule, coarse)
            return grow(factor, terms, rule)[0], terms.top

        try:
            built, top = build(needs_orthogonal(1.0, rule))
        except MomentsTooCoarse:  # the size of the points, known only now, asks for the other path
            built, top = build(True)
        warn_if_wide(self, top, stacklevel=3)
        assert stream.n_points is not None
        fitted = _in_own_order(built, order)
        measure = partial(stream_squares, stream, fitted.generators, device)
        fitted = verified(fitted, measure, stream.n_points, top, rule.psi, stacklevel=3)
        seconds = time.perf_counter() - begin
        facts = {"n_points": stream.n_points, "device": str(device), "passes": stream.passes}
        self._store(fitted, seconds=seconds, **facts)
        self._warn_if_empty()
        return self

    def _rule_within(self, memory: int) -> Rule:
        """Return the rule with the settings of a construction."""
        return self._rule(
            max_degree=self.max_degree,
            border=self.border,
            precision=self.precision,
            memory_limit=self.memory_limit or memory,
        )

    def _fit_sets(
        self, points: list[Tensor], progress: Progress | None = None
    ) -> list[FittedIdeal]:
        # what fills a GPU, what the caches of a CPU hold
        rule = self._rule_within(4 << 30 if points[0].is_cuda else 16 << 20)
        orders = [
            _variable_order(self.variable_order, p.shape[1], partial(_by_correlation, p))
            for p in points
        ]
        # the construction knows one order only: variables are permuted, and renamed in the result
        permuted = [
            p if o is None else p[:, torch.as_tensor(o, device=p.device)]
            for p, o in zip(points, orders, strict=True)
        ]
        orthogonal = needs_orthogonal(max(map(largest, points)), rule)
        built = construct(permuted, rule, orthogonal=orthogonal, progress=progress)
        return [_in_own_order(ideal, order) for ideal, order in zip(built, orders, strict=True)]


def needs_orthogonal(top: float, rule: Rule) -> bool:
    r"""Tell whether the Gram matrix is too coarse for the tolerance, on points up to ``top``.

    Forming it loses :math:`\epsilon` relative to the largest mean square of a term, and
    coefficients amplify that; :math:`64\sqrt\epsilon` of the largest possible mean square leaves
    several digits in hand. Half-precision terms are coarser than that, and :math:`64\epsilon` of
    the float32 in which they are added up is enough; below it, terms that depend on others would
    be told from them by rounding alone.
    """
    # top to twice the degree, by its logarithm lest it overflow; few fits go beyond degree 8
    exponent = 2 * min(rule.max_degree or 8, 8)
    largest = math.exp(min(700.0, exponent * math.log(max(1.0, top))))
    if rule.precision in ("float16", "bfloat16"):
        return rule.psi < 64 * torch.finfo(torch.float32).eps * largest
    return rule.psi < 64 * torch.finfo(STORAGE[rule.precision]).eps ** 0.5 * largest


def _in_own_order(ideal: FittedIdeal, order: Index | None) -> FittedIdeal:
    """Name terms by the caller's variables; those of the construction are these in ``order``."""
    if order is None:
        return ideal
    assert isinstance(ideal.generators, PolynomialSet)
    terms, leading = (
        TermSet(t.n_variables, tuple(np.sort(order[block], axis=1) for block in t.blocks))
        for t in (ideal.generators.terms, ideal.generators.leading)
    )
    generators = replace(ideal.generators, terms=terms, leading=leading)
    return replace(ideal, generators=generators, order_ideal=terms)


def _variable_order(kind: str, n: int, by_correlation: Callable[[], Index]) -> Index | None:
    """List variables from smallest to largest in the term order, None if that is their own."""
    if kind == "descending":
        return np.arange(n)[::-1].copy()
    return by_correlation() if kind == "pearson" else None


def _by_correlation(points: Tensor) -> Index:
    """Sort variables by their total absolute correlation with the others."""
    mean = points.mean(0)
    centred = points - mean
    return by_correlation(centred.mT @ centred, mean, len(points))


def _is_closed(terms: TermSet) -> bool:
    for below, block in zip(terms.blocks, terms.blocks[1:], strict=False):
        for drop in range(block.shape[1]):
            quotient = np.delete(block, drop, axis=1)
            if (locate_rows(quotient, below, terms.n_variables) < 0).any():
                return False
    return True
