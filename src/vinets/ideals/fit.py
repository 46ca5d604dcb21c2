"""What is asked of a fit, what it finds, and the report on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from vinets.algebra.polynomial import Polynomials
from vinets.algebra.terms import TermSet
from vinets.core.checks import counted


@dataclass(frozen=True)
class Rule:
    """The rule by which a candidate vanishes, and how far to look.

    ``unit``: its best combination with unit coefficient vector has mean square at most ``psi``;
    otherwise the combination with leading coefficient 1, whose other coefficients have l1 norm at
    most ``radius``, and are found by ``oracle``. Where that starts, and when it stops, is given by
    ``start``, ``stop`` and ``tol``, see :class:`~vinets.ideals.oavi.OAVI`. Memory and panel do not
    change the result.
    """

    psi: float
    unit: bool
    radius: float = float("inf")
    oracle: str = "exact"
    start: str = "least-squares"
    stop: str = "vanishing"
    tol: float = 0.01
    max_degree: int | None = None
    border: str = "groebner"
    precision: str = "float64"
    memory_limit: int = 16 << 20
    panel: int = 64


@dataclass(frozen=True)
class DegreeReport:
    """Counts of one degree."""

    degree: int
    border: int
    accepted: int
    generators: int
    seconds: float


@dataclass(frozen=True, eq=False)
class FittedIdeal:
    """Outcome of a fit on one point set, before it is written to an estimator."""

    generators: Polynomials
    values: Tensor  # (g,) mean square of every generator on the points
    degrees: tuple[DegreeReport, ...]
    path: str  # how it was decided
    precision: str = "float64"
    order_ideal: TermSet | None = None
    steps: Tensor | None = None  # (g,) steps of the oracle
    oracle: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True)
class FitReport:
    """The course of a fit.

    Attributes
    ----------
    seconds : float
        Wall-clock time of the fit; of the whole batch where classes were fitted together.
    n_points, n_variables : int
        Size of the data the ideal was fitted on.
    n_terms, n_generators : int
        Size of the order ideal (or of the non-vanishing polynomials, for VCA) and of the basis.
    degrees : tuple of DegreeReport
        Border size, accepted terms and generators, degree by degree.
    path : str
        ``"gram"`` or ``"orthogonal"``: the factorisation that took the decisions.
    device, precision : str
        Where the fit ran, and the precision in which monomials were stored.
    closed_under_division : bool
        Whether the order ideal contains all divisors of its terms. Always so on Gröbner borders.
    oracle : dict
        Statistics of the oracle, if one ran: problems, status counts, steps, worst dual gap, how
        many of its solutions were kept. Of the whole batch where classes were fitted together.
    steps, nonzeros : int
        Steps that the oracle of OAVI took for the generators, and coefficients of these that are
        not 0, without the leading ones; of this ideal alone.
    passes : int
        How often the points were gone through, by ``fit_stream``; 0 if they lay in memory.
    held_out : list of float
        Mean square of every generator on the points left out by ``n_samples``; empty if none were.
    interrupted : bool
        Whether the fit was interrupted: what was found up to the degree before that is here.
    """

    seconds: float
    n_points: int
    n_variables: int
    n_terms: int
    n_generators: int
    degrees: tuple[DegreeReport, ...]
    path: str
    device: str
    precision: str
    closed_under_division: bool = True
    oracle: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    nonzeros: int = 0
    passes: int = 0
    held_out: list[float] = field(default_factory=list, repr=False)
    interrupted: bool = False

    def __str__(self) -> str:
        """Write a few lines for people to read."""
        lines = [
            f"{counted(self.n_generators, 'generator')}, {counted(self.n_terms, 'term')}; "
            f"{counted(self.n_points, 'point')} in {counted(self.n_variables, 'variable')}; "
            f"{self.seconds:.3g} s, {self.device}, {self.path} path",
            f"{'degree':>8}{'border':>10}{'accepted':>10}{'generators':>12}{'seconds':>10}",
        ]
        lines += [
            f"{d.degree:>8}{d.border:>10}{d.accepted:>10}{d.generators:>12}{d.seconds:>10.3g}"
            for d in self.degrees
        ]
        if self.interrupted:
            lines.append("interrupted: higher degrees were not looked at")
        if self.passes:
            lines.append(f"{self.passes} pass{'' if self.passes == 1 else 'es'} over the points")
        if self.held_out:
            worst = max(self.held_out)
            lines.append(f"largest mean square on the points left out: {worst:.3g}")
        if self.oracle:
            lines.append(f"oracle: {self.oracle['kept']} of {self.oracle['rows']} solutions kept, ")
            lines[-1] += ", ".join(f"{n} {name}" for name, n in self.oracle["status"].items())
            lines[-1] += f"; {counted(self.steps, 'step')}, {self.nonzeros} non-zero coefficients"
        return "\n".join(lines)
