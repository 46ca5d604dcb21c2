"""Generators over the cuts: how many, how fast, what pruning leaves, and the dimension."""

from __future__ import annotations

from statistics import mean

from vinets.measure.dimension import dimension_correlation
from vinets.paper import heading, table, text
from vinets.paper.backbones import UNCUT, Backbone
from vinets.paper.plan import (
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    Trials,
    fields_of,
    series_of,
    share,
)
from vinets.report.values import Axis, Figure, ReferenceLine, Row
from vinets.runs.tasks import RATIOS
from vinets.runs.trial import IdealFacts

MONOMIALS = Axis("monomials", log=True, format=",.0f")
A_CLASS = "monomials of a class"
TRAINING_IMAGES = 50_000  # images to train on, of both CIFAR data sets


def counts_of(facts: IdealFacts, backbone: Backbone) -> dict[str, float]:
    """Count monomials and polynomials; with few of them in all, average over classes, too."""
    counts = fields_of(facts, "monomials", "polynomials")
    if backbone.splits:
        counts[A_CLASS] = mean((facts.by_class or {}).values())
    return counts


# --- the paper's table ------------------------------------------------------------------------


def _readings(plan: Plan) -> Trials:
    """Plan an ideal for every row and reading, with nothing else on the machine for its seconds."""
    return {
        (reading, backbone, cut): plan.trial(backbone, cut, task="ideals", alone=True, **changes)
        for backbone in plan.chosen
        for cut in list(backbone.rows)[-2 if plan.quick else 0 :]
        for reading, changes in backbone.readings.items()
    }


def _counted(plan: Plan, results: Results) -> Findings:
    first, *others = plan.chosen[0].readings
    rows: dict[str, list[Row]] = {reading: [] for reading in (first, *others)}
    for (reading, backbone, cut), result in results.items():
        facts, paper = result.found, backbone.rows[cut]
        values = {"cut": cut, "removed": share(result), "seconds": facts.seconds}
        values |= counts_of(facts, backbone)
        if paper:
            values["speedup"] = paper["seconds"] / facts.seconds
        section = backbone.caption if reading == first else f"{backbone.caption}: {reading}"
        rows[reading].append(Row(values, paper, section))

    name, most = "table-generators", plan.start.latents.per_class
    points = "four fifths of the training images" if most is None else f"{most} points a class"
    for backbone in plan.chosen if plan.compared else ():
        every = TRAINING_IMAGES // backbone.classes
        points += f"; all {every} for {backbone.data_title}" * (every < (most or 0))
    texts = [text(name, plan=plan, points=points)]
    parts = ("scales", "shares") if plan.compared else ("splits",) * plan.splits
    texts += [text(name, part) for part in parts]
    if not plan.quick:
        texts.append(text(name, "seconds") + text(name, "machine") * plan.compared)
    without = "speedup" * (not plan.compared), A_CLASS * (not plan.splits)
    caption = "Other readings of the paper" if plan.chosen[0].name in UNCUT else "Other rules"
    more = [row for reading in others for row in rows[reading]]
    tables = (
        table(name, "generators", first, rows[first], *without),
        table(name, "generators-readings", caption, more, *without),
    )
    return Findings(tuple(texts), tables)


Experiment(*heading("table-generators"), _readings, _counted)

# --- layer by layer ---------------------------------------------------------------------------


def _layers(plan: Plan) -> Trials:
    return {
        (backbone, place, cut): plan.trial(backbone, cut, task="ideals")
        for backbone in plan.chosen
        if backbone.layers
        for place, cut in enumerate(plan.cuts(backbone, backbone.layers), 1)
    }


def _by_layer(plan: Plan, results: Results) -> Findings:
    points = {
        (name, cut): (place, number)
        for (backbone, place, cut), one in results.items()
        for name, number in counts_of(one.found, backbone).items()
    }
    backbone, *_ = next(iter(results))
    what = "convolution, counted from the first block" if backbone.residual else "layer"
    axes = Axis(what, format=".0f"), Axis("count", log=True, format=",.0f")
    figure = Figure("generators-by-layer", backbone.caption, *axes, series_of(points))
    part = "residual" if backbone.residual else "text"
    return Findings((text("fig-generators", part, plan=plan),), figures=(figure,))


Experiment(*heading("fig-generators"), _layers, _by_layer)

# --- pruning ----------------------------------------------------------------------------------


def _every_cut(plan: Plan) -> Trials:
    return {(one, cut): plan.trial(one, cut, task="ideals") for one, cut in plan.places}


def _left(plan: Plan, results: Results) -> Findings:
    levels, figures = (ReferenceLine("variables", plan.components),), []
    for backbone in plan.chosen:
        own = results.part(backbone).items()
        series = series_of(
            {
                (f"{ratio:.0%} pruned", cut): (share(one), one.found.monomials_left[str(ratio)])
                for ratio in RATIOS
                for (cut,), one in own
            }
        )
        name, axes = f"monomials-{backbone.data}", (plan.removed, MONOMIALS)
        figures.append(Figure(name, backbone.caption, *axes, series, levels=levels))
    return Findings((text("fig-monomials", plan=plan),), figures=tuple(figures))


Experiment(*heading("fig-monomials"), _every_cut, _left)

# --- dimension --------------------------------------------------------------------------------


def _estimates(plan: Plan) -> Trials:
    return {
        (backbone, cut, task): plan.trial(backbone, cut, task=task)
        for backbone, cut in plan.places
        for task in ("dimension", "ideals")
    }


def _estimated(plan: Plan, results: Results) -> Findings:
    name, counted = "fig-dimension", A_CLASS if plan.splits else "monomials"
    rows, notes = [], []
    points: dict[Key, tuple[float, float]] = {}
    for backbone in plan.chosen:
        own: dict[Key, tuple[float, float]] = {}
        for cut in plan.cuts(backbone):
            result = results[backbone, cut, "dimension"]
            counts = counts_of(results[backbone, cut, "ideals"].found, backbone)
            del counts["polynomials"]
            found = result.estimated
            values = {"cut": cut, "removed": share(result), **counts}
            values |= {"dimension": found.mean, "dimension_std": found.std}
            rows.append(Row(values, section=backbone.caption))
            own[backbone.caption, cut] = found.mean, counts[counted]
        points |= own
        correlation = dimension_correlation(*zip(*own.values(), strict=True))
        notes.append(text(name, "note", caption=backbone.caption, **vars(correlation)))
    x = Axis("intrinsic dimension, mean over classes", format=".1f")
    y = Axis(A_CLASS, format=".0f") if plan.splits else MONOMIALS
    title, series = "Dimension and monomials", series_of(points)
    figure = Figure("dimension", title, x, y, series, kind="scatter")
    used = sorted({one.dimension.neighbours for one in results.values() if one.dimension})
    how = text(name, neighbours=" or ".join(map(str, used)))
    by_cut = table(name, "dimension", "By cut", rows, A_CLASS * (not plan.splits))
    return Findings((how,), (by_cut,), (figure,), tuple(notes))


Experiment(*heading("fig-dimension"), _estimates, _estimated)
