"""Ideals of points that never lie in memory at once, against the fit in memory.

    python -m benchmarks.streaming                  # the comparison, and up to 10^6 points
    python -m benchmarks.streaming 100000000        # so many points, in a process of its own

Points have 32 dimensions and a planted structure of 8: 16 coordinates are linear in the others and
8 quadratic, with noise. Shards are drawn anew from seeds in every pass, and that is timed apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from benchmarks.record import keep
from benchmarks.stages import peak
from vinets import ABM, OAVI
from vinets.core.progress import Lines

DIMENSIONS, FREE, SHARD, NOISE = 32, 8, 65_536, 0.02
HELD = (10_000,)  # points, for the comparison with the fit in memory
REPEATS = 2  # of both fits, in turn; the fastest counts
MODELS: dict[str, Callable[[], ABM | OAVI]] = {
    "ABM": lambda: ABM(0.01, max_degree=3),
    "OAVI, exact": lambda: OAVI(0.01, oracle="exact", max_degree=3),
    "ABM, nothing linear": lambda: ABM(1e-4, max_degree=2),
    "ABM, orthogonal path": lambda: ABM(8e-7, max_degree=2),
}


def planted(count: int, seed: int) -> torch.Tensor:
    """``count`` points of the structure in [-1, 1], as float32."""
    random = torch.Generator().manual_seed(seed)
    fixed = torch.Generator().manual_seed(0)
    free = 2 * torch.rand(count, FREE, generator=random) - 1
    linear = torch.randn(FREE, 16, generator=fixed)
    quadratic = torch.randn(FREE, 8, generator=fixed)
    parts = [
        free,
        free @ (linear / linear.abs().sum(0)),
        free.square() @ (quadratic / quadratic.abs().sum(0)),
    ]
    points = torch.cat(parts, dim=1)
    # cheaper than normal numbers, and bounded
    noise = 3**0.5 * NOISE * (2 * torch.rand(count, DIMENSIONS, generator=random) - 1)
    return (points + noise).clamp_(-1, 1)


def shards(m: int) -> Iterator[torch.Tensor]:
    for start in range(0, m, SHARD):
        yield planted(min(SHARD, m - start), 1 + start)


def seconds_of(fit: Callable[[torch.Tensor], object], points: torch.Tensor) -> float:
    """Of the CPU, for other work on the machine makes the clock run ahead."""
    begin = time.process_time()
    fit(points)
    return time.process_time() - begin


def against_memory() -> list[dict]:
    """Both fits on the same points, held in memory for both."""
    rows = []
    for name, make in MODELS.items():
        for m in HELD:
            points = torch.cat(list(shards(m))).double()
            held, streamed = make(), make()
            times = [
                (seconds_of(held.fit, points), seconds_of(streamed.fit_stream, points))
                for _ in range(REPEATS)
            ]
            memory, stream = (min(column) for column in zip(*times, strict=True))
            rows.append(
                {
                    "model": name,
                    "points": m,
                    "terms": len(held.order_ideal_),
                    "generators": len(held.generators_),
                    "path": streamed.report_.path,
                    "passes": streamed.report_.passes,
                    "in_memory_us_per_point": 1e6 * memory / m,
                    "streamed_us_per_point": 1e6 * stream / m,
                    "streamed_to_in_memory": stream / memory,
                    "same_decisions": bool(
                        np.array_equal(held.order_ideal_, streamed.order_ideal_)
                        and np.array_equal(held.leading_terms_, streamed.leading_terms_)
                    ),
                    "largest_difference_of_coefficients": max(
                        (held.generators_.tail - streamed.generators_.tail).abs().ravel().tolist(),
                        default=0.0,
                    ),
                }
            )
    return rows


def large(m: int) -> dict:
    """One fit over ``m`` points that are drawn shard by shard."""
    drawing = 0.0

    def batches() -> Iterator[torch.Tensor]:
        nonlocal drawing
        source = shards(m)
        while True:
            begin = time.perf_counter()
            shard = next(source, None)
            drawing += time.perf_counter() - begin
            if shard is None:
                return
            yield shard

    before = peak()
    begin = time.perf_counter()
    model = MODELS["ABM"]().fit_stream(batches, n_points=m, progress=Lines(30.0))
    total = time.perf_counter() - begin
    fitting = total - drawing
    return {
        "points": m,
        "dimensions": DIMENSIONS,
        "degree": 3,
        "terms": len(model.order_ideal_),
        "generators": len(model.generators_),
        "passes": model.report_.passes,
        "data_GiB_as_float64": m * DIMENSIONS * 8 / 2**30,
        "seconds": total,
        "of_it_drawing": drawing,
        "points_per_second": m / fitting,
        "points_per_second_and_pass": m * model.report_.passes / fitting,
        "peak_MiB": peak() / 2**20,
        "more_than_at_start_MiB": (peak() - before) / 2**20,
    }


def child(m: int) -> dict:
    command = [sys.executable, "-m", "benchmarks.streaming", str(m), "--print"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main() -> None:
    threads = torch.get_num_threads()
    if "--print" in sys.argv:
        print(json.dumps(large(int(sys.argv[1]))))
    elif len(sys.argv) > 1:
        keep("streaming_large", [child(int(sys.argv[1]))], threads=threads)
    else:
        keep("streaming", against_memory(), threads=threads, noise=NOISE, repeats=REPEATS)
        rows = [child(m) for m in (10**5, 10**6)]
        keep("streaming_growth", rows, threads=threads)


if __name__ == "__main__":
    main()
