"""How time grows with the number of points, variables, terms and generators.

Each series doubles one quantity and keeps the others as they are as far as that is possible; what
was really reached is in the table. The exponent is the slope of log(seconds) against log(quantity)
over the last two doublings, where fixed costs matter least. One CPU thread.

    python -m benchmarks.growth
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from benchmarks.record import keep, seconds
from vinets import ABM
from vinets.data.synthetic import latent_like


def points(m: int, n: int, rank: int, seed: int = 0) -> np.ndarray:
    return latent_like(m, n, rank, noise=0.15, seed=seed)


def generic(m: int, n: int) -> np.ndarray:
    """Points in general position: every term is accepted until there are as many as points."""
    return np.random.default_rng(0).uniform(-1, 1, size=(m, n))


SERIES = {
    "m (points)": [(points(m, 64, 16), ABM(0.01)) for m in (512, 1024, 2048, 4096, 8192)],
    "n (variables)": [(points(512, n, 16), ABM(0.01, max_degree=2)) for n in (32, 64, 128, 256)],
    "|O| (terms), m = |O|": [
        (generic(m, 12), ABM(1e-5, normalization="leading", max_degree=None))
        for m in (128, 256, 512, 1024)
    ],
    "|G| (generators)": [
        (points(512, n, 4), ABM(0.01, normalization="leading", max_degree=2))
        for n in (64, 128, 256, 512)
    ],
}
QUANTITY = {"m": "points", "n": "variables", "|O|": "terms", "|G|": "generators"}


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for series, problems in SERIES.items():
        key = QUANTITY[series.split(" ")[0]]
        mine = [measure(series, Z, model) for Z, model in problems]
        for before, row in itertools.pairwise(mine):
            growth = math.log(row["seconds"] / before["seconds"])
            row["exponent"] = growth / math.log(row[key] / before[key])
        steps = [math.log(mine[-1][q] / mine[-3][q]) for q in ("seconds", key)]
        mine[-1]["overall_exponent"] = steps[0] / steps[1]
        rows += mine
    keep("growth", rows, psi=0.01, seed=0)


def measure(series: str, Z: np.ndarray, model: ABM) -> dict:
    took = seconds(lambda: model.fit(Z), repeats=3)
    report = model.report_
    return {
        "series": series,
        "points": len(Z),
        "variables": Z.shape[1],
        "terms": report.n_terms,
        "generators": report.n_generators,
        "seconds": took,
        "exponent": None,
        "overall_exponent": None,
    }


if __name__ == "__main__":
    main()
