"""What it costs to keep polynomials vanishing while their coefficients are trained."""

from __future__ import annotations

from typing import Any

from vinets.paper.level import level
from vinets.paper.plan import Experiment, Findings, Plan, Results, Trials, part
from vinets.report.values import Axis, Column, Figure, Row, Series, Table

CUTS: dict[str, tuple[str, ...]] = {
    "digits": ("relu1", "pool"),
    "resnet18": ("layer2.1.bn2", "layer3.1.bn1"),
}
"""Cuts that are looked at, by the name of the network; others have none."""

SIZES: dict[str, dict[str, Any]] = {
    "digits": {"epochs": 20},
    # The one paper pipeline, of which the published figures on CIFAR differ in scale and rule.
    "resnet18": {
        **{"scale": "unit", "normalization": "leading", "keep": 128, "monomials": 512},
        **{"views": 2, "precision": "float32"},
    },
}
CLASSIFIER, BOTH = "W_F alone", "C and W_F"
WEIGHTS = (0.0, 0.1, 1.0, 10.0)
COLUMNS = (
    Column("trained", "trained"),
    Column("weight", "weight", "g"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("verdict", "against W_F alone"),
    Column("smallest", "smallest on their class %", ".1f"),
    Column("ratio", "mean own ÷ mean other", ".3f"),
    Column("square", "mean square, leading 1", ".3g"),
    Column("built", "mean own ÷ mean other, as built", ".3f"),
)
TEXT = (
    "Polynomials are generators of class ideals as long as nothing but the linear layer behind "
    "them, W_F, is trained. Training of the coefficients, C, moves them. The loss then gets a "
    "second part: the mean square of every polynomial on its own class, divided by that on the "
    "others, times a weight. All figures are those of test images; a polynomial that vanishes on "
    "its class alone is smallest there, and the ratio of its means is near 0.",
)


def _planned(plan: Plan) -> Trials:
    found: Trials = {}
    for backbone in plan.chosen:
        changes = SIZES.get(backbone.name, {})
        for cut in CUTS.get(backbone.name, ()):
            key = backbone, cut
            drawn = bool(backbone.studied) and cut == CUTS[backbone.name][-1]
            found[*key, CLASSIFIER, 0.0] = plan.trial(
                backbone, cut, trained="classifier", studied=drawn, **changes
            )
            for weight in WEIGHTS:
                options = changes | {"vanish": weight, "studied": drawn and weight in (0.0, 1.0)}
                found[*key, BOTH, weight] = plan.trial(
                    backbone, cut, trained="coefficients", **options
                )
    return found


def _finding(plan: Plan, found: Results) -> Findings:
    rows, figures = [], []
    for backbone in plan.chosen:
        series = []
        for cut in CUTS.get(backbone.name, ()):
            own = part(found, backbone, cut)
            points = []
            first = own[CLASSIFIER, 0.0].trained
            for (trained, weight), one in own.items():
                facts, kept = one.trained, one.trained.vanishing
                assert kept is not None and facts.vanishing_built is not None  # it is a VI-Net
                gap = level([facts], [first])
                values = {
                    "trained": trained,
                    "weight": weight if trained != CLASSIFIER else None,
                    "accuracy": 100 * facts.accuracy,
                    "verdict": gap.word if trained != CLASSIFIER else None,
                    "smallest": 100 * kept.smallest_own,
                    "ratio": kept.own_over_other,
                    "square": kept.mean_square,
                    "built": facts.vanishing_built.own_over_other,
                }
                if one.polynomials is not None:  # for the drawing, a line of text each
                    means = [" ".join(f"{x:.2g}" for x in row) for row in one.polynomials.trained]
                    values |= {"owners": one.polynomials.owners, "means": means}
                rows.append(Row(values, section=f"{backbone.caption}, {cut}"))
                name = trained if trained == CLASSIFIER else f"weight {weight:g}"
                points.append((values["ratio"], values["accuracy"], name))
            points.sort()
            x, y, labels = zip(*points, strict=True)
            series.append(Series(cut, x, y, labels))
        if series:
            ratio = Axis("mean on the own class ÷ mean on the others", format=".2f")
            accuracy = Axis("test accuracy in %", format=".2f")
            name = f"kept-{backbone.data}"
            figures.append(Figure(name, backbone.caption, ratio, accuracy, tuple(series)))
    # A quick run judges nothing.
    columns = tuple(one for one in COLUMNS if one.name != "verdict" or not plan.quick)
    table = Table("kept", "Training and vanishing", columns, tuple(rows))
    return Findings(TEXT, (table,), tuple(figures))


Experiment(
    "fig-kept", "Accuracy and vanishing after training", "not in the paper", 12, _planned, _finding
)
