"""Accuracy, loss and calibration of a classifier, with the confusion matrix and two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vinets.core.checks import parameter_error
from vinets.core.plain import as_plain
from vinets.report import Column, Row, Table

CALIBRATION_BINS = 15  # intervals of equal width for the largest probability
TOP = 5  # the label is looked for among this many largest logits, if there are more classes


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of a classifier on labelled examples of K classes, with tables of them."""

    examples: int
    accuracy: float  # share of examples whose label has the largest logit, in [0, 1]
    top5: float | None  # share of those with it among the five largest; None below six classes
    loss: float  # mean cross-entropy in nats
    confusion: Tensor  # (K, K), int64: examples by label (row) and prediction (column)
    per_class: Tensor  # (K,), float64: accuracy on each class; NaN for one without examples
    calibration_error: float  # sum_b (n_b / n) |accuracy_b - confidence_b| over the bins
    seconds: float  # wall-clock time, with the loading of the batches
    classes: tuple[str, ...] = ()  # names for the table of classes; their numbers if empty
    caption: str = "Accuracy"  # over the table

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-able values; what is not a finite number becomes None."""
        lists = {"confusion": self.confusion.tolist(), "per_class": self.per_class.tolist()}
        facts = vars(self) | lists
        del facts["classes"], facts["caption"]
        plain: dict[str, Any] = as_plain(facts)
        return plain

    @property
    def table(self) -> Table:
        """All numbers but those of single classes, in one row."""
        columns = [
            Column("examples", format=","),
            Column("accuracy", format=".2%"),
            Column("top5", "top 5", ".2%"),
            Column("loss", format=".4f"),
            Column("calibration_error", "calibration error", ".4f"),
            Column("seconds", format=".2f"),
        ]
        if self.top5 is None:
            del columns[2]
        return Table("evaluation", self.caption, tuple(columns), (Row(self.to_dict()),))

    @property
    def by_class(self) -> Table:
        """Examples and accuracy class by class."""
        columns = [
            Column("class"),
            Column("examples", format=","),
            Column("accuracy", format=".2%"),
        ]
        counts, right = self.confusion.sum(1).tolist(), self.per_class.tolist()
        names = self.classes or tuple(map(str, range(len(counts))))
        rows = zip(names, counts, right, strict=False)  # data may name more classes
        return Table.from_rows("classes", "Class by class", columns, rows)

    def __str__(self) -> str:
        return f"{self.table}\n\n{self.by_class}"


class Tally:
    """Sums over batches of logits, on the device, so that nothing waits for the GPU in between."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self.classes = classes
        self.confusion = torch.zeros(classes * classes, dtype=torch.int64, device=device)
        self.gaps = torch.zeros(CALIBRATION_BINS, dtype=torch.float64, device=device)
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.among_top = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count a batch of logits (B, K) with labels (B,)."""
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
        # In float64, because half-precision logits would round the sums over many examples.
        log_p = logits.double().log_softmax(1)
        confidence, predicted = log_p.amax(1).exp(), logits.argmax(1)
        right = predicted == labels
        self.loss -= log_p.gather(1, labels[:, None]).sum()
        pairs = labels * self.classes + predicted
        self.confusion += torch.bincount(pairs, minlength=self.classes**2)
        edges = torch.linspace(0, 1, CALIBRATION_BINS + 1, dtype=torch.float64).to(logits.device)
        # The sum of hits minus confidences in a bin is n_b (accuracy_b - confidence_b), so that one
        # number a bin is enough. The inner edges put 0 and 1 into the first and the last bin.
        bins = torch.bucketize(confidence, edges[1:-1])
        self.gaps.index_add_(0, bins, right.double() - confidence)
        if self.classes > TOP:
            self.among_top += (logits.topk(TOP, dim=1).indices == labels[:, None]).sum()

    def result(self, seconds: float, classes: tuple[str, ...], caption: str) -> Evaluation:
        """Divide the sums by the number of examples."""
        confusion = self.confusion.view(self.classes, self.classes).cpu()
        right, examples = confusion.diagonal(), int(confusion.sum())
        return Evaluation(
            examples,
            int(right.sum()) / examples,
            int(self.among_top) / examples if self.classes > TOP else None,
            float(self.loss) / examples,
            confusion,
            right.double() / confusion.sum(1),
            float(self.gaps.abs().sum()) / examples,
            seconds,
            classes,
            caption,
        )
