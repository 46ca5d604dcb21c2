"""The Oracle Approximate Vanishing Ideal algorithm (Wirth & Pokutta), by factorisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from vinets.algebra.polynomials import PolynomialSet
from vinets.core.checks import bounded_float, one_of, parameter_error
from vinets.ideals.fit import FittedIdeal, Rule
from vinets.ideals.monomial import MonomialIdeal
from vinets.oracles import ORACLES

STARTS = ("least-squares", "vertex", "zero")
STOPS = ("vanishing", "gap")


class OAVI(MonomialIdeal):
    r"""Oracle Approximate Vanishing Ideal algorithm.

    A border term :math:`u` gives the generator :math:`u + \sum_i c_i t_i` if

    .. math:: \min_{\lVert c\rVert_1 \le \tau - 1} \tfrac1m \lVert O(X)c + u(X)\rVert^2 \le \psi,

    and joins :math:`O` otherwise. Least squares decides wherever its coefficients lie in the ball,
    and an exact method where they do not; the *oracle* chooses the coefficients of the generators.

    Parameters
    ----------
    psi : float, default=0.01
        Tolerance in [0, 1) on the mean squared value of a generator.
    oracle : {"cg", "pcg", "bpcg", "agd", "exact"}, default="bpcg"
        Conditional gradients, pairwise, blended pairwise, accelerated projected gradients, or the
        minimiser over the ball itself.
    tau : float, default=1000.0
        Bound >= 2 on the l1 norm of a generator's coefficients, the leading 1 included. With
        ``math.inf`` there is no ball, and so nothing for an oracle to do: the coefficients are
        those of least squares, as by ``ABM(normalization="leading")``.
    start : {"least-squares", "vertex", "zero"}, default="least-squares"
        Where the oracle starts. ``"least-squares"`` is the minimiser over the ball, which needs no
        step of ``"agd"``; of it, ``"cg"``, ``"pcg"`` and ``"bpcg"`` leave coefficients out as long
        as the polynomial vanishes, and take the steps that they are named after only where the
        ball keeps the solution of least squares out. ``"vertex"`` is the vertex of the ball at
        the constant term, and ``"zero"`` its centre: all coefficients come of the oracle's own
        steps. The authors start conditional gradients at a vertex and accelerated gradients at 0.
    stop : {"vanishing", "gap"}, default="vanishing"
        When the oracle stops: as soon as the mean square is at most ``psi``, as the authors' does,
        or once its dual gap proves that the mean square is within ``tol * psi`` of the minimum. The
        latter leaves few coefficients 0.
    tol : float, default=0.01
        The gap, relative to ``psi``, at which ``stop="gap"`` stops.
    max_degree : int or None, default=5
    border : {"groebner", "full"}, default="groebner"
    variable_order : {"ascending", "descending", "pearson"}, default="ascending"
    n_samples : int or None, default=None
    random_state : int, RandomState or None, default=0
    precision : {"float64", "float32", "float16", "bfloat16"}, default="float64"
    memory_limit : int or None, default=None
        These seven are those of :class:`ABM`.

    Attributes
    ----------
    order_ideal_, leading_terms_, generators_, mean_squares_, report_
        As for :class:`ABM`; ``report_.oracle`` counts how the solves ended. Where the oracle does
        not vanish within 10,000 steps (2,000 after ``"least-squares"``), the minimiser stands in,
        and ``report_.oracle["kept"]`` does not count it.
    steps_ : ndarray of shape (n_generators,)
        Steps that the oracle took for each generator.
    nonzeros_ : ndarray of shape (n_generators,)
        Coefficients of each generator that are not 0, without the leading one.

    References
    ----------
    E. Wirth and S. Pokutta, *Conditional gradients for the approximately vanishing ideal*, 2022.
    E. Wirth, H. Kera and S. Pokutta, *Approximate vanishing ideal computations at scale*, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from vinets import OAVI
    >>> x = np.linspace(-1, 1, 30)
    >>> parabola = np.c_[x, x**2]
    >>> print(OAVI(psi=0.0, oracle="exact", max_degree=2).fit(parabola).generators_)
    x0^2 - x1
    """

    def __init__(
        self,
        psi: float = 0.01,
        *,
        oracle: str = "bpcg",
        tau: float = 1000.0,
        start: str = "least-squares",
        stop: str = "vanishing",
        tol: float = 0.01,
        max_degree: int | None = 5,
        border: str = "groebner",
        variable_order: str = "ascending",
        n_samples: int | None = None,
        random_state: Any = 0,
        precision: str = "float64",
        memory_limit: int | None = None,
    ) -> None:
        self.psi, self.oracle, self.tau = psi, oracle, tau
        self.start, self.stop, self.tol = start, stop, tol
        self.max_degree, self.border, self.variable_order = max_degree, border, variable_order
        self.n_samples, self.random_state = n_samples, random_state
        self.precision, self.memory_limit = precision, memory_limit

    @property
    def nonzeros_(self) -> NDArray[np.int64]:
        """Coefficients of each generator that are not 0, without the leading one."""
        check_is_fitted(self)
        return torch.count_nonzero(self.generators_.tail, dim=1).cpu().numpy()

    def _store(self, fitted: FittedIdeal, **facts: Any) -> None:
        assert fitted.steps is not None and isinstance(fitted.generators, PolynomialSet)
        self.steps_ = fitted.steps.cpu().numpy()
        nonzeros = int(torch.count_nonzero(fitted.generators.tail))
        super()._store(fitted, steps=int(self.steps_.sum()), nonzeros=nonzeros, **facts)

    def _rule(self, **settings: Any) -> Rule:
        psi = float(self.psi)
        oracle = one_of("OAVI", "oracle", self.oracle, (*ORACLES, "exact"))
        start = one_of("OAVI", "start", self.start, STARTS)
        stop = one_of("OAVI", "stop", self.stop, STOPS)
        tol = bounded_float("OAVI", "tol", self.tol, 0.0, math.inf)
        if self.tau == math.inf:
            if start != "least-squares":
                remedy = "Without a ball there is nowhere else to start: give a finite tau."
                raise parameter_error("OAVI", "start", "'least-squares'", start, remedy)
            return Rule(psi, unit=False, **settings)
        remedy = "It bounds the l1 norm of the coefficients, the leading 1 included, or is inf."
        tau = bounded_float("OAVI", "tau", self.tau, 2.0, math.inf, remedy=remedy)
        return Rule(psi, False, tau - 1, oracle, start, stop, tol, **settings)
