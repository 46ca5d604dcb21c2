"""Accuracy against the share of layers removed: VI-Net, linear head, random monomials, MLP."""

from __future__ import annotations

from vinets.experiments.backbones import Backbone
from vinets.experiments.plan import Experiment, Findings, Plan, accuracy_figure
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial

__all__ = ["FIG_TRUNCATION"]

HEADS = {"vi": "VI-Net", "linear": "linear head", "random": "random monomials", "mlp": "MLP"}
TEXT = (
    "Nothing is pruned. Coefficients and linear layer are trained for 20 epochs; the backbone "
    "stays as it is. The linear head sees the flat map, the MLP stores as many numbers as the VI "
    "head, and random monomials stand in blocks of the same shape.",
)


def _trial(plan: Plan, backbone: Backbone, cut: str, head: str) -> Trial:
    return plan.trial(backbone, cut, head=head)


def trials(plan: Plan) -> list[Trial]:
    """A training for every network, cut and head."""
    return [
        _trial(plan, backbone, cut, head)
        for backbone in plan.chosen
        for cut in plan.cuts(backbone)
        for head in HEADS
    ]


def findings(plan: Plan, store: Store) -> Findings:
    figures = []
    for backbone in plan.chosen:
        found = {
            name: {
                cut: [store.read(_trial(plan, backbone, cut, head))] for cut in plan.cuts(backbone)
            }
            for head, name in HEADS.items()
        }
        name = f"truncation-{backbone.data}"
        figures.append(accuracy_figure(name, backbone.caption, found))
    return Findings(TEXT, figures=tuple(figures))


FIG_TRUNCATION = Experiment(
    "fig-truncation",
    "Accuracy against the share of layers removed",
    "Figures on truncation, CIFAR-100 and CIFAR-10",
    4,
    trials,
    findings,
)
