"""How to train: one frozen set of numbers, and what came of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from vinets.checks import bounded_float, one_of, optional_positive_int, parameter_error

__all__ = ["PRECISIONS", "SCHEDULES", "Epoch", "History", "Recipe"]

SCHEDULES = ("cosine", "one-cycle", "constant")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent with momentum; the defaults are the paper's for heads.

    Parameters
    ----------
    epochs, batch_size : int
        Passes over the data, and examples a step.
    learning_rate, momentum, weight_decay : float
        Of SGD; biases and normalisation are decayed as well.
    nesterov : bool
        Nesterov's momentum.
    schedule : {"cosine", "one-cycle", "constant"}
        Of the learning rate over all steps: falling like a cosine; rising linearly over the first
        quarter and falling linearly to zero; or as it is.
    clip : float or None
        Largest norm of the gradient.
    precision : {"float32", "bfloat16"}
        bfloat16 runs the network under autocast.
    validation : float
        Share of the training data held out to choose the best epoch; 0 keeps the last one.
    augment : bool
        Random crops and flips, or whatever the data source does.
    distillation : float
        Weight of the divergence from the teacher; cross-entropy gets the rest.
    temperature : float
        Of the distillation.
    label_smoothing : float
        Of the cross-entropy.
    seed : int
        Of the order, the augmentation and the held-out part.
    """

    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = False
    schedule: str = "cosine"
    clip: float | None = None
    precision: str = "float32"
    validation: float = 0.1
    augment: bool = True
    distillation: float = 0.0
    temperature: float = 2.0
    label_smoothing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        owner = "Recipe"
        for name in ("epochs", "batch_size"):
            if optional_positive_int(owner, name, getattr(self, name)) is None:
                raise parameter_error(owner, name, "a positive integer", None)
        for name in ("learning_rate", "weight_decay"):
            bounded_float(owner, name, getattr(self, name), 0, math.inf)
        for name in ("momentum", "validation", "label_smoothing"):
            bounded_float(owner, name, getattr(self, name), 0, 1)
        bounded_float(owner, "distillation", self.distillation, 0, 1, high_included=True)
        if self.clip is not None:
            bounded_float(owner, "clip", self.clip, 0, math.inf)
        if not bounded_float(owner, "temperature", self.temperature, 0, math.inf):
            raise parameter_error(owner, "temperature", "above 0", self.temperature)
        if self.nesterov and not self.momentum:
            raise parameter_error(owner, "momentum", "above 0 with nesterov", self.momentum)
        one_of(owner, "schedule", self.schedule, SCHEDULES)
        one_of(owner, "precision", self.precision, PRECISIONS)

    def rate(self, step: int, steps: int) -> float:
        """Learning rate at ``step`` of ``steps``."""
        done = step / max(1, steps)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        if self.schedule == "one-cycle":
            rising, falling = max(done, 1 / max(1, steps)) / 0.25, (1 - done) / 0.75
            return self.learning_rate * min(rising, falling, 1.0)
        return self.learning_rate

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave: accuracies in [0, 1]; None without a held-out part."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class History:
    """The epochs of a training, and the one whose weights were kept (counted from 1)."""

    epochs: tuple[Epoch, ...]
    best: int
    recipe: Recipe

    @property
    def seconds(self) -> float:
        """Wall-clock time of all epochs."""
        return sum(epoch.seconds for epoch in self.epochs)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)
