"""Make a cascade of a VI-Net and its uncut network, and measure what leaving early brings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from vinets.data import DataSplit, Source
from vinets.nn.cascade import Calibration, Cascade, Gate
from vinets.nn.network import CutNetwork
from vinets.pipeline.distances import attach_distances
from vinets.progress import Progress, Silent
from vinets.running import device_of, logits_of

BATCH = 256
WARMUP = 3  # images that go ahead untimed


@dataclass(frozen=True)
class EarlyExit:
    """A network on test images that took no part in the choice of the threshold."""

    name: str
    accuracy: float  # in [0, 1]
    early: float  # share of the images that leave at the cut
    milliseconds: float  # of one image at a time, on average


@dataclass(frozen=True)
class CascadeResult:
    """The threshold and how it was found, and the cascade beside its two networks."""

    gate: str
    shared: bool  # whether late images go on from the cut, and not through the whole network
    calibration: Calibration
    networks: tuple[EarlyExit, ...]  # uncut, early, cascade
    examples: int  # that these were measured on
    timed: int  # of them


def make_cascade(
    early: CutNetwork,
    model: nn.Module,
    data: DataSplit,
    *,
    gate: str | Gate = "softmax",
    loss: float = 0.0,
    timed: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Cascade, CascadeResult]:
    """A cascade whose threshold is chosen on one half of the test part, and measured on the other.

    Parameters
    ----------
    early, model : CutNetwork, Module
        A VI-Net and the network that it was made from, on one device.
    data : DataSplit
        The halves are drawn by ``seed``. With the gate ``"distance"``, distances to the classes are
        fitted to the training part, unless the network has them.
    gate, loss
        As for :class:`~vinets.nn.Cascade` and its ``calibrate``.
    timed : int, default=200
        Images of which each goes alone through all three networks.
    """
    watch = progress or Silent()
    if len(data.test) < 2:
        raise ValueError("The test part must have two images or more, to choose and to measure.")
    if gate == "distance" and not early.has_distances:
        early = attach_distances(early, data.train, seed=seed)
    cascade = Cascade.of(early.folded(), model.eval(), gate=gate)
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(seed))
    half = len(order) // 2
    watch.start("choosing the threshold", half)
    found = cascade.calibrate(data.test.subset(order[:half].sort().values), loss)
    watch.advance(half)
    rest = data.test.subset(order[half:].sort().values)
    networks = {"uncut": model, "early": cascade.early, "cascade": cascade}
    measured = measure_early_exit(networks, rest, timed=timed, progress=watch)
    name = gate if isinstance(gate, str) else getattr(gate, "__name__", "function")
    facts = (name, cascade.shared, found, measured, len(rest), min(timed, len(rest)))
    return cascade, CascadeResult(*facts)


@torch.no_grad()
def measure_early_exit(
    networks: Mapping[str, nn.Module], source: Source, *, timed: int, progress: Progress
) -> tuple[EarlyExit, ...]:
    """Accuracy, share of early answers and mean time of networks in eval mode, on the same images.

    Of the images, ``timed`` are timed.
    """
    device = device_of(next(iter(networks.values())))
    right, left = (dict.fromkeys(networks, 0) for _ in range(2))
    progress.start("measuring", len(source))
    for x, labels in source.batches(BATCH, device=device):
        assert isinstance(x, Tensor)  # a cascade takes no others
        for name, network in networks.items():
            logits, early = _answers(network, x)
            right[name] += int((logits.argmax(1) == labels).sum())
            left[name] += int(early.sum())
        progress.advance(len(labels))
    some, _ = next(source.batches(min(timed, len(source)), device=device))
    assert isinstance(some, Tensor)
    took, count = mean_seconds(networks, some), len(source)
    return tuple(
        EarlyExit(name, right[name] / count, left[name] / count, 1e3 * took[name])
        for name in networks
    )


@torch.no_grad()
def mean_seconds(
    networks: Mapping[Any, nn.Module],
    images: Tensor,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Any, float]:
    """Mean time of one image in every network, in eval mode, one image at a time.

    Each goes through all networks in turn, so that drift hits all alike.
    """
    spent: dict[Any, list[float]] = {name: [] for name in networks}
    for one in torch.cat([images[:WARMUP], images]).split(1):
        for name, network in networks.items():
            begin = clock()
            network(one)
            if one.is_cuda:
                torch.cuda.synchronize(one.device)
            spent[name].append(clock() - begin)
    return {name: mean(times[-len(images) :]) for name, times in spent.items()}


def _answers(network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(network, Cascade):
        return network.answers(x)
    early = torch.full((len(x),), isinstance(network, CutNetwork))
    return logits_of(network(x)), early
