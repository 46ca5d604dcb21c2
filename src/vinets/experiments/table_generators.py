"""Table 1: monomials, polynomials and seconds against the share of layers removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vinets.experiments.backbones import Backbone
from vinets.experiments.paper import GENERATORS
from vinets.experiments.plan import READINGS, Experiment, Plan
from vinets.experiments.runs import Run, Store
from vinets.report.values import Column, Row, Table

__all__ = ["TABLE_GENERATORS"]

COUNTS = (
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


def _run(backbone: Backbone, cut: str, reading: str) -> Run:
    return Run(backbone.name, cut, "ideals", alone=True, **READINGS[reading])


def _rows(plan: Plan, backbone: Backbone) -> tuple[tuple[str, float], ...]:
    return backbone.rows[-2:] if plan.quick else backbone.rows


def runs(plan: Plan) -> list[Run]:
    """An ideal for every row and reading."""
    return [
        _run(backbone, cut, reading)
        for backbone in plan.chosen
        for cut, _ in _rows(plan, backbone)
        for reading in READINGS
    ]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    first, *others = READINGS
    columns = (Column("cut", "cut"), *COUNTS)
    rows = [row for backbone in plan.chosen for row in _found(plan, store, backbone, first)]
    more = [
        replace(row, section=f"{row.section}: {reading}")
        for reading in others
        for backbone in plan.chosen
        for row in _found(plan, store, backbone, reading)
    ]
    tables = (
        Table("generators", first, columns, tuple(rows)),
        Table("generators-readings", "Other readings of the paper", columns, tuple(more)),
    )
    return {"text": TEXT, "tables": tables}


def _found(plan: Plan, store: Store, backbone: Backbone, reading: str) -> list[Row]:
    """Rows of one network under one reading."""
    rows = []
    for cut, printed in _rows(plan, backbone):
        found = store.read(_run(backbone, cut, reading))
        theirs = GENERATORS[backbone.name][printed]
        values = {
            "cut": cut,
            "removed": 100 * found["removed"],
            "monomials": found["monomials"],
            "polynomials": found["polynomials"],
            "seconds": found["seconds"],
            "speedup": theirs["seconds"] / found["seconds"],
        }
        rows.append(Row(values, {"removed": printed, **theirs}, backbone.caption))
    return rows


TABLE_GENERATORS = Experiment(
    "table-generators", "How many generators, and how fast", "Table 1", runs, result
)
