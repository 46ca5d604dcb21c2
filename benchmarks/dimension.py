"""Intrinsic dimension of latents and the number of monomials, over cuts of a network on digits.

    python -m benchmarks.dimension

Every seed has its own split and its own network, trained as in `vinets.demo`; ideals are the
paper's, ABM with psi = 0.1 up to degree 5. One network says little: the correlation over the cuts
changes from seed to seed, even in sign, so that it is kept for every seed and for the means. A
class has about 107 points to fit to in 128 variables, fewer than in the paper. Also draws
``docs/images/dimension.svg``.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from benchmarks.record import RESULTS, keep
from vinets.data import digits
from vinets.demo import BACKBONE, DEMO_CUTS
from vinets.latent.cut import cut_points
from vinets.measure import dimension_correlation
from vinets.models import digits_cnn
from vinets.pipeline.sweep import CutFacts, sweep, sweep_correlation
from vinets.report.sweep_charts import draw_dimension, draw_generators
from vinets.training import train_classifier

SEEDS = range(100, 105)  # those of benchmarks.digits
MORE_CUTS = ("conv1", "bn4", "relu4", "avgpool")  # fixed before these seeds were run
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "dimension.svg"
AVERAGED = ("dimension", "dimension_std", "monomials", "polynomials", "explained_variance")


def measured(seed: int) -> list[CutFacts]:
    """Train the demo's network and sweep its cuts, earliest first."""
    train = digits(seed).train
    torch.manual_seed(seed)
    model = digits_cnn()
    recipe = replace(BACKBONE, seed=seed)
    train_classifier(model, train, recipe=recipe, device="cpu", progress=None)
    wanted = {*DEMO_CUTS, *MORE_CUTS}
    cuts = [p.name for p in cut_points(model, train.example()) if p.name in wanted]
    return sweep(model, train, cuts, seed=seed, progress=None)


def gathered(runs: list[list[CutFacts]]) -> list[dict[str, Any]]:
    """One row per cut: means over the seeds, and how far dimension and monomials spread."""
    rows = []
    for same_cut in zip(*runs, strict=True):
        facts = [each.to_dict() for each in same_cut]
        row = {key: facts[0][key] for key in ("cut", "removed", "latent_shape", "examples")}
        row |= {key: mean(f[key] for f in facts) for key in AVERAGED}
        row["dimension_std_over_seeds"] = stdev(f["dimension"] for f in facts)
        row["monomials_std_over_seeds"] = stdev(f["monomials"] for f in facts)
        rows.append(row)
    return rows


def correlations(runs: list[list[CutFacts]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the means over the seeds, and seed by seed: over cuts, and over cuts and classes."""
    means = dimension_correlation([r["dimension"] for r in rows], [r["monomials"] for r in rows])
    by_seed = {seed: sweep_correlation(facts) for seed, facts in zip(SEEDS, runs, strict=True)}
    return {"of_means": means.to_dict(), "by_seed": by_seed}


def draw(rows: list[dict[str, Any]], correlation: dict[str, Any], path: Path) -> None:
    """Both charts side by side; the title says how far the seeds agree."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from vinets.report.svg import STYLE

    single = [each["cuts"]["pearson"] for each in correlation["by_seed"].values()]
    with rc_context(STYLE | {"figure.facecolor": "white"}):
        figure = Figure(figsize=(10.4, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_dimension(left, rows)
        draw_generators(right, rows)
        left.set_title(
            f"Pearson r = {correlation['of_means']['pearson']:.2f} of means over {len(single)} "
            f"seeds; {min(single):.2f} to {max(single):.2f} by seed",
            fontsize=10,
        )
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(out: Path, figure: Path) -> None:
    runs = [measured(seed) for seed in SEEDS]
    rows = gathered(runs)
    correlation = correlations(runs, rows)
    every = {
        seed: [{k: v for k, v in each.to_dict().items() if k != "classes"} for each in facts]
        for seed, facts in zip(SEEDS, runs, strict=True)
    }
    keep(out.stem, rows, out.parent, seeds=list(SEEDS), correlation=correlation, runs=every)
    draw(rows, correlation, figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Dimension and monomials over cuts, on digits.")
    parser.add_argument("--out", type=Path, default=RESULTS / "dimension.json", help="JSON file")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="SVG or PNG file")
    arguments = parser.parse_args()
    main(arguments.out, arguments.figure)
