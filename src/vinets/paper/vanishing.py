"""What vanishes on test images: the polynomials of one VI-Net, and of heads that were trained."""

from __future__ import annotations

from statistics import mean
from typing import Any

from vinets.paper.accuracy import ACCURACY
from vinets.paper.backbones import Backbone
from vinets.paper.plan import (
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    Trials,
    fields_of,
    level,
    part,
    series_of,
)
from vinets.paper.variants import studied_variants
from vinets.report.values import Axis, Column, Figure, Row, Series, Table

# --- the polynomials of one network -----------------------------------------------------------

TEXT = (
    "Mean absolute values on test images of the {count} polynomials of {name}, cut at {cut}, on "
    "the first split. Each was found as one that nearly vanishes on the training images of a "
    "class; on the test images of that class it should be smaller than on those of all others.",
    "The shortest that is no line vanishes on class {label}: p = {text}.",
)
COLUMNS = (
    Column("class", "class"),
    Column("count", "polynomials", ","),
    Column("own", "mean on it", ".3f"),
    Column("others", "on the others", ".3f"),
    Column("smallest_built", "smallest on it as built, %", ".1f"),
    Column("smallest", "smallest on it when trained, %", ".1f"),
)
MEASURES = (
    Column("when", "polynomials"),
    Column("smallest_own", "smallest on their class", ".1%"),
    Column("own_over_other", "own over others, median", ".3f"),
    Column("mean_square", "mean square, median", ".3g"),
    Column("satisfied", "mean square ≤ ψ", ".1%"),
)


def _shown(plan: Plan) -> Trials:
    return {k: trial for k, trial in studied_variants(plan).items() if k[1] == k[0].studied}


def _vanishing(plan: Plan, results: Results) -> Findings:
    (((backbone, name, _), result),) = results.items()
    facts, trained = result.polynomials, result.trained
    assert facts is not None and trained.vanishing is not None  # it was studied
    rows = []
    for k in range(backbone.classes):
        built, after = (
            [values for values, owner in zip(every, facts.owners, strict=True) if owner == k]
            for every in (facts.built, facts.trained)
        )
        if not after:  # nothing vanishes on this class
            continue
        values = {"class": str(k), "count": len(after), "own": mean(one[k] for one in after)}
        values["others"] = mean(x for one in after for j, x in enumerate(one) if j != k)
        for when, means in (("smallest_built", built), ("smallest", after)):
            values[when] = 100 * mean(one[k] <= min(one) for one in means)
        rows.append(Row(values))
    label = facts.owners[facts.shortest]
    names = [column.name for column in MEASURES[1:]]
    measures = tuple(
        Row({"when": when} | fields_of(one, *names))
        for when, one in (("as built", trained.vanishing_built), ("trained", trained.vanishing))
    )
    tables = (
        Table("vanishing", "Polynomials by the class of their ideal", COLUMNS, tuple(rows)),
        Table("measures", "How they vanish on test images", MEASURES, measures),
    )
    places = tuple(range(backbone.classes))
    series = Series(f"polynomial of class {label}", places, facts.means)
    axes = (Axis("class", names=tuple(map(str, places))), Axis("mean absolute value", format=".3f"))
    figure = Figure("polynomial", f"One polynomial of class {label}", *axes, (series,))
    about = {"count": len(facts.owners), "name": name, "cut": backbone.variants[name]}
    text = tuple(one.format(label=label, text=facts.text, **about) for one in TEXT)
    return Findings(text, tables, (figure,))


title, place = "Polynomials that vanish on one class each", "not in the paper"
Experiment("fig-vanishing", title, place, 1.5, _shown, _vanishing)

# --- training of the coefficients -------------------------------------------------------------

# The one paper pipeline, of which the published figures on CIFAR differ in scale and rule.
_ONE = {"scale": "unit", "normalization": "leading", "keep": 128, "monomials": 512}
LOOKED_AT: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "digits": (("relu1", "pool"), {"epochs": 20}),
    "resnet18": (("layer2.1.bn2", "layer3.1.bn1"), _ONE | {"views": 2, "precision": "float32"}),
}
"""Cuts that are looked at, and changes to the settings, by the name of the network."""

CLASSIFIER, BOTH = "W_F alone", "C and W_F"
WEIGHTS = (0.0, 0.1, 1.0, 10.0)
KEPT_COLUMNS = (
    Column("trained", "trained"),
    Column("weight", "weight", "g"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("verdict", "against W_F alone"),
    Column("smallest", "smallest on their class %", ".1f"),
    Column("ratio", "mean own ÷ mean other", ".3f"),
    Column("square", "mean square, leading 1", ".3g"),
    Column("built", "mean own ÷ mean other, as built", ".3f"),
)
KEPT = (
    "Polynomials are generators of class ideals as long as nothing but the linear layer behind "
    "them, W_F, is trained. Training of the coefficients, C, moves them. The loss then gets a "
    "second part: the mean square of every polynomial on its own class, divided by that on the "
    "others, times a weight. All figures are those of test images; a polynomial that vanishes on "
    "its class alone is smallest there, and the ratio of its means is near 0.",
)


def _trained(plan: Plan) -> Trials:
    trials: Trials = {}
    for backbone in plan.chosen:
        cuts, settings = LOOKED_AT.get(backbone.name, ((), {}))
        for cut in cuts:
            drawn = bool(backbone.studied) and cut == cuts[-1]
            changes = settings | {"trained": "classifier", "studied": drawn}
            trials[backbone, cut, CLASSIFIER, 0.0] = plan.trial(backbone, cut, **changes)
            for weight in WEIGHTS:
                changes = settings | {"trained": "coefficients", "vanish": weight}
                changes["studied"] = drawn and weight in (0.0, 1.0)
                trials[backbone, cut, BOTH, weight] = plan.trial(backbone, cut, **changes)
    return trials


def _kept(plan: Plan, results: Results) -> Findings:
    rows = []
    points: dict[Backbone, dict[Key, tuple[float, float]]] = {}
    for backbone, cut in dict.fromkeys(key[:2] for key in results):
        own, here = part(results, backbone, cut), {}
        first = own[CLASSIFIER, 0.0].trained
        for (trained, weight), one in own.items():
            facts, built, kept = one.trained, one.trained.vanishing_built, one.trained.vanishing
            assert kept is not None and built is not None  # it is a VI-Net
            alone = trained == CLASSIFIER
            values = {"trained": trained, "weight": None if alone else weight}
            values["verdict"] = None if alone else level([facts], [first]).word
            values |= {"accuracy": 100 * facts.accuracy, "smallest": 100 * kept.smallest_own}
            values |= {"ratio": kept.own_over_other, "square": kept.mean_square}
            values["built"] = built.own_over_other
            if one.polynomials is not None:  # the drawing takes a line of text for each
                means = [" ".join(f"{x:.2g}" for x in row) for row in one.polynomials.trained]
                values |= {"owners": one.polynomials.owners, "means": means}
            rows.append(Row(values, section=f"{backbone.caption}, {cut}"))
            name = trained if alone else f"weight {weight:g}"
            here[cut, name] = values["ratio"], values["accuracy"]
        ordered = sorted(here.items(), key=lambda item: item[1])
        points.setdefault(backbone, {}).update(ordered)
    axes = (Axis("mean on the own class ÷ mean on the others", format=".2f"), ACCURACY)
    figures = tuple(
        Figure(f"kept-{one.data}", one.caption, *axes, series_of(own))
        for one, own in points.items()
    )
    # A quick run judges nothing.
    columns = tuple(one for one in KEPT_COLUMNS if one.name != "verdict" or not plan.quick)
    table = Table("kept", "Training and vanishing", columns, tuple(rows))
    return Findings(KEPT, (table,), figures)


Experiment(
    "fig-kept", "Accuracy and vanishing after training", "not in the paper", 12, _trained, _kept
)
