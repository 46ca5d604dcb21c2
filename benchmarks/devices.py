"""Which device ``auto`` chooses for ideals of growing size, and which one is faster.

    python -m benchmarks.devices

on a machine with a GPU.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from benchmarks.record import keep
from vinets import ABM
from vinets.ideals.base import fit_ideals
from vinets.ideals.classwise import choose_device

CLASSES, POINTS = 8, 128
VARIABLES = (4, 8, 12, 16, 24, 32, 48, 64, 96)


def fit_seconds(sets: list[Tensor], device: torch.device) -> float:
    """Return the seconds of a fit: classes together on a GPU, one after the other on a CPU."""
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
    """Draw points near a curved surface, as latents are."""
    rank = max(2, n // 4)
    factors = torch.randn(POINTS, rank, generator=random, dtype=torch.float64)
    mixing = torch.randn(rank, n, generator=random, dtype=torch.float64) / rank**0.5
    noise = 0.1 * torch.randn(POINTS, n, generator=random, dtype=torch.float64)
    return torch.tanh(factors @ mixing + noise)


def main() -> None:
    gpu, cpu = torch.device("cuda:0"), torch.device("cpu")
    random, rows = torch.Generator().manual_seed(1), []
    for n in VARIABLES:
        sets = [curved_points(n, random) for _ in range(CLASSES)]
        row: dict[str, Any] = {"variables": n, "size": float(CLASSES * POINTS * n**2)}
        row |= {"cpu_s": fit_seconds(sets, cpu), "cuda_s": fit_seconds(sets, gpu)}
        row["chosen"] = choose_device("auto", "auto", torch.cat(sets)).type
        row["right"] = (row["chosen"] == "cuda") == (row["cuda_s"] < row["cpu_s"])
        rows.append(row)
    keep("devices", rows)


if __name__ == "__main__":
    main()
