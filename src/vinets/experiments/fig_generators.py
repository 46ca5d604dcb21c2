"""Monomials and polynomials behind every convolution of ResNet-34."""

from __future__ import annotations

from vinets.experiments.backbones import RESNET34
from vinets.experiments.plan import Experiment, Findings, Key, Plan, Results, line
from vinets.pipeline.trial import Trial
from vinets.report.values import Axis, Figure

__all__ = ["FIG_GENERATORS"]

TEXT = (
    "ABM with ψ = 0.1 behind every convolution of a residual block: inside the block, behind "
    "bn1, and behind its sum. The first convolution of a stage is where the map gets smaller.",
)


def _planned(plan: Plan) -> dict[Key, Trial]:
    cuts = plan.cuts(RESNET34, RESNET34.layers)
    return {(place, cut): plan.trial(RESNET34, cut, "ideals") for place, cut in enumerate(cuts, 1)}


def _finding(plan: Plan, found: Results) -> Findings:
    if not found:
        return Findings(TEXT)
    series = (
        line("monomials", ((i, r.found.monomials, cut) for (i, cut), r in found.items())),
        line("polynomials", ((i, r.found.polynomials, cut) for (i, cut), r in found.items())),
    )
    where = Axis("convolution, counted from the first block", format=".0f")
    counts = Axis("count", log=True, format=",.0f")
    figure = Figure("generators-by-layer", RESNET34.caption, where, counts, series)
    return Findings(TEXT, figures=(figure,))


FIG_GENERATORS = Experiment(
    "fig-generators",
    "Generators behind every layer",
    "Figure on truncation and the number of generators",
    7,
    _planned,
    _finding,
)
