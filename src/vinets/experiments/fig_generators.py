"""Monomials and polynomials behind every convolution of ResNet-34."""

from __future__ import annotations

from typing import Any

from vinets.experiments.backbones import RESNET34
from vinets.experiments.plan import Experiment, Plan, line
from vinets.experiments.runs import Run, Store
from vinets.report.values import Axis, Figure

__all__ = ["FIG_GENERATORS"]

TEXT = (
    "ABM with ψ = 0.1 behind every convolution of a residual block: inside the block, behind "
    "bn1, and behind its sum. The first convolution of a stage is where the map gets smaller.",
)


def _cuts(plan: Plan) -> tuple[str, ...]:
    return RESNET34.layers[-3:] if plan.quick else RESNET34.layers


def _run(cut: str) -> Run:
    return Run(RESNET34.name, cut, "ideals")


def runs(plan: Plan) -> list[Run]:
    """An ideal behind every convolution."""
    return [_run(cut) for cut in _cuts(plan)] if RESNET34 in plan.chosen else []


def result(plan: Plan, store: Store) -> dict[str, Any]:
    if RESNET34 not in plan.chosen:
        return {"text": TEXT}
    found = {cut: store.read(_run(cut)) for cut in _cuts(plan)}
    series = [
        line(name, [(i, record[name], cut) for i, (cut, record) in enumerate(found.items(), 1)])
        for name in ("monomials", "polynomials")
    ]
    place = Axis("convolution, counted from the first block", format=".0f")
    count = Axis("count", log=True, format=",.0f")
    figure = Figure("generators-by-layer", RESNET34.caption, place, count, tuple(series))
    return {"text": TEXT, "figures": (figure,)}


FIG_GENERATORS = Experiment(
    "fig-generators",
    "Generators behind every layer",
    "Figure on truncation and the number of generators",
    runs,
    result,
)
