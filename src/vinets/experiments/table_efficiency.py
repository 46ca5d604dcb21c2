"""Table 2: the eight variants and the two uncut networks."""

from __future__ import annotations

from statistics import mean

from vinets.experiments.backbones import Backbone
from vinets.experiments.paper import SPEEDS, UNCUT, VARIANTS
from vinets.experiments.plan import Experiment, Findings, Key, Plan, Results, part, share, spread
from vinets.pipeline.compare import speed_trial
from vinets.pipeline.trial import SpeedFacts, Trial
from vinets.report.values import Column, Row, Table

__all__ = ["TABLE_EFFICIENCY"]

PER_CLASS, MONOMIALS = 128, 512
PSI = 0.01  # root mean square of 0.1
COLUMNS = (
    Column("model", "network"),
    Column("cut", "cut"),
    Column("removed", "removed %", ".1f"),
    Column("accuracy", "accuracy %", ".2f", "accuracy_std"),
    Column("delta", "Δ to uncut", "+.2f"),
    Column("total", "total, M", ".2f"),
    Column("base", "base, M", ".2f", difference=False),
    Column("head", "head, M", ".2f", difference=False),
    Column("speed", "images/s", ",.0f", "speed_std", difference=False),
)
TEXT = (
    "128 polynomials a class over 512 monomials, as in the paper's appendix, found by ABM with "
    "ψ = 0.01, a root mean square of 0.1, in tanh of 128 principal components of unit variance. "
    "Coefficients and linear layer are trained with the paper's recipe: 20 epochs of SGD, learning "
    "rate 0.05, momentum 0.9; the weight decay, which it does not give, is 2e-3. Why: see what the "
    "paper leaves open. Accuracy is the mean "
    "and standard deviation over seeds, of the last epoch; a seed draws the points of the ideals, "
    "the augmentation, the first weights and the order of the batches. The backbone is the same.",
    "How we count: base is every parameter of the truncated network. Head is every number that "
    "the folded head stores: the projection, the indices of the monomials, the whole matrix of "
    "coefficients with its bias, the linear layer. The paper's Poly column is smaller than its own "
    "matrix of coefficients (1280 × 512 is 0.66M, 12800 × 512 is 6.55M).",
    "Images per second at batch size 256 over five runs, all networks in turn. They depend on the "
    "machine, which the paper does not name: compare within a column.",
)


def _trained(plan: Plan, backbone: Backbone, variant: str, seed: int) -> Trial:
    """Training of a variant; that of the first seed is saved."""
    return plan.trial(
        backbone,
        backbone.variants[variant],
        psi=PSI,
        scale="unit",
        keep=PER_CLASS,
        monomials=MONOMIALS,
        seed=seed,
        save=f"networks/{variant}" if seed == 0 else "",
    )


def _timed(plan: Plan, backbone: Backbone) -> Trial:
    """Images per second of the variants of the first seed and of the uncut network, in turns."""
    return speed_trial({name: _trained(plan, backbone, name, 0) for name in backbone.variants})


def _planned(plan: Plan) -> dict[Key, Trial]:
    """Trainings of every variant for every seed, and the speed of all of them."""
    trained = {
        (backbone, variant, seed): _trained(plan, backbone, variant, seed)
        for backbone in plan.chosen
        for variant in backbone.variants
        for seed in range(plan.seeds)
    }
    return trained | {(backbone, "speed"): _timed(plan, backbone) for backbone in plan.chosen}


def _finding(plan: Plan, found: Results) -> Findings:
    rows = []
    for backbone in plan.chosen:
        speed = found[backbone, "speed"].timed
        rows += [
            _row(backbone, variant, part(found, backbone, variant), speed)
            for variant in backbone.variants
        ]
        rows.append(_uncut(backbone, speed))
    return Findings(TEXT, (Table("variants", "Variants", COLUMNS, tuple(rows)),))


def _row(backbone: Backbone, variant: str, found: Results, speed: SpeedFacts) -> Row:
    accuracies = [100 * one.trained.accuracy for one in found.values()]
    one, theirs, timing = found[0,], VARIANTS[variant], speed.speeds[variant]
    first = one.trained
    values = {
        "model": variant,
        "cut": backbone.variants[variant],
        "removed": share(one),
        "total": first.parameters / 1e6,
        "base": first.parts["backbone"] / 1e6,
        "head": first.parameters_head / 1e6,
        "accuracy": mean(accuracies),
        "accuracy_std": spread(accuracies),
        "accuracies": accuracies,
        "delta": mean(accuracies) - 100 * first.uncut,
        "speed": timing.mean,
        "speed_std": timing.std,
    }
    delta = theirs["accuracy"] - UNCUT[backbone.name]["accuracy"]
    paper = {**theirs, "delta": delta, "speed": SPEEDS[variant]}
    return Row(values, paper, backbone.caption)


def _uncut(backbone: Backbone, speed: SpeedFacts) -> Row:
    millions, timing = speed.parameters / 1e6, speed.speeds[backbone.name]
    values = {
        "model": backbone.title,
        "cut": "none",
        "removed": 0.0,
        "total": millions,
        "base": millions,
        "head": None,
        "accuracy": 100 * speed.uncut,
        "accuracy_std": None,
        "delta": None,
        "speed": timing.mean,
        "speed_std": timing.std,
    }
    paper = {**UNCUT[backbone.name], "speed": SPEEDS[backbone.name]}
    return Row(values, paper, backbone.caption)


TABLE_EFFICIENCY = Experiment(
    "table-efficiency", "Size, accuracy and speed of the variants", "Table 2", 3, _planned, _finding
)
