"""Intrinsic dimension of latents and the number of monomials, over cuts of a network on digits.

    python -m benchmarks.dimension

Every seed has its own split and its own network, trained as in `benchmarks.digits`; ideals are the
paper's, ABM with psi = 0.1 up to degree 5. One network says little: the correlation over the cuts
changes from seed to seed, even in sign, so that it is kept for every seed and for the means. A
class has about 107 points to fit to in 128 variables, fewer than in the paper. Also draws
``docs/images/dimension.svg``.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from benchmarks.digits import CUTS, SEEDS, trained
from benchmarks.record import keep
from vinets.core.plain import as_plain
from vinets.latent.cut import cut_points
from vinets.measure import dimension_correlation
from vinets.report import Axis, Figure, Series, save_figure
from vinets.runs.setup import Setup
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import DimensionFacts, IdealFacts, Trial

MORE_CUTS = ("conv1", "bn4", "relu4", "avgpool")  # fixed before these seeds were run
IMAGES = Path(__file__).parents[1] / "docs" / "images"


@dataclass(frozen=True)
class CutFacts:
    """Class ideals and intrinsic dimensions of the latents at one cut."""

    cut: str
    removed: float  # share of the convolutions that the cut removes
    ideals: IdealFacts
    dimension: DimensionFacts


def measured(seed: int, folder: Path) -> list[CutFacts]:
    """Train the network and study its cuts, earliest first."""
    model, data = trained(seed)
    wanted = {*CUTS, *MORE_CUTS}
    cuts = [p.name for p in cut_points(model, data.train.example()) if p.name in wanted]
    setup, store = Setup("uncut", model, data, torch.device("cpu")), Store(folder)
    start = Trial(network=setup.name, seed=seed)
    ideals = {cut: replace(start, cut=cut, task="ideals") for cut in cuts}
    dimensions = {cut: replace(start, cut=cut, task="dimension") for cut in cuts}
    trials = [*ideals.values(), *dimensions.values()]
    run_trials(trials, {setup.name: setup}, store, progress=None)
    facts = []
    for cut in cuts:
        found, estimated = store.read(ideals[cut]), store.read(dimensions[cut]).estimated
        facts.append(CutFacts(cut, found.removed or 0.0, found.found, estimated))
    return facts


def gathered(runs: list[list[CutFacts]]) -> list[dict[str, Any]]:
    """One row per cut: means over the seeds, and how far dimension and monomials spread."""
    rows = []
    for same in zip(*runs, strict=True):
        dimensions = [each.dimension.mean for each in same]
        monomials = [each.ideals.monomials for each in same]
        rows.append(
            {
                "cut": same[0].cut,
                "removed": same[0].removed,
                "examples": same[0].ideals.points,
                "dimension": mean(dimensions),
                "dimension_std": mean(each.dimension.std for each in same),
                "monomials": mean(monomials),
                "polynomials": mean(each.ideals.polynomials for each in same),
                "explained_variance": mean(each.ideals.explained_variance for each in same),
                "dimension_std_over_seeds": stdev(dimensions),
                "monomials_std_over_seeds": stdev(monomials),
            }
        )
    return rows


def correlated(facts: list[CutFacts]) -> dict[str, Any]:
    """Of dimension and monomials over the cuts of one network."""
    dimensions = [each.dimension.mean for each in facts]
    return asdict(dimension_correlation(dimensions, [e.ideals.monomials for e in facts]))


def figure(rows: list[dict[str, Any]]) -> Figure:
    """Monomials against dimension, a point for every cut."""
    points = Series(
        "mean over seeds",
        tuple(row["dimension"] for row in rows),
        tuple(row["monomials"] for row in rows),
        tuple(row["cut"] for row in rows),
    )
    x = Axis("mean intrinsic dimension of the classes", format=".1f")
    y = Axis("monomials of all classes", log=True, format=",.0f")
    return Figure("dimension", "Digits: dimension and monomials", x, y, (points,), kind="scatter")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = [measured(seed, Path(folder) / str(seed)) for seed in SEEDS]
    rows = gathered(runs)
    means = dimension_correlation([r["dimension"] for r in rows], [r["monomials"] for r in rows])
    by_seed = {seed: correlated(facts) for seed, facts in zip(SEEDS, runs, strict=True)}
    every = {seed: as_plain(facts) for seed, facts in zip(SEEDS, runs, strict=True)}
    correlation = {"of_means": asdict(means), "by_seed": by_seed}
    keep("dimension", rows, seeds=list(SEEDS), correlation=correlation, runs=every)
    save_figure(figure(rows), IMAGES, "dimension")


if __name__ == "__main__":
    main()
