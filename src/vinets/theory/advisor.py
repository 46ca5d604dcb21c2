r"""Advice on heads that are certified to be no more complex than the layers that they replace.

With :math:`N` polynomials over :math:`S` monomials of degree at most :math:`d`, coefficient rows of
:math:`\ell_1` norm at most :math:`\tau`, and a final layer with :math:`\|W_F\|_2 \le \lambda_1`
and :math:`\|W_F^T\|_{2,1} \le \lambda_2 \|W_F\|_2`, the main theorem gives

.. math::
   \kappa = \frac{R_{\tilde\phi}}{R_\phi} \le
   d \cdot 2^{d/2} d \tau \lambda_1 \sqrt{NS} \cdot \frac{\prod_B \rho\|W\|_2}{\prod_R \rho\|W\|_2}
   \Bigl(\frac{\Sigma_K + \Sigma_B + (2^d S)^{2/3} + (N \sqrt{S})^{2/3} + \lambda_2^{2/3}}
   {\Sigma_K + \Sigma_R}\Bigr)^{3/2}

with the kept layers K, the removed ones R and those before the polynomials B of a :class:`Split`,
and :math:`\Sigma` the sums of :math:`(\|W^T\|_{2,1} / \|W\|_2)^{2/3}`. The constant
:math:`2^{d/2}` is the proved one; the theorem states :math:`2^d`. The bound is linear in
:math:`\tau`, so the region :math:`\kappa \le 1` is :math:`\tau \le \tau_{\max}(d, N, S)`, in
closed form. :func:`advise` lays it out over a grid of sizes, and recommends one by a simple rule.

Polynomials with leading coefficient 1, or with a coefficient vector of unit length, have an
l1 norm of at least 1. Where the largest certified tau is below 1, no such head is certified. That
does not say that its complexity is larger: the bound may be far from attained. The norms of a
trained VI-Net give kappa itself, by :func:`vinets.theory.bounds.kappa`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product, takewhile
from typing import Any

from vinets.core.checks import bounded_float, one_of, parameter_error
from vinets.core.options import check_value, flat, whole
from vinets.core.plain import as_plain
from vinets.core.settings import AdviceOptions
from vinets.theory.bounds import PolynomialSize
from vinets.theory.norms import Complexity, LayerNorms

DEGREES = (1, 2, 3, 4, 5)
POLYNOMIALS_PER_CLASS = (1, 4, 16, 32, 64, 128, 256)
MONOMIALS = (16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
MIN_MONOMIALS = 16  # the recommendation goes no lower


@dataclass(frozen=True)
class Split:
    """The layers of an uncut network and of a VI-Net on it, up to the polynomials.

    The uncut network is ``kept + removed``. The VI-Net is ``kept + before + (W_M, W_C, W_F)``.
    """

    kept: tuple[LayerNorms, ...]  # may be empty
    removed: tuple[LayerNorms, ...]  # at least one
    before: tuple[LayerNorms, ...] = ()  # between the kept ones and the polynomials

    def __post_init__(self) -> None:
        if not self.removed:
            remedy = "Cut the network before its last layer."
            raise parameter_error("Split", "removed", "at least one layer", self.removed, remedy)
        # A layer of zeros makes R zero and its logarithm infinite, so that no quotient is left.
        for name in ("kept", "removed", "before"):
            for layer in getattr(self, name):
                numbers = (layer.spectral, layer.two_one, layer.lipschitz)
                if not all(0 < number < math.inf for number in numbers):
                    accepted = "layers with positive, finite norms and Lipschitz constants"
                    remedy = "A network with a layer of zeros has the complexity 0."
                    raise parameter_error("Split", name, accepted, layer, remedy)

    @property
    def log10_removed(self) -> float:
        """Decimal logarithm of the product of norms and Lipschitz constants that the cut frees."""
        return Complexity(self.removed).log10_product


def split_at(uncut: Complexity, truncated: Complexity, before: Iterable[LayerNorms] = ()) -> Split:
    """Split the layers of ``uncut`` by those of the network that a cut leaves.

    ``kept`` is the longest common start of equal layers. A cut may change its last layers: inside
    of a residual block a fork turns into a plain layer, and pooling behind the cut no longer
    counts in a Lipschitz constant. Such layers of the truncated network go to the front of
    ``before``, and their counterparts to ``removed``, so that :func:`vinets.theory.bounds.kappa`
    stays the exact quotient of the complexities.

    Both come from :func:`~vinets.theory.complexity.spectral_complexity` with the same settings;
    ``before`` are layers between the cut and the polynomials, such as a projection.

    Examples
    --------
    >>> a, b, c = (LayerNorms(name, 2.0, 3.0) for name in "abc")
    >>> pooled = LayerNorms("b", 2.0, 3.0, lipschitz=0.5)
    >>> split = split_at(Complexity((a, pooled, c)), Complexity((a, b)))
    >>> split == Split(kept=(a,), removed=(pooled, c), before=(b,))
    True
    """
    pairs = zip(uncut.layers, truncated.layers, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    added = (*truncated.layers[common:], *before)
    return Split(uncut.layers[:common], uncut.layers[common:], added)


@dataclass(frozen=True)
class Region:
    r"""The set of (d, N, S, tau) for which the bound on :math:`\kappa` is at most 1.

    The final layer has :math:`\|W_F\|_2 \le \lambda_1` and
    :math:`\|W_F^T\|_{2,1} \le \lambda_2 \|W_F\|_2`; the constant is the factor :math:`2^{d/2}`
    of the proof, or the :math:`2^d` that is stated.

    Examples
    --------
    >>> region = Region(Split((), (LayerNorms("a", 1e6, 1e7),)), lambda_1=1.0, lambda_2=10.0)
    >>> round(10 ** region.log10_tau_max(degree=2, polynomials=10, monomials=16), 1)
    537.4
    """

    split: Split
    lambda_1: float
    lambda_2: float
    constant: str = "proved"

    def __post_init__(self) -> None:
        if not 0 < self.lambda_1 < math.inf:
            raise parameter_error("Region", "lambda_1", "positive and finite", self.lambda_1)
        remedy = "No matrix has a smaller ratio of these norms."
        bounded_float("Region", "lambda_2", self.lambda_2, 1, math.inf, remedy=remedy)
        one_of("Region", "constant", self.constant, ("proved", "stated"))

    def log10_kappa(self, degree: int, polynomials: int, monomials: int, tau: float) -> float:
        r"""Return the decimal logarithm of the bound on :math:`\kappa`."""
        if not 0 < tau < math.inf:
            raise parameter_error("Region", "tau", "positive and finite", tau)
        return math.log10(tau) - self.log10_tau_max(degree, polynomials, monomials)

    def log10_tau_max(self, degree: int, polynomials: int, monomials: int) -> float:
        """Return the decimal logarithm of the largest tau that certifies a head of this size."""
        split, size = self.split, PolynomialSize(degree, monomials, polynomials, tau=1.0)
        product = size.product(1.0, self.constant)  # lambda_1 apart, because it may be huge or tiny
        head = math.log10(degree * product) + math.log10(self.lambda_1)
        uncut = Complexity((*split.kept, *split.removed)).total
        front = Complexity((*split.kept, *split.before)).total
        growth = 1.5 * math.log10((front + size.sum_of_ratios(self.lambda_2)) / uncut)
        before = Complexity(split.before).log10_product
        return split.log10_removed - before - head - growth


@dataclass(frozen=True)
class AdviceRow:
    """One size of a head, the numbers d, N and S, and the bound on kappa at tau."""

    degree: int
    polynomials: int
    monomials: int
    log10_tau_max: float  # largest tau that is certified
    log10_kappa: float
    fits: bool = field(init=False)  # certified to be no more complex than the uncut network

    def __post_init__(self) -> None:
        object.__setattr__(self, "fits", self.log10_kappa <= 0)


@dataclass(frozen=True)
class Advice:
    """The grid that :func:`advise` laid out, and the sizes that its rule looks at."""

    region: Region
    tau: float  # that of log10_kappa and fits in the rows
    rows: tuple[AdviceRow, ...]  # the grid
    path: tuple[AdviceRow, ...]  # the wanted size and its halvings, degrees rising within a size

    @property
    def setting(self) -> AdviceRow | None:
        """The recommendation: the first size of the path that fits, at its largest degree."""
        fitting = [row for row in self.path if row.fits]
        sizes = [(row.polynomials, row.monomials) for row in fitting]
        return fitting[sizes.count(sizes[0]) - 1] if fitting else None

    @property
    def sentence(self) -> str:
        """The recommendation, or why there is none."""
        if self.setting is None:
            last = min(self.path, key=lambda row: (row.polynomials, row.monomials, row.degree))
            removed = self.region.split.log10_removed
            return (
                f"No head is certified at τ = {self.tau:g}, down to {last.polynomials} polynomials "
                f"over {last.monomials} monomials of degree {last.degree}: the removed layers have "
                f"a product of norms of 10^{removed:.2f} only, and that head needs "
                f"τ ≤ {power_of_ten(last.log10_tau_max)}. Cut earlier, or bound the final layer "
                f"below λ₁ = {self.region.lambda_1:.4g}."
            )
        found, wanted = self.setting, self.path[0]
        smaller = found.polynomials < wanted.polynomials or found.monomials < wanted.monomials
        return (
            f"Take {'at most ' if smaller else ''}{found.polynomials} polynomials over "
            f"{found.monomials} monomials of degree up to {found.degree}: "
            f"κ ≤ {power_of_ten(found.log10_kappa, math.ceil)} at τ = {self.tau:g}, and κ ≤ 1 "
            f"up to τ = {power_of_ten(found.log10_tau_max)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        region, setting = self.region, self.setting
        facts: dict[str, Any] = as_plain(
            {
                "constant": region.constant,
                "lambda_1": region.lambda_1,
                "lambda_2": region.lambda_2,
                "tau": self.tau,
                "log10_removed": region.split.log10_removed,
                "log10_before": Complexity(region.split.before).log10_product,
                "rows": self.rows,
                "path": self.path,
                "setting": setting and {**vars(setting), "tau": self.tau},
                "sentence": self.sentence,
            }
        )
        return facts


@flat(advising=AdviceOptions)
def advise(split: Split, classes: int, *, advising: AdviceOptions) -> Advice:
    r"""Find sizes of a head with which the VI-Net is certified to be no more complex.

    The recommendation follows one rule. Take the wanted size at the largest degree that fits at
    ``tau``. Where no degree fits, halve the polynomials a class and the monomials together, down
    to 1 and 16, until one does.

    The norms of the split count as exact, and are so up to the tolerance with which they were
    computed. The K classes are the rows of the final layer.

    Parameters
    ----------
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
    >>> removed = (*(LayerNorms(name, 1e3, 1e5) for name in "abc"), LayerNorms("fc", 3.0, 9.0))
    >>> print(advise(Split((), removed), classes=100).sentence)
    Take 12800 polynomials over 512 monomials of degree up to 3: κ ≤ 0.38 at τ = 10, and κ ≤ 1 up to
    τ = 26.3.
    """
    check_value("advise", "classes", whole(), classes)
    last, tau = split.removed[-1].spectral, advising.tau
    region = Region(
        split,
        last if advising.lambda_1 is None else advising.lambda_1,
        float(classes) if advising.lambda_2 is None else advising.lambda_2,
        advising.constant,
    )
    grid = [(classes * count, terms) for count, terms in product(POLYNOMIALS_PER_CLASS, MONOMIALS)]
    # The wanted size and its halvings, down to one polynomial a class and 16 monomials.
    count, terms = advising.per_class, advising.monomials_wanted
    fewest = min(MIN_MONOMIALS, terms)
    path = [(classes * count, terms)]
    while (count, terms) != (1, fewest):
        count, terms = max(1, count // 2), max(fewest, terms // 2)
        path.append((classes * count, terms))

    def rows(sizes: list[tuple[int, int]]) -> tuple[AdviceRow, ...]:
        return tuple(
            AdviceRow(d, n, s, region.log10_tau_max(d, n, s), region.log10_kappa(d, n, s, tau))
            for (n, s), d in product(sizes, DEGREES)
        )

    return Advice(region, tau, rows(grid), rows(path))


def power_of_ten(log10: float, rounded: Callable[[float], int] = math.floor) -> str:
    """Write 10 to this power in three digits, rounded to the safe side.

    Examples
    --------
    >>> power_of_ten(1.4199), power_of_ten(7.09), power_of_ten(-0.3)
    ('26.2', '10^7.0', '0.501')
    """
    if -4 <= log10 < 6:  # beyond, plain digits would not fit the columns of a table
        digit = 10.0 ** (math.floor(log10) - 2)
        return f"{rounded(10**log10 / digit) * digit:.3g}"
    return f"10^{rounded(10 * log10) / 10:.1f}"
