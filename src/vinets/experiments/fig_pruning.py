"""Accuracy against the share of polynomials pruned, cut by cut."""

from __future__ import annotations

from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.plan import Experiment, Findings, Key, Plan, Results, accuracy_figure, part
from vinets.pipeline.trial import Trial

__all__ = ["ALGORITHMS", "FIG_PRUNING", "pruned_trial"]

ALGORITHMS = {"abm": "ABM", "oavi-cg": "OAVI-CG", "oavi-agd": "OAVI-AGD"}
PANELS = ((RESNET34, "abm"), (RESNET18, "abm"), (RESNET34, "oavi-cg"), (RESNET34, "oavi-agd"))
RATIOS = (0.0, 0.5, 0.9, 0.95, 0.99)
FEW = (0.0, 0.9, 0.99)  # of OAVI, which takes longer
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


def _planned(plan: Plan) -> dict[Key, Trial]:
    return {
        (backbone, algorithm, f"{r:.0%} pruned", cut): pruned_trial(
            plan, backbone, cut, algorithm, r
        )
        for backbone, algorithm in PANELS
        for cut in plan.cuts(backbone)
        for r in ((0.0, 0.9) if plan.quick else RATIOS if algorithm == "abm" else FEW)
    }


def _finding(plan: Plan, found: Results) -> Findings:
    figures = (
        accuracy_figure(
            f"pruning-{backbone.data}-{algorithm}",
            f"{backbone.caption}, {ALGORITHMS[algorithm]}",
            part(found, backbone, algorithm),
        )
        for backbone, algorithm in PANELS
        if backbone in plan.chosen
    )
    return Findings(TEXT, figures=tuple(figures))


FIG_PRUNING = Experiment(
    "fig-pruning",
    "Accuracy against the share of polynomials pruned",
    "Figures on pruning: ABM, OAVI-CG and OAVI-AGD",
    5,
    _planned,
    _finding,
)
