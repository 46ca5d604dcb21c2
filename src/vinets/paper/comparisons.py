"""Accuracy head by head: truncation, parameters, what polynomials add, and if they still vanish."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from vinets.paper import columns, heading, text
from vinets.paper.backbones import Backbone
from vinets.paper.plan import (
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    Trials,
    accuracies,
    averaged,
    level,
    series_of,
    share,
)
from vinets.report.values import Axis, Figure, ReferenceLine, Row, Table
from vinets.runs.trial import TrialResult

ACCURACY = Axis("test accuracy in %", format=".2f")


def accuracy_figure(
    name: str,
    title: str,
    results: Results,
    x: Axis,
    place: Callable[[TrialResult], float] = share,
    **more: Any,
) -> Figure:
    """Return accuracy against the share removed, or another x; the uncut network is a dashed line.

    Results have the keys (series, cut, ...); where the rest tells several apart, such as seeds,
    their mean and standard deviation are drawn.
    """
    points = {key: (place(one), 100 * one.trained.accuracy) for key, one in results.items()}
    first, *_ = results  # the uncut networks are the same behind every cut
    uncut = 100 * mean(one.uncut for one in results.trained(*first[:2]))
    levels = (ReferenceLine("uncut network", uncut),)
    return Figure(name, title, x, ACCURACY, series_of(points), levels=levels, **more)


# --- truncation -------------------------------------------------------------------------------


def _truncated(plan: Plan) -> Trials:
    return {
        (backbone, name, cut, seed): plan.trial(backbone, cut, head=head, seed=seed)
        for backbone, cut in plan.places
        for head, name in backbone.heads.items()
        for seed in range(plan.seeds if backbone.splits else 1)
    }


def _truncation(plan: Plan, results: Results) -> Findings:
    figures = tuple(
        accuracy_figure(f"truncation-{one.data}", one.caption, results.part(one), plan.removed)
        for one in plan.chosen
    )
    if not plan.splits:
        return Findings((text("fig-truncation", epochs=plan.epochs),), figures=figures)
    rows = []
    (backbone,) = plan.chosen
    vi, *others = backbone.heads.values()
    for cut in plan.cuts(backbone):
        ours = results.trained(backbone, vi, cut)
        section = f"{cut}: VI-Net {mean(accuracies(ours)):.2f} %"
        for name in (*others, "uncut network"):
            theirs = results.trained(backbone, name, cut) or None  # None is the uncut network
            gap = level(ours, theirs)
            means = accuracies(theirs) if theirs else [100 * one.uncut for one in ours]
            values = {"head": name, "cut": cut, **averaged("theirs", means)}
            values |= {"difference": gap.value, "interval": gap.shown, "verdict": gap.word}
            rows.append(Row(values, section=section))
    name, shown = f"levels-{backbone.data}", columns("fig-truncation")
    table = Table(name, backbone.caption, shown, tuple(rows))
    facts = {"seeds": plan.seeds, "keep": plan.options.keep, "epochs": plan.epochs}
    how = text("fig-truncation", "splits", components=plan.components, **facts)
    return Findings((how, text("fig-truncation", "level")), (table,), figures)


Experiment(*heading("fig-truncation"), _truncated, _truncation)


def _by_size(plan: Plan, results: Results) -> Findings:
    """Show the same accuracies against everything that the networks store."""
    (one,) = plan.chosen
    axis = Axis("parameters", log=True, format=",.0f")
    name, own = f"parameters-{one.data}", results.part(one)
    figure = accuracy_figure(
        name, one.caption, own, axis, lambda result: result.trained.parameters, kind="scatter"
    )
    return Findings((text("fig-parameters"),), figures=(figure,))


Experiment(*heading("fig-parameters"), lambda p: _truncated(p) if p.splits else {}, _by_size)

# --- baselines --------------------------------------------------------------------------------

SIMPLE = {  # heads of the figure on truncation come first, so that colours agree
    **{"vanishing": "VI-Net", "linear": "linear head, flat", "random": "random monomials"},
    **{"mlp": "MLP", "pooled": "linear head, pooled", "components": "linear on components"},
}


def _seeds(plan: Plan) -> Trials:
    """Plan trainings of the figure and of the table, for every seed."""
    wanted = []
    for backbone in reversed(plan.chosen):  # the network of the figure comes first
        if backbone.baselines:
            first, places = next(iter(backbone.readings)), plan.cuts(backbone)
            wanted += [(backbone, first, cut, head) for cut in places for head in SIMPLE]
        early = plan.cuts(backbone)[:1] if plan.quick else backbone.undecided
        for reading in backbone.readings if backbone.undecided else ():
            for cut in early:
                wanted += [(backbone, reading, cut, head) for head in ("vanishing", "random")]
    return {
        (backbone, reading, SIMPLE[head], cut, seed): plan.trial(
            backbone, cut, head=head, seed=seed, **backbone.readings[reading]
        )
        for backbone, reading, cut, head in wanted
        # Unit variance, which is not what the figures take, does without the first seed.
        for seed in range("scale" in backbone.readings[reading], plan.seeds)
    }


def _baselines(plan: Plan, results: Results) -> Findings:
    rows = []
    for backbone, reading, cut in dict.fromkeys((b, r, cut) for b, r, _, cut, _ in results):
        key, other = (backbone, reading, SIMPLE["vanishing"], cut), SIMPLE["random"]
        first, *_ = results.part(*key).values()
        ours = accuracies(results.trained(*key))
        theirs = accuracies(results.trained(backbone, reading, other, cut))
        gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
        values = {"cut": cut, "removed": share(first), **averaged("vi", ours)}
        values |= averaged("random", theirs) | averaged("difference", gaps)
        values["wins"] = f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}"
        rows.append(Row(values, section=f"{backbone.caption}: {reading}"))
    shown = columns("fig-baselines")
    table = Table("random", "VI-Net and random monomials", shown, tuple(rows))
    figures = tuple(
        accuracy_figure(f"baselines-{backbone.data}", backbone.caption, own, plan.removed)
        for backbone in plan.chosen
        if backbone.baselines and (own := results.part(backbone, next(iter(backbone.readings))))
    )
    parts = ("text", "same") if plan.quick else ("text", "same", "early")
    texts = (text("fig-baselines", part, components=plan.components) for part in parts)
    return Findings(tuple(texts), (table,), figures)


Experiment(*heading("fig-baselines"), _seeds, _baselines)

# --- training of the coefficients -------------------------------------------------------------

CLASSIFIER, BOTH = "W_F alone", "C and W_F"
WEIGHTS = (0.0, 0.1, 1.0, 10.0)


def _trained(plan: Plan) -> Trials:
    trials: Trials = {}
    for backbone in plan.chosen:
        for cut in backbone.kept:
            drawn = bool(backbone.studied) and cut == backbone.kept[-1]
            changes = {**backbone.keeping, "trained": "classifier", "studied": drawn}
            trials[backbone, cut, CLASSIFIER, 0.0] = plan.trial(backbone, cut, **changes)
            for weight in WEIGHTS:
                changes |= {"trained": "coefficients", "vanish": weight}
                changes["studied"] = drawn and weight in (0.0, 1.0)
                trials[backbone, cut, BOTH, weight] = plan.trial(backbone, cut, **changes)
    return trials


def _kept(plan: Plan, results: Results) -> Findings:
    rows = []
    points: dict[Backbone, dict[Key, tuple[float, float]]] = {}
    for backbone, cut in dict.fromkeys(key[:2] for key in results):
        own, here = results.part(backbone, cut), {}
        first = own[CLASSIFIER, 0.0].trained
        for (what, weight), one in own.items():
            facts, built, kept = one.trained, one.trained.vanishing_built, one.trained.vanishing
            assert kept is not None and built is not None  # it is a VI-Net
            alone = what == CLASSIFIER
            values = {"trained": what, "weight": None if alone else weight}
            values["verdict"] = None if alone else level([facts], [first]).word
            values |= {"accuracy": 100 * facts.accuracy, "smallest": 100 * kept.smallest_own}
            values |= {"ratio": kept.own_over_other, "square": kept.mean_square}
            values["built"] = built.own_over_other
            if one.polynomials is not None:  # the drawing takes a line of text for each
                means = [" ".join(f"{x:.2g}" for x in row) for row in one.polynomials.trained]
                values |= {"owners": one.polynomials.owners, "means": means}
            rows.append(Row(values, section=f"{backbone.caption}, {cut}"))
            name = what if alone else f"weight {weight:g}"
            here[cut, name] = values["ratio"], values["accuracy"]
        ordered = sorted(here.items(), key=lambda item: item[1])
        points.setdefault(backbone, {}).update(ordered)
    axes = (Axis("mean on the own class ÷ mean on the others", format=".2f"), ACCURACY)
    figures = tuple(
        Figure(f"kept-{one.data}", one.caption, *axes, series_of(own))
        for one, own in points.items()
    )
    shown = columns("fig-kept", "verdict" * plan.quick)  # a quick run judges nothing
    table = Table("kept", "Training and vanishing", shown, tuple(rows))
    return Findings((text("fig-kept"),), (table,), figures)


Experiment(*heading("fig-kept"), _trained, _kept)
