"""What a training leaves: its epochs, and its state on disk, in safetensors and never in pickle."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from vinets.core.settings import TrainingOptions
from vinets.core.tensors import read_tensors, write_tensors

NAME = "checkpoint.safetensors"
QUICK = 0.2  # seconds of writing, up to which a checkpoint follows every epoch
MAX_SHARE = 0.1  # largest share of the time that goes to checkpoints that take longer


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


@dataclass
class Checkpoint:
    """Everything that the next epoch depends on."""

    epochs: list[Epoch]  # those that are done
    best_epoch: int  # the best of them, from 1; 0 before the first
    best_state: dict[str, Tensor]  # weights at that epoch


def write_checkpoint(
    directory: Path, state: Checkpoint, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> None:
    """Write a checkpoint, replacing the last one at once: readers see the old or the new one."""
    tensors = {f"now.{k}": t for k, t in module.state_dict().items()}
    tensors |= {f"best.{k}": t for k, t in state.best_state.items()}
    for index, p in enumerate(parameters_of(optimizer)):
        momentum = optimizer.state.get(p, {}).get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum.{index}"] = momentum
    tensors = {k: t.detach().cpu().clone() for k, t in tensors.items()}
    kept = {"run": facts, "epochs": [vars(e) for e in state.epochs], "best": state.best_epoch}
    write_tensors(directory / NAME, "checkpoint", tensors, kept)


def read_checkpoint(
    directory: Path, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> Checkpoint | None:
    """Put the last state into ``module`` and ``optimizer``; None if there is no checkpoint yet."""
    path = directory / NAME
    if not path.exists():
        return None
    tensors, kept = read_tensors(path, "checkpoint", inside=directory)
    damaged, theirs = ValueError(f"{path} is damaged. Delete it to start anew."), kept.get("run")
    if not isinstance(theirs, dict):
        raise damaged
    if theirs != facts:
        differ = [k for k in facts.keys() | theirs.keys() if facts.get(k) != theirs.get(k)]
        names = textwrap.shorten(", ".join(sorted(differ)), 200)
        raise ValueError(
            f"{path} belongs to another training: {names} differ. Choose another directory, or "
            "delete the file to start anew."
        )
    parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "momentum": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition(".")
        parts.setdefault(part, {})[key] = tensor
    own, now, best = (
        {name: t.shape for name, t in state.items()}
        for state in (module.state_dict(), parts["now"], parts["best"])
    )
    if now != own:
        raise ValueError(f"{path} belongs to another network. Choose another directory.")
    every = enumerate(parameters_of(optimizer))
    momenta = {p: parts["momentum"][str(n)] for n, p in every if str(n) in parts["momentum"]}
    try:
        epochs, best_epoch = [Epoch(**e) for e in kept["epochs"]], kept["best"]
    except (KeyError, TypeError):
        raise damaged from None
    sound = (
        all(isinstance(v, int | float | None) for e in epochs for v in vars(e).values())
        and isinstance(best_epoch, int)
        and 1 <= best_epoch <= len(epochs)
        and best == own
        and all(p.shape == m.shape for p, m in momenta.items())
    )
    if not sound:
        raise damaged
    # Everything has been checked: only now something changes.
    module.load_state_dict(parts["now"])
    for p, momentum in momenta.items():
        # It lies in memory as its parameter does, because fused steps insist on that.
        optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(momentum)
    return Checkpoint(epochs, best_epoch, parts["best"])


def parameters_of(optimizer: SGD) -> list[nn.Parameter]:
    """Return all parameters that an optimizer changes, in the order of their groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


class Pace:
    """After which epochs to write: all of them, unless writing takes longer than a moment.

    Short epochs of large networks on a GPU end sooner than the disk has written them. Then a
    tenth of the time goes to checkpoints, at most.
    """

    def __init__(self) -> None:
        self._seconds, self._end = 0.0, time.perf_counter()  # the last time something was written

    def due(self, *, last: bool) -> bool:
        """Return whether to write now; always after the last epoch."""
        since = time.perf_counter() - self._end
        return last or self._seconds <= QUICK or since >= self._seconds / MAX_SHARE

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Take the time of what is done within."""
        begin = time.perf_counter()
        yield
        self._end = time.perf_counter()
        self._seconds = self._end - begin
