"""Everything that the theory says about one network and one cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from vinets.core.device import Inputs, call, evaluating, logits_of
from vinets.core.options import check_value, flat, whole
from vinets.core.settings import AdviceOptions
from vinets.latent.cut import resolve_cut, truncate
from vinets.latent.reader import LatentReader
from vinets.networks.network import CutNetwork
from vinets.theory.advisor import Advice, Split, advise, split_at
from vinets.theory.complexity import Complexity, LayerNorms
from vinets.theory.generalisation import (
    GeneralisationBound,
    collect_margins,
    compare,
    network_width,
)
from vinets.theory.layers import layers_of
from vinets.theory.networks import CutComplexity, cut_complexity, spectral_complexity

CURVE_POINTS = 60
Batches = Callable[[], Iterable[tuple[Inputs, Tensor]]]


@dataclass(frozen=True, eq=False)
class Corollary:
    """The corollary for the uncut network and for the one behind the cut, on the same examples."""

    uncut: GeneralisationBound
    network: GeneralisationBound

    def ratio(self, quantile: float = 0.5) -> float | None:
        """Complexity term of the network over that of the uncut network at equal margin loss.

        The constant of the O(.) cancels. None where a margin at this quantile is not positive.
        """
        # Too small a margin is a finding here, not a mistake of the caller.
        try:
            return compare(self.network, self.uncut, quantile)
        except ValueError:
            return None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        sides = {"uncut": _side(self.uncut), "network": _side(self.network)}
        return sides | {"ratios": {str(q): self.ratio(q) for q in (0.1, 0.25, 0.5, 0.75, 0.9)}}


def _side(bound: GeneralisationBound) -> dict[str, Any]:
    """One side as plain values: margins at evenly spaced quantiles and the loss at each, too."""
    margins = bound.distribution
    gammas, median = margins.quantiles(np.linspace(0, 1, CURVE_POINTS)), margins.quantiles(0.5)
    return {
        "margins": margins.to_dict(),
        "curve": {"gamma": gammas.tolist(), "loss": margins.loss(gammas).tolist()},
        "log10_R": bound.log10_R,
        "input_norm": bound.input_norm,
        "width": bound.width,
        "delta": bound.delta,
        "log10_complexity_at_median": bound.log10_complexity_term(median) if median > 0 else None,
        "confidence": bound.confidence_term,
    }


@dataclass(frozen=True, eq=False)
class Study:
    """Spectral complexity of an uncut network and what may replace the layers behind a cut."""

    cut: str  # the module behind which the network is cut
    uncut: Complexity
    split: Split  # layers that stay and layers that go
    advice: Advice  # which heads are certified to be no more complex
    network: CutComplexity | None = None  # of a VI-Net, or a baseline, behind this cut
    corollary: Corollary | None = None  # where there are data and such a network, of finite R

    @property
    def log10_kappa(self) -> float | None:
        """Decimal logarithm of the theorem's kappa: complexity of the network over uncut."""
        if self.network is None:
            return None
        return self.network.whole.log10_R - self.uncut.log10_R

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        facts = None
        if self.network is not None:
            head = self.network.head
            facts = self.network.whole.to_dict() | {
                "log10_R_guaranteed": self.network.guaranteed.log10_R,
                "variables_bound": head.variables_bound,
                "bounds": None if head.bounds is None else head.bounds.to_dict(),
            }
        return {
            "cut": self.cut,
            "uncut": self.uncut.to_dict(),
            "kept": [layer.name for layer in self.split.kept],
            "removed": [layer.name for layer in self.split.removed],
            "log10_kappa": self.log10_kappa,
            "network": facts,
            "advice": self.advice.to_dict(),
            "corollary": None if self.corollary is None else self.corollary.to_dict(),
        }


@flat(advising=AdviceOptions)
def study(
    model: nn.Module,
    cut: str | int,
    example: Tensor,
    *,
    network: CutNetwork | None = None,
    batches: Batches | None = None,
    components: int = 128,
    seed: int = 0,
    advising: AdviceOptions,
) -> Study:
    """Compute norms and bounds of a network and a cut, and of a network behind that cut.

    Parameters
    ----------
    model : Module
        The uncut network, which is cut as in :func:`vinets.build`.
    example : Tensor
        A batch of inputs; one is enough.
    network : CutNetwork or None, default=None
        A VI-Net or a baseline made of ``model`` at this cut.
    batches : callable or None, default=None
        Starts a pass over (inputs, labels), best the training data without augmentation; for the
        corollary, which also needs ``network``.
    components : int, default=128
        Without a ``network``, the advice assumes a projection to this many principal components,
        which are orthonormal: norms 1 and ``components``. A rescaling in front of it depends on
        the data, so it counts only with a ``network``.
    seed : int, default=0
        As for :func:`spectral_complexity`.
    advising
        As for :func:`vinets.theory.advisor.advise`; the fields are keywords here, too.

    Examples
    --------
    >>> import torch
    >>> from vinets.models import digits_cnn
    >>> found = study(digits_cnn(), "relu2", torch.zeros(1, 1, 8, 8), components=16)
    >>> [layer.name for layer in found.split.removed]
    ['conv3', 'conv4', 'fc']
    """
    name = resolve_cut(model, cut, example)
    if network is not None and network.record.cut != name:
        raise ValueError(
            f"the network is cut at {network.record.cut!r}, and the study is of {name!r}. Pass "
            "the cut of the network."
        )
    uncut = spectral_complexity(model, example, seed=seed)
    behind, corollary = None, None
    if network is None:
        backbone = truncate(model, name, example)
        truncated = spectral_complexity(backbone, example, seed=seed)
        check_value("study", "components", whole(), components)
        with evaluating(backbone):
            latents = LatentReader()(call(backbone, example[:1]))
        # Principal components are a matrix of orthonormal rows, no more than there are latents.
        before = [LayerNorms("projection", 1.0, float(min(components, latents[0].numel())))]
    else:
        behind = cut_complexity(network, example, seed=seed)
        truncated = behind.backbone
        # The bound on kappa replaces the head from the polynomials on; a baseline has none.
        names = [layer.name for layer in behind.head.layers]
        before = list(behind.head.layers[: names.index("W_M")] if "W_M" in names else ())
    split = split_at(uncut, truncated, before)
    with evaluating(model):
        classes = logits_of(call(model, example[:1])).shape[1]
    advice = advise(split, classes, advising=advising)
    # of products of unbounded forms, whose complexity is infinite, the corollary says nothing
    bounded = behind is not None and math.isfinite(behind.whole.log10_R)
    if network is not None and behind is not None and batches is not None and bounded:
        width = network_width(layers_of(network.backbone, example), behind.head.sizes)
        corollary = Corollary(
            _bound(model, uncut, network_width(layers_of(model, example)), batches()),
            _bound(network, behind.whole, width, batches()),
        )
    return Study(name, uncut, split, advice, behind, corollary)


def _bound(
    network: nn.Module, complexity: Complexity, width: int, batches: Iterable[tuple[Inputs, Tensor]]
) -> GeneralisationBound:
    found = collect_margins(network, batches)
    return GeneralisationBound(found.distribution, complexity.log10_R, found.input_norm, width)
