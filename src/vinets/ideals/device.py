r"""CPU or GPU: small ideals are faster on a CPU, whatever the GPU.

The size of a problem is :math:`m n^2`, for :math:`m` points of all classes in :math:`n` variables:
it counts the values of a border of degree 2. Steps on a GPU take the same time up to
a large size, those on a CPU grow with it, so that one size divides the two. It is measured on
point sets of growing size the first time that it matters, and remembered in the user's cache
folder; see :mod:`vinets.cache`.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vinets.cache import remembered
from vinets.fingerprint import digest
from vinets.ideals.abm import ABM
from vinets.ideals.base import fit_ideals
from vinets.running import resolve_device

CLASSES, POINTS = 8, 128
VARIABLES = (8, 16, 32, 64, 128)  # of the point sets that are timed
USUAL = 1e7  # the size where nothing was measured
DOUBT = 64.0  # within this factor of the usual size, a measurement is worth its seconds

Timer = Callable[[list[Tensor], torch.device], float]


def choose_device(owner: str, device: Any, points: Tensor) -> torch.device:
    """Where to fit ideals of ``points`` (m, n), all classes together.

    ``"auto"`` is the CPU where there is no GPU or the CPU is faster; anything else is what it is
    for a network.
    """
    found = resolve_device(owner, device)
    if device != "auto" or found.type == "cpu":
        return found
    gpu = points.device if points.is_cuda else found
    size = float(len(points) * points.shape[1] ** 2)
    doubtful = USUAL / DOUBT < size < USUAL * DOUBT
    return gpu if size >= (dividing_size(gpu) if doubtful else USUAL) else torch.device("cpu")


def dividing_size(gpu: torch.device, timer: Timer | None = None) -> float:
    """The size from which on a GPU is faster than this CPU: remembered, or measured now."""

    def measure() -> float:
        print("Measuring once from which size on the GPU is faster ...", file=sys.stderr)
        return measured_size(gpu, timer or fit_seconds)

    return remembered("devices", digest((), _machine(gpu)), measure, _is_size)


def _is_size(found: Any) -> bool:
    return isinstance(found, float) and 0 < found < math.inf


def measured_size(gpu: torch.device, timer: Timer) -> float:
    """Time growing point sets on both devices until the GPU is faster."""
    random = torch.Generator().manual_seed(0)
    before = 0.0
    for n in VARIABLES:
        sets = [curved_points(n, random) for _ in range(CLASSES)]
        size = float(CLASSES * POINTS * n**2)
        if timer(sets, gpu) < timer(sets, torch.device("cpu")):
            return math.sqrt(size * (before or size / 4))  # between this size and the one before
        before = size
    return 2 * before


def fit_seconds(sets: list[Tensor], device: torch.device) -> float:
    """Seconds of a fit: all classes together on a GPU, one after the other on a CPU."""
    moved = [points.to(device) for points in sets]
    batches = [moved] if device.type == "cuda" else [[points] for points in moved]
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for batch in batches:
            fit_ideals([ABM(0.01, max_degree=3) for _ in batch], batch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    return min(times)  # the first one also loads the libraries


def curved_points(n: int, random: torch.Generator) -> Tensor:
    """Points near a curved surface, as latents are."""
    rank = max(2, n // 4)
    factors = torch.randn(POINTS, rank, generator=random, dtype=torch.float64)
    mixing = torch.randn(rank, n, generator=random, dtype=torch.float64) / rank**0.5
    noise = 0.1 * torch.randn(POINTS, n, generator=random, dtype=torch.float64)
    return torch.tanh(factors @ mixing + noise)


def _machine(gpu: torch.device) -> str:
    """What the answer depends on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{torch.cuda.get_device_name(gpu)}, {cores} cores, torch {torch.__version__}"
