"""Evaluate a classifier: accuracy, loss, calibration and the confusion matrix, in two tables.

One rule serves every comparison of accuracies: when two networks are level.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from vinets.core.checks import one_of, parameter_error
from vinets.core.device import (
    Inputs,
    batch_of,
    call,
    device_of,
    each,
    evaluating,
    logits_of,
    require_numbers,
    resolve_device,
)
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.data.conversion import as_source
from vinets.data.images import at_once
from vinets.data.source import DataSplit, Source
from vinets.networks.network import refuse_seen
from vinets.report import Column, Row, Table

CALIBRATION_BINS = 15  # intervals of equal width for the largest probability
TOP = 5  # the label is looked for among this many largest logits, if there are more classes
BOOTSTRAP_DRAWS = 2_000
CONFIDENCE = 0.95  # with which an interval holds the true difference


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Results of a classifier on labelled examples of K classes, with tables of them."""

    examples: int
    accuracy: float  # share of examples whose label has the largest logit, in [0, 1]
    top5: float | None  # share of those with it among the five largest; None below six classes
    loss: float  # mean cross-entropy in nats
    confusion: Tensor  # (K, K), int64: examples by label (row) and prediction (column)
    per_class: Tensor  # (K,), float64: accuracy on each class; NaN for one without examples
    calibration_error: float  # sum_b (n_b / n) |accuracy_b - confidence_b| over the bins
    seconds: float  # wall-clock time, with the loading of the batches
    wrong: tuple[int, ...]  # positions of the examples whose label has not the largest logit
    classes: tuple[str, ...] = ()  # names for the table of classes; their numbers if empty
    caption: str = "Accuracy"  # over the table

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-able values; what is not a finite number becomes None."""
        facts = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in vars(self).items()}
        del facts["wrong"], facts["classes"], facts["caption"]
        return dict(as_plain(facts))

    @property
    def table(self) -> Table:
        """All numbers but those of single classes, in one row."""
        columns = (
            Column("examples", format=","),
            Column("accuracy", format=".2%"),
            *[Column("top5", "top 5", ".2%")] * (self.top5 is not None),
            Column("loss", format=".4f"),
            Column("calibration_error", "calibration error", ".4f"),
            Column("seconds", format=".2f"),
        )
        return Table("evaluation", self.caption, columns, (Row(self.to_dict()),))

    @property
    def by_class(self) -> Table:
        """Examples and accuracy class by class."""
        numbers = Column("examples", format=","), Column("accuracy", format=".2%")
        counts, right = self.confusion.sum(1).tolist(), self.per_class.tolist()
        names = self.classes or tuple(map(str, range(len(counts))))
        rows = zip(names, counts, right, strict=False)  # data may name more classes
        return Table.from_rows("classes", "Class by class", ["class", *numbers], rows)

    def __str__(self) -> str:
        return f"{self.table}\n\n{self.by_class}"

    def _repr_html_(self) -> str:
        from vinets.report.html import in_notebook

        return in_notebook(self.table, self.by_class)


def evaluate(
    network: nn.Module,
    data: Any,
    *,
    part: str = "test",
    device: torch.device | str | None = None,
    batch_size: int = 512,
    classes: Sequence[str] = (),
    caption: str = "Accuracy",
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a classifier, a batch at a time.

    Parameters
    ----------
    network : Module
        Returns logits of shape (B, K), or an object with such ``logits``. It runs in eval mode,
        and its training flags stay as they were.
    data : DataSplit, data source, Dataset, DataLoader, pair of tensors, or iterable of batches
        Labelled examples. Inputs are a tensor, or a dict of tensors by argument; labels are
        integers of shape (B,). A network that is known to have been trained on them is refused, but
        for an iterable of batches (inputs, labels), which has no identity.
    part : {"test", "train"}
        What these examples are to the network; in a split the part that is taken.
    device : str, optional
        By default that of the network; for another one, a copy of it runs.

    Examples
    --------
    >>> logits = torch.eye(3)[[0, 1, 2, 2]]
    >>> result = evaluate(nn.Identity(), (logits, torch.tensor([0, 1, 2, 1])))
    >>> result.accuracy, result.confusion.tolist()
    (0.75, [[1, 0, 0], [0, 1, 1], [0, 0, 1]])
    """
    on = device_of(network) if device is None else resolve_device("evaluate", device)
    # Two things in a tuple are inputs and labels, unless the first is itself a pair.
    pair = isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple | list)
    whole = isinstance(data, DataSplit | Source | Dataset | DataLoader)
    batches: Iterable[Any] = data
    if whole or pair or hasattr(data, "__getitems__"):
        source = examples_of("evaluate", {"The network": network}, data, part)
        classes = classes or source.classes
        batches = source.batches(at_once(source, batch_size, on), device=on)
    elif not isinstance(data, Iterable):
        accepted = "a data source, a Dataset, a DataLoader, a pair of tensors, or batches"
        raise parameter_error("evaluate", "data", accepted, type(data).__name__)
    tensors = [*network.parameters(), *network.buffers()]
    if any(tensor.device != on for tensor in tensors):
        network = copy.deepcopy(network).to(on)
    count = 0
    examples: list[Tensor] = []  # rows: label, prediction, confidence, log-probability, among top
    begin = time.perf_counter()
    with evaluating(network):
        for batch in batches:
            inputs, labels = _pair(batch)
            logits = logits_of(call(network, each(inputs, lambda t: t.to(on))))
            if logits.ndim != 2 or len(logits) != len(labels):
                raise ValueError(
                    "The network given to evaluate must return logits of shape (B, K), here "
                    f"({len(labels)}, K). Got {tuple(logits.shape)} instead."
                )
            if examples and logits.shape[1] != count:
                raise ValueError(
                    "The network must return logits for the same classes in every batch. "
                    f"Got {count}, then {logits.shape[1]} columns."
                )
            require_numbers("The network", logits)
            count, low, high = logits.shape[1], int(labels.min()), int(labels.max())
            if low < 0 or high >= count:
                accepted = f"pairs of inputs and labels from 0 to {count - 1}"
                got = f"labels from {low} to {high}"
                raise parameter_error("evaluate", "batches", accepted, got)
            own = labels.to(logits.device, torch.int64)[:, None]
            # In float64, because half-precision logits would round the sums over many examples.
            log_p = logits.double().log_softmax(1)
            top = (logits.topk(min(TOP, count), dim=1).indices == own).any(1)
            facts = own[:, 0], logits.argmax(1), log_p.amax(1).exp(), log_p.gather(1, own)[:, 0]
            # Left on the device, so that nothing waits for a GPU in between.
            examples.append(torch.stack([fact.double() for fact in (*facts, top)]))
            if progress is not None:
                progress.advance(len(labels))
    if not examples:
        raise ValueError("The batches given to evaluate hold no examples. Pass at least one batch.")
    label, predicted, confidence, log_p, top = torch.cat(examples, 1).cpu()
    right = label == predicted
    pairs = (label * count + predicted).long()
    confusion = torch.bincount(pairs, minlength=count**2).view(count, count)
    # The sum of hits minus confidences in a bin is n_b (accuracy_b - confidence_b). The inner edges
    # put 0 and 1 into the first and the last bin.
    edges = torch.linspace(0, 1, CALIBRATION_BINS + 1, dtype=torch.float64)[1:-1]
    gaps = label.new_zeros(CALIBRATION_BINS)
    gaps.index_add_(0, torch.bucketize(confidence, edges), right.double() - confidence)
    return Evaluation(
        len(label),
        float(right.double().mean()),
        float(top.mean()) if count > TOP else None,
        -float(log_p.mean()),
        confusion,
        confusion.diagonal().double() / confusion.sum(1),
        float(gaps.abs().sum()) / len(label),
        time.perf_counter() - begin,
        tuple((~right).nonzero()[:, 0].tolist()),
        tuple(classes),
        caption,
    )


def _pair(batch: Any) -> tuple[Inputs, Tensor]:
    """Return the inputs and labels of a batch, or raise one clear complaint."""
    accepted, got = "pairs of inputs and integer labels of shape (B,)", type(batch).__name__
    if isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, labels = batch
        rows, got = batch_of("evaluate", inputs, "batches"), type(labels).__name__
        if isinstance(labels, Tensor):
            if labels.shape == (rows,) and not labels.is_floating_point():
                return inputs, labels
            got = f"labels {tuple(labels.shape)} of {labels.dtype}"
        got = f"{rows} inputs with {got}"
    raise parameter_error("evaluate", "batches", accepted, got)


def examples_of(owner: str, networks: Mapping[str, nn.Module], data: Any, part: str) -> Source:
    """Return the examples to test on, which no network has seen unless ``part`` says so."""
    one_of(owner, "part", part, ("test", "train"))
    tested: DataSplit | Source = data if isinstance(data, DataSplit) else as_source(data)
    if part == "test":
        for name, network in networks.items():
            refuse_seen(name, network, tested)
    if isinstance(tested, DataSplit):
        return tested.test if part == "test" else tested.train
    return tested


# --- comparisons ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Accuracy of one network less that of another, in points, with its 95 % interval."""

    value: float
    interval: tuple[float, float] | None = None  # None if nothing tells how sure it is

    @property
    def word(self) -> str:
        """Whether the first network is "ahead", "behind", "level" or "not decided"."""
        if self.interval is None:
            return "not decided"
        low, high = self.interval
        return "ahead" if low > 0 else "behind" if high < 0 else "level"

    @property
    def shown(self) -> str:
        """The interval in words."""
        ends = [f"{end:+.2f}".replace("-", "−") for end in self.interval or ()]
        return " to ".join(ends) or "one seed"


def over_images(splits: Sequence[tuple[Sequence[int], Sequence[int], int]]) -> Difference:
    """Compare over splits and test images, by a bootstrap in two stages.

    For every split there are the positions of the test images that either network gets wrong, and
    the count of test images. Splits are drawn with replacement, then images of each one, the same
    for both networks. The generator has a fixed seed, so that the interval depends on the outcomes
    alone. An image counts +1, 0 or −1, so that drawing images is one multinomial draw.

    Examples
    --------
    >>> difference = over_images([((1,), (1, 2, 3, 4, 5, 6, 7), 100)] * 3)
    >>> round(difference.value, 6), difference.word
    (6.0, 'ahead')
    """
    shares = []
    for ours, theirs, count in splits:
        gained, lost = len({*theirs} - {*ours}), len({*ours} - {*theirs})
        shares.append((gained / count, lost / count, 1 - (gained + lost) / count))
    value = 100 * fmean(gained - lost for gained, lost, _ in shares)
    rng, counts = np.random.default_rng(0), np.array([count for *_, count in splits])
    chosen = rng.integers(len(shares), size=(BOOTSTRAP_DRAWS, len(shares)))
    sizes, probabilities = counts[chosen], np.array(shares)[chosen]
    drawn = rng.multinomial(sizes, probabilities)  # (draws, splits, 3)
    gaps = 100 * ((drawn[..., 0] - drawn[..., 1]) / sizes).mean(1)
    low, high = np.quantile(gaps, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Difference(value, (float(low), float(high)))


def over_seeds(gaps: Sequence[float]) -> Difference:
    """Compare over seeds by Student's t, where only accuracies are known.

    One seed says nothing about the spread, so that nothing is decided.

    Examples
    --------
    >>> over_seeds([0.5, 0.6, 0.7]).word, over_seeds([0.5, -0.6, 0.7]).word, over_seeds([9]).word
    ('ahead', 'level', 'not decided')
    """
    value = fmean(gaps)
    if len(gaps) < 2:
        return Difference(value)
    reach = student.ppf((1 + CONFIDENCE) / 2, len(gaps) - 1) * stdev(gaps) / math.sqrt(len(gaps))
    return Difference(value, (float(value - reach), float(value + reach)))
