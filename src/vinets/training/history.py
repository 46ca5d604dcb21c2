"""Losses and accuracies of a training, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass

from vinets.core.settings import TrainingOptions


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
    recipe: TrainingOptions

    @property
    def seconds(self) -> float:
        """Wall-clock time of all epochs."""
        return sum(epoch.seconds for epoch in self.epochs)

    @property
    def kept(self) -> Epoch:
        """The epoch whose weights were kept."""
        return self.epochs[self.best - 1]
