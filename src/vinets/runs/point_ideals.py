"""Ideals of the points in a table: of all of them, or of every class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.preprocessing import MinMaxScaler

from vinets.algebra.polynomial import Polynomials
from vinets.algebra.polynomials import PolynomialSet
from vinets.core.checks import one_of
from vinets.core.files import slugs
from vinets.data.points import Points
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.classwise import choose_device, fit_class_ideals


@dataclass(frozen=True)
class IdealSummary:
    """Facts about an ideal that are printed."""

    label: str | None  # the class; None for all points
    points: int
    n_terms: int
    n_generators: int
    degrees: dict[int, int]  # generators by degree
    seconds: float
    generators: list[str]  # or the first of them, in the variables as they came
    mean_squares: list[float]  # one a generator


@dataclass(frozen=True, eq=False)
class PointIdeals:
    """Fitted ideals of points."""

    names: tuple[str, ...]  # one a variable
    ideals: dict[str | None, VanishingIdeal]  # one a class, or one of all points under None
    scaler: MinMaxScaler | None  # what brought the points to [-1, 1] before

    @property
    def scaling(self) -> dict[str, list[float]] | None:
        """The least and the largest value of every variable, which became -1 and 1."""
        if self.scaler is None:
            return None
        return {"low": self.scaler.data_min_.tolist(), "high": self.scaler.data_max_.tolist()}

    def summaries(self, count: int | None = None) -> list[IdealSummary]:
        """Summarise every ideal, with its first ``count`` generators or all."""
        summaries = []
        for label, ideal in self.ideals.items():
            facts = ideal.report_
            degrees = {one.degree: one.generators for one in facts.degrees if one.generators}
            sizes = facts.n_points, facts.n_terms, facts.n_generators
            written = self._written(ideal.generators_, count), ideal.mean_squares_.tolist()
            summaries.append(IdealSummary(label, *sizes, degrees, facts.seconds, *written))
        return summaries

    def _written(self, generators: Polynomials, count: int | None) -> list[str]:
        """Write the first polynomials in the variables as they came; there may be thousands."""
        try:
            shown = generators[:count]
        except ValueError:  # too many monomials to write down
            return [f"polynomial {i}" for i in range(len(generators))][:count]
        assert isinstance(shown, PolynomialSet)
        if self.scaler is not None:
            shown = shown.unscaled(self.scaler)
        return shown.strings(self.names)

    def save(self, path: Path) -> None:
        """Write the generators to a safetensors file, or to one for every class next to it.

        They are polynomials of the scaled variables.
        """
        names = slugs(label for label in self.ideals if label is not None)
        for label, one in self.ideals.items():
            name = path.name if label is None else f"{path.stem}-{names[label]}{path.suffix}"
            one.generators_.save(path.with_name(name))


def fit_points(
    points: Points,
    model: VanishingIdeal,
    scale: str = "minmax",
    device: torch.device | str = "auto",
) -> PointIdeals:
    """Fit an ideal to points, or one to every class where they have classes.

    With ``scale="minmax"`` every variable is scaled to [-1, 1] before, over all classes alike, with
    "none" it is not. The device "auto" is a GPU where there is one and the points are many enough.
    """
    one_of("fit_points", "scale", scale, ("minmax", "none"))
    scaler = MinMaxScaler((-1, 1)).fit(points.values) if scale == "minmax" else None
    scaled = torch.from_numpy(points.values if scaler is None else scaler.transform(points.values))
    scaled = scaled.to(choose_device("fit_points", device, scaled))
    if points.labels is None:
        return PointIdeals(points.names, {None: model.fit(scaled)}, scaler)
    classes = fit_class_ideals(scaled, points.labels, model)
    return PointIdeals(points.names, {str(name): one for name, one in classes}, scaler)
