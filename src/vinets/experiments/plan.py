"""What an experiment is, and the settings that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, TypeAlias

from vinets.experiments.backbones import BACKBONES, Backbone
from vinets.experiments.runs import FULL, QUICK, Run, Scale, Store
from vinets.report.values import Axis, Figure, Level, Series

__all__ = ["READINGS", "REMOVED", "Experiment", "Plan", "accuracy_figure", "line", "spread"]

READINGS: dict[str, dict[str, Any]] = {
    "plain components, mean square ≤ 0.1": {},
    "plain components, root mean square ≤ 0.1": {"psi": 0.01},
    "components of unit variance, mean square ≤ 0.1": {"scale": "unit"},
    "components of unit variance, root mean square ≤ 0.1": {"scale": "unit", "psi": 0.01},
}
"""Fields of :class:`Run` for what the paper may mean by ψ and by principal components."""


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
    def scale(self) -> Scale:
        return QUICK if self.quick else FULL

    @property
    def chosen(self) -> list[Backbone]:
        """The networks, in the order of the paper."""
        return [b for name, b in BACKBONES.items() if name in self.backbones]

    def cuts(self, backbone: Backbone) -> tuple[str, ...]:
        """Cuts of the figures."""
        return backbone.cuts[-3:] if self.quick else backbone.cuts


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Parameters
    ----------
    name, title, paper : str
        On the command line, for people, and where the paper has it.
    runs : callable
        The runs that it needs.
    result : callable
        ``text``, ``tables``, ``figures`` and ``notes`` made of their results, as
        :class:`vinets.report.ExperimentResult` takes them.
    """

    name: str
    title: str
    paper: str
    runs: Callable[[Plan], list[Run]]
    result: Callable[[Plan, Store], dict[str, Any]]


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

Trainings: TypeAlias = Mapping[str, Sequence[dict[str, Any]]]
"""Results of trainings: cut to one for every seed."""


def accuracy_figure(name: str, title: str, found: Mapping[str, Trainings]) -> Figure:
    """Accuracy against the share removed, a series a head; the uncut network is a dashed line."""
    series = tuple(_accuracies(head, trainings) for head, trainings in found.items())
    first = next(iter(next(iter(found.values())).values()))[0]
    accuracy = Axis("test accuracy in %", format=".2f")
    levels = (Level("uncut network", 100 * first["uncut"]),)
    return Figure(name, title, REMOVED, accuracy, series, levels=levels)


def _accuracies(name: str, found: Trainings) -> Series:
    values = {cut: [100 * each["accuracy"] for each in seeds] for cut, seeds in found.items()}
    points = [(100 * found[cut][0]["removed"], mean(some), cut) for cut, some in values.items()]
    several = any(len(some) > 1 for some in values.values())
    return line(name, points, [spread(some) for some in values.values()] if several else None)
