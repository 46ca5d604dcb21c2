"""What the polynomials add: heads on the same components, and other simple heads, over seeds."""

from __future__ import annotations

from statistics import mean

from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.plan import (
    READINGS,
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    accuracy_figure,
    part,
    share,
    spread,
)
from vinets.pipeline.trial import Trial
from vinets.report.values import Column, Row, Table

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


def _duels(plan: Plan) -> list[tuple[Backbone, str, str]]:
    """Network, reading and cut of the rows of the table."""
    cuts = plan.cuts(RESNET18)[: 1 if plan.quick else EARLY]
    readings = [reading for reading in READINGS if _seeds(plan, reading)]
    return [
        *((RESNET34, MEAN_SQUARE, cut) for cut in plan.cuts(RESNET34)),
        *((RESNET18, reading, cut) for reading in readings for cut in cuts),
    ]


def _seeds(plan: Plan, reading: str) -> range:
    """Unit variance, which is not what the figures take, does without the first seed."""
    return range("scale" in READINGS[reading], plan.seeds)


def _planned(plan: Plan) -> dict[Key, Trial]:
    """Trainings of the figure on ResNet-34 and of the table, for every seed."""
    wanted = [(RESNET34, MEAN_SQUARE, cut, head) for cut in plan.cuts(RESNET34) for head in HEADS]
    wanted += [(*row, head) for row in _duels(plan) for head in ("vi", "random")]
    return {
        (backbone, reading, HEADS[head], cut, seed): plan.trial(
            backbone, cut, head=head, seed=seed, **READINGS[reading]
        )
        for backbone, reading, cut, head in wanted
        for seed in _seeds(plan, reading)
    }


def _finding(plan: Plan, found: Results) -> Findings:
    rows = tuple(_duel(found, *row) for row in _duels(plan))
    table = Table("random", "VI-Net and random monomials", COLUMNS, rows)
    name, own = f"baselines-{RESNET34.data}", part(found, RESNET34, MEAN_SQUARE)
    figures = (accuracy_figure(name, RESNET34.caption, own),) if own else ()
    return Findings(TEXT, (table,), figures)


def _duel(found: Results, backbone: Backbone, reading: str, cut: str) -> Row:
    """VI-Net against random monomials, seed by seed."""
    heads = [part(found, backbone, reading, HEADS[h], cut).values() for h in ("vi", "random")]
    ours, theirs = ([100 * one.trained.accuracy for one in own] for own in heads)
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    values = {
        "cut": cut,
        "removed": share(next(iter(heads[0]))),
        "vi": mean(ours),
        "vi_std": spread(ours),
        "random": mean(theirs),
        "random_std": spread(theirs),
        "difference": mean(gaps),
        "difference_std": spread(gaps),
        "wins": f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}",
    }
    return Row(values, section=f"{backbone.caption}: {reading}")


FIG_BASELINES = Experiment(
    "fig-baselines", "What the polynomials add", "not in the paper", 10, _planned, _finding
)
