"""What an experiment is, and the settings that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, TypeAlias

from vinets.experiments.backbones import BACKBONES, Backbone
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial, TrialResult
from vinets.registry import Registry
from vinets.report.values import Axis, Figure, Level, Series, Table
from vinets.settings import (
    Caching,
    Collecting,
    Finding,
    Projecting,
    Pruning,
    Recipe,
    Timing,
)

__all__ = [
    "EXPERIMENTS",
    "PAPER",
    "READINGS",
    "REMOVED",
    "Experiment",
    "Findings",
    "Plan",
    "accuracy_figure",
    "line",
    "spread",
]

READINGS: dict[str, dict[str, Any]] = {
    "plain components, mean square ≤ 0.1": {},
    "plain components, root mean square ≤ 0.1": {"psi": 0.01},
    "components of unit variance, mean square ≤ 0.1": {"scale": "unit"},
    "components of unit variance, root mean square ≤ 0.1": {"scale": "unit", "psi": 0.01},
}
"""Changes to :data:`PAPER` for what the paper may mean by ψ and by principal components."""

PAPER = Trial(
    finding=Finding(max_degree=5),
    collecting=Collecting(per_class=512, reuse=True, batch_size=2_000, memory_limit=64 << 30),
    projecting=Projecting(components=128, order="pca-tanh", scale="none"),
    pruning=Pruning(keep=None, monomials=None),
    # The weight decay, which the paper does not give, and the last epoch: nothing is held out.
    recipe=Recipe(epochs=20, weight_decay=2e-3, validation=0.0, precision="tf32"),
    caching=Caching(views=5, dtype="float16", projected=True),
    timing=Timing(repeats=5, seconds=1.0),
    counting="paper",
    checkpoints=False,  # a training takes seconds
)
"""What all experiments start from: the paper's settings."""

QUICK: dict[str, Any] = {
    "per_class": 24,
    "components": 12,
    "views": 1,
    "epochs": 1,
    "train": 40,
    "test": 10,
    "repeats": 2,
    "seconds": 0.01,
}
"""Changes to it to see that everything runs."""


@dataclass(frozen=True)
class Plan:
    """Which networks, cuts and seeds.

    Parameters
    ----------
    seeds : int
        Trainings of every row of the table of variants and of every point of the figure on
        baselines; other figures have one.
    quick : bool
        A small slice of data and cuts, to see that everything runs.
    backbones : tuple of str
        Names; the others are left out.
    """

    seeds: int = 3
    quick: bool = False
    backbones: tuple[str, ...] = tuple(BACKBONES)

    @property
    def start(self) -> Trial:
        """The trial that all others change."""
        return PAPER.change(**QUICK) if self.quick else PAPER

    @property
    def chosen(self) -> list[Backbone]:
        """The networks, in the order of the paper."""
        return [b for name, b in BACKBONES.items() if name in self.backbones]

    def cuts(self, backbone: Backbone) -> tuple[str, ...]:
        """Cuts of the figures."""
        return backbone.cuts[-3:] if self.quick else backbone.cuts

    def trial(self, backbone: Backbone, cut: str, task: str = "train", **changes: Any) -> Trial:
        """A trial of the paper, with changes as :meth:`Trial.change` takes them."""
        if self.quick:  # a change of the experiment's own does not undo the small slice
            changes = {name: v for name, v in changes.items() if name not in QUICK}
        return self.start.change(network=backbone.name, cut=cut, task=task, **changes)


@dataclass(frozen=True)
class Findings:
    """What an experiment says: paragraphs, tables, figures, remarks."""

    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Parameters
    ----------
    name, title, paper : str
        On the command line, for people, and where the paper has it.
    order : int
        Its place on the page.
    trials : callable
        The trials that it needs.
    findings : callable
        What is made of their results.
    """

    name: str
    title: str
    paper: str
    order: int
    trials: Callable[[Plan], list[Trial]]
    findings: Callable[[Plan, Store], Findings]

    def __post_init__(self) -> None:
        EXPERIMENTS.add(self.name, self)


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "vinets.experiments")
"""Every experiment by name; a file in this folder that makes one adds it."""


def line(
    name: str, points: Sequence[tuple[float, float, str]], std: Sequence[float | None] | None = None
) -> Series:
    """A series of a figure: x, y and a label for every point, perhaps standard deviations."""
    x, y, labels = zip(*points, strict=True)
    return Series(name, x, y, labels, None if std is None else tuple(std))


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation, where there are several values."""
    return stdev(values) if len(values) > 1 else None


REMOVED = Axis("convolutions removed in %", format=".0f")
"""The axis of most figures."""

Trainings: TypeAlias = Mapping[str, Sequence[TrialResult]]
"""Results of trainings: cut to one for every seed."""


def accuracy_figure(name: str, title: str, found: Mapping[str, Trainings]) -> Figure:
    """Accuracy against the share removed, a series a head; the uncut network is a dashed line."""
    series = tuple(_accuracies(head, trainings) for head, trainings in found.items())
    first = next(iter(next(iter(found.values())).values()))[0]
    accuracy = Axis("test accuracy in %", format=".2f")
    levels = (Level("uncut network", 100 * first.trained.uncut),)
    return Figure(name, title, REMOVED, accuracy, series, levels=levels)


def _accuracies(name: str, found: Trainings) -> Series:
    values = {cut: [100 * each.trained.accuracy for each in seeds] for cut, seeds in found.items()}
    points = [(share(found[cut][0]), mean(some), cut) for cut, some in values.items()]
    several = any(len(some) > 1 for some in values.values())
    return line(name, points, [spread(some) for some in values.values()] if several else None)


def share(result: TrialResult) -> float:
    """Share of the convolutions removed, in percent."""
    if result.removed is None:
        raise ValueError("This is the result of a trial without a cut.")
    return 100 * result.removed
