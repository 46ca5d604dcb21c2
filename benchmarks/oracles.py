"""Sparse coefficients for every generator: the oracles side by side, one CPU thread.

The zeros are counted twice: over the whole coefficient matrix, and over the entries that a
generator may use at all (its prefix of the order ideal), which is the stricter count.

    python -m benchmarks.oracles
"""

from __future__ import annotations

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.engine import PROBLEMS, PSI
from benchmarks.record import keep, seconds
from vinets import OAVI
from vinets.data.synthetic import latent_like


def main() -> None:
    with threadpool_limits(1):
        torch.set_num_threads(1)
        problem = PROBLEMS["leading, n=128, rank 8, degree 3"]
        rows = compare(latent_like(512, **problem["points"]))
    keep("oracles", rows, psi=PSI, tau=1000.0, points=512, seed=0, problem=problem)


def compare(Z: np.ndarray) -> list[dict]:
    dense = OAVI(PSI, oracle="exact", max_degree=3).fit(Z).generators_
    usable = float(torch.count_nonzero(dense.tail))
    rows = []
    for oracle in ("exact", "agd", "cg", "pcg", "bpcg"):
        model = OAVI(PSI, oracle=oracle, max_degree=3)
        took = seconds(lambda model=model: model.fit(Z), repeats=5)
        used = float(torch.count_nonzero(model.generators_.tail))
        log = model.report_.oracle
        rows.append(
            {
                "oracle": oracle,
                "generators": len(model.generators_),
                "seconds": took,
                "zeros": model.generators_.sparsity,
                "zeros_in_prefix": 1 - used / usable,
                "kept": log.get("kept"),
                "status": log.get("status"),
                "max_steps": log.get("max_steps"),
                "largest_mean_square": float(model.mean_squares_.max()),
            }
        )
    return rows


if __name__ == "__main__":
    main()
