"""Run every benchmark that needs no GPU: ``python -m benchmarks``."""

from __future__ import annotations

import subprocess
import sys

ALL = (
    "engine",
    "oracles",
    "sparse",
    "small",
    "eigenvalues",
    "memory",
    "growth",
    "precision",
    "layer",
    "heads",
    "speed",
    "training",
    "digits",
    "dimension",
    "cluster",
)

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
