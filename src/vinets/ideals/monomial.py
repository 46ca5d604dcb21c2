"""The part of ABM and OAVI that is the same: variable orders, the choice of path, the result."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import asdict, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from vinets.algebra.borders import BORDERS
from vinets.algebra.terms import Index, TermSet, locate_rows
from vinets.checks import one_of
from vinets.ideals.base import FittedIdeal, VanishingIdeal
from vinets.ideals.construct import STORAGE, Construction, construct
from vinets.ideals.report import FitReport
from vinets.ideals.rule import Rule, Settings

VARIABLE_ORDERS = ("ascending", "descending", "pearson")


def default_memory(device: torch.device) -> int:
    """Working memory for a block: what caches like on a CPU, what fills a GPU."""
    return 4 << 30 if device.type == "cuda" else 16 << 20


class MonomialIdeal(VanishingIdeal):
    """Vanishing ideals built term by term: base of :class:`ABM` and :class:`OAVI`."""

    psi: float
    max_degree: int | None
    border: str
    variable_order: str
    precision: str
    memory_limit: int | None

    @abstractmethod
    def _rule(self) -> Rule:
        """The rule that the parameters ask for; raises where they are outside their domain."""

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

    def _store(self, fitted: FittedIdeal) -> None:
        super()._store(fitted)
        assert fitted.order_ideal is not None
        self._order_ideal = fitted.order_ideal

    def _fit_sets(self, points: list[Tensor]) -> list[FittedIdeal]:
        rule = self._rule()
        settings = Settings(
            max_degree=self.max_degree,
            border=self.border,
            precision=self.precision,
            memory_limit=self.memory_limit or default_memory(points[0].device),
        )
        orders = [_variable_order(p, self.variable_order) for p in points]
        # the construction knows one order only: variables are permuted, and renamed in the result
        permuted = points
        if self.variable_order != "ascending":
            permuted = [
                p[:, torch.as_tensor(o, device=p.device)]
                for p, o in zip(points, orders, strict=True)
            ]
        orthogonal = needs_orthogonal(points, rule.psi, settings)
        built = construct(permuted, rule, settings, orthogonal=orthogonal)
        return [_describe(c, o, p, settings) for c, o, p in zip(built, orders, points, strict=True)]


def needs_orthogonal(points: list[Tensor], psi: float, settings: Settings) -> bool:
    r"""Whether the Gram matrix is too coarse for this tolerance.

    Forming it loses :math:`\epsilon` relative to the largest mean square of a term, and
    coefficients amplify that; :math:`64\sqrt\epsilon` of the largest possible mean square leaves
    several digits in hand. Half-precision terms are coarser than that, and :math:`64\epsilon` of
    the float32 in which they are added up is enough; below it, terms that depend on others would
    be told from them by rounding alone.
    """
    top = max(1.0, *(float(p.abs().max()) for p in points))
    # top to twice the degree, by its logarithm lest it overflow; few fits go beyond degree 8
    largest = math.exp(min(700.0, 2 * min(settings.max_degree or 8, 8) * math.log(top)))
    if settings.precision in ("float16", "bfloat16"):
        return psi < 64 * torch.finfo(torch.float32).eps * largest
    return psi < 64 * torch.finfo(STORAGE[settings.precision]).eps ** 0.5 * largest


def _describe(built: Construction, order: Index, points: Tensor, settings: Settings) -> FittedIdeal:
    order_ideal = _rename(built.order_ideal, order)
    generators = replace(
        built.generators, terms=order_ideal, leading=_rename(built.generators.leading, order)
    )
    log = built.oracle
    report = FitReport(
        seconds=0.0,  # of the whole batch, which the caller measures
        n_points=len(points),
        n_variables=points.shape[1],
        n_terms=len(order_ideal),
        n_generators=len(generators),
        degrees=built.degrees,
        path=built.path,
        device=str(points.device),
        precision=settings.precision,
        closed_under_division=settings.border == "groebner" or _is_closed(order_ideal),
        oracle=asdict(log) if log.rows else {},
    )
    return FittedIdeal(generators, built.values, report, order_ideal)


def _variable_order(points: Tensor, kind: str) -> Index:
    """Variables from smallest to largest in the term order."""
    n = points.shape[1]
    if kind == "descending":
        return np.arange(n)[::-1].copy()
    if kind == "pearson":
        centred = points - points.mean(0)
        norms = torch.linalg.vector_norm(centred, dim=0)
        scaled = centred / torch.where(norms > 0, norms, 1.0)  # a constant correlates with nothing
        total = (scaled.mT @ scaled).abs().sum(0)
        return torch.argsort(total, stable=True).cpu().numpy()
    return np.arange(n)


def _rename(terms: TermSet, order: Index) -> TermSet:
    """Terms over the caller's variables, given that variable ``i`` here is ``order[i]`` there."""
    return TermSet(
        terms.n_variables, tuple(np.sort(order[block], axis=1) for block in terms.blocks)
    )


def _is_closed(terms: TermSet) -> bool:
    for below, block in zip(terms.blocks, terms.blocks[1:], strict=False):
        for drop in range(block.shape[1]):
            quotient = np.delete(block, drop, axis=1)
            if (locate_rows(quotient, below, terms.n_variables) < 0).any():
                return False
    return True
