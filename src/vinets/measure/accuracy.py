"""How often and how confidently a network is right."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, call, device_of, each, evaluating, logits_of, resolve_device
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.data.source import Source
from vinets.data.sources import as_source
from vinets.measure.running import batch_of, placed

BINS = 15  # of equal width for the largest probability, in the expected calibration error


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a classifier does on labelled examples of K classes."""

    examples: int
    accuracy: float  # share of examples whose label has the largest logit, in [0, 1]
    top5: float | None  # share of those with it among the five largest; None below six classes
    loss: float  # mean cross-entropy in nats
    confusion: Tensor  # (K, K), int64: examples by label (row) and prediction (column)
    per_class: Tensor  # (K,), float64: accuracy on each class; NaN for one without examples
    calibration_error: float  # sum_b (n_b / n) |accuracy_b - confidence_b|; see BINS
    seconds: float  # wall-clock time, with the loading of the batches

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values; what is not a finite number becomes None."""
        lists = {"confusion": self.confusion.tolist(), "per_class": self.per_class.tolist()}
        plain: dict[str, Any] = as_plain(vars(self) | lists)
        return plain


def evaluate(
    network: nn.Module,
    data: Any,
    *,
    device: str | torch.device | None = None,
    batch_size: int = 512,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a classifier, a batch at a time.

    Parameters
    ----------
    network : Module
        Returns logits of shape (B, K), or an object with such ``logits``. It runs in eval mode,
        and its training flags stay as they were. If it lies on another device, a copy runs.
        Logits that are NaN make the loss and the calibration error NaN.
    data : data source, Dataset, DataLoader, pair of tensors, or iterable of (inputs, labels)
        Examples, or batches of them. Inputs are a tensor, or a dict of tensors by argument; labels
        are integers of shape (B,).
    device : str, torch.device or None, default=None
        Where to compute; None is where the network lies.
    batch_size : int, default=512
        Examples at once, where these are no batches yet.

    Examples
    --------
    >>> logits = torch.eye(3)[[0, 1, 2, 2]]
    >>> result = evaluate(nn.Identity(), (logits, torch.tensor([0, 1, 2, 1])))
    >>> result.accuracy, result.confusion.tolist()
    (0.75, [[1, 0, 0], [0, 1, 1], [0, 0, 1]])
    """
    device = device_of(network) if device is None else resolve_device("evaluate", device)
    running = placed(network, device)
    tally: _Tally | None = None
    begin = time.perf_counter()
    with evaluating(running):
        for batch in _batches(data, batch_size, device):
            inputs, labels = _pair(batch)
            logits = logits_of(call(running, each(inputs, lambda t: t.to(device))))
            if logits.ndim != 2 or len(logits) != len(labels):
                raise ValueError(
                    "The network given to evaluate must return logits of shape (B, K), here "
                    f"({len(labels)}, K). Got {tuple(logits.shape)} instead."
                )
            if tally is None:
                tally = _Tally(logits.shape[1], device)
            tally.add(logits, labels)
            if progress is not None:
                progress.advance(len(labels))
    if tally is None:
        raise ValueError("The batches given to evaluate hold no examples. Pass at least one batch.")
    return tally.result(begin)


def _batches(data: Any, size: int, device: torch.device) -> Iterable[Any]:
    """The examples in batches; an iterable of batches as it is."""
    # of two things, a tuple of inputs and labels is told from two batches by its first
    examples = isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple | list)
    known = isinstance(data, Source | Dataset | DataLoader) or hasattr(data, "__getitems__")
    if known or examples:
        return as_source(data).batches(size, device=device)
    if not isinstance(data, Iterable):
        accepted = "a data source, a Dataset, a DataLoader, a pair of tensors, or batches"
        raise parameter_error("evaluate", "data", accepted, type(data).__name__)
    return data


class _Tally:
    """Sums over the batches, on the device: nothing waits for the GPU in between."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self.classes = classes
        self.confusion = torch.zeros(classes * classes, dtype=torch.int64, device=device)
        self.gaps = torch.zeros(BINS, dtype=torch.float64, device=device)  # right - confident
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.among_five = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        if logits.shape[1] != self.classes:
            raise ValueError(
                f"The network must return logits for the same classes in every batch. "
                f"Got {self.classes}, then {logits.shape[1]} columns."
            )
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= self.classes:
            accepted = f"pairs of inputs and labels from 0 to {self.classes - 1}"
            raise parameter_error("evaluate", "batches", accepted, f"labels from {low} to {high}")
        labels = labels.to(logits.device, torch.int64)
        # In float64: half-precision logits would round the sums over many examples.
        log_p = logits.double().log_softmax(1)
        confidence, predicted = log_p.amax(1).exp(), logits.argmax(1)
        right = predicted == labels
        self.loss -= log_p.gather(1, labels[:, None]).sum()
        pairs = labels * self.classes + predicted
        self.confusion += torch.bincount(pairs, minlength=self.classes**2)
        inner = torch.linspace(0, 1, BINS + 1, dtype=torch.float64, device=logits.device)[1:-1]
        # The sum of hits minus confidences in a bin is n_b (accuracy_b - confidence_b), so that one
        # number a bin is enough. The inner edges put 0 and 1 into the first and the last bin.
        self.gaps.index_add_(0, torch.bucketize(confidence, inner), right.double() - confidence)
        if self.classes > 5:  # with fewer, the five largest would be nearly all
            self.among_five += (logits.topk(5, dim=1).indices == labels[:, None]).sum()

    def result(self, begin: float) -> Evaluation:
        confusion = self.confusion.view(self.classes, self.classes).cpu()
        right, examples = confusion.diagonal(), int(confusion.sum())
        return Evaluation(
            examples,
            int(right.sum()) / examples,
            int(self.among_five) / examples if self.classes > 5 else None,
            float(self.loss) / examples,
            confusion,
            right.double() / confusion.sum(1),
            float(self.gaps.abs().sum()) / examples,
            time.perf_counter() - begin,
        )


def _pair(batch: Any) -> tuple[Inputs, Tensor]:
    """The inputs and labels of a batch, or one clear complaint."""
    accepted = "pairs of inputs and integer labels of shape (B,)"
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise parameter_error("evaluate", "batches", accepted, type(batch).__name__)
    inputs, labels = batch
    rows = batch_of("evaluate", inputs, "batches")
    if not isinstance(labels, Tensor) or labels.shape != (rows,) or labels.is_floating_point():
        got = type(labels).__name__
        if isinstance(labels, Tensor):
            got = f"labels {tuple(labels.shape)} of {labels.dtype}"
        raise parameter_error("evaluate", "batches", accepted, f"{rows} inputs with {got}")
    return inputs, labels
