"""Monomials left against the share of polynomials pruned, cut by cut."""

from __future__ import annotations

from vinets.experiments.backbones import Backbone
from vinets.experiments.plan import REMOVED, Experiment, Findings, Plan, line, share
from vinets.pipeline.store import Store
from vinets.pipeline.tasks import RATIOS
from vinets.pipeline.trial import Trial
from vinets.report.values import Axis, Figure, Level

__all__ = ["FIG_MONOMIALS", "variables"]

TEXT = (
    "Monomials that evaluation of the remaining polynomials needs, without the constant. The line "
    "at 128 is the number of variables.",
)


def _trial(plan: Plan, backbone: Backbone, cut: str) -> Trial:
    return plan.trial(backbone, cut, "ideals")


def trials(plan: Plan) -> list[Trial]:
    """An ideal for every cut."""
    return [_trial(plan, b, cut) for b in plan.chosen for cut in plan.cuts(b)]


def findings(plan: Plan, store: Store) -> Findings:
    figures = []
    for backbone in plan.chosen:
        found = {cut: store.read(_trial(plan, backbone, cut)) for cut in plan.cuts(backbone)}
        series = [
            line(
                f"{ratio:.0%} pruned",
                [
                    (share(result), result.found.monomials_left[str(ratio)], cut)
                    for cut, result in found.items()
                ],
            )
            for ratio in RATIOS
        ]
        count = Axis("monomials", log=True, format=",.0f")
        levels = (Level("variables", variables(plan)),)
        name = f"monomials-{backbone.data}"
        figures.append(Figure(name, backbone.caption, REMOVED, count, tuple(series), levels=levels))
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
    trials,
    findings,
)
