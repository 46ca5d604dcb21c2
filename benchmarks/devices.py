"""Which device ``auto`` chooses for ideals of growing size, and which one is faster.

    python -m benchmarks.devices

on a machine with a GPU. The size that divides the two is measured anew, not read from the user's
cache; the ideals that are timed then are others.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import torch

from benchmarks.record import keep
from vinets.ideals.device import (
    CLASSES,
    POINTS,
    choose_device,
    curved_points,
    dividing_size,
    fit_seconds,
)

VARIABLES = (4, 8, 12, 16, 24, 32, 48, 64, 96)


def main() -> None:
    gpu, cpu = torch.device("cuda:0"), torch.device("cpu")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["VINETS_CACHE"] = cache
        begin = time.perf_counter()
        size = dividing_size(gpu)
        seconds = time.perf_counter() - begin
        random, rows = torch.Generator().manual_seed(1), []
        for n in VARIABLES:
            sets = [curved_points(n, random) for _ in range(CLASSES)]
            row: dict[str, Any] = {"variables": n, "size": float(CLASSES * POINTS * n**2)}
            row |= {"cpu_s": fit_seconds(sets, cpu), "cuda_s": fit_seconds(sets, gpu)}
            row["chosen"] = choose_device("auto", "auto", torch.cat(sets)).type
            row["right"] = (row["chosen"] == "cuda") == (row["cuda_s"] < row["cpu_s"])
            rows.append(row)
    keep("devices", rows, dividing_size=size, measured_in_s=seconds)


if __name__ == "__main__":
    main()
