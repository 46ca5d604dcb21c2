r"""Advice on heads that are certified to be no more complex than the layers that they replace.

With :math:`N` polynomials over :math:`S` monomials of degree at most :math:`d`, coefficient rows of
:math:`\ell_1` norm at most :math:`\tau`, and a final layer with :math:`\|W_F\|_2 \le \lambda_1`
and :math:`\|W_F^\top\|_{2,1} \le \lambda_2 \|W_F\|_2`, the main theorem gives

.. math::
   \kappa = \frac{R_{\text{VI-Net}}}{R_{\text{uncut}}} \le
   d \cdot 2^{d/2} d \tau \lambda_1 \sqrt{NS} \cdot \frac{\prod_B \rho\|W\|_2}{\prod_R \rho\|W\|_2}
   \Bigl(\frac{\Sigma_K + \Sigma_B + (2^d S)^{2/3} + (N \sqrt{S})^{2/3} + \lambda_2^{2/3}}
   {\Sigma_K + \Sigma_R}\Bigr)^{3/2}

with the kept layers K, the removed ones R and those before the polynomials B of a :class:`Split`,
and :math:`\Sigma` the sums of :math:`(\|W^\top\|_{2,1} / \|W\|_2)^{2/3}`. The bound is linear in
:math:`\tau`, so the region :math:`\kappa \le 1` is :math:`\tau \le \tau_{\max}(d, N, S)`, in
closed form. Below 1 it certifies no head, which does not say that its complexity is larger: the
bound may be far from attained. The norms of a trained VI-Net give kappa itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product, starmap, takewhile
from operator import attrgetter
from typing import Any

from vinets.core.checks import parameter_error
from vinets.core.options import check_value, choice, flat, real, whole
from vinets.core.plain import as_plain
from vinets.core.settings import POSITIVE, AdviceOptions
from vinets.report.numbers import number
from vinets.theory.bounds import PolynomialSize
from vinets.theory.norms import Complexity, LayerNorms

DEGREES = (1, 2, 3, 4, 5)
POLYNOMIALS_PER_CLASS = (1, 4, 16, 32, 64, 128, 256)
MONOMIALS = (16, 32, 64, 128, 256, 512, 1024, 2048, 8192)
MIN_MONOMIALS = 16  # the recommendation goes no lower
SIZE = attrgetter("polynomials", "monomials", "degree")  # what rows are ordered by


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
        for name, layers in vars(self).items():
            if not math.isfinite(Complexity(layers).log10_product):
                accepted = "layers with positive, finite norms and Lipschitz constants"
                remedy = "A network with a layer of zeros has the complexity 0."
                raise parameter_error("Split", name, accepted, layers, remedy)

    @property
    def log10_removed(self) -> float:
        """Decimal logarithm of the product of norms and Lipschitz constants that the cut frees."""
        return Complexity(self.removed).log10_product


def split_at(uncut: Complexity, truncated: Complexity, before: Iterable[LayerNorms] = ()) -> Split:
    """Split the layers of ``uncut`` by those of the network that a cut leaves.

    ``kept`` is the longest common start of equal layers. A cut may change its last layers: inside
    of a residual block a fork turns into a plain layer, and pooling behind the cut no longer
    counts in a Lipschitz constant. Such layers of the truncated network go to the front of
    ``before``, the layers between the cut and the polynomials, and their counterparts to
    ``removed``, so that :func:`vinets.theory.bounds.kappa` stays the exact quotient.
    """
    pairs = zip(uncut.layers, truncated.layers, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    added = (*truncated.layers[common:], *before)
    return Split(uncut.layers[:common], uncut.layers[common:], added)


@dataclass(frozen=True)
class Region:
    r"""The set of (d, N, S, tau) for which the bound on :math:`\kappa` is at most 1."""

    split: Split
    lambda_1: float  # bound on the norm of the final layer
    lambda_2: float  # bound on its ratio of norms
    constant: str = "proved"  # the factor 2^(d/2) of the proof, or the 2^d that is stated

    def __post_init__(self) -> None:
        check_value("Region", "lambda_1", POSITIVE, self.lambda_1)
        check_value("Region", "lambda_2", real(1), self.lambda_2)  # no matrix has a smaller ratio
        check_value("Region", "constant", choice("proved", "stated"), self.constant)

    def log10_kappa(self, degree: int, polynomials: int, monomials: int, tau: float) -> float:
        r"""Return the decimal logarithm of the bound on :math:`\kappa`."""
        check_value("Region", "tau", POSITIVE, tau)
        return math.log10(tau) - self.log10_tau_max(degree, polynomials, monomials)

    def log10_tau_max(self, degree: int, polynomials: int, monomials: int) -> float:
        """Return the decimal logarithm of the largest tau that certifies a head of this size."""
        split, size = self.split, PolynomialSize(degree, monomials, polynomials, tau=1.0)
        product = size.product(1.0, self.constant)  # lambda_1 apart, because it may be huge or tiny
        head = math.log10(degree * product) + math.log10(self.lambda_1)
        uncut, front = (
            Complexity((*split.kept, *layers)).total for layers in (split.removed, split.before)
        )
        growth = 1.5 * math.log10((front + size.sum_of_ratios(self.lambda_2)) / uncut)
        return split.log10_removed - Complexity(split.before).log10_product - head - growth


@dataclass(frozen=True)
class AdviceRow:
    """One size of a head, and the bound on kappa at tau."""

    degree: int  # d
    polynomials: int  # N
    monomials: int  # S
    log10_tau_max: float  # largest tau that is certified
    log10_kappa: float
    fits: bool  # certified to be no more complex than the uncut network


@dataclass(frozen=True)
class Advice:
    """The grid that :func:`advise` laid out, and the sizes that its rule looks at."""

    region: Region
    tau: float  # that of log10_kappa and fits in the rows
    rows: tuple[AdviceRow, ...]  # the grid
    path: tuple[AdviceRow, ...]  # the wanted size and its halvings, degrees rising within a size

    @property
    def setting(self) -> AdviceRow | None:
        """The recommendation: the largest size of the path that fits, at its largest degree."""
        return max((row for row in self.path if row.fits), key=SIZE, default=None)

    @property
    def sentence(self) -> str:
        """The recommendation, or why there is none."""
        if self.setting is None:
            last = min(self.path, key=SIZE)
            removed = self.region.split.log10_removed
            return (
                f"No head is certified at τ = {self.tau:g}, down to {last.polynomials} polynomials "
                f"over {last.monomials} monomials of degree {last.degree}: the removed layers have "
                f"∏ρ‖W‖₂ = {number(removed, '10^.2f')} only, and that head needs "
                f"τ ≤ {power_of_ten(last.log10_tau_max)}. Cut earlier, or bound the final layer "
                f"below λ₁ = {self.region.lambda_1:.4g}."
            )
        found, wanted = self.setting, self.path[0]
        smaller = (found.polynomials, found.monomials) != (wanted.polynomials, wanted.monomials)
        return (
            f"Take {'at most ' if smaller else ''}{found.polynomials} polynomials over "
            f"{found.monomials} monomials of degree up to {found.degree}: "
            f"κ ≤ {power_of_ten(found.log10_kappa, math.ceil)} at τ = {self.tau:g}, and κ ≤ 1 "
            f"up to τ = {power_of_ten(found.log10_tau_max)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        facts, split = {**vars(self.region), **vars(self)}, self.region.split
        del facts["region"], facts["split"]
        facts["log10_removed"] = split.log10_removed
        facts["log10_before"] = Complexity(split.before).log10_product
        facts["setting"] = self.setting and {**vars(self.setting), "tau": self.tau}
        return dict(as_plain(facts | {"sentence": self.sentence}))


@flat(advising=AdviceOptions)
def advise(split: Split, classes: int, *, advising: AdviceOptions) -> Advice:
    r"""Find sizes of a head with which the VI-Net is certified to be no more complex.

    The recommendation follows one rule. Take the wanted size at the largest degree that fits at
    ``tau``. Where no degree fits, halve the polynomials a class and the monomials together, down
    to 1 and 16, until one does.

    ``advising`` are ``per_class``, ``monomials_wanted`` and ``constant``, and

    * ``lambda_1``, a bound on the norm of the final layer, which training is to keep. None for the
      norm of the uncut network's own last layer;
    * ``lambda_2``, a bound on :math:`\|W_F^\top\|_{2,1} / \|W_F\|_2`. None for the number of
      classes, which always holds: no row is longer than the spectral norm;
    * ``tau``, the :math:`\ell_1` norm that coefficient rows are to keep to. 10 holds every row of
      unit length with up to 100 coefficients, and OAVI takes any tau from 2. Rows that are
      fine-tuned keep to nothing by themselves: check them with
      :func:`~vinets.theory.bounds.polynomial_bounds`.
    """
    check_value("advise", "classes", whole(), classes)
    lambda_1, tau = advising.lambda_1 or split.removed[-1].spectral, advising.tau
    region = Region(split, lambda_1, advising.lambda_2 or float(classes), advising.constant)
    # The wanted size and its halvings, down to one polynomial a class and 16 monomials.
    path = [(advising.per_class, advising.monomials_wanted)]
    fewest = min(MIN_MONOMIALS, advising.monomials_wanted)
    while path[-1] != (1, fewest):
        count, terms = path[-1]
        path.append((max(1, count // 2), max(fewest, terms // 2)))

    def row(size: tuple[int, int], degree: int) -> AdviceRow:
        shape = degree, classes * size[0], size[1]
        kappa = region.log10_kappa(*shape, tau)
        return AdviceRow(*shape, region.log10_tau_max(*shape), kappa, kappa <= 0)

    grid = product(POLYNOMIALS_PER_CLASS, MONOMIALS)
    rows, path_rows = (tuple(starmap(row, product(sizes, DEGREES))) for sizes in (grid, path))
    return Advice(region, tau, rows, path_rows)


def power_of_ten(log10: float, rounded: Callable[[float], int] = math.floor) -> str:
    """Write 10 to this power in three digits, rounded to the safe side."""
    if -4 <= log10 < 6:  # beyond, plain digits would not fit the columns of a table
        digit = 10.0 ** (math.floor(log10) - 2)
        return f"{rounded(10**log10 / digit) * digit:.3g}"
    return number(rounded(10 * log10) / 10, "10^.1f")
