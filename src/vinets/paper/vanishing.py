"""What vanishes where: the polynomials of one VI-Net on the test images of every class."""

from __future__ import annotations

from statistics import mean

from vinets.paper.plan import Experiment, Findings, Plan, Results, Trials
from vinets.paper.variants import planned_variants
from vinets.report.values import Axis, Column, Figure, Row, Series, Table

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


def _planned(plan: Plan) -> Trials:
    return {
        key: trial
        for key, trial in planned_variants(plan).items()
        if trial.studied and key[1] == key[0].studied
    }


def _finding(plan: Plan, found: Results) -> Findings:
    (((backbone, name, _), result),) = found.items()
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
        values = {
            "class": str(k),
            "count": len(after),
            "own": mean(one[k] for one in after),
            "others": mean(x for one in after for j, x in enumerate(one) if j != k),
            "smallest_built": 100 * mean(one[k] <= min(one) for one in built),
            "smallest": 100 * mean(one[k] <= min(one) for one in after),
        }
        rows.append(Row(values))
    label = facts.owners[facts.shortest]
    measures = tuple(
        Row({"when": when} | {c.name: getattr(one, c.name) for c in MEASURES[1:]})
        for when, one in (("as built", trained.vanishing_built), ("trained", trained.vanishing))
        if one is not None
    )
    tables = (
        Table("vanishing", "Polynomials by the class of their ideal", COLUMNS, tuple(rows)),
        Table("measures", "How they vanish on test images", MEASURES, measures),
    )
    classes = Axis("class", names=tuple(map(str, range(backbone.classes))))
    places = tuple(range(backbone.classes))
    series = Series(f"polynomial of class {label}", places, facts.means)
    size = Axis("mean absolute value", format=".3f")
    figure = Figure("polynomial", f"One polynomial of class {label}", classes, size, (series,))
    about = {"count": len(facts.owners), "name": name, "cut": backbone.variants[name]}
    text = tuple(one.format(label=label, text=facts.text, **about) for one in TEXT)
    return Findings(text, tables, (figure,))


Experiment(
    "fig-vanishing",
    "Polynomials that vanish on one class each",
    "not in the paper",
    1.5,
    _planned,
    _finding,
)
