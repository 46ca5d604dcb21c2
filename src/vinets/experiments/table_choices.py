"""What the paper leaves open, and how much it matters: one change at a time."""

from __future__ import annotations

from typing import Any

from vinets.experiments.backbones import Backbone
from vinets.experiments.plan import Experiment, Plan
from vinets.experiments.runs import Run, Store
from vinets.experiments.table_efficiency import MONOMIALS, PER_CLASS
from vinets.report.values import Column, Row, Table

__all__ = ["TABLE_CHOICES"]

SIZES = ("Tiny", "Small")
CHOICES: dict[str, dict[str, Any]] = {
    "components of unit variance, ψ = 0.1": {},
    "ψ = 0.03": {"psi": 0.03},
    "ψ = 0.01": {"psi": 0.01},
    "tanh before PCA": {"order": "tanh-pca"},
    "weight decay 5e-4": {"weight_decay": 5e-4},
    "weight decay 5e-3": {"weight_decay": 5e-3},
    "learning rate 0.02": {"learning_rate": 0.02},
    "40 epochs": {"epochs": 40},
    "score divided by the class's own": {"score": "normalized"},
    "32 polynomials a class": {"keep": 32},
    "all monomials": {"monomials": None},
    "nothing pruned": {"keep": None, "monomials": None},
    "zero coefficients stay zero": {"sparse": True},
    "256 components": {"n_components": 256},
    "degree 2": {"max_degree": 2},
    "projection trained": {"train_projection": True},
    "distilled from the uncut network": {"distillation": 0.7},
    "plain components": {"scale": "none"},
    "plain components, ψ = 0.01": {"scale": "none", "psi": 0.01},
}
FIELDS = ("psi", "order", "scale", "keep", "monomials")
COLUMNS = (
    Column("choice", "changed"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("delta", "Δ to uncut", "+.2f"),
    Column("gain", "gain", "+.2f"),
    Column("train", "train accuracy %", ".2f"),
    Column("polynomials", "polynomials", ","),
    Column("monomials", "monomials", ","),
    Column("head", "head, M", ".2f"),
)
TEXT = (
    "One change at a time to a head on components of unit variance with ψ = 0.1, one seed each, "
    "Tiny and Small. The figures and the table of generators take plain components, the last rows "
    "here. "
    "The accuracy is that on test images, and the setting was chosen with this table in view, for "
    "held-out training images cannot rank heads: the backbone has seen them.",
)


def _run(backbone: Backbone, size: str, choice: str) -> Run:
    given = CHOICES[choice]
    fields: dict[str, Any] = {"scale": "unit", "keep": PER_CLASS, "monomials": MONOMIALS}
    fields |= {name: given[name] for name in FIELDS if name in given}
    changes = tuple(sorted((k, v) for k, v in given.items() if k not in FIELDS))
    return Run(backbone.name, _cut(backbone, size), "train", changes=changes, **fields)


def _cut(backbone: Backbone, size: str) -> str:
    return next(cut for name, cut in backbone.variants.items() if name.endswith(size))


def _choices(plan: Plan) -> list[str]:
    return list(CHOICES)[:3] if plan.quick else list(CHOICES)


def runs(plan: Plan) -> list[Run]:
    """A training for every network, size and choice."""
    return [
        _run(backbone, size, choice)
        for backbone in plan.chosen
        for size in SIZES
        for choice in _choices(plan)
    ]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    rows = []
    for backbone in plan.chosen:
        for size in SIZES:
            start = store.read(_run(backbone, size, next(iter(CHOICES))))["accuracy"]
            for choice in _choices(plan):
                found = store.read(_run(backbone, size, choice))
                values = {
                    "choice": choice,
                    "accuracy": 100 * found["accuracy"],
                    "delta": 100 * (found["accuracy"] - found["uncut"]),
                    "gain": 100 * (found["accuracy"] - start),
                    "train": 100 * found["train_accuracy"],
                    "polynomials": found["polynomials"],
                    "monomials": found["monomials"],
                    "head": found["parameters_head"] / 1e6,
                }
                section = f"{backbone.caption}, {size}"
                rows.append(Row(values, section=section))
    return {"text": TEXT, "tables": (Table("choices", "Choices", COLUMNS, tuple(rows)),)}


TABLE_CHOICES = Experiment(
    "table-choices", "What the paper leaves open", "not in the paper", runs, result
)
