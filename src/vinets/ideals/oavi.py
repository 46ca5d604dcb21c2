"""The Oracle Approximate Vanishing Ideal algorithm (Wirth & Pokutta), by factorisation."""

from __future__ import annotations

from typing import Any

from vinets.checks import bounded_float, one_of
from vinets.ideals.abm import check_psi
from vinets.ideals.monomial import MonomialIdeal
from vinets.ideals.rule import Rule
from vinets.oracles import ORACLES


class OAVI(MonomialIdeal):
    r"""Oracle Approximate Vanishing Ideal algorithm.

    A border term :math:`u` gives the generator :math:`u + \sum_i c_i t_i` if

    .. math:: \min_{\lVert c\rVert_1 \le \tau - 1} \tfrac1m \lVert O(X)c + u(X)\rVert^2 \le \psi,

    and joins :math:`O` otherwise. The closed form decides wherever its coefficients lie in the
    ball; the *oracle* then chooses the coefficients of the generators.

    Parameters
    ----------
    psi : float, default=0.01
        Tolerance in [0, 1) on the mean squared value of a generator.
    oracle : {"cg", "pcg", "bpcg", "agd", "exact"}, default="bpcg"
        Conditional gradients, pairwise, blended pairwise (sparse coefficients), accelerated
        projected gradient started from the closed form, or the closed form itself. The sparse ones
        leave coefficients of the closed form out while the polynomial vanishes; the steps that
        they are named after are taken where the ball keeps the closed form out.
    tau : float, default=1000.0
        Bound >= 2 on the l1 norm of a generator's coefficients, the leading 1 included.
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
        As for :class:`ABM`; ``report_.oracle`` counts how the solves ended.

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
        max_degree: int | None = 5,
        border: str = "groebner",
        variable_order: str = "ascending",
        n_samples: int | None = None,
        random_state: Any = 0,
        precision: str = "float64",
        memory_limit: int | None = None,
    ) -> None:
        self.psi = psi
        self.oracle = oracle
        self.tau = tau
        self.max_degree = max_degree
        self.border = border
        self.variable_order = variable_order
        self.n_samples = n_samples
        self.random_state = random_state
        self.precision = precision
        self.memory_limit = memory_limit

    def _rule(self) -> Rule:
        remedy = "It bounds the l1 norm of the coefficients, the leading 1 included."
        tau = bounded_float("OAVI", "tau", self.tau, 2.0, float("inf"), remedy=remedy)
        oracle = one_of("OAVI", "oracle", self.oracle, (*ORACLES, "exact"))
        return Rule(check_psi("OAVI", self.psi), unit=False, radius=tau - 1, oracle=oracle)
