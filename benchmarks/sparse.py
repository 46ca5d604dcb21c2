"""Sparse coefficients against the prior art's algorithm, one CPU thread, CPU seconds.

The prior art (OAVI with blended pairwise conditional gradients and inverse Hessian boosting) runs
as a loop over single terms in ``tests/reference.py``, on the same points in the same process. Both
must find the same leading terms; ``zeros`` are shares of the coefficients that a generator may
have. Sides take turns, and the least of several runs counts; a loop that takes minutes runs once,
and one that would take many more not at all. The closed form is timed as well.

    python -m benchmarks.sparse
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import MinMaxScaler
from threadpoolctl import threadpool_limits

from benchmarks.engine import PSI, same
from benchmarks.record import keep, show
from vinets import OAVI
from vinets.data.synthetic import latent_like

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

DEGREE = 3
ORACLES = ("bpcg", "pcg", "cg")
ENOUGH = 10.0  # CPU seconds for the loop


def classes(load) -> list[np.ndarray]:
    X, y = load(return_X_y=True)
    Z = MinMaxScaler().fit_transform(X)
    return [Z[y == k] for k in np.unique(y)]


def problems() -> dict[str, list[np.ndarray]]:
    return {
        "breast cancer, 2 classes": classes(load_breast_cancer),
        "digits, 10 classes": classes(load_digits),
        "latent-like n=64, rank 8": [latent_like(512, 64, 8, gain=0.82)],
        "latent-like n=64, rank 32": [latent_like(512, 64, 32, noise=0.15)],
    }


def main() -> None:
    rows = []
    with threadpool_limits(1):
        torch.set_num_threads(1)
        for name, sets in problems().items():
            rows.append(compare(name, sets, loop="rank 32" not in name))
            show("so far", rows)
    keep("sparse", rows, psi=PSI, max_degree=DEGREE, tau=1000.0, seed=0)


def compare(name: str, sets: list[np.ndarray], loop: bool) -> dict:
    fits = {
        oracle: [OAVI(PSI, oracle=oracle, max_degree=DEGREE) for _ in sets]
        for oracle in ("exact", *ORACLES)
    }
    plain: list[reference.Plain] = []
    theirs: list[float] = []
    ours: dict[str, list[float]] = {oracle: [] for oracle in fits}
    while not ours["exact"] or (loop and sum(theirs) < ENOUGH):  # a slow loop is carried out once
        if loop:
            begin = time.process_time()
            plain = [reference.boosted_loop(Z, PSI, DEGREE) for Z in sets]
            theirs.append(time.process_time() - begin)
        for oracle, models in fits.items():
            ours[oracle] += [cpu_seconds(models, sets) for _ in range(5 if loop else 2)]
    took = min(theirs, default=None)
    row = {"problem": name, "generators": 0, "terms": 0, "loop_cpu_s": took, "zeros_loop": None}
    row["exact_cpu_s"] = min(ours["exact"])
    for oracle in ORACLES:
        row[f"{oracle}_cpu_s"] = min(ours[oracle])
        row[f"{oracle}_ratio"] = took / min(ours[oracle]) if took else None
        used = sum(int(torch.count_nonzero(model.generators_.tail)) for model in fits[oracle])
        row[f"zeros_{oracle}"] = 1 - used / usable(sets)
    found = fits["bpcg"]
    row["generators"] = sum(len(model.generators_) for model in found)
    row["terms"] = sum(model.report_.n_terms for model in found)
    if plain:
        entries = [np.count_nonzero(c[:-1]) for p in plain for _, c, _ in p.generators]
        row["zeros_loop"] = float(1 - sum(entries) / usable(sets))
        row["same"] = all(same(model, p) for model, p in zip(found, plain, strict=True))
    return row


def cpu_seconds(models: list[OAVI], sets: list[np.ndarray]) -> float:
    begin = time.process_time()
    for model, Z in zip(models, sets, strict=True):
        model.fit(Z)
    return time.process_time() - begin


def usable(sets: list[np.ndarray]) -> int:
    """Coefficients that generators may have: what the closed form fills."""
    dense = (OAVI(PSI, oracle="exact", max_degree=DEGREE).fit(Z) for Z in sets)
    return sum(int(torch.count_nonzero(model.generators_.tail)) for model in dense)


if __name__ == "__main__":
    main()
