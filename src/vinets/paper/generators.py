"""Generators over the cuts: how many, how fast, what pruning leaves, and the dimension."""

from __future__ import annotations

from statistics import mean

from vinets.measure.dimension import dimension_correlation
from vinets.paper.backbones import Backbone
from vinets.paper.paper import GENERATORS
from vinets.paper.plan import (
    Experiment,
    Findings,
    Plan,
    Results,
    Trials,
    line,
    part,
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
    "Seconds are those of the ideals alone, with nothing else on the machine. The paper does not "
    "say which machine it used.",
)


SECONDS = "Seconds are those of the ideals alone, with nothing else on the machine."


def _text(plan: Plan) -> tuple[str, ...]:
    most = plan.start.latents.per_class
    fewer = "".join(
        f"; all {b.per_class} for {b.data_title}"
        for b in plan.chosen
        if plan.compared and b.per_class < (most or 0)
    )
    points = "four fifths of the training images" if most is None else f"{most} points a class"
    text = (
        f"ABM of degree {plan.options.max_degree} in tanh of {plan.components} principal "
        f"components, {points}{fewer}. The constant is not counted as a monomial."
    )
    if plan.compared:
        return (text, *COMPARED)
    more = (SATURATED,) if plan.chosen[0].splits else ()
    return (text, *more) if plan.quick else (text, *more, SECONDS)


def counts_of(found: IdealFacts, backbone: Backbone) -> dict[str, float]:
    """Numbers of monomials and polynomials; with few of them in all, the mean over classes, too."""
    counts: dict[str, float] = {"monomials": found.monomials, "polynomials": found.polynomials}
    if backbone.splits:
        counts["monomials of a class"] = mean((found.by_class or {}).values())
    return counts


def _readings(plan: Plan) -> Trials:
    """An ideal for every row and reading, with nothing else on the machine for its seconds."""
    return {
        (reading, backbone, cut, printed): plan.trial(
            backbone, cut, "ideals", alone=True, **changes
        )
        for backbone in plan.chosen
        for cut, printed in backbone.rows[-2 if plan.quick else 0 :]
        for reading, changes in backbone.readings.items()
    }


def _counted(plan: Plan, results: Results) -> Findings:
    first, *others = plan.chosen[0].readings
    rows: dict[str, list[Row]] = {reading: [] for reading in (first, *others)}
    for (reading, backbone, cut, printed), result in results.items():
        found = result.found
        values = {
            "cut": cut,
            "removed": share(result),
            **counts_of(found, backbone),
            "seconds": found.seconds,
        }
        paper: dict[str, float] = {}
        if printed is not None:
            paper = {"removed": printed, **GENERATORS[backbone.name][printed]}
            values["speedup"] = paper["seconds"] / found.seconds
        section = backbone.caption if reading == first else f"{backbone.caption}: {reading}"
        rows[reading].append(Row(values, paper, section))
    more = tuple(row for reading in others for row in rows[reading])
    columns = COLUMNS if plan.compared else COLUMNS[:-1]
    if plan.chosen[0].splits:
        columns = (*columns[:3], A_CLASS, *columns[3:])
    caption = "Other readings of the paper" if plan.chosen[0].name in GENERATORS else "Other rules"
    tables = (
        Table("generators", first, columns, tuple(rows[first])),
        Table("generators-readings", caption, columns, more),
    )
    return Findings(_text(plan), tables)


Experiment(
    "table-generators", "How many generators, and how fast", "Table 1", 2, _readings, _counted
)

# --- layer by layer ---------------------------------------------------------------------------

LAYERS = (
    "ABM with ψ = {} behind every convolution of a residual block: inside the block, behind "
    "bn1, and behind its sum. The first convolution of a stage is where the map gets smaller."
)
PLAIN_LAYERS = (
    "ABM with ψ = {} behind every layer that changes the map: normalisation, ReLU and pooling."
)


def _layers(plan: Plan) -> Trials:
    return {
        (backbone, place, cut): plan.trial(backbone, cut, "ideals")
        for backbone in plan.chosen
        if backbone.layers
        for place, cut in enumerate(plan.cuts(backbone, backbone.layers), 1)
    }


def _by_layer(plan: Plan, found: Results) -> Findings:
    (backbone,) = {key[0] for key in found}
    counted = {key[1:]: counts_of(one.found, backbone) for key, one in found.items()}
    series = tuple(
        line(name, ((x, counts[name], cut) for (x, cut), counts in counted.items()))
        for name in next(iter(counted.values()))
    )
    what = "convolution, counted from the first block" if backbone.residual else "layer"
    counts = Axis("count", log=True, format=",.0f")
    where = Axis(what, format=".0f")
    figure = Figure("generators-by-layer", backbone.caption, where, counts, series)
    text = LAYERS if backbone.residual else PLAIN_LAYERS
    return Findings((text.format(plan.options.psi),), figures=(figure,))


Experiment(
    "fig-generators",
    "Generators behind every layer",
    "Figure on truncation and the number of generators",
    7,
    _layers,
    _by_layer,
)

# --- pruning ----------------------------------------------------------------------------------

PRUNED = (
    "Monomials that evaluation of the remaining polynomials needs, without the constant. The line "
    "at {} is the number of variables."
)


def _every_cut(plan: Plan) -> Trials:
    return {(backbone, cut): plan.trial(backbone, cut, "ideals") for backbone, cut in plan.places}


def _left(plan: Plan, found: Results) -> Findings:
    levels, figures = (ReferenceLine("variables", plan.components),), []
    for backbone in plan.chosen:
        own = part(found, backbone).items()
        series = tuple(
            line(
                f"{ratio:.0%} pruned",
                ((share(r), r.found.monomials_left[str(ratio)], cut) for (cut,), r in own),
            )
            for ratio in RATIOS
        )
        name = f"monomials-{backbone.data}"
        figures.append(
            Figure(name, backbone.caption, plan.removed, MONOMIALS, series, levels=levels)
        )
    return Findings((PRUNED.format(plan.components),), figures=tuple(figures))


Experiment(
    "fig-monomials",
    "Monomials left after pruning",
    "Figure on pruning and monomials",
    6,
    _every_cut,
    _left,
)

# --- dimension --------------------------------------------------------------------------------

DIMENSION = (
    "Levina and Bickel's estimate with MacKay and Ghahramani's mean over the points of a class, "
    "{} neighbours, mean over the classes. One point is one cut. With few points and many "
    "dimensions the estimate is too small; it orders layers rather than measuring them."
)
DIMENSION_COLUMNS = (
    *CUT,
    Column("dimension", "dimension", ".1f", "dimension_std"),
    Column("monomials", "monomials", ","),
)


def _estimates(plan: Plan) -> Trials:
    return {
        (backbone, cut, task): plan.trial(backbone, cut, task)
        for backbone, cut in plan.places
        for task in ("dimension", "ideals")
    }


def _estimated(plan: Plan, found: Results) -> Findings:
    rows = []
    for backbone, cut in plan.places:
        result = found[backbone, cut, "dimension"]
        values = {
            "cut": cut,
            "removed": share(result),
            "dimension": result.estimated.mean,
            "dimension_std": result.estimated.std,
            **counts_of(found[backbone, cut, "ideals"].found, backbone),
        }
        del values["polynomials"]
        rows.append(Row(values, section=backbone.caption))
    small = plan.chosen[0].splits
    columns = (*DIMENSION_COLUMNS, A_CLASS) if small else DIMENSION_COLUMNS
    table = Table("dimension", "By cut", columns, tuple(rows))
    series, notes = [], []
    for caption, own in table.parts():
        counted = A_CLASS.name if small else "monomials"
        x, y, cuts = ([row.values[n] for row in own] for n in ("dimension", counted, "cut"))
        series.append(line(str(caption), zip(x, y, cuts, strict=True)))
        c = dimension_correlation(x, y)
        notes.append(
            f"{caption}: Pearson correlation {c.pearson:.2f} (p = {c.pearson_p:.2g}), "
            f"rank correlation {c.spearman:.2f} (p = {c.spearman_p:.2g}), {c.count} cuts."
        )
    dimension = Axis("intrinsic dimension, mean over classes", format=".1f")
    title = "Dimension and monomials"
    count = Axis(A_CLASS.name, format=".0f") if small else MONOMIALS
    figure = Figure("dimension", title, dimension, count, tuple(series), kind="scatter")
    used = sorted({one.dimension.neighbours for one in found.values() if one.dimension})
    text = DIMENSION.format(" or ".join(map(str, used)))
    return Findings((text,), (table,), (figure,), tuple(notes))


Experiment(
    "fig-dimension",
    "Intrinsic dimension and the number of monomials",
    "Figure on intrinsic dimension",
    9,
    _estimates,
    _estimated,
)
