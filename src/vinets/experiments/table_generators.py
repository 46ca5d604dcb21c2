"""Table 1: monomials, polynomials and seconds against the share of layers removed."""

from __future__ import annotations

from vinets.experiments.paper import GENERATORS
from vinets.experiments.plan import READINGS, Experiment, Findings, Key, Plan, Results, share
from vinets.pipeline.trial import Trial
from vinets.report.values import Column, Row, Table

__all__ = ["TABLE_GENERATORS"]

COLUMNS = (
    Column("cut", "cut"),
    Column("removed", "removed %", ".1f"),
    Column("monomials", "monomials", ","),
    Column("polynomials", "polynomials", ","),
    Column("seconds", "seconds", ",.2f", difference=False),
    Column("speedup", "their seconds over ours", ",.0f"),
)
TEXT = (
    "ABM of degree 5 in tanh of 128 principal components, 512 points a class; all 500 for "
    "CIFAR-100. The constant is not counted as a monomial.",
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


def _planned(plan: Plan) -> dict[Key, Trial]:
    """An ideal for every row and reading."""
    return {
        (reading, backbone, cut, printed): plan.trial(
            backbone, cut, "ideals", alone=True, **READINGS[reading]
        )
        for backbone in plan.chosen
        for cut, printed in backbone.rows[-2 if plan.quick else 0 :]
        for reading in READINGS
    }


def _finding(plan: Plan, results: Results) -> Findings:
    first, *others = READINGS
    rows: dict[str, list[Row]] = {reading: [] for reading in READINGS}
    for (reading, backbone, cut, printed), result in results.items():
        found, theirs = result.found, GENERATORS[backbone.name][printed]
        values = {
            "cut": cut,
            "removed": share(result),
            "monomials": found.monomials,
            "polynomials": found.polynomials,
            "seconds": found.seconds,
            "speedup": theirs["seconds"] / found.seconds,
        }
        section = backbone.caption if reading == first else f"{backbone.caption}: {reading}"
        rows[reading].append(Row(values, {"removed": printed, **theirs}, section))
    more = tuple(row for reading in others for row in rows[reading])
    tables = (
        Table("generators", first, COLUMNS, tuple(rows[first])),
        Table("generators-readings", "Other readings of the paper", COLUMNS, more),
    )
    return Findings(TEXT, tables)


TABLE_GENERATORS = Experiment(
    "table-generators", "How many generators, and how fast", "Table 1", 2, _planned, _finding
)
