"""Accuracy against the share of layers removed: VI-Net, linear head, random monomials, MLP."""

from __future__ import annotations

from typing import Any

from vinets.experiments.plan import Experiment, Plan, accuracy_figure
from vinets.experiments.runs import Run, Store

__all__ = ["FIG_TRUNCATION"]

HEADS = {"vi": "VI-Net", "linear": "linear head", "random": "random monomials", "mlp": "MLP"}
TEXT = (
    "Nothing is pruned. Coefficients and linear layer are trained for 20 epochs; the backbone "
    "stays as it is. The linear head sees the flat map, the MLP stores as many numbers as the VI "
    "head, and random monomials stand in blocks of the same shape.",
)


def _run(backbone: str, cut: str, head: str) -> Run:
    return Run(backbone, cut, "train", head=head)


def runs(plan: Plan) -> list[Run]:
    """A training for every network, cut and head."""
    return [
        _run(backbone.name, cut, head)
        for backbone in plan.chosen
        for cut in plan.cuts(backbone)
        for head in HEADS
    ]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    figures = []
    for backbone in plan.chosen:
        found = {
            name: {cut: [store.read(_run(backbone.name, cut, head))] for cut in plan.cuts(backbone)}
            for head, name in HEADS.items()
        }
        name = f"truncation-{backbone.data}"
        figures.append(accuracy_figure(name, backbone.caption, found))
    return {"text": TEXT, "figures": tuple(figures)}


FIG_TRUNCATION = Experiment(
    "fig-truncation",
    "Accuracy against the share of layers removed",
    "Figures on truncation, CIFAR-100 and CIFAR-10",
    runs,
    result,
)
