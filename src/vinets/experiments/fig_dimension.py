"""Intrinsic dimension of the latents against the number of monomials."""

from __future__ import annotations

from vinets.experiments.backbones import Backbone
from vinets.experiments.plan import Experiment, Findings, Plan, line, share
from vinets.measure.dimension import dimension_correlation
from vinets.pipeline.store import Store
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


def _dimension(plan: Plan, backbone: Backbone, cut: str) -> Trial:
    return plan.trial(backbone, cut, "dimension")


def _ideals(plan: Plan, backbone: Backbone, cut: str) -> Trial:
    return plan.trial(backbone, cut, "ideals")


def trials(plan: Plan) -> list[Trial]:
    """A dimension and an ideal for every cut."""
    return [
        make(plan, backbone, cut)
        for backbone in plan.chosen
        for cut in plan.cuts(backbone)
        for make in (_dimension, _ideals)
    ]


def findings(plan: Plan, store: Store) -> Findings:
    series, rows, notes = [], [], []
    for backbone in plan.chosen:
        points: list[tuple[float, float, str]] = []
        for cut in plan.cuts(backbone):
            result = store.read(_dimension(plan, backbone, cut))
            found = result.estimated
            monomials = store.read(_ideals(plan, backbone, cut)).found.monomials
            points.append((found.mean, monomials, cut))
            values = {
                "cut": cut,
                "removed": share(result),
                "dimension": found.mean,
                "dimension_std": found.std,
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
    return Findings(TEXT, (table,), (figure,), tuple(notes))


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
    9,
    trials,
    findings,
)
