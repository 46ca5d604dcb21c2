"""What an experiment is, and the settings that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vinets.experiments.backbones import BACKBONES, Backbone
from vinets.experiments.runs import FULL, QUICK, Run, Scale, Store

__all__ = ["REMOVED", "Experiment", "Plan", "accuracy_figure", "axis", "column", "line"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Which networks, cuts and seeds.

    Parameters
    ----------
    seeds : int
        Trainings of every row of the table of variants; figures have one.
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
        Text, tables and figures made of their results: see :mod:`vinets.report.schema`.
    """

    name: str
    title: str
    paper: str
    runs: Callable[[Plan], list[Run]]
    result: Callable[[Plan, Store], Record]


def column(
    name: str, label: str, form: str | None = None, *, std: str | None = None
) -> dict[str, Any]:
    """A column of a table."""
    return {"name": name, "label": label, "format": form} | ({"std": std} if std else {})


def axis(label: str, form: str = ".2f", *, log: bool = False) -> dict[str, Any]:
    """An axis of a figure."""
    return {"label": label, "format": form, "log": log}


def line(
    name: str, points: Sequence[tuple[float, float, str]], *, std: Sequence[float] | None = None
) -> dict[str, Any]:
    """A series of a figure: x, y and a label for every point."""
    return {
        "name": name,
        "x": [x for x, _, _ in points],
        "y": [y for _, y, _ in points],
        "labels": [label for _, _, label in points],
        "std": None if std is None else list(std),
    }


REMOVED = axis("convolutions removed in %", ".0f")
"""The axis of most figures."""


def accuracy_figure(
    name: str, title: str, series: Sequence[dict[str, Any]], uncut: float
) -> dict[str, Any]:
    """Accuracy against the share removed; the uncut network is a dashed line."""
    return {
        "id": name,
        "title": title,
        "kind": "lines",
        "x": REMOVED,
        "y": axis("test accuracy in %"),
        "series": list(series),
        "rules": [{"name": "uncut network", "y": uncut}],
    }
