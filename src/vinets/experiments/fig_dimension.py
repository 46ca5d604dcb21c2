"""Intrinsic dimension of the latents against the number of monomials."""

from __future__ import annotations

from vinets.experiments.plan import Experiment, Findings, Key, Plan, Results, line, share
from vinets.measure.dimension import dimension_correlation
from vinets.pipeline.trial import Trial
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


def _planned(plan: Plan) -> dict[Key, Trial]:
    return {
        (backbone, cut, task): plan.trial(backbone, cut, task)
        for backbone, cut in plan.places
        for task in ("dimension", "ideals")
    }


def _finding(plan: Plan, found: Results) -> Findings:
    rows = []
    for backbone, cut in plan.places:
        result = found[backbone, cut, "dimension"]
        values = {
            "cut": cut,
            "removed": share(result),
            "dimension": result.estimated.mean,
            "dimension_std": result.estimated.std,
            "monomials": found[backbone, cut, "ideals"].found.monomials,
        }
        rows.append(Row(values, section=backbone.caption))
    table = Table("dimension", "By cut", COLUMNS, tuple(rows))
    series, notes = [], []
    for caption, own in table.parts():
        x, y, cuts = ([row.values[n] for row in own] for n in ("dimension", "monomials", "cut"))
        series.append(line(str(caption), zip(x, y, cuts, strict=True)))
        c = dimension_correlation(x, y)
        notes.append(
            f"{caption}: Pearson correlation {c.pearson:.2f} (p = {c.pearson_p:.2g}), "
            f"rank correlation {c.spearman:.2f} (p = {c.spearman_p:.2g}), {c.count} cuts."
        )
    dimension = Axis("intrinsic dimension, mean over classes", format=".1f")
    count = Axis("monomials", log=True, format=",.0f")
    title = "Dimension and monomials"
    figure = Figure("dimension", title, dimension, count, tuple(series), kind="scatter")
    return Findings(TEXT, (table,), (figure,), tuple(notes))


FIG_DIMENSION = Experiment(
    "fig-dimension",
    "Intrinsic dimension and the number of monomials",
    "Figure on intrinsic dimension",
    9,
    _planned,
    _finding,
)
