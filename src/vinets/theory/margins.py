"""Margins of a classifier: how far the logit of the label lies above the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vinets.checks import parameter_error
from vinets.running import Inputs, call, device_of, evaluating, logits_of
from vinets.theory.layers import Layer

__all__ = [
    "MarginDistribution",
    "Margins",
    "collect_margins",
    "like_numbers",
    "margins",
    "network_width",
]

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label minus the largest other logit, in float64 of shape (m,).

    Logits (m, K) are finite, for two classes or more, and labels (m,) integers from 0 to K - 1.

    Examples
    --------
    >>> margins(torch.tensor([[3.0, 1.0, 2.5], [0.0, 1.0, 4.0]]), torch.tensor([0, 1])).tolist()
    [0.5, -3.0]
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
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def loss(self, gamma: Numbers) -> Numbers:
        r"""The margin loss :math:`L_\gamma`: share of margins of at most ``gamma``."""
        if np.isnan(gamma).any():
            raise parameter_error("MarginDistribution.loss", "gamma", "a number", "nan")
        return like_numbers(np.searchsorted(self.values, gamma, side="right") / len(self))

    def quantiles(self, q: Numbers) -> Numbers:
        """The smallest margin in the sample whose loss is at least ``q``, for q in [0, 1]."""
        wanted = np.asarray(q, dtype=np.float64)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise parameter_error("MarginDistribution.quantiles", "q", "from 0 to 1", q)
        shares = np.arange(1, len(self) + 1) / len(self)
        return like_numbers(self.values[np.searchsorted(shares, wanted)])

    @property
    def error(self) -> float:
        """The loss at 0: share of examples that are wrong, or undecided between two labels."""
        return self.loss(0.0)

    def normalised(self, R: float, scale: float = 1.0) -> MarginDistribution:
        r"""The margins over ``R * scale``.

        With the spectral complexity R and the scale :math:`\|X\|_{2,2} / m`, a factor on the
        last layer cancels, and margins of different networks have one unit.
        """
        for name, number in (("R", R), ("scale", scale)):
            if not 0 < number < math.inf:
                remedy = "Where R overflows, compare() works in logarithms."
                owner, accepted = "MarginDistribution.normalised", "a positive finite number"
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
                    "The corollary needs one tensor as the input of the network, for it takes the "
                    f"norm of the inputs. Got {type(inputs).__name__} instead."
                )
            output = call(running, inputs.to(device))
            found.append(margins(logits_of(output), labels).cpu())
            square += float(inputs.double().square().sum())
    values = torch.cat(found) if found else torch.empty(0)
    if not len(values):
        raise ValueError("The batches given to collect_margins hold no examples. Pass one or more.")
    return Margins(MarginDistribution(values.numpy()), math.sqrt(square), len(values))


def network_width(layers: Iterable[Layer], extra: Sequence[int] = ()) -> int:
    r"""The width :math:`\omega`: the most numbers that any layer takes or returns.

    By the rule ``stacked``, what a residual block carries beside its branch counts. ``extra`` are
    sizes of layers that are not among them: for a VI-Net, the rows of W_M, W_C and W_F.

    Examples
    --------
    >>> from vinets.theory.layers import layers_of
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> network_width(layers_of(net, torch.zeros(1, 1, 8, 8)), extra=[50])
    144
    """
    sizes = list(extra)
    for layer in layers:
        sizes.append(math.prod(layer.input_shape))
        sizes.append(math.prod(layer.output_shape) + layer.carried)
    if not sizes or min(sizes) < 1:
        accepted = "one or more layers, all sizes positive"
        raise parameter_error("network_width", "layers", accepted, f"sizes {sizes}")
    return int(max(sizes))


def like_numbers(result: Any) -> Any:
    """A float for a single number, else the array."""
    return float(result) if np.ndim(result) == 0 else result
