"""A border of more than a million terms of degree 3 within a memory limit, against no limit.

Each fit runs in a process of its own, whose peak memory is compared with what it held just before.

    python -m benchmarks.memory
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import time

import numpy as np

from benchmarks.record import keep
from vinets import ABM
from vinets.data.synthetic import latent_like

POINTS = {"m": 128, "n": 60_000, "rank": 3, "noise": 0.02}
PSI = 0.05
LIMITS = (16 << 20, 64 << 20, 256 << 20, 64 << 30)


def main() -> None:
    rows = [run(limit) for limit in LIMITS]
    unlimited = rows[-1]
    for row in rows:
        row["same_as_unlimited"] = (
            row["decisions"] == unlimited["decisions"]
            and abs(row["coefficient_sum"] / unlimited["coefficient_sum"] - 1) < 1e-9
        )
    keep("memory", rows, points=POINTS, seed=0, border="full", psi=PSI)


def run(limit: int) -> dict:
    """Fit in a child process and return what it reports."""
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(limit)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(child.stdout.splitlines()[-1])


def fit(limit: int) -> None:
    Z = latent_like(**POINTS)
    ABM(PSI, normalization="leading", max_degree=1, border="full").fit(Z[:, :50])  # warm up
    before = peak()
    begin = time.perf_counter()
    model = ABM(PSI, normalization="leading", max_degree=3, border="full", memory_limit=limit).fit(
        Z
    )
    took = time.perf_counter() - begin
    extra = peak() - before
    digest = hashlib.sha256()
    for terms in (model._order_ideal, model.generators_.leading):
        for block in terms.blocks:
            digest.update(np.ascontiguousarray(block).tobytes())
    print(
        json.dumps(
            {
                "memory_limit_MiB": limit >> 20,
                "border_degree_3": model.report_.degrees[2].border,
                "terms": model.report_.n_terms,
                "generators": model.report_.n_generators,
                "seconds": took,
                "extra_memory_MiB": extra >> 20,
                "coefficients_MiB": model.generators_.tail.nbytes >> 20,
                "decisions": digest.hexdigest(),
                "coefficient_sum": float(model.generators_.tail.abs().sum()),
            }
        )
    )


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fit(int(sys.argv[1]))
    else:
        main()
