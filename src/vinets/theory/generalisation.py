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
printed term does not fall with more examples.

**What is compared, and what is not.** The O(.) hides a constant, and in the theorem logarithms
too. Sums are taken with constant 1 here, so no value is a certificate, above 1 or below. The ratio
of two complexity terms is free of the constant; see :func:`compare`. The theorem is also for
activations that are fixed before the examples are drawn and map 0 to 0: biases, and degrees of
monomials chosen on the same examples, go beyond its text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from vinets.core.checks import one_of, parameter_error
from vinets.core.device import Inputs, call, device_of, evaluating, logits_of
from vinets.theory.layers import Layer

FORMS = ("theorem", "printed")
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label minus the largest other logit, in float64 of shape (m,).

    Logits (m, K) are finite, for two classes or more, and labels (m,) integers from 0 to K - 1.
    """
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        accepted = "a tensor of shape (m, K) with two classes or more"
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise parameter_error("margins", "logits", accepted, shape)
    whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    if labels.shape != logits.shape[:1] or not whole:
        got = f"{labels.dtype} of shape {tuple(labels.shape)}"
        raise parameter_error("margins", "labels", f"{len(logits)} integers, one an example", got)
    wide, index = logits.detach().double(), labels.to(logits.device, torch.int64)[:, None]
    if not wide.isfinite().all():
        raise parameter_error("margins", "logits", "finite", "nan or inf")
    if ((index < 0) | (index >= wide.shape[1])).any():
        got = f"labels from {int(index.min())} to {int(index.max())}"
        raise parameter_error("margins", "labels", f"from 0 to {wide.shape[1] - 1}", got)
    # Out of place: the label's own logit must not win among the others, but is still needed.
    others = wide.scatter(1, index, -math.inf).amax(1)
    return wide.gather(1, index)[:, 0] - others


@dataclass(frozen=True, eq=False)
class MarginDistribution:
    """The finite margins (m,) of a sample; they are kept sorted, in float64 and read-only.

    Examples
    --------
    >>> sample = MarginDistribution([2.0, -1.0, 0.5, 1.0])
    >>> sample.error, sample.loss(1.0), sample.quantiles(0.5)
    (0.25, 0.75, 0.5)
    """

    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.sort(np.asarray(self.values, dtype=np.float64), axis=None)
        if np.ndim(self.values) != 1 or not len(values) or not np.isfinite(values).all():
            accepted, got = "a vector of finite numbers, at least one", np.shape(self.values)
            raise parameter_error("MarginDistribution", "values", accepted, got)
        values.flags.writeable = False  # np.sort has made a copy: the caller's array stays as it is
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def loss(self, gamma: Numbers) -> Numbers:
        r"""The margin loss :math:`L_\gamma`: share of margins of at most ``gamma``."""
        if np.isnan(gamma).any():
            raise parameter_error("MarginDistribution.loss", "gamma", "a number", "nan")
        return _like_numbers(np.searchsorted(self.values, gamma, side="right") / len(self))

    def quantiles(self, q: Numbers) -> Numbers:
        """The smallest margin in the sample whose loss is at least ``q``, for q in [0, 1]."""
        wanted = np.asarray(q, dtype=np.float64)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise parameter_error("MarginDistribution.quantiles", "q", "from 0 to 1", q)
        # The same division as in loss(), so that loss(quantiles(q)) >= q holds to the last digit.
        shares = np.arange(1, len(self) + 1) / len(self)
        return _like_numbers(self.values[np.searchsorted(shares, wanted)])

    @property
    def error(self) -> float:
        """The loss at 0: share of examples that are wrong, or undecided between two labels."""
        return self.loss(0.0)

    def normalised(self, R: float, scale: float = 1.0) -> MarginDistribution:
        r"""The margins over ``R * scale``.

        With the spectral complexity R and the scale :math:`\|X\|_{2,2} / m`, a factor on the
        last layer cancels, and margins of different networks have one unit.
        """
        owner, accepted = "MarginDistribution.normalised", "a positive finite number"
        remedy = "Where R overflows, compare() works in logarithms."
        for name, number in (("R", R), ("scale", scale)):
            if not 0 < number < math.inf:
                raise parameter_error(owner, name, accepted, number, remedy)
        return MarginDistribution(self.values / R / scale)

    def to_dict(self) -> dict[str, Any]:
        """Count, error, mean and a few quantiles as plain values, for JSON."""
        return {
            "examples": len(self),
            "error": self.error,
            "mean": float(self.values.mean()),
            "smallest": float(self.values[0]),
            "quantiles": {str(q): self.quantiles(q) for q in QUANTILES},
            "largest": float(self.values[-1]),
        }


@dataclass(frozen=True, eq=False)
class Margins:
    r"""Margins of m examples, the norm :math:`\|X\|_{2,2}` of their inputs, and their count m."""

    distribution: MarginDistribution
    input_norm: float
    count: int


def collect_margins(
    network: nn.Module,
    batches: Iterable[tuple[Inputs, Tensor]],
    device: str | torch.device | None = None,
) -> Margins:
    """Run a classifier over examples, and keep their margins and the norm of the inputs.

    The network returns logits (b, K), or an object with such ``logits``. It runs in eval mode
    without gradients where it lies, or as a copy on ``device``; its training flags stay as they
    were. For the corollary the batches are the training examples, each once and not augmented.

    Examples
    --------
    >>> found = collect_margins(nn.Identity(), [(torch.tensor([[3.0, 4.0]]), torch.tensor([1]))])
    >>> found.distribution.values.tolist(), found.input_norm, found.count
    ([1.0], 5.0, 1)
    """
    running = network if device is None else deepcopy(network).to(device)
    device = device_of(running)
    found: list[Tensor] = []
    square = 0.0
    with evaluating(running):
        for inputs, labels in batches:
            if not isinstance(inputs, Tensor):
                raise ValueError(
                    "The corollary needs one tensor as the input of the network, because it takes "
                    f"the norm of the inputs. Got {type(inputs).__name__} instead."
                )
            output = call(running, inputs.to(device))
            found.append(margins(logits_of(output), labels).cpu())
            # In float64: there may be millions of squares.
            square += float(inputs.double().square().sum())
    values = torch.cat(found) if found else torch.empty(0)
    if not len(values):
        raise ValueError("The batches given to collect_margins hold no examples. Pass one or more.")
    return Margins(MarginDistribution(values.numpy()), math.sqrt(square), len(values))


def network_width(layers: Iterable[Layer], extra: Sequence[int] = ()) -> int:
    r"""The width :math:`\omega`: the most numbers that any layer takes or returns.

    By the rule ``stacked``, what a residual block carries beside its branch counts. ``extra`` are
    sizes of layers that are not among them: for a VI-Net, the rows of W_M, W_C and W_F.
    """
    sizes = list(extra)
    for layer in layers:
        sizes.append(math.prod(layer.input_shape))
        sizes.append(math.prod(layer.output_shape) + layer.carried)
    if not sizes or min(sizes) < 1:
        accepted = "one or more layers, all sizes positive"
        raise parameter_error("network_width", "layers", accepted, f"sizes {sizes}")
    return int(max(sizes))


@dataclass(frozen=True, eq=False)
class GeneralisationBound:
    r"""The right-hand side of the corollary with constant 1: **no certificate**.

    It shows how the parts trade off against each other. What may be compared between networks is
    the ratio of complexity terms, by :func:`compare`.

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
        domains = {
            "log10_R": (self.log10_R < math.inf, "a number below infinity"),  # R = 0 has -inf
            "input_norm": (0 < self.input_norm < math.inf, "a positive finite number"),
            "width": (self.width >= 2, "an integer of 2 or more"),
            "delta": (0 < self.delta < 1, "a float between 0 and 1"),
        }
        for name, (holds, accepted) in domains.items():
            if not holds:
                raise parameter_error(owner, name, accepted, getattr(self, name))

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
        return _like_numbers(size + self.log10_R + width - np.log10(gamma))

    def complexity_term(self, gamma: Numbers) -> Numbers:
        r""":math:`\|X\|_{2,2} R \ln(\omega) / (\gamma m)`, or the printed form of it."""
        return _like_numbers(_power(self.log10_complexity_term(gamma)))

    def value(self, gamma: Numbers) -> Numbers:
        r""":math:`L_\gamma` plus both terms with constant 1. No certificate."""
        return self.distribution.loss(gamma) + (self.complexity_term(gamma) + self.confidence_term)

    def best(self) -> float:
        """The margin with the smallest :meth:`value`.

        The loss jumps at the margins of the sample and the complexity term falls between them, so
        it is a number just below one of these. Beyond the largest, the loss is 1.
        """
        # From the largest down: where several are equal, or all overflow, the largest is taken.
        below = np.nextafter(self.distribution.values[::-1], -math.inf)
        below = below[below > 0]
        if not len(below):
            raise ValueError("No margin is best, because no example has a positive margin.")
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
    # Norms of the same examples, added up in another order, may differ in the last digits.
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


def _like_numbers(result: Any) -> Any:
    """A float for a single number, else the array."""
    return float(result) if np.ndim(result) == 0 else result
