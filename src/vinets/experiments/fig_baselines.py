"""What the polynomials add: heads on the same components, and other simple heads, over seeds."""

from __future__ import annotations

from statistics import mean
from typing import Any

from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.plan import READINGS, Experiment, Plan, accuracy_figure, spread
from vinets.experiments.runs import Run, Store
from vinets.report.values import Column, Figure, Row, Table

__all__ = ["FIG_BASELINES", "MEAN_SQUARE"]

HEADS = {  # those of the figure on truncation first, so that colours agree
    "vi": "VI-Net",
    "linear": "linear head, flat",
    "random": "random monomials",
    "mlp": "MLP",
    "pooled": "linear head, pooled",
    "components": "linear on components",
}
MEAN_SQUARE = next(iter(READINGS))
EARLY = 3  # cuts of ResNet-18 where one seed cannot tell
COLUMNS = (
    Column("cut", "cut"),
    Column("removed", "removed %", ".1f"),
    Column("vi", "VI-Net %", ".2f", "vi_std"),
    Column("random", "random monomials %", ".2f", "random_std"),
    Column("difference", "difference", "+.2f", "difference_std"),
    Column("wins", "seeds ahead"),
)
TEXT = (
    "Mean and standard deviation over seeds; a seed draws the points of the ideals, the "
    "augmentation, the random monomials, the first weights and the order of the batches. Nothing "
    "is pruned.",
    "VI-Net, random monomials and the linear layer on components see the same 128 principal "
    "components: what VI-Net gains on the linear layer is what polynomials add, and what it gains "
    "on random monomials is what vanishing ideals add. The flat linear head and the MLP see all of "
    "the map, thousands of values, the pooled head the mean of every channel.",
    "At the early cuts of ResNet-18 one seed cannot tell VI-Net from random monomials; the paper "
    "sees the same at the start of residual blocks. There the table has all readings of the paper, "
    "those with components of unit variance for all seeds but the first.",
)


def _run(backbone: Backbone, cut: str, head: str, seed: int, reading: str = MEAN_SQUARE) -> Run:
    return Run(backbone.name, cut, "train", head=head, seed=seed, **READINGS[reading])


def _duels(plan: Plan) -> list[tuple[Backbone, str, str]]:
    """Network, cut and reading of the rows of the table."""
    rows = []
    if RESNET34 in plan.chosen:
        rows += [(RESNET34, cut, MEAN_SQUARE) for cut in plan.cuts(RESNET34)]
    if RESNET18 in plan.chosen:
        cuts = plan.cuts(RESNET18)[: 1 if plan.quick else EARLY]
        readings = [reading for reading in READINGS if _range(plan, reading)]
        rows += [(RESNET18, cut, reading) for reading in readings for cut in cuts]
    return rows


def _range(plan: Plan, reading: str) -> range:
    """Seeds: unit variance, which is not what the figures take, does without the first."""
    return range("scale" in READINGS[reading], plan.seeds)


def runs(plan: Plan) -> list[Run]:
    """Trainings of the figure on ResNet-34 and of the table, for every seed."""
    cuts = plan.cuts(RESNET34) if RESNET34 in plan.chosen else ()
    wanted = [(RESNET34, cut, MEAN_SQUARE, head) for cut in cuts for head in HEADS]
    wanted += [(*row, head) for row in _duels(plan) for head in ("vi", "random")]
    return [
        _run(backbone, cut, head, seed, reading)
        for backbone, cut, reading, head in dict.fromkeys(wanted)
        for seed in _range(plan, reading)
    ]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    rows = tuple(_duel(plan, store, *row) for row in _duels(plan))
    table = Table("random", "VI-Net and random monomials", COLUMNS, rows)
    figures = (_figure(plan, store, RESNET34),) if RESNET34 in plan.chosen else ()
    return {"text": TEXT, "tables": (table,), "figures": figures}


def _figure(plan: Plan, store: Store, backbone: Backbone) -> Figure:
    found = {
        name: {cut: _seeds(plan, store, backbone, cut, head) for cut in plan.cuts(backbone)}
        for head, name in HEADS.items()
    }
    return accuracy_figure(f"baselines-{backbone.data}", backbone.caption, found)


def _duel(plan: Plan, store: Store, backbone: Backbone, cut: str, reading: str) -> Row:
    """VI-Net against random monomials, seed by seed."""
    both = [_seeds(plan, store, backbone, cut, head, reading) for head in ("vi", "random")]
    ours, theirs = ([100 * record["accuracy"] for record in found] for found in both)
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    values = {
        "cut": cut,
        "removed": 100 * both[0][0]["removed"],
        "vi": mean(ours),
        "vi_std": spread(ours),
        "random": mean(theirs),
        "random_std": spread(theirs),
        "difference": mean(gaps),
        "difference_std": spread(gaps),
        "wins": f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}",
    }
    return Row(values, section=f"{backbone.caption}: {reading}")


def _seeds(
    plan: Plan,
    store: Store,
    backbone: Backbone,
    cut: str,
    head: str,
    reading: str = MEAN_SQUARE,
) -> list[dict[str, Any]]:
    seeds = _range(plan, reading)
    return [store.read(_run(backbone, cut, head, seed, reading)) for seed in seeds]


FIG_BASELINES = Experiment(
    "fig-baselines",
    "What the polynomials add",
    "not in the paper",
    runs,
    result,
)
