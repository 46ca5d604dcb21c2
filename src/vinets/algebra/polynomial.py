r"""One polynomial in named variables, sequences of them, and the change to other variables.

With :math:`z_i = a_i x_i + b_i`, a term in :math:`z` is a combination of its divisors in :math:`x`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations, islice
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.terms import Index, TermSet, latex_name, term_name
from vinets.core.checks import parameter_error

if TYPE_CHECKING:
    import sympy
    from scipy.sparse import csr_array

    from vinets.algebra.polynomials import PolynomialSet

Row = tuple[int, ...]
Floats = NDArray[np.float64]

SHOWN = 20  # polynomials that are written out at once
TOLERANCE = 1e-9  # share of the largest coefficient: smaller ones are rounding by cancellation


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of coefficients times terms.

    Parameters
    ----------
    terms : tuple of tuple of int
        Each a product of variables, by their sorted indices; the leading term comes first.
    coefficients : tuple of float or Fraction
        One for every term.
    variables : tuple of str
        Names of the variables.

    Examples
    --------
    >>> p = Polynomial(((0, 0), (1, 1), ()), (1.0, 1.0, -1.0), ("x", "y"))
    >>> print(p)
    x^2 + y^2 - 1
    >>> p([3.0, 4.0])
    24.0
    """

    terms: tuple[tuple[int, ...], ...]
    coefficients: tuple[float | Fraction, ...]
    variables: tuple[str, ...]

    @property
    def degree(self) -> int:
        """The largest degree of a term whose coefficient is not 0."""
        return max((len(row) for row in self._known), default=0)

    @cached_property
    def _known(self) -> dict[tuple[int, ...], float | Fraction]:
        """Coefficients other than 0 by term; those of a term that comes twice are added up."""
        found: dict[tuple[int, ...], float | Fraction] = {}
        for row, c in zip(self.terms, self.coefficients, strict=True):
            found[row] = found.get(row, 0) + c
        return {row: c for row, c in found.items() if c != 0}

    def __eq__(self, other: object) -> bool:
        """Compare all coefficients and the names of the variables."""
        if not isinstance(other, Polynomial):
            return NotImplemented
        return self.variables == other.variables and self._known == other._known

    def __hash__(self) -> int:
        return hash((self.variables, frozenset(self._known.items())))

    def __call__(self, points: Any) -> Any:
        """Return the value at a point (n,), or the values (m,) at points (m, n)."""
        x = points if isinstance(points, Tensor) else np.asarray(points, dtype=float)
        if x.ndim not in (1, 2) or x.shape[-1] != len(self.variables):
            accepted = f"a point of {len(self.variables)} coordinates, or rows of such points"
            raise parameter_error("Polynomial", "points", accepted, tuple(x.shape))
        total = 0 * x[..., 0]
        for row, coefficient in self._known.items():
            value: Any = float(coefficient)
            for variable in row:
                value = value * x[..., variable]
            total = total + value
        return total if isinstance(x, Tensor) or x.ndim == 2 else float(total)

    def without_rounding(self, tolerance: float = TOLERANCE) -> Polynomial:
        """Leave out coefficients of at most ``tolerance`` times the largest."""
        sizes = {row: abs(float(c)) for row, c in self._known.items()}
        least = tolerance * max(sizes.values(), default=0.0)
        kept = [row for row, size in sizes.items() if size > least]
        return replace(self, terms=tuple(kept), coefficients=tuple(self._known[r] for r in kept))

    def rational(self, tolerance: float = TOLERANCE) -> Polynomial:
        """Return the same up to a factor: leading coefficient 1, and fractions for the others.

        Each is the simplest one within ``tolerance`` times the largest coefficient.
        """
        exact = {row: Fraction(c) for row, c in self.without_rounding(tolerance)._known.items()}
        if not exact:
            return self.without_rounding(tolerance)
        lead = next(iter(exact.values()))  # the next term leads if the first is rounding
        width = Fraction(tolerance) * max(abs(c / lead) for c in exact.values())
        found = {row: _simplest(c / lead - width, c / lead + width) for row, c in exact.items()}
        return replace(self, terms=tuple(found), coefficients=tuple(found.values()))

    def text(
        self, variables: Sequence[str] | None = None, digits: int = 3, tolerance: float = TOLERANCE
    ) -> str:
        """Write the polynomial with ``digits`` digits, without coefficients that are rounding."""
        name_of = partial(term_name, labels=variables or self.variables)
        return self.written(name_of, digits, tolerance)

    def written(self, name_of: Callable[[Row], str], digits: int, tolerance: float) -> str:
        """Write the polynomial, given names of terms that it shares with many others."""
        text = ""
        for row, coefficient in self.without_rounding(tolerance)._known.items():
            positive = -coefficient if coefficient < 0 else coefficient
            name = name_of(row)
            size = str(positive) if isinstance(positive, Fraction) else f"{positive:.{digits}g}"
            body = size if name == "1" else name if size == "1" else f"{size}*{name}"
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {body}" if text else sign.replace("+", "") + body
        return text or "0"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Polynomial({self})"

    def to_latex(self, digits: int = 3, tolerance: float = TOLERANCE) -> str:
        """Write the polynomial in LaTeX, with ``digits`` digits."""
        text = self.written(partial(latex_name, labels=self.variables), digits, tolerance)
        text = re.sub(r"e([+-])0*(\d+)", r" \\cdot 10^{\1\2}", text).replace("{+", "{")
        return text.replace("*", r"\,")

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.to_latex()}$"

    def to_sympy(
        self, symbols: Sequence[Any] | None = None, tolerance: float = TOLERANCE
    ) -> sympy.Expr:
        """Return a SymPy expression (extra ``symbolic``) without coefficients of rounding."""
        import sympy

        names = symbols or [sympy.Symbol(name) for name in self.variables]
        parts = []
        for row, c in self.without_rounding(tolerance)._known.items():
            value = sympy.Rational(c.numerator, c.denominator) if isinstance(c, Fraction) else c
            parts.append(value * sympy.Mul(*(names[v] for v in row)))
        return sympy.Add(*parts)


class Polynomials(Sequence[Polynomial]):
    """Polynomials that can be indexed, iterated over, called and compared."""

    n_variables: int
    variables: tuple[str, ...]  # names; empty for x0, x1, ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return self.variables or tuple(f"x{i}" for i in range(self.n_variables))

    @property
    @abstractmethod
    def expanded(self) -> PolynomialSet:
        """The same polynomials over monomials."""

    @property
    @abstractmethod
    def degrees(self) -> Index:
        """Degree of every polynomial."""

    @abstractmethod
    def evaluate(self, points: Any) -> Any:
        """Return the values at ``points`` (m, n) as (m, N)."""

    @abstractmethod
    def strings(self, variables: Sequence[str] | None = None, digits: int = 3) -> list[str]:
        """Write the polynomials out."""

    def _repr_latex_(self) -> str:
        shown = [one.to_latex() for one in islice(self, SHOWN)]
        if len(self) > SHOWN:
            shown.append(rf"\text{{and {len(self) - SHOWN} more}}")
        rows = r" \\ ".join(f"& {one}" for one in shown or [r"\text{no polynomials}"])
        return rf"$\displaystyle \begin{{aligned}} {rows} \end{{aligned}}$"

    @overload
    def __getitem__(self, index: int) -> Polynomial: ...

    @overload
    def __getitem__(self, index: slice) -> PolynomialSet: ...

    def __getitem__(self, index: int | slice) -> Polynomial | PolynomialSet:
        if isinstance(index, slice):
            return self.expanded.select(np.arange(len(self))[index])
        at = range(len(self))[index]  # an IndexError ends iteration, too
        return next(iter(self.expanded.select(np.array([at]))))

    def __iter__(self) -> Iterator[Polynomial]:
        return iter(self.expanded)

    def __call__(self, points: Any) -> Any:
        return self.evaluate(points)

    def __eq__(self, other: object) -> bool:
        """Compare the polynomials in their order, coefficient by coefficient."""
        if not isinstance(other, Polynomials):
            return NotImplemented
        return len(self) == len(other) and all(p == q for p, q in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), self.names))

    def named(self, variables: Sequence[str]) -> Any:
        """Return the same polynomials with names for their variables, which are printed."""
        if len(variables) != self.n_variables:
            accepted = f"{self.n_variables} names, one for every variable"
            raise parameter_error(type(self).__name__, "variables", accepted, len(variables))
        return replace(self, variables=tuple(map(str, variables)))  # type: ignore[type-var]

    def named_by(self, facts: dict[str, Any]) -> Self:
        """Return the same polynomials with the names that a file from anywhere has, if any."""
        names = facts.get("variables")
        if names is None:
            return self
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of its variables are no names.")
        return self.named(names)

    def to_sympy(
        self,
        symbols: Sequence[Any] | None = None,
        *,
        tolerance: float = TOLERANCE,
        rational: bool = False,
    ) -> list[sympy.Expr]:
        """Return SymPy expressions (extra ``symbolic``).

        Coefficients of at most ``tolerance`` times the largest are left out. If ``rational``, the
        others are those of :meth:`rational`.
        """
        these = self.rational(tolerance) if rational else self
        return [one.to_sympy(symbols, tolerance) for one in these]

    def rational(self, tolerance: float = TOLERANCE) -> list[Polynomial]:
        """Return polynomials of leading coefficient 1 and fractions, each within ``tolerance``.

        See :meth:`Polynomial.rational`.
        """
        return [one.rational(tolerance) for one in self]

    def to_singular(self, tolerance: float = TOLERANCE) -> str:
        """Write a script for Singular: the ring, and the ideal as :meth:`rational` has it.

        Variables are x0, x1, ..., and comments tell their names. Only polynomials that vanish
        exactly, up to rounding, have an ideal that means anything there: approximate ones have no
        common zero as a rule, so that they generate everything.

        Examples
        --------
        >>> import numpy as np
        >>> from vinets import ABM
        >>> t = np.linspace(0, 6, 50)
        >>> circle = ABM(psi=1e-9, max_degree=2).fit(np.c_[np.cos(t), np.sin(t)]).generators_
        >>> print(circle.to_singular())
        ring r = 0, (x0,x1), dp;
        ideal i = x1^2+x0^2-1;
        """
        names, comments, body = self._script("//", tolerance)
        return f"{comments}ring r = 0, ({names}), dp;\nideal i = {body or '0'};"

    def to_macaulay2(self, tolerance: float = TOLERANCE) -> str:
        """Write the same for Macaulay2."""
        names, comments, body = self._script("--", tolerance)
        return f"{comments}R = QQ[{names}]\nI = ideal({body or '0_R'})"

    def _script(self, comment: str, tolerance: float) -> tuple[str, str, str]:
        """Return names that every program takes, lines on what they stand for, the polynomials."""
        names = [f"x{i}" for i in range(self.n_variables)]
        pairs = zip(names, self.variables, strict=False)
        words = ((mine, " ".join(its.split())) for mine, its in pairs)
        told = "".join(f"{comment} {mine} is {its}\n" for mine, its in words if mine != its)
        body = [one.text(names).replace(" ", "") for one in self.rational(tolerance)]
        return ",".join(names), told, ",\n  ".join(body)


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """Find the fraction with the smallest denominator in an interval."""
    if low <= 0 <= high:
        return Fraction(0)
    if high < 0:
        return -_simplest(-high, -low)
    if ceil(low) <= high:
        return Fraction(ceil(low))
    whole = floor(low)
    return whole + 1 / _simplest(1 / (high - whole), 1 / (low - whole))


def scaling_of(scaler: Any, n_variables: int) -> tuple[Floats, Floats]:
    """Return factors and offsets (n,) by which a fitted scaler of scikit-learn maps variables."""
    zero, one = np.zeros((1, n_variables)), np.eye(n_variables)
    if not hasattr(scaler, "inverse_transform") or getattr(scaler, "n_features_in_", 0) != (
        n_variables
    ):
        accepted = f"a fitted scaler of {n_variables} variables, such as MinMaxScaler"
        raise parameter_error("unscaled", "scaler", accepted, scaler)
    # backwards, because what is scaled may be clipped
    back = scaler.inverse_transform(np.concatenate([zero, one, 2 * one]))
    offset, slope, double = back[0], back[1 : n_variables + 1] - back[0], back[n_variables + 1 :]
    straight = np.allclose(double - offset, 2 * slope, rtol=1e-9, atol=0)
    if not straight or not np.array_equal(slope, np.diag(np.diag(slope))):
        accepted = "one that maps every variable by a line of its own"
        raise parameter_error("unscaled", "scaler", accepted, scaler)
    factors = 1 / np.diag(slope)
    return factors, -offset * factors


def substituted(terms: TermSet, factors: Floats, offsets: Floats) -> list[dict[Row, float]]:
    """Write every term in ``z = factors * x + offsets`` as a combination of terms in ``x``."""
    expanded: list[dict[Row, float]] = []
    for row in rows_of(terms):
        found: dict[Row, float] = {}
        places = range(len(row))
        for count in range(len(row), -1, -1):
            for kept in combinations(places, count):
                rest = [row[i] for i in places if i not in kept]
                term = tuple(int(row[i]) for i in kept)
                value = float(np.prod(factors[list(term)]) * np.prod(offsets[rest]))
                found[term] = found.get(term, 0.0) + value
        expanded.append(found)
    return expanded


def rows_of(terms: TermSet) -> Iterable[Index]:
    """Return the terms, one by one."""
    return (row for block in terms.blocks for row in block)


def table_over(expanded: list[dict[Row, float]], columns: dict[Row, int]) -> csr_array:
    """Return the coefficients of expanded terms, (terms, columns)."""
    # Imported here, because it is slow and only what rewrites polynomials needs it.
    from scipy.sparse import csr_array

    places = [(k, columns[row]) for k, parts in enumerate(expanded) for row in parts]
    values = [value for parts in expanded for value in parts.values()]
    index = np.array(places, dtype=np.int64).reshape(-1, 2).T
    return csr_array((values, index), shape=(len(expanded), len(columns)), dtype=np.float64)


def termset(rows: Iterable[Row], n_variables: int) -> TermSet:
    """Make a set of terms, lowest degree first and in the order of their variables."""
    wanted = sorted(set(rows), key=lambda row: (len(row), row))
    top = max((len(row) for row in wanted), default=0)
    blocks = []
    for degree in range(top + 1):
        block = [row for row in wanted if len(row) == degree]
        blocks.append(np.array(block, dtype=np.int64).reshape(len(block), degree))
    return TermSet.of_blocks(n_variables, blocks)
