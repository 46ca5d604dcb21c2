"""Accuracy against the share of layers removed: VI-Net, linear head, random monomials, MLP."""

from __future__ import annotations

from vinets.experiments.plan import Experiment, Findings, Key, Plan, Results, accuracy_figure, part
from vinets.pipeline.trial import Trial

__all__ = ["FIG_TRUNCATION"]

HEADS = {"vi": "VI-Net", "linear": "linear head", "random": "random monomials", "mlp": "MLP"}
TEXT = (
    "Nothing is pruned. Coefficients and linear layer are trained for 20 epochs; the backbone "
    "stays as it is. The linear head sees the flat map, the MLP stores as many numbers as the VI "
    "head, and random monomials stand in blocks of the same shape.",
)


def _planned(plan: Plan) -> dict[Key, Trial]:
    return {
        (backbone, name, cut): plan.trial(backbone, cut, head=head)
        for backbone, cut in plan.places
        for head, name in HEADS.items()
    }


def _finding(plan: Plan, found: Results) -> Findings:
    figures = (
        accuracy_figure(f"truncation-{one.data}", one.caption, part(found, one))
        for one in plan.chosen
    )
    return Findings(TEXT, figures=tuple(figures))


FIG_TRUNCATION = Experiment(
    "fig-truncation",
    "Accuracy against the share of layers removed",
    "Figures on truncation, CIFAR-100 and CIFAR-10",
    4,
    _planned,
    _finding,
)
