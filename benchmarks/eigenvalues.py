"""ABM with its coefficients against a loop that computes eigenvalues only, one CPU thread.

The loop keeps and borders the Gram matrix and asks LAPACK for the smallest eigenvalue of every
border term, without the vector: it decides, and has no coefficients. CPU seconds; the least of
several runs of either side, which take turns. The seeds are of no other benchmark.

Bare products are what BLAS and LAPACK take for the matrices that cannot be done without: products
of terms and candidates, their coordinates in a triangular factor, one decomposition, and two
rotations of the generators by its eigenvectors.

    python -m benchmarks.eigenvalues
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from benchmarks.engine import PSI, same
from benchmarks.record import keep
from vinets import ABM
from vinets.data.synthetic import latent_like

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

SEEDS = (17, 18, 19)
DEGREE = 3


def main() -> None:
    with threadpool_limits(1):
        torch.set_num_threads(1)
        rows = [compare(seed) for seed in SEEDS]
    keep("eigenvalues", rows, psi=PSI, max_degree=DEGREE, n=64, rank=32)


def compare(seed: int) -> dict:
    Z = latent_like(512, 64, 32, noise=0.15, seed=seed)
    model = ABM(PSI, max_degree=DEGREE).fit(Z)
    found = []

    def loop() -> None:
        found.append(reference.gram_loop(Z, PSI, True, DEGREE, vectors=False))

    o, g = model.report_.n_terms, model.report_.n_generators
    rows, candidates = torch.randn(o, len(Z)).double(), torch.randn(o + g, len(Z)).double()

    def bare() -> None:
        products = rows @ candidates.mT
        gram = rows @ rows.mT
        lower = torch.linalg.cholesky(gram)
        coordinates = torch.linalg.solve_triangular(lower, products, upper=False)[:, :g]
        _, vectors = torch.linalg.eigh(gram)
        vectors @ (vectors.mT @ coordinates)

    ours, theirs, floor = [], [], []
    for _ in range(4):
        ours += [cpu_seconds(lambda: model.fit(Z)) for _ in range(4)]
        theirs.append(cpu_seconds(loop))
        floor += [cpu_seconds(bare) for _ in range(4)]
    return {
        "seed": seed,
        "terms": o,
        "generators": g,
        "bare_products_cpu_s": min(floor),
        "vinets_cpu_s": min(ours),
        "loop_cpu_s": min(theirs),
        "ratio": min(theirs) / min(ours),
        "same": same(model, found[0]),
    }


def cpu_seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
