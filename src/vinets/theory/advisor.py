"""Which sizes of a VI-Net have no larger spectral complexity than the uncut, for certain.

The bound behind it is that of :class:`vinets.theory.split.Region`. Here it is laid out over a grid
of sizes, and one size is recommended by a simple rule.

Polynomials with leading coefficient 1, or with a coefficient vector of unit length, have an
l1 norm of at least 1. Where the largest certified tau is below 1, no such head is certified. That
does not say that its complexity is larger: the bound may be far from attained. The norms of a
trained VI-Net give kappa itself, by :func:`vinets.theory.bounds.kappa`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import product
from numbers import Integral
from typing import Any

from vinets.checks import parameter_error
from vinets.options import flat
from vinets.settings import Advising
from vinets.theory.inex import MAX_DEGREE
from vinets.theory.split import Region, Split

__all__ = ["Advice", "AdviceRow", "advise", "power_of_ten"]

DEGREES = (1, 2, 3, 4, 5)
PER_CLASS = (1, 4, 16, 32, 64, 128, 256)
MONOMIALS = (16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
FEWEST_MONOMIALS = 16  # the recommendation goes no lower


@dataclass(frozen=True)
class AdviceRow:
    """One size of a head, the numbers d, N and S, and the bound on kappa at tau."""

    degree: int
    polynomials: int
    monomials: int
    log10_tau_max: float  # of the largest tau that is certified
    log10_kappa: float

    @property
    def fits(self) -> bool:
        """Whether the complexity is certified to be at most that of the uncut."""
        return self.log10_kappa <= 0

    @property
    def size(self) -> tuple[int, int]:
        """Polynomials and monomials."""
        return self.polynomials, self.monomials


@dataclass(frozen=True)
class Advice:
    """What :func:`advise` found: the grid, and the sizes that its rule looks at."""

    region: Region
    tau: float  # that of log10_kappa and fits in the rows
    rows: tuple[AdviceRow, ...]  # the grid
    path: tuple[AdviceRow, ...]  # the wanted size and its halvings

    @property
    def setting(self) -> AdviceRow | None:
        """The recommendation: the first size of the path that fits, at its largest degree."""
        fitting = [row for row in self.path if row.fits]
        # Degrees rise within a size, so the last row that fits has the largest.
        return next((r for r in reversed(fitting) if r.size == fitting[0].size), None)

    @property
    def binding(self) -> float:
        """Decimal logarithm of the product of norms removed: the head has to stay below it."""
        return self.region.split.log10_removed

    @property
    def sentence(self) -> str:
        """The recommendation, or why there is none."""
        if self.setting is None:
            last = min(self.path, key=lambda row: (*row.size, row.degree))
            return (
                f"No head is certified at tau = {self.tau:g}, down to {last.polynomials} "
                f"polynomials over {last.monomials} monomials of degree {last.degree}: the "
                f"removed layers have a product of norms of 10^{self.binding:.2f} only, and that "
                f"head needs tau <= {power_of_ten(last.log10_tau_max)}. Cut earlier, or bound the "
                f"final layer below lambda_1 = {self.region.lambda_1:.4g}."
            )
        found, wanted = self.setting, self.path[0]
        smaller = found.polynomials < wanted.polynomials or found.monomials < wanted.monomials
        return (
            f"Take {'at most ' if smaller else ''}{found.polynomials} polynomials over "
            f"{found.monomials} monomials of degree up to {found.degree}: kappa <= "
            f"{power_of_ten(found.log10_kappa, math.ceil)} at tau = {self.tau:g}, and kappa <= 1 "
            f"up to tau = {power_of_ten(found.log10_tau_max)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        region, found = self.region, self.setting
        return {
            "constant": region.constant,
            "lambda_1": region.lambda_1,
            "lambda_2": region.lambda_2,
            "tau": self.tau,
            "log10_removed": self.binding,
            "log10_before": region.split.log10_before,
            "rows": [asdict(row) | {"fits": row.fits} for row in self.rows],
            "path": [asdict(row) | {"fits": row.fits} for row in self.path],
            "setting": found and asdict(found) | {"tau": self.tau},
            "sentence": self.sentence,
        }

    def __str__(self) -> str:
        region, sizes = self.region, self._columns()
        lines = [
            f"product of the norms removed: 10^{self.binding:.2f}",
            f"largest tau with kappa <= 1 by the {region.constant} bound (* from {self.tau:g} on)",
            f"(lambda_1 = {region.lambda_1:.4g}, lambda_2 = {region.lambda_2:.4g})",
            "",
            "polynomials" + "".join(f"{n:>11} " for n, _ in sizes),
            "monomials  " + "".join(f"{s:>11} " for _, s in sizes),
        ]
        known = {(row.degree, *row.size): row for row in self.path}
        for degree in sorted({row.degree for row in self.path}):
            cells = [known[degree, *size] for size in sizes]
            text = (f"{power_of_ten(c.log10_tau_max):>11}{'*' if c.fits else ' '}" for c in cells)
            lines.append(f"degree {degree:<4}" + "".join(text))
        lines = [line.rstrip() for line in lines]
        return "\n".join([*lines, "", textwrap.fill(self.sentence, 80)])

    def _columns(self) -> list[tuple[int, int]]:
        """At most five sizes of the path: spread evenly, and the recommended one."""
        sizes = list(dict.fromkeys(row.size for row in self.path))
        chosen = {0, len(sizes) // 3, 2 * len(sizes) // 3, len(sizes) - 1}
        if self.setting is not None:
            chosen.add(sizes.index(self.setting.size))
        return [sizes[i] for i in sorted(chosen)]


@flat(advising=Advising)
def advise(
    split: Split,
    classes: int,
    *,
    degrees: Iterable[int] = DEGREES,
    polynomials: Iterable[int] | None = None,
    monomials: Iterable[int] = MONOMIALS,
    advising: Advising,
) -> Advice:
    r"""Find sizes of a head with which the VI-Net is certified to be no more complex.

    The recommendation follows one rule. Take the wanted size at the largest degree that fits at
    ``tau``. Where no degree fits, halve the polynomials a class and the monomials together, down
    to 1 and 16, until one does.

    The norms of the split count as exact, and are so up to the tolerance with which they were
    computed. The K classes are the rows of the final layer.

    Parameters
    ----------
    degrees, polynomials, monomials : iterable of int
        The numbers d, N of all classes together, and S of the grid; degrees are those of the
        recommendation, too. Without ``polynomials``, 1 to 256 a class.
    lambda_1 : float or None, default=None
        Bound on the spectral norm of the final layer. It is a choice, to be kept by training with
        weight decay or projection. None for the norm of the uncut network's own last layer.
    lambda_2 : float or None, default=None
        Bound on :math:`\|W_F^T\|_{2,1} / \|W_F\|_2`. None for K, which always holds: no row is
        longer than the spectral norm.
    constant : {"proved", "stated"}, default="proved"
        The constant of the product bound; see :class:`Region`.
    per_class, monomials_wanted : int, default=128, 512
        The size that is wanted.
    tau : float, default=10.0
        The :math:`\ell_1` norm that coefficient rows are to keep to. 10 holds every row of unit
        length with up to 100 coefficients, and OAVI takes any tau from 2. Rows that are fine-tuned
        keep to nothing by themselves: check them with
        :func:`~vinets.theory.bounds.polynomial_bounds`. Only tau times lambda_1 matters.

    Examples
    --------
    >>> from vinets.theory.complexity import LayerNorms
    >>> removed = (*(LayerNorms(name, 1e3, 1e5) for name in "abc"), LayerNorms("fc", 3.0, 9.0))
    >>> print(advise(Split((), removed), classes=100))
    product of the norms removed: 10^9.48
    largest tau with kappa <= 1 by the proved bound (* from 10 on)
    (lambda_1 = 3, lambda_2 = 100)
    <BLANKLINE>
    polynomials      12800        3200         400         100
    monomials          512         128          16          16
    degree 1           498*   1.53e+04*     10^6.3*     10^7.0*
    degree 2          86.3*   2.62e+03*   3.69e+05*     10^6.2*
    degree 3          26.3*        787*   1.07e+05*   5.25e+05*
    degree 4          9.98         291*    3.8e+04*    1.7e+05*
    degree 5           4.2         118*   1.45e+04*   5.82e+04*
    <BLANKLINE>
    Take 12800 polynomials over 512 monomials of degree up to 3: kappa <= 0.38 at
    tau = 10, and kappa <= 1 up to tau = 26.3.
    """
    classes = _counts("classes", [classes])[0]
    if polynomials is None:
        polynomials = [classes * count for count in PER_CLASS]
    last, tau = split.removed[-1].spectral, advising.tau
    region = Region(
        split,
        last if advising.lambda_1 is None else advising.lambda_1,
        float(classes) if advising.lambda_2 is None else advising.lambda_2,
        advising.constant,
    )
    powers = _counts("degrees", degrees, MAX_DEGREE)
    grid = list(product(_counts("polynomials", polynomials), _counts("monomials", monomials)))
    wanted = _halvings(classes, advising.per_class, advising.monomials_wanted)
    return Advice(region, tau, *(_rows(region, tau, powers, sizes) for sizes in (grid, wanted)))


def _halvings(classes: int, per_class: int, monomials: int) -> list[tuple[int, int]]:
    """The wanted size and its halvings, down to a polynomial a class and a few monomials."""
    fewest = min(FEWEST_MONOMIALS, monomials)
    sizes = [(per_class, monomials)]
    while sizes[-1] != (1, fewest):
        count, terms = sizes[-1]
        sizes.append((max(1, count // 2), max(fewest, terms // 2)))
    return [(classes * count, terms) for count, terms in sizes]


def _rows(
    region: Region, tau: float, degrees: list[int], sizes: list[tuple[int, int]]
) -> tuple[AdviceRow, ...]:
    """One row a size and degree, the degrees of a size together."""
    return tuple(
        AdviceRow(d, n, s, region.log10_tau_max(d, n, s), region.log10_kappa(d, n, s, tau))
        for n, s in sizes
        for d in degrees
    )


def _counts(name: str, values: Iterable[int], most: int | None = None) -> list[int]:
    """Positive integers in ascending order, each once."""
    found = list(values)
    accepted = "positive integers" if most is None else f"integers from 1 to {most}"
    for value in found:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < 1 or (most is not None and value > most):
            raise parameter_error("advise", name, accepted, value)
    if not found:
        raise parameter_error("advise", name, f"one or more {accepted}", found)
    return sorted({int(value) for value in found})


def power_of_ten(log10: float, rounded: Callable[[float], int] = math.floor) -> str:
    """10 to this power in three digits, rounded to the safe side.

    Examples
    --------
    >>> power_of_ten(1.4199), power_of_ten(7.09), power_of_ten(-0.3)
    ('26.2', '10^7.0', '0.501')
    """
    if -4 <= log10 < 6:
        digit = 10.0 ** (math.floor(log10) - 2)
        return f"{rounded(10**log10 / digit) * digit:.3g}"
    return f"10^{rounded(10 * log10) / 10:.1f}"
