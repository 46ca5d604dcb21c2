"""Generators over the cuts: how many, how fast, what pruning leaves, and the dimension."""

from __future__ import annotations

from statistics import mean

from vinets.measure.dimension import dimension_correlation
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
from vinets.report.values import Axis, Column, Figure, ReferenceLine, Row, Table
from vinets.runs.tasks import RATIOS
from vinets.runs.trial import IdealFacts

CUT = (Column("cut", "cut"), Column("removed", "removed %", ".1f"))
MONOMIALS = Axis("monomials", log=True, format=",.0f")

# --- the paper's table ------------------------------------------------------------------------

COLUMNS = (
    *CUT,
    Column("monomials", "monomials", ","),
    Column("polynomials", "polynomials", ","),
    Column("seconds", "seconds", ",.2f", difference=False),
    Column("speedup", "their seconds over ours", ",.0f"),
)
A_CLASS = Column("monomials of a class", "of a class", ".1f")
SATURATED = (
    "There are few monomials of so low a degree, and the classes together take nearly all of them: "
    "what differs from cut to cut is how many each class takes, here the mean over the classes."
)
COMPARED = (
    "What vanishes depends on the scale of the components, which the paper does not give. Plain "
    "components give its counts at the late cuts of ResNet-18 and at the last of ResNet-34, so "
    "all tables and figures take them, unless they say otherwise. Its definition asks for a mean "
    "square of at most ψ, its listing of ABM compares the root of an eigenvalue: the second table "
    "has both readings on both scales.",
    "The share removed counts the convolutions of stages 2 to 4, shortcuts included. It gives the "
    "paper's percentages of ResNet-18, but for 66.7 where 64.5 is printed; for ResNet-34 no way of "
    "counting that we tried gives them, and the cuts with the nearest share were taken. The last "
    "two rows of ResNet-18 are the cuts of Medium and Large, so those of ResNet-34 are here too.",
)

TRAINING_IMAGES = 50_000  # images to train on, of both CIFAR data sets


def counts_of(facts: IdealFacts, backbone: Backbone) -> dict[str, float]:
    """Count monomials and polynomials; with few of them in all, average over classes, too."""
    counts = fields_of(facts, "monomials", "polynomials")
    if backbone.splits:
        counts[A_CLASS.name] = mean((facts.by_class or {}).values())
    return counts


def _readings(plan: Plan) -> Trials:
    """Plan an ideal for every row and reading, with nothing else on the machine for its seconds."""
    trials: Trials = {}
    for backbone in plan.chosen:
        for cut in list(backbone.rows)[-2 if plan.quick else 0 :]:
            for reading, changes in backbone.readings.items():
                trial = plan.trial(backbone, cut, task="ideals", alone=True, **changes)
                trials[reading, backbone, cut] = trial
    return trials


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

    most = plan.start.latents.per_class
    points = "four fifths of the training images" if most is None else f"{most} points a class"
    for backbone in plan.chosen if plan.compared else ():
        every = TRAINING_IMAGES // backbone.classes
        points += f"; all {every} for {backbone.data_title}" * (every < (most or 0))
    text = [
        f"ABM of degree {plan.options.max_degree} in tanh of {plan.components} principal "
        f"components, {points}. The constant is not counted as a monomial."
    ]
    text += COMPARED if plan.compared else (SATURATED,) if plan.splits else ()
    if not plan.quick:
        seconds = "Seconds are those of the ideals alone, with nothing else on the machine."
        unknown = " The paper does not say which machine it used."
        text.append(seconds + unknown * plan.compared)
    columns = COLUMNS if plan.compared else COLUMNS[:-1]
    if plan.splits:
        columns = (*columns[:3], A_CLASS, *columns[3:])
    caption = "Other readings of the paper" if plan.chosen[0].name in UNCUT else "Other rules"
    more = tuple(row for reading in others for row in rows[reading])
    tables = (
        Table("generators", first, columns, tuple(rows[first])),
        Table("generators-readings", caption, columns, more),
    )
    return Findings(tuple(text), tables)


Experiment(
    "table-generators", "How many generators, and how fast", "Table 1", 2, _readings, _counted
)

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
    text = f"ABM with ψ = {plan.options.psi} behind every "
    if backbone.residual:
        text += "convolution of a residual block: inside the block, behind bn1, and behind its "
        text += "sum. The first convolution of a stage is where the map gets smaller."
    else:
        text += "layer that changes the map: normalisation, ReLU and pooling."
    return Findings((text,), figures=(figure,))


title, place = "Generators behind every layer", "Figure on truncation and the number of generators"
Experiment("fig-generators", title, place, 7, _layers, _by_layer)

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
    text = (
        "Monomials that evaluation of the remaining polynomials needs, without the constant. The "
        f"line at {plan.components} is the number of variables."
    )
    return Findings((text,), figures=tuple(figures))


title, place = "Monomials left after pruning", "Figure on pruning and monomials"
Experiment("fig-monomials", title, place, 6, _every_cut, _left)

# --- dimension --------------------------------------------------------------------------------

DIMENSION_COLUMNS = (
    *CUT,
    Column("dimension", "dimension", ".1f", "dimension_std"),
    Column("monomials", "monomials", ","),
)


def _estimates(plan: Plan) -> Trials:
    return {
        (backbone, cut, task): plan.trial(backbone, cut, task=task)
        for backbone, cut in plan.places
        for task in ("dimension", "ideals")
    }


def _estimated(plan: Plan, results: Results) -> Findings:
    counted = A_CLASS.name if plan.splits else "monomials"
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
        c = dimension_correlation(*zip(*own.values(), strict=True))
        notes.append(
            f"{backbone.caption}: Pearson correlation {c.pearson:.2f} (p = {c.pearson_p:.2g}), "
            f"rank correlation {c.spearman:.2f} (p = {c.spearman_p:.2g}), {c.count} cuts."
        )
    columns = (*DIMENSION_COLUMNS, A_CLASS) if plan.splits else DIMENSION_COLUMNS
    x = Axis("intrinsic dimension, mean over classes", format=".1f")
    y = Axis(A_CLASS.name, format=".0f") if plan.splits else MONOMIALS
    title, series = "Dimension and monomials", series_of(points)
    figure = Figure("dimension", title, x, y, series, kind="scatter")
    used = sorted({one.dimension.neighbours for one in results.values() if one.dimension})
    text = (
        "Levina and Bickel's estimate with MacKay and Ghahramani's mean over the points of a "
        f"class, {' or '.join(map(str, used))} neighbours, mean over the classes. One point is one "
        "cut. With few points and many dimensions the estimate is too small; it orders layers "
        "rather than measuring them."
    )
    table = Table("dimension", "By cut", columns, tuple(rows))
    return Findings((text,), (table,), (figure,), tuple(notes))


title, place = "Intrinsic dimension and the number of monomials", "Figure on intrinsic dimension"
Experiment("fig-dimension", title, place, 9, _estimates, _estimated)
