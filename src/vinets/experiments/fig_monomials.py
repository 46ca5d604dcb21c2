"""Monomials left against the share of polynomials pruned, cut by cut."""

from __future__ import annotations

from typing import Any

from vinets.experiments.plan import REMOVED, Experiment, Plan, line
from vinets.experiments.runs import Run, Store
from vinets.experiments.tasks import RATIOS
from vinets.report.values import Axis, Figure, Level

__all__ = ["FIG_MONOMIALS"]

TEXT = (
    "Monomials that evaluation of the remaining polynomials needs, without the constant. The line "
    "at 128 is the number of variables.",
)


def _run(backbone: str, cut: str) -> Run:
    return Run(backbone, cut, "ideals")


def runs(plan: Plan) -> list[Run]:
    """An ideal for every cut."""
    return [_run(b.name, cut) for b in plan.chosen for cut in plan.cuts(b)]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    figures = []
    for backbone in plan.chosen:
        found = {cut: store.read(_run(backbone.name, cut)) for cut in plan.cuts(backbone)}
        series = [
            line(
                f"{ratio:.0%} pruned",
                [
                    (100 * record["removed"], record["monomials_left"][str(ratio)], cut)
                    for cut, record in found.items()
                ],
            )
            for ratio in RATIOS
        ]
        count = Axis("monomials", log=True, format=",.0f")
        levels = (Level("variables", plan.scale.components),)
        name = f"monomials-{backbone.data}"
        figures.append(Figure(name, backbone.caption, REMOVED, count, tuple(series), levels=levels))
    return {"text": TEXT, "figures": tuple(figures)}


FIG_MONOMIALS = Experiment(
    "fig-monomials",
    "Monomials left after pruning",
    "Figure on pruning and monomials",
    runs,
    result,
)
