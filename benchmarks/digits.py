"""Heads behind four cuts of a small network on digits: mean over five seeds.

    python -m benchmarks.digits

Every seed has its own split, network, ideals and training; the settings were chosen on other
seeds. The MLP stores as many parameters as the VI head.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import nn

from benchmarks.record import keep
from vinets.core.settings import SpeedOptions, TrainingOptions
from vinets.data import DataSplit, digits
from vinets.heads import VanishingHead, VanishingOptions
from vinets.models import digits_cnn
from vinets.runs.compare import BuildResult, compare_heads
from vinets.runs.trial import TrainingFacts, Trial
from vinets.training import train_classifier

SEEDS = range(100, 105)
CUTS = ("relu1", "relu2", "pool", "relu3")  # earliest first
BACKBONE = TrainingOptions(
    epochs=15, batch_size=64, learning_rate=0.1, schedule="one-cycle", validation=0.0
)
START = Trial(
    options=VanishingOptions(
        psi=0.03,
        max_degree=3,
        normalization="unit",
        components=32,
        train_projection=True,
        order="tanh-pca",
        keep=16,
        linear_path=8,
    ),
    # Much decay, because the digits are few.
    recipe=TrainingOptions(epochs=40, batch_size=64, weight_decay=0.01, views=8),
    timing=SpeedOptions(batch=256, repeats=5, seconds=0.15, where="cpu"),
)


def trained(seed: int) -> tuple[nn.Module, DataSplit]:
    """Train the uncut network on a split of its own."""
    data = digits(seed)
    torch.manual_seed(seed)
    model = digits_cnn()
    recipe = replace(BACKBONE, seed=seed)
    train_classifier(model, data.train, recipe=recipe, device="cpu", progress=None)
    return model, data


def compared(seed: int, folder: Path) -> list[BuildResult]:
    """Compare all heads behind every cut."""
    model, data = trained(seed)
    trials = [replace(START, cut=cut, seed=seed) for cut in CUTS]
    return [
        compare_heads(
            model, data, one, folder / str(one.cut), baselines=True, device="cpu", progress=None
        )
        for one in trials
    ]


def gathered(runs: list[list[BuildResult]]) -> list[dict[str, Any]]:
    """One row per cut and head, in points."""
    found: dict[tuple[str, str], list[TrainingFacts]] = defaultdict(list)
    for run in runs:
        for result in run:
            for name, network in result.networks.items():
                found[result.cut, name].append(network)
    rows = []
    for (cut, name), each in found.items():
        ours = [network.accuracy for network in found[cut, VanishingHead.label]]
        theirs = [network.accuracy for network in each]
        gaps = [100 * (a - b) for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            {
                "cut": cut,
                "head": name,
                "accuracy_points": 100 * mean(theirs),
                "std_points": 100 * stdev(theirs),
                "ours_ahead_points": None if name == VanishingHead.label else mean(gaps),
                "head_numbers": round(mean(network.parameters_head for network in each)),
                "accuracies": theirs,
            }
        )
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        runs = [compared(seed, Path(folder) / str(seed)) for seed in SEEDS]
    uncut = [run[0].timed.uncut for run in runs]
    keep("digits", gathered(runs), seeds=list(SEEDS), uncut_accuracies=uncut, trial=START.changes)
