"""The Approximate Buchberger-Möller algorithm (Limbeck 2014), by factorisation."""

from __future__ import annotations

from typing import Any

from vinets.core.checks import one_of
from vinets.ideals.fit import Rule
from vinets.ideals.monomial import MonomialIdeal

NORMALIZATIONS = ("unit", "leading")


class ABM(MonomialIdeal):
    r"""Approximate Buchberger-Möller algorithm.

    Goes through the border of the order ideal :math:`O` degree by degree. A border term :math:`u`
    gives a generator if some combination of :math:`u` and the terms of :math:`O` nearly vanishes on
    the points; otherwise it joins :math:`O`.

    Parameters
    ----------
    psi : float, default=0.01
        Tolerance in [0, 1) on the mean squared value of a generator. 0 finds the exact ideal.
    normalization : {"unit", "leading"}, default="unit"
        What keeps a polynomial from vanishing by being small. ``"unit"``: its coefficient vector
        has norm 1, so the test is :math:`\lambda_{\min}(A^\top A)/m \le \psi`. ``"leading"``: its
        leading coefficient is 1, so the test is on the least-squares residual. They give different
        ideals.
    max_degree : int or None, default=5
        Largest degree of a generator; None goes on until the border is empty.
    border : {"groebner", "full"}, default="groebner"
        Border terms with all proper divisors in :math:`O`, or all products of :math:`O` with a
        variable.
    variable_order : {"ascending", "descending", "pearson"}, default="ascending"
        Degree first, then x0 < x1 < ..., or x0 > x1 > ..., or variables by increasing total
        absolute correlation with the others.
    n_samples : int or None, default=None
        Fit on this many points drawn at random; report values on the rest.
    random_state : int, RandomState or None, default=0
        Seed of that draw.
    precision : {"float64", "float32", "float16", "bfloat16"}, default="float64"
        Storage of the evaluated terms. Decisions and coefficients are computed in float64.
    memory_limit : int or None, default=None
        Bytes of working memory for a block of candidates, next to the result itself. None means
        16 MiB on a CPU, where that is fastest, and 4 GiB on a GPU.

    Attributes
    ----------
    order_ideal_ : ndarray of shape (n_terms, n)
        Exponents of the terms that do not vanish, in the order accepted.
    leading_terms_ : ndarray of shape (n_generators, n)
        Exponents of the leading terms of the generators.
    generators_ : PolynomialSet
        The generators.
    mean_squares_ : ndarray of shape (n_generators,)
        Mean squared value of every generator on the points used.
    report_ : FitReport
        Counts per degree, time, path taken, held-out values.

    References
    ----------
    J. Limbeck, *Computation of approximate border bases and applications*, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from vinets import ABM
    >>> angle = np.linspace(0, 6, 40)
    >>> circle = np.c_[np.cos(angle), np.sin(angle)]
    >>> model = ABM(psi=1e-3, max_degree=2).fit(circle)
    >>> print(model.generators_)
    0.577*x1^2 + 0.577*x0^2 - 0.577
    """

    def __init__(
        self,
        psi: float = 0.01,
        *,
        normalization: str = "unit",
        max_degree: int | None = 5,
        border: str = "groebner",
        variable_order: str = "ascending",
        n_samples: int | None = None,
        random_state: Any = 0,
        precision: str = "float64",
        memory_limit: int | None = None,
    ) -> None:
        self.psi, self.normalization, self.max_degree = psi, normalization, max_degree
        self.border, self.variable_order = border, variable_order
        self.n_samples, self.random_state = n_samples, random_state
        self.precision, self.memory_limit = precision, memory_limit

    def _rule(self, **settings: Any) -> Rule:
        kind = one_of("ABM", "normalization", self.normalization, NORMALIZATIONS)
        return Rule(float(self.psi), unit=kind == "unit", **settings)
