r"""The bounds of the paper for one network and one cut, with the corollary on margins.

The margin of an example is the logit of its label minus the largest other logit, and
:math:`L_\gamma` the share of the m examples with a margin of at most :math:`\gamma`. With
probability at least :math:`1 - \delta`, for every :math:`\gamma > 0`,

.. math::

    P[\text{error}] \le L_\gamma + O\Bigl(
        \frac{\|X\|_{2,2}\, R \ln \omega}{\gamma\, m} + \sqrt{\frac{\ln(1/\delta)}{m}}\Bigr),
    \qquad \|X\|_{2,2}^2 = \sum_i \|x_i\|^2,

with spectral complexity R and width :math:`\omega`. This is the form ``theorem``; the paper prints
:math:`\gamma\sqrt{m}` in the denominator, the form ``printed``. The O(.) hides a constant, and
logarithms too. Sums are taken with constant 1 here, so no value is a certificate. The ratio of two
complexity terms is free of the constant; see :meth:`MarginBound.ratio_to` and docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, call, device_of, evaluating, logits_of
from vinets.core.options import Domain, check_value, choice, flat, real, whole
from vinets.core.plain import as_plain
from vinets.core.settings import POSITIVE, AdviceOptions
from vinets.latent.cut import resolve_cut, truncate
from vinets.latent.reader import LatentReader
from vinets.networks.network import CutNetwork
from vinets.theory.advisor import Advice, Split, advise, split_at
from vinets.theory.complexity import CutComplexity, cut_complexity, spectral_complexity
from vinets.theory.layers import Layer, read_layers
from vinets.theory.norms import Complexity, LayerNorms

CURVE_POINTS = 60
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
RATIO_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
Batches = Iterable[tuple[Inputs, Tensor]]
Numbers = float | NDArray[np.float64]  # what methods take, and give in the same shape


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Subtract the largest other logit from that of the label, in float64 of shape (m,).

    Logits (m, K) are finite, for two classes or more, and labels (m,) integers from 0 to K - 1.
    """
    if logits.ndim != 2 or logits.shape[1] < 2:
        accepted = "a tensor of shape (m, K) with two classes or more"
        raise parameter_error("margins", "logits", accepted, tuple(logits.shape))
    if labels.shape != logits.shape[:1] or labels.is_floating_point():
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


def network_width(layers: Iterable[Layer], extra: Sequence[int] = ()) -> int:
    r"""Find the width :math:`\omega`: the most numbers that any layer takes or returns.

    What a residual block carries beside its branch counts. ``extra`` are sizes of other layers.
    """
    sizes = list(extra)
    for layer in layers:
        sizes += math.prod(layer.input_shape), math.prod(layer.output_shape) + layer.carried
    return max(sizes)


@dataclass(frozen=True, eq=False)
class MarginBound:
    r"""The margins of m examples, and the right-hand side of the corollary with constant 1.

    The sum is **no certificate**. It shows how its parts trade off against each other; what may be
    compared between networks is the ratio of complexity terms, by :meth:`ratio_to`.
    """

    margins: NDArray[np.float64]  # (m,), finite; kept sorted, in float64 and read-only
    log10_R: float  # R itself may overflow
    input_norm: float  # ||X||_2,2 of the same examples
    width: int  # omega, of network_width
    delta: float = 0.01  # the probability with which the bound may fail
    form: Literal["theorem", "printed"] = "theorem"  # see the module's text

    def __post_init__(self) -> None:
        domains = {
            "log10_R": real(-math.inf),  # that of R = 0 included
            "input_norm": POSITIVE,
            "width": whole(2),
            "delta": Domain("between 0 and 1", lambda delta: 0 < delta < 1),
            "form": choice("theorem", "printed"),
        }
        for name, domain in domains.items():
            check_value("MarginBound", name, domain, getattr(self, name))
        values = np.sort(np.asarray(self.margins, dtype=np.float64), axis=None)
        if np.ndim(self.margins) != 1 or not len(values) or not np.isfinite(values).all():
            accepted = "a vector of finite numbers, at least one"
            raise parameter_error("MarginBound", "margins", accepted, self.margins)
        values.flags.writeable = False  # np.sort has made a copy: the caller's array stays as it is
        object.__setattr__(self, "margins", values)

    @classmethod
    def measure(
        cls, network: nn.Module, batches: Batches, log10_R: float, width: int
    ) -> MarginBound:
        """Run a classifier over examples, and keep their margins and the norm of the inputs.

        It runs in eval mode where it lies. For the corollary the batches are the training
        examples, each once and not augmented.
        """
        parts, square, device = [torch.empty(0)], 0.0, device_of(network)
        with evaluating(network):
            for inputs, labels in batches:
                if not isinstance(inputs, Tensor):
                    raise ValueError(
                        "The corollary needs one tensor as the input of the network, because it "
                        f"takes the norm of the inputs. Got {type(inputs).__name__} instead."
                    )
                logits = logits_of(call(network, inputs.to(device)))
                parts.append(margins(logits, labels).cpu())
                # In float64, because there may be millions of squares.
                square += float(inputs.double().square().sum())
        if len(parts) == 1:
            raise ValueError("The batches given to the corollary hold no examples. Pass some.")
        return cls(torch.cat(parts).numpy(), log10_R, math.sqrt(square), width)

    def loss(self, gamma: Numbers) -> Any:
        r"""Return the margin loss :math:`L_\gamma`: the share of margins of at most ``gamma``."""
        if np.isnan(gamma).any():
            raise parameter_error("MarginBound.loss", "gamma", "a number", "nan")
        return np.searchsorted(self.margins, gamma, side="right") / len(self.margins)

    def quantiles(self, q: Numbers) -> Any:
        """Return the smallest margin in the sample whose loss is at least ``q``, in [0, 1]."""
        if not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
            raise parameter_error("MarginBound.quantiles", "q", "from 0 to 1", q)
        # The same division as in loss(), so that loss(quantiles(q)) >= q holds to the last digit.
        losses = np.arange(1, len(self.margins) + 1) / len(self.margins)
        return self.margins[np.searchsorted(losses, q)]

    @property
    def error(self) -> float:
        """The loss at 0: share of examples that are wrong, or undecided between two labels."""
        return float(self.loss(0.0))

    @property
    def confidence_term(self) -> float:
        r""":math:`\sqrt{\ln(1/\delta) / m}`."""
        return math.sqrt(-math.log(self.delta) / len(self.margins))

    def log10_complexity_term(self, gamma: Numbers) -> Any:
        """Return the decimal logarithm of the complexity term, finite where that overflows."""
        if not np.all(np.asarray(gamma) > 0):
            raise parameter_error("MarginBound", "gamma", "positive", gamma)
        power = 1.0 if self.form == "theorem" else 0.5
        size = math.log10(self.input_norm) - power * math.log10(len(self.margins))
        return size + self.log10_R + math.log10(math.log(self.width)) - np.log10(gamma)

    def complexity_term(self, gamma: Numbers) -> Any:
        r"""Return :math:`\|X\|_{2,2} R \ln(\omega) / (\gamma m)`, or the printed form of it."""
        return _power(self.log10_complexity_term(gamma))

    def value(self, gamma: Numbers) -> Any:
        r"""Add :math:`L_\gamma` and both terms with constant 1. No certificate."""
        return self.loss(gamma) + (self.complexity_term(gamma) + self.confidence_term)

    @property
    def normalised(self) -> NDArray[np.float64]:
        r"""The sorted :math:`\gamma m / (\|X\|_{2,2} R)`, free of the scale of the last layer."""
        R = _power(self.log10_R)
        if not 0 < R < math.inf:
            remedy = "Where R overflows, ratio_to() works in logarithms."
            raise parameter_error("MarginBound", "R", "a positive finite number", R, remedy)
        return self.margins / R / (self.input_norm / len(self.margins))

    def ratio_to(self, other: MarginBound, quantile: float = 0.5) -> float:
        r"""Divide the complexity term by that of ``other``, on the same examples at equal loss.

        Each network has its own margin :math:`\gamma`, at which the loss is the smallest one of
        ``quantile`` or more that both networks attain. Then only the complexity terms differ, and
        the constant that the O(.) hides cancels. Below 1, the corollary favours this network.
        """
        mine, theirs = len(self.margins), len(other.margins)
        # Norms of the same examples, added up in another order, may differ in the last digits.
        norms = math.isclose(self.input_norm, other.input_norm, rel_tol=1e-6)
        if mine != theirs or self.form != other.form or not norms:
            raise ValueError(
                "Only bounds on the same examples and in the same form compare. Got "
                f"{mine} and {theirs} examples, input norms {self.input_norm:g} and "
                f"{other.input_norm:g}, and the forms {self.form!r} and {other.form!r}."
            )
        if other.log10_R == -math.inf:
            raise ValueError("Nothing compares with a network of spectral complexity 0.")
        owner = "MarginBound.ratio_to"
        check_value(owner, "quantile", real(0, 1, high_included=True), quantile)
        # The losses that a network attains at its own margins; all of them unless margins tie.
        common = np.intersect1d(self.loss(self.margins), other.loss(other.margins))
        loss = float(common[np.searchsorted(common, quantile)])
        own, others = self.quantiles(loss), other.quantiles(loss)
        if min(own, others) <= 0:
            accepted = "one at which both networks have a positive margin"
            raise parameter_error(owner, "quantile", accepted, quantile, "Choose a larger one.")
        gap = self.log10_complexity_term(own) - other.log10_complexity_term(others)
        return float(_power(gap))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: some quantiles, and a curve of the loss at even ones."""
        gammas, median = self.quantiles(np.linspace(0, 1, CURVE_POINTS)), self.quantiles(0.5)
        at_median = self.log10_complexity_term(median) if median > 0 else None
        margins = {
            "examples": len(self.margins),
            "error": self.error,
            "mean": float(self.margins.mean()),
            "smallest": float(self.margins[0]),
            "quantiles": {str(q): self.quantiles(q) for q in QUANTILES},
            "largest": float(self.margins[-1]),
        }
        curve = {"gamma": gammas.tolist(), "loss": self.loss(gammas).tolist()}
        facts = {**vars(self), "margins": margins, "curve": curve}
        del facts["form"]  # bounds are in the form of the theorem, where they are written
        return facts | {"log10_complexity_at_median": at_median, "confidence": self.confidence_term}


@np.errstate(over="ignore", under="ignore")
def _power(logarithm: Numbers) -> Any:
    """Raise 10 to the given powers; infinity where that overflows."""
    return np.power(10.0, logarithm)


@dataclass(frozen=True, eq=False)
class Corollary:
    """The corollary for the uncut network and for the one behind the cut, on the same examples."""

    uncut: MarginBound
    network: MarginBound

    def ratio(self, quantile: float = 0.5) -> float | None:
        """Divide the complexity term of the network by that of the uncut one at equal loss.

        The constant of the O(.) cancels. None where a margin at this quantile is not positive.
        """
        # Too small a margin is a finding here, not a mistake of the caller.
        with suppress(ValueError):
            return self.network.ratio_to(self.uncut, quantile)
        return None


@dataclass(frozen=True, eq=False)
class Study:
    """Spectral complexity of an uncut network and what may replace the layers behind a cut."""

    cut: str  # the module behind which the network is cut
    uncut: Complexity
    split: Split  # layers that stay and layers that go
    advice: Advice  # which heads are certified to be no more complex
    network: CutComplexity | None = None  # a VI-Net, or a baseline, behind this cut
    corollary: Corollary | None = None  # known with data and such a network, if its R is finite

    @property
    def log10_kappa(self) -> float | None:
        """Decimal logarithm of the theorem's kappa: complexity of the network over uncut."""
        if self.network is None:
            return None
        return self.network.whole.log10_R - self.uncut.log10_R

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        network = corollary = None
        if self.network is not None:
            bounds = self.network.head.bounds
            network = self.network.whole.to_dict() | {
                "log10_R_guaranteed": self.network.guaranteed.log10_R,
                "variables_bound": self.network.head.variables_bound,
                "bounds": bounds and as_plain(bounds) | {"holds": bounds.holds},
            }
        if self.corollary is not None:
            corollary = {name: side.to_dict() for name, side in vars(self.corollary).items()}
            corollary["ratios"] = {str(q): self.corollary.ratio(q) for q in RATIO_QUANTILES}
        return {
            "cut": self.cut,
            "uncut": self.uncut.to_dict(),
            "kept": [layer.name for layer in self.split.kept],
            "removed": [layer.name for layer in self.split.removed],
            "log10_kappa": self.log10_kappa,
            "network": network,
            "advice": self.advice.to_dict(),
            "corollary": corollary,
        }


@flat(advising=AdviceOptions)
def study(
    model: nn.Module,
    cut: str | int,
    example: Tensor,
    *,
    network: CutNetwork | None = None,
    batches: Callable[[], Batches] | None = None,
    components: int = 128,
    seed: int = 0,
    advising: AdviceOptions,
) -> Study:
    """Compute norms and bounds of a network and a cut, and of a network behind that cut.

    Parameters
    ----------
    model, cut, example
        The uncut network, where to cut it, and a batch of inputs; one is enough.
    network : CutNetwork or None, default=None
        A VI-Net or a baseline made of ``model`` at this cut.
    batches : callable or None, default=None
        Starts a pass over (inputs, labels), best the training data without augmentation; for the
        corollary, which also needs ``network``.
    components : int, default=128
        Without a ``network``, the advice assumes a projection to this many principal components.
        A rescaling in front of it depends on the data, so it counts only with a ``network``.
    advising
        As for :func:`vinets.theory.advisor.advise`; the fields are keywords here, too.
    """
    name = resolve_cut(model, cut, example)
    uncut, behind, corollary = spectral_complexity(model, example, seed=seed), None, None
    if network is None:
        backbone = truncate(model, name, example)
        truncated = spectral_complexity(backbone, example, seed=seed)
        check_value("study", "components", whole(), components)
        with evaluating(backbone):
            latents = LatentReader()(call(backbone, example[:1]))
        # Principal components are a matrix of orthonormal rows, no more than there are latents.
        before = [LayerNorms("projection", 1.0, float(min(components, latents[0].numel())))]
    else:
        if network.record.cut != name:
            raise ValueError(
                f"the network is cut at {network.record.cut!r}, and the study is of {name!r}. Pass "
                "the cut of the network."
            )
        behind = cut_complexity(network, example, seed=seed)
        truncated = behind.backbone
        # The bound on kappa replaces the head from the polynomials on; a baseline has none.
        layers = behind.head.layers if behind.head.bounds else ()
        before = list(takewhile(lambda layer: layer.name != "W_M", layers))
    with evaluating(model):
        classes = logits_of(call(model, example[:1])).shape[1]
    split = split_at(uncut, truncated, before)
    advice = advise(split, classes, advising=advising)
    # Products of unbounded forms have an infinite R, on which the corollary says nothing.
    if network and behind and batches and math.isfinite(behind.whole.log10_R):
        width = network_width(read_layers(model, example))
        ours = network_width(read_layers(network.backbone, example), behind.head.sizes)
        corollary = Corollary(
            MarginBound.measure(model, batches(), uncut.log10_R, width),
            MarginBound.measure(network, batches(), behind.whole.log10_R, ours),
        )
    return Study(name, uncut, split, advice, behind, corollary)
