"""Intrinsic dimension of the latents against the number of monomials."""

from __future__ import annotations

from typing import Any

from vinets.experiments.backbones import Backbone
from vinets.experiments.plan import Experiment, Plan, line
from vinets.experiments.runs import Run, Store
from vinets.measure.dimension import dimension_correlation
from vinets.report.values import Axis, Column, Figure, Row, Table

__all__ = ["FIG_DIMENSION"]

TEXT = (
    "Levina and Bickel's estimate with MacKay and Ghahramani's mean over the points of a class, "
    "20 neighbours, mean over the classes. One point is one cut. With few points and many "
    "dimensions the estimate is too small; it orders layers rather than measuring them.",
)
COLUMNS = (
    Column("cut", "cut"),
    Column("removed", "removed %", ".1f"),
    Column("dimension", "dimension", ".1f", "dimension_std"),
    Column("monomials", "monomials", ","),
)


def _dimension(backbone: Backbone, cut: str) -> Run:
    return Run(backbone.name, cut, "dimension")


def _ideals(backbone: Backbone, cut: str) -> Run:
    return Run(backbone.name, cut, "ideals")


def runs(plan: Plan) -> list[Run]:
    """A dimension and an ideal for every cut."""
    return [
        make(backbone, cut)
        for backbone in plan.chosen
        for cut in plan.cuts(backbone)
        for make in (_dimension, _ideals)
    ]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    series, rows, notes = [], [], []
    for backbone in plan.chosen:
        points = []
        for cut in plan.cuts(backbone):
            found = store.read(_dimension(backbone, cut))
            monomials = store.read(_ideals(backbone, cut))["monomials"]
            points.append((found["mean"], monomials, cut))
            values = {
                "cut": cut,
                "removed": 100 * found["removed"],
                "dimension": found["mean"],
                "dimension_std": found["std"],
                "monomials": monomials,
            }
            rows.append(Row(values, section=backbone.caption))
        series.append(line(backbone.caption, points))
        notes.append(_sentence(backbone, points))
    dimension = Axis("intrinsic dimension, mean over classes", format=".1f")
    count = Axis("monomials", log=True, format=",.0f")
    title = "Dimension and monomials"
    figure = Figure("dimension", title, dimension, count, tuple(series), kind="scatter")
    table = Table("dimension", "By cut", COLUMNS, tuple(rows))
    return {"text": TEXT, "tables": (table,), "figures": (figure,), "notes": tuple(notes)}


def _sentence(backbone: Backbone, points: list[tuple[float, float, str]]) -> str:
    found = dimension_correlation([x for x, _, _ in points], [y for _, y, _ in points])
    return (
        f"{backbone.caption}: Pearson correlation {found.pearson:.2f} (p = {found.pearson_p:.2g}), "
        f"rank correlation {found.spearman:.2f} (p = {found.spearman_p:.2g}), {found.count} cuts."
    )


FIG_DIMENSION = Experiment(
    "fig-dimension",
    "Intrinsic dimension and the number of monomials",
    "Figure on intrinsic dimension",
    runs,
    result,
)
