"""The engine against the textbook loop over single terms, one CPU thread.

Two baselines run in the same process: the loop as it is written down (``eigh`` or ``lstsq`` per
border term), and a loop that is already clever about it (the Gram matrix is kept and
bordered; ``eigh`` or a Cholesky solve per term). Both call LAPACK. VCA is
timed on the same points for orientation.

    python -m benchmarks.engine
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.record import keep, seconds, show
from vinets import ABM, VCA
from vinets.data.synthetic import latent_like

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

PROBLEMS = {
    "unit, n=64, rank 32, degree 5": {
        "points": {"n": 64, "rank": 32, "noise": 0.15},
        "model": {"normalization": "unit", "max_degree": 5},
    },
    "leading, n=128, rank 8, degree 3": {
        "points": {"n": 128, "rank": 8, "noise": 0.05, "gain": 0.82},
        "model": {"normalization": "leading", "max_degree": 3},
    },
    "unit, n=128, rank 32, degree 5": {
        "points": {"n": 128, "rank": 32, "noise": 0.15},
        "model": {"normalization": "unit", "max_degree": 5},
    },
}
PSI = 0.01


def main() -> None:
    rows = []
    with threadpool_limits(1):
        torch.set_num_threads(1)
        for name, problem in PROBLEMS.items():
            rows.append(compare(name, problem))
            show("so far", rows)
    keep("engine", rows, psi=PSI, points=512, seed=0, problems=PROBLEMS)


def compare(name: str, problem: dict) -> dict:
    Z = latent_like(512, **problem["points"])
    model = ABM(PSI, **problem["model"]).fit(Z)
    ours = seconds(lambda: model.fit(Z), repeats=15, warmup=3)
    unit = problem["model"]["normalization"] == "unit"
    solve = reference.smallest_eigenvector if unit else reference.least_squares
    row = {
        "problem": name,
        "terms": model.report_.n_terms,
        "generators": model.report_.n_generators,
        "vinets_s": ours,
    }
    for label, loop in (
        ("loop", lambda: reference.plain_loop(Z, PSI, solve, problem["model"]["max_degree"])),
        ("gram_loop", lambda: reference.gram_loop(Z, PSI, unit, problem["model"]["max_degree"])),
    ):
        begin = time.perf_counter()
        plain = loop()
        row[f"{label}_s"] = time.perf_counter() - begin
        row[f"{label}_ratio"] = row[f"{label}_s"] / ours
        row[f"{label}_same"] = same(model, plain)
    begin = time.perf_counter()
    try:
        baseline = VCA(PSI, max_degree=2).fit(Z)
        row["vca_degree2_s"] = time.perf_counter() - begin
        row["vca_generators"] = len(baseline.generators_)
    except MemoryError as refusal:
        row["vca_degree2_s"], row["vca_generators"] = None, str(refusal)
    return row


def same(model: ABM, plain: reference.Plain) -> bool:
    """Whether the loop took the very same decisions."""

    def rows(exponents: np.ndarray) -> list[tuple[int, ...]]:
        return [tuple(np.repeat(np.arange(len(e)), e).tolist()) for e in exponents]

    return (
        rows(model.order_ideal_) == plain.order_ideal
        and rows(model.leading_terms_) == plain.leading
    )


if __name__ == "__main__":
    main()
