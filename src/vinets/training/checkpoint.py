"""The state of a training on disk, written after every epoch: safetensors, never pickle."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from vinets.algebra.storage import read_tensors, write_tensors
from vinets.training.history import Epoch

NAME = "checkpoint.safetensors"


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
    for index, p in enumerate(_parameters(optimizer)):
        momentum = optimizer.state.get(p, {}).get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum.{index}"] = momentum
    tensors = {k: t.detach().cpu().clone() for k, t in tensors.items()}
    told = {"run": facts, "epochs": [asdict(e) for e in state.epochs], "best": state.best_epoch}
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f".{NAME}"
    write_tensors(partial, "checkpoint", tensors, told)
    os.replace(partial, directory / NAME)


def read_checkpoint(
    directory: Path, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> Checkpoint | None:
    """Put the last state into ``module`` and ``optimizer``; None if there is no checkpoint yet."""
    path = directory / NAME
    if not path.exists():
        return None
    tensors, told = read_tensors(path, "checkpoint")
    if told.get("run") != facts:
        theirs, ours = told.get("run") or {}, facts
        differ = [k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k)]
        raise ValueError(
            f"{path} belongs to another training: {', '.join(sorted(differ))} differ. Choose "
            "another directory, or delete the file to start anew."
        )
    now, own = _under("now.", tensors), module.state_dict()
    if now.keys() != own.keys() or any(now[k].shape != own[k].shape for k in own):
        raise ValueError(f"{path} belongs to another network. Choose another directory.")
    module.load_state_dict(now)
    for index, p in enumerate(_parameters(optimizer)):
        momentum = tensors.get(f"momentum.{index}")
        if momentum is not None:
            optimizer.state[p]["momentum_buffer"] = momentum.to(p)
    try:
        epochs, best = [Epoch(**e) for e in told["epochs"]], told["best"]
    except (KeyError, TypeError):
        epochs, best = [], None
    if not isinstance(best, int) or not 1 <= best <= len(epochs):
        raise ValueError(f"{path} is damaged. Delete it to start anew.")
    return Checkpoint(epochs, best, _under("best.", tensors))


def _parameters(optimizer: SGD) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
