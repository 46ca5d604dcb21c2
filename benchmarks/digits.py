"""Heads behind four cuts of a small network on digits: mean over five seeds.

    python -m benchmarks.digits

Every seed has its own split, network, ideals and training; see `vinets.demo` for the settings,
which were chosen on other seeds. The MLP stores as many parameters as the VI head.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from statistics import mean, stdev
from typing import Any

from benchmarks.record import keep
from vinets.demo import START, run_demo
from vinets.pipeline.comparison import NetworkResult
from vinets.report.demo_page import DemoResult

SEEDS = range(100, 105)
OURS = "VI-Net"


def gathered(runs: list[DemoResult]) -> list[dict[str, Any]]:
    """One row per cut and head, in points."""
    found: dict[tuple[str, str], list[NetworkResult]] = defaultdict(list)
    for run in runs:
        for comparison in run.comparisons:
            for network in comparison.networks:
                found[comparison.cut, network.name].append(network)
    rows = []
    for (cut, name), each in found.items():
        ours = [network.accuracy for network in found[cut, OURS]]
        theirs = [network.accuracy for network in each]
        gaps = [100 * (a - b) for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            {
                "cut": cut,
                "head": name,
                "accuracy_points": 100 * mean(theirs),
                "std_points": 100 * stdev(theirs),
                "ours_ahead_points": None if name == OURS else mean(gaps),
                "head_numbers": round(mean(network.parameters_head for network in each)),
                "accuracies": theirs,
            }
        )
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        runs = [run_demo(folder, seed=seed, progress=None) for seed in SEEDS]
    uncut = [run.comparisons[0].uncut.accuracy for run in runs]
    keep("digits", gathered(runs), seeds=list(SEEDS), uncut_accuracies=uncut, trial=START.changes)
