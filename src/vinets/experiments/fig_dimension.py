"""Intrinsic dimension of the latents against the number of monomials."""

from __future__ import annotations

from typing import Any

from vinets.experiments.backbones import Backbone
from vinets.experiments.plan import Experiment, Plan, axis, column, line
from vinets.experiments.runs import Run, Store
from vinets.measure.dimension import dimension_correlation

__all__ = ["FIG_DIMENSION"]

TEXT = [
    "Levina and Bickel's estimate with MacKay and Ghahramani's mean over the points of a class, "
    "20 neighbours, mean over the classes. One point is one cut. With few points and many "
    "dimensions the estimate is too small; it orders layers rather than measuring them.",
]
COLUMNS = [
    column("cut", "cut"),
    column("removed", "removed %", ".1f"),
    column("dimension", "dimension", ".1f", std="dimension_std"),
    column("monomials", "monomials", ","),
]


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
        points, spread = [], []
        for cut in plan.cuts(backbone):
            found = store.read(_dimension(backbone, cut))
            monomials = store.read(_ideals(backbone, cut))["monomials"]
            points.append((found["mean"], monomials, cut))
            spread.append(found["std"])
            values = {
                "cut": cut,
                "removed": 100 * found["removed"],
                "dimension": found["mean"],
                "dimension_std": found["std"],
                "monomials": monomials,
            }
            rows.append({"values": values, "section": backbone.caption})
        series.append(line(backbone.caption, points))
        notes.append(_sentence(backbone, points))
    figure = {
        "id": "dimension",
        "title": "Dimension and monomials",
        "kind": "scatter",
        "x": axis("intrinsic dimension, mean over classes", ".1f"),
        "y": axis("monomials", ",.0f", log=True),
        "series": series,
        "rules": [],
    }
    table = {"id": "dimension", "caption": "By cut", "columns": COLUMNS, "rows": rows}
    return {"text": TEXT, "tables": [table], "figures": [figure], "notes": notes}


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
