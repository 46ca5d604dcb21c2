"""Accuracy against the share of polynomials pruned, cut by cut."""

from __future__ import annotations

from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.plan import Experiment, Findings, Plan, accuracy_figure
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial

__all__ = ["ALGORITHMS", "FIG_PRUNING", "pruned_trial"]

ALGORITHMS = {"abm": "ABM", "oavi-cg": "OAVI-CG", "oavi-agd": "OAVI-AGD"}
PANELS = (
    (RESNET34, "abm"),
    (RESNET18, "abm"),
    (RESNET34, "oavi-cg"),
    (RESNET34, "oavi-agd"),
)
TEXT = (
    "Of every class, the polynomials with the highest pruning score stay; all their monomials "
    "stay with them. Heads are trained anew for every point. A head holds at most 150,000 "
    "polynomials: where more are left, as many as fit are taken, the best of every class; this "
    "happens to OAVI at early cuts.",
)


def pruned_trial(plan: Plan, backbone: Backbone, cut: str, algorithm: str, ratio: float) -> Trial:
    """Training after the share ``ratio`` of the polynomials was pruned."""
    keep = None if ratio == 0 else round(1 - ratio, 6)
    name, _, oracle = algorithm.partition("-")
    return plan.trial(backbone, cut, algorithm=name, oracle=oracle or None, keep=keep)


def _panels(plan: Plan) -> list[tuple[Backbone, str]]:
    names = {backbone.name for backbone in plan.chosen}
    return [(backbone, algorithm) for backbone, algorithm in PANELS if backbone.name in names]


def _ratios(plan: Plan, algorithm: str) -> tuple[float, ...]:
    if plan.quick:
        return 0.0, 0.9
    return (0.0, 0.5, 0.9, 0.95, 0.99) if algorithm == "abm" else (0.0, 0.9, 0.99)


def trials(plan: Plan) -> list[Trial]:
    """A training for every panel, cut and share."""
    return [
        pruned_trial(plan, backbone, cut, algorithm, ratio)
        for backbone, algorithm in _panels(plan)
        for cut in plan.cuts(backbone)
        for ratio in _ratios(plan, algorithm)
    ]


def findings(plan: Plan, store: Store) -> Findings:
    figures = []
    for backbone, algorithm in _panels(plan):
        found = {
            f"{ratio:.0%} pruned": {
                cut: [store.read(pruned_trial(plan, backbone, cut, algorithm, ratio))]
                for cut in plan.cuts(backbone)
            }
            for ratio in _ratios(plan, algorithm)
        }
        name = f"pruning-{backbone.data}-{algorithm}"
        title = f"{backbone.caption}, {ALGORITHMS[algorithm]}"
        figures.append(accuracy_figure(name, title, found))
    return Findings(TEXT, figures=tuple(figures))


FIG_PRUNING = Experiment(
    "fig-pruning",
    "Accuracy against the share of polynomials pruned",
    "Figures on pruning: ABM, OAVI-CG and OAVI-AGD",
    5,
    trials,
    findings,
)
