"""Monomials and polynomials behind every convolution of ResNet-34."""

from __future__ import annotations

from collections.abc import Callable

from vinets.experiments.backbones import RESNET34
from vinets.experiments.plan import Experiment, Findings, Plan, line
from vinets.pipeline.store import Store
from vinets.pipeline.trial import IdealFacts, Trial
from vinets.report.values import Axis, Figure

__all__ = ["FIG_GENERATORS"]

TEXT = (
    "ABM with ψ = 0.1 behind every convolution of a residual block: inside the block, behind "
    "bn1, and behind its sum. The first convolution of a stage is where the map gets smaller.",
)


COUNTED: dict[str, Callable[[IdealFacts], int]] = {
    "monomials": lambda found: found.monomials,
    "polynomials": lambda found: found.polynomials,
}


def _cuts(plan: Plan) -> tuple[str, ...]:
    return RESNET34.layers[-3:] if plan.quick else RESNET34.layers


def _trial(plan: Plan, cut: str) -> Trial:
    return plan.trial(RESNET34, cut, "ideals")


def trials(plan: Plan) -> list[Trial]:
    """An ideal behind every convolution."""
    return [_trial(plan, cut) for cut in _cuts(plan)] if RESNET34 in plan.chosen else []


def findings(plan: Plan, store: Store) -> Findings:
    if RESNET34 not in plan.chosen:
        return Findings(TEXT)
    found = {cut: store.read(_trial(plan, cut)).found for cut in _cuts(plan)}
    series = [
        line(name, [(i, count(one), cut) for i, (cut, one) in enumerate(found.items(), 1)])
        for name, count in COUNTED.items()
    ]
    where = Axis("convolution, counted from the first block", format=".0f")
    counts = Axis("count", log=True, format=",.0f")
    figure = Figure("generators-by-layer", RESNET34.caption, where, counts, tuple(series))
    return Findings(TEXT, figures=(figure,))


FIG_GENERATORS = Experiment(
    "fig-generators",
    "Generators behind every layer",
    "Figure on truncation and the number of generators",
    7,
    trials,
    findings,
)
