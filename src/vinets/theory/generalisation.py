r"""The corollary: margins of a network, and a bound on its error as a function of the margin.

The margin of an example is the logit of its label minus the largest other logit, and
:math:`L_\gamma` the share of the m examples with a margin of at most :math:`\gamma`. With
probability at least :math:`1 - \delta`, for every :math:`\gamma > 0`,

.. math::

    P[\text{error}] \le L_\gamma + O\Bigl(
        \frac{\|X\|_{2,2}\, R \ln \omega}{\gamma\, m} + \sqrt{\frac{\ln(1/\delta)}{m}}\Bigr),
    \qquad \|X\|_{2,2}^2 = \sum_i \|x_i\|^2,

with spectral complexity R and width :math:`\omega`. This is the form ``theorem``, that of Bartlett,
Foster and Telgarsky (2017), theorem 1.1. The paper prints :math:`\gamma\sqrt{m}` in the
denominator, the form ``printed``. As :math:`\|X\|_{2,2}` grows as :math:`\sqrt{m}` itself, the
printed term does not fall with more examples. With each example taken k times, it stays the same,
while that of the theorem is divided by :math:`\sqrt{k}`.

**What is compared, and what is not.** The O(.) hides a constant, and in the theorem logarithms
too. Sums are taken with constant 1 here, so no value is a certificate, above 1 or below. The ratio
of two complexity terms is free of the constant; see :func:`compare`. The theorem is also for
activations that are fixed before the examples are drawn and map 0 to 0: biases, and degrees of
monomials chosen on the same examples, go beyond its text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vinets.checks import one_of, parameter_error
from vinets.theory.margins import MarginDistribution, Numbers, like_numbers

__all__ = ["GeneralisationBound", "compare"]

FORMS = ("theorem", "printed")


@dataclass(frozen=True, eq=False)
class GeneralisationBound:
    r"""The right-hand side of the corollary with constant 1.

    The O(.) of the corollary hides a constant and logarithms. So :meth:`value` is **no
    certificate**; it shows how the parts trade off against each other. What may be compared
    between networks is the ratio of complexity terms, by :func:`compare`.

    Examples
    --------
    >>> sample = MarginDistribution([1.0, 2.0, 3.0, 4.0])
    >>> bound = GeneralisationBound(sample, log10_R=0.0, input_norm=1.0, width=8)
    >>> round(bound.complexity_term(2.0), 4), round(bound.confidence_term, 4), bound.vacuous
    (0.2599, 1.073, True)
    """

    distribution: MarginDistribution  # of the training examples
    log10_R: float  # as R itself may overflow
    input_norm: float  # ||X||_2,2 of the same examples
    width: int  # omega, of network_width
    delta: float = 0.01  # the probability with which the bound may fail
    form: Literal["theorem", "printed"] = "theorem"  # see the module's text

    def __post_init__(self) -> None:
        owner = "GeneralisationBound"
        one_of(owner, "form", self.form, FORMS)
        if not self.log10_R < math.inf:  # minus infinity is R = 0
            raise parameter_error(owner, "log10_R", "a number below infinity", self.log10_R)
        if not 0 < self.input_norm < math.inf:
            accepted = "a positive finite number"
            raise parameter_error(owner, "input_norm", accepted, self.input_norm)
        if self.width < 2:
            raise parameter_error(owner, "width", "an integer of 2 or more", self.width)
        if not 0 < self.delta < 1:
            raise parameter_error(owner, "delta", "a float between 0 and 1", self.delta)

    @property
    def confidence_term(self) -> float:
        r""":math:`\sqrt{\ln(1/\delta) / m}`."""
        return math.sqrt(-math.log(self.delta) / len(self.distribution))

    def log10_complexity_term(self, gamma: Numbers) -> Numbers:
        """Decimal logarithm of the complexity term, finite where the term overflows."""
        if not np.all(np.asarray(gamma) > 0):
            raise parameter_error("GeneralisationBound", "gamma", "positive", gamma)
        power = 1.0 if self.form == "theorem" else 0.5
        size = math.log10(self.input_norm) - power * math.log10(len(self.distribution))
        width = math.log10(math.log(self.width))
        return like_numbers(size + self.log10_R + width - np.log10(gamma))

    def complexity_term(self, gamma: Numbers) -> Numbers:
        r""":math:`\|X\|_{2,2} R \ln(\omega) / (\gamma m)`, or the printed form of it."""
        return like_numbers(_power(self.log10_complexity_term(gamma)))

    def value(self, gamma: Numbers) -> Numbers:
        r""":math:`L_\gamma` plus both terms with constant 1. No certificate."""
        terms = np.asarray(self.complexity_term(gamma)) + self.confidence_term
        return like_numbers(self.distribution.loss(gamma) + terms)

    def best(self) -> float:
        """The margin with the smallest :meth:`value`.

        The loss jumps at the margins of the sample and the complexity term falls between them, so
        it is a number just below one of these. Beyond the largest, the loss is 1.
        """
        # From the largest down: where several are equal, or all overflow, the largest is taken.
        below = np.nextafter(self.distribution.values[::-1], -math.inf)
        below = below[below > 0]
        if not len(below):
            raise ValueError("No margin is best, for no example has a positive margin.")
        return float(below[np.argmin(self.value(below))])

    @property
    def vacuous(self) -> bool:
        """Whether the smallest value is 1 or more. If not, it is still no certificate."""
        positive = self.distribution.values[-1] > 0
        return not positive or self.value(self.best()) >= 1

    @property
    def normalised(self) -> MarginDistribution:
        r"""The normalised margins :math:`\gamma m / (\|X\|_{2,2} R)`.

        They stay the same when the last layer is multiplied by a number.
        """
        scale = self.input_norm / len(self.distribution)
        return self.distribution.normalised(float(_power(self.log10_R)), scale)


def compare(a: GeneralisationBound, b: GeneralisationBound, quantile: float = 0.5) -> float:
    r"""Complexity term of ``a`` over that of ``b``, on the same examples and at equal loss.

    Each network has its own margin :math:`\gamma`, at which the loss is the smallest one of
    ``quantile`` or more that both networks attain. Then only the complexity terms differ, and the
    constant that the O(.) hides cancels. Below 1, the corollary favours ``a``.

    Examples
    --------
    >>> near, far = MarginDistribution([1.0, 2.0]), MarginDistribution([4.0, 8.0])
    >>> a = GeneralisationBound(near, log10_R=3.0, input_norm=1.0, width=10)
    >>> b = GeneralisationBound(far, log10_R=3.0, input_norm=1.0, width=10)
    >>> round(compare(a, b), 9)
    4.0
    """
    same = len(a.distribution) == len(b.distribution) and a.form == b.form
    if not same or not math.isclose(a.input_norm, b.input_norm, rel_tol=1e-6):
        raise ValueError(
            "Only bounds on the same examples and in the same form compare. Got "
            f"{len(a.distribution)} and {len(b.distribution)} examples, input norms "
            f"{a.input_norm:g} and {b.input_norm:g}, and the forms {a.form!r} and {b.form!r}."
        )
    if not 0 <= quantile <= 1:
        raise parameter_error("compare", "quantile", "from 0 to 1", quantile)
    # The losses that a network attains at its own margins; all of them unless margins tie.
    attained = [bound.distribution.loss(bound.distribution.values) for bound in (a, b)]
    common = np.intersect1d(attained[0], attained[1])
    loss = float(common[np.searchsorted(common, quantile)])
    gammas = [bound.distribution.quantiles(loss) for bound in (a, b)]
    if min(gammas) <= 0:
        accepted = "one at which both networks have a positive margin"
        raise parameter_error("compare", "quantile", accepted, quantile, "Choose a larger one.")
    if b.log10_R == -math.inf:
        raise ValueError("Nothing compares with a network b of spectral complexity 0.")
    logs = [bound.log10_complexity_term(gamma) for bound, gamma in zip((a, b), gammas, strict=True)]
    return float(_power(logs[0] - logs[1]))


def _power(logarithm: ArrayLike) -> NDArray[np.float64]:
    """10 to the given powers; infinity where that overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.power(10.0, logarithm), dtype=np.float64)
