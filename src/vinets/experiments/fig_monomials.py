"""Monomials left against the share of polynomials pruned, cut by cut."""

from __future__ import annotations

from vinets.experiments.plan import (
    REMOVED,
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    line,
    part,
    share,
)
from vinets.pipeline.tasks import RATIOS
from vinets.pipeline.trial import Trial
from vinets.report.values import Axis, Figure, ReferenceLine

__all__ = ["FIG_MONOMIALS", "variables"]

TEXT = (
    "Monomials that evaluation of the remaining polynomials needs, without the constant. The line "
    "at 128 is the number of variables.",
)


def _planned(plan: Plan) -> dict[Key, Trial]:
    return {(backbone, cut): plan.trial(backbone, cut, "ideals") for backbone, cut in plan.places}


def _finding(plan: Plan, found: Results) -> Findings:
    count, figures = Axis("monomials", log=True, format=",.0f"), []
    for backbone in plan.chosen:
        own = part(found, backbone).items()
        series = tuple(
            line(
                f"{ratio:.0%} pruned",
                ((share(r), r.found.monomials_left[str(ratio)], cut) for (cut,), r in own),
            )
            for ratio in RATIOS
        )
        name, levels = f"monomials-{backbone.data}", (ReferenceLine("variables", variables(plan)),)
        figures.append(Figure(name, backbone.caption, REMOVED, count, series, levels=levels))
    return Findings(TEXT, figures=tuple(figures))


def variables(plan: Plan) -> int:
    """Principal components, the variables of the polynomials."""
    components = plan.start.projecting.components
    assert isinstance(components, int)
    return components


FIG_MONOMIALS = Experiment(
    "fig-monomials",
    "Monomials left after pruning",
    "Figure on pruning and monomials",
    6,
    _planned,
    _finding,
)
