r"""A cut of an uncut network, and the heads behind it that keep the spectral complexity down.

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
closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from numbers import Real
from typing import Any

from vinets.checks import bounded_float, one_of, parameter_error
from vinets.theory.bounds import PolynomialSize
from vinets.theory.complexity import Complexity, LayerNorms

__all__ = ["Region", "Split", "split_at"]

CONSTANTS = ("proved", "stated")


@dataclass(frozen=True)
class Split:
    """The layers of an uncut network and of a VI-Net on it, up to the polynomials.

    The uncut network is ``kept + removed``. The VI-Net is ``kept + before + (W_M, W_C, W_F)``.

    Examples
    --------
    >>> split = Split((), (LayerNorms("a", 10.0, 10.0), LayerNorms("b", 10.0, 10.0)))
    >>> split.log10_removed
    2.0
    """

    kept: tuple[LayerNorms, ...]  # may be empty
    removed: tuple[LayerNorms, ...]  # at least one
    before: tuple[LayerNorms, ...] = ()  # between the kept ones and the polynomials

    def __post_init__(self) -> None:
        if not self.removed:
            remedy = "Cut the network before its last layer."
            raise parameter_error("Split", "removed", "at least one layer", self.removed, remedy)
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

    @property
    def log10_before(self) -> float:
        """Decimal logarithm of the same product for the layers before the polynomials."""
        return Complexity(self.before).log10_product

    @property
    def uncut_sum(self) -> float:
        """The sum of the ratios to the power 2/3 over the uncut."""
        return Complexity((*self.kept, *self.removed)).total

    @property
    def front_sum(self) -> float:
        """The same sum over the layers of the VI-Net in front of the polynomials."""
        return Complexity((*self.kept, *self.before)).total


def split_at(uncut: Complexity, truncated: Complexity, before: Iterable[LayerNorms] = ()) -> Split:
    """Split the layers of ``uncut`` by those of the network that a cut leaves.

    ``kept`` is the longest common start of equal layers. A cut may change its last layers: inside
    of a residual block a fork turns into a plain layer, and pooling behind the cut no longer
    counts in a Lipschitz constant. Such layers of the truncated network go to the front of
    ``before``, and their counterparts to ``removed``. So ``kept + split.before`` are the layers of
    the truncated network and then the ones given, and :func:`vinets.theory.bounds.kappa` of
    ``kept``, ``removed`` and ``split.before`` with the head stays the exact quotient of the
    complexities.

    Both come from :func:`~vinets.theory.networks.spectral_complexity` with the same settings;
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
        _positive("Region", "lambda_1", self.lambda_1)
        remedy = "No matrix has a smaller ratio of these norms."
        bounded_float("Region", "lambda_2", self.lambda_2, 1, math.inf, remedy=remedy)
        one_of("Region", "constant", self.constant, CONSTANTS)

    def log10_kappa(self, degree: int, polynomials: int, monomials: int, tau: float) -> float:
        r"""Decimal logarithm of the bound on :math:`\kappa`; products alone might overflow."""
        _positive("Region", "tau", tau)
        return math.log10(tau) - self.log10_tau_max(degree, polynomials, monomials)

    def log10_tau_max(self, degree: int, polynomials: int, monomials: int) -> float:
        """Decimal logarithm of the largest tau with which a head of this size is certified."""
        size = PolynomialSize(degree, monomials, polynomials, tau=1.0)
        product = size.product_proved if self.constant == "proved" else size.product_stated
        head = math.log10(degree * product(1.0)) + math.log10(self.lambda_1)
        shares = self.split.front_sum + size.sum_of_ratios(self.lambda_2)
        growth = 1.5 * math.log10(shares / self.split.uncut_sum)
        return self.split.log10_removed - self.split.log10_before - head - growth


def _positive(owner: str, name: str, value: Any) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 < float(value) < math.inf:
        raise parameter_error(owner, name, "a positive, finite number", value)
