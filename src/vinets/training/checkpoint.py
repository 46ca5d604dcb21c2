"""The state of a training on disk, written between epochs: safetensors, never pickle."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from vinets.algebra.storage import read_tensors, write_tensors
from vinets.training.history import Epoch

NAME = "checkpoint.safetensors"
MOMENT = 0.2  # seconds
SHARE = 0.1  # of the time


@dataclass
class Checkpoint:
    """Everything that the next epoch depends on."""

    epochs: list[Epoch]  # those that are done
    best_epoch: int  # the best of them, from 1; 0 before the first
    best_state: dict[str, Tensor]  # weights at that epoch


def write_checkpoint(
    directory: Path, state: Checkpoint, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> None:
    """Write it, replacing the last one at once: a reader sees the old or the new one."""
    tensors = {f"now.{k}": t for k, t in module.state_dict().items()}
    tensors |= {f"best.{k}": t for k, t in state.best_state.items()}
    for index, p in enumerate(parameters_of(optimizer)):
        momentum = optimizer.state.get(p, {}).get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum.{index}"] = momentum
    tensors = {k: t.detach().cpu().clone() for k, t in tensors.items()}
    told = {"run": facts, "epochs": [asdict(e) for e in state.epochs], "best": state.best_epoch}
    write_tensors(directory / NAME, "checkpoint", tensors, told)


def read_checkpoint(
    directory: Path, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> Checkpoint | None:
    """Put the last state into ``module`` and ``optimizer``; None if there is no checkpoint yet."""
    path = directory / NAME
    if not path.exists():
        return None
    tensors, told = read_tensors(path, "checkpoint", inside=directory)
    theirs = told.get("run")
    if not isinstance(theirs, dict):
        raise _damaged(path)
    if theirs != facts:
        differ = [k for k in facts.keys() | theirs.keys() if facts.get(k) != theirs.get(k)]
        names = textwrap.shorten(", ".join(sorted(differ)), 200)
        raise ValueError(
            f"{path} belongs to another training: {names} differ. Choose another directory, or "
            "delete the file to start anew."
        )
    now, best, own = _under("now.", tensors), _under("best.", tensors), module.state_dict()
    if _shapes(now) != _shapes(own):
        raise ValueError(f"{path} belongs to another network. Choose another directory.")
    momenta = {
        p: tensors[f"momentum.{index}"]
        for index, p in enumerate(parameters_of(optimizer))
        if f"momentum.{index}" in tensors
    }
    try:
        epochs, best_epoch = [Epoch(**e) for e in told["epochs"]], told["best"]
    except (KeyError, TypeError):
        raise _damaged(path) from None
    sound = (
        all(isinstance(v, int | float | None) for e in epochs for v in vars(e).values())
        and isinstance(best_epoch, int)
        and 1 <= best_epoch <= len(epochs)
        and _shapes(best) == _shapes(own)
        and all(p.shape == m.shape for p, m in momenta.items())
    )
    if not sound:
        raise _damaged(path)
    # everything was looked at: only now something changes
    module.load_state_dict(now)
    for p, momentum in momenta.items():
        # laid out in memory as its parameter, which steps that are fused insist on
        optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(momentum)
    return Checkpoint(epochs, best_epoch, best)


class Pace:
    """After which epochs to write: all of them, unless writing took longer than a moment.

    Short epochs of large networks on a GPU end sooner than the disk has written them. Then a
    tenth of the time goes to checkpoints, at most, and an interrupted training repeats what was
    done in ten times the time of one.
    """

    def __init__(self) -> None:
        self._took = 0.0
        self._end = time.perf_counter()

    def due(self, *, last: bool) -> bool:
        """Whether to write now; always after the last epoch."""
        since = time.perf_counter() - self._end
        return last or self._took <= MOMENT or since >= self._took / SHARE

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Take the time of what is done within."""
        begin = time.perf_counter()
        yield
        self._end = time.perf_counter()
        self._took = self._end - begin


def _damaged(path: Path) -> ValueError:
    return ValueError(f"{path} is damaged. Delete it to start anew.")


def _shapes(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in state.items()}


def parameters_of(optimizer: SGD) -> list[nn.Parameter]:
    """All parameters that an optimizer changes, in the order of their groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
