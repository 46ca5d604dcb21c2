"""Table 2: the eight variants and the two uncut networks; what the paper leaves open."""

from __future__ import annotations

from statistics import mean
from typing import Any

from vinets.experiments.paper import UNCUT, VARIANTS
from vinets.experiments.plan import Experiment, Findings, Plan, Results, Trials, part, share, spread
from vinets.pipeline.compare import speed_trial
from vinets.report.values import Column, Row, Table

START: dict[str, Any] = {"scale": "unit", "keep": 128, "monomials": 512}
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
COUNTING = (
    "How we count: base is every parameter of the truncated network. Head is every number that "
    "the folded head stores: the projection, the indices of the monomials, the whole matrix of "
    "coefficients with its bias, the linear layer. The paper's Poly column is smaller than its own "
    "matrix of coefficients (1280 × 512 is 0.66M, 12800 × 512 is 6.55M)."
)
TIMING = (
    "Images per second at batch size {batch} over {repeats} runs, all networks in turn. They "
    "depend on the machine, which the paper does not name: compare within a column."
)


def _text(plan: Plan) -> tuple[str, ...]:
    recipe, timing = plan.start.recipe, plan.start.timing
    own = "" if plan.quick else ", as in the paper's appendix,"
    start = (
        f"{START['keep']} polynomials a class over {START['monomials']} monomials{own} found by "
        f"ABM with ψ = {PSI}, a root mean square of {PSI**0.5:.2g}, in tanh of {plan.components} "
        "principal components of unit variance. Coefficients and linear layer are trained with "
    )
    how = f"{plan.epochs} of SGD, learning rate {recipe.learning_rate}, momentum {recipe.momentum}"
    decay = f"{recipe.weight_decay:.0e}".replace("e-0", "e-")
    start += (
        f"{how}, weight decay {decay}. "
        if plan.quick
        else f"the paper's recipe: {how}; the weight decay, which it does not give, is {decay}. "
        "Why: see what the paper leaves open. "
    )
    start += (
        "Accuracy is the mean and standard deviation over seeds, of the last epoch; a seed draws "
        "the points of the ideals, the augmentation, the first weights and the order of the "
        "batches. The backbone is the same."
    )
    timed = TIMING.format(batch=timing.batch, repeats=timing.repeats)
    return (start, timed) if plan.quick else (start, COUNTING, timed)


def _planned(plan: Plan) -> Trials:
    """Trainings of every variant for every seed, and the speed of all of the first seed."""
    found: Trials = {}
    for backbone in plan.chosen:
        for name, cut in backbone.variants.items():
            for seed in range(plan.seeds):
                save = (
                    f"networks/{name}{plan.suffix}" if seed == 0 else ""
                )  # its speed is measured later
                changes = START | {"psi": PSI, "seed": seed, "save": save}
                found[backbone, name, seed] = plan.trial(backbone, cut, **changes)
    for backbone in plan.chosen:
        timed = {name: found[backbone, name, 0] for name in backbone.variants}
        found[backbone, "speed"] = speed_trial(timed)
    return found


def _finding(plan: Plan, found: Results) -> Findings:
    rows = []
    for backbone in plan.chosen:
        speed, uncut = found[backbone, "speed"].timed, UNCUT[backbone.name]
        for variant, cut in backbone.variants.items():
            own = part(found, backbone, variant)
            accuracies = [100 * one.trained.accuracy for one in own.values()]
            first, theirs, timing = own[0,].trained, VARIANTS[variant], speed.speeds[variant]
            values = {
                "model": variant,
                "cut": cut,
                "removed": share(own[0,]),
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
            paper = theirs | {"delta": theirs["accuracy"] - uncut["accuracy"]}
            rows.append(Row(values, paper, backbone.caption))
        timing = speed.speeds[backbone.name]
        values = {
            "model": backbone.title,
            "cut": "none",
            "removed": 0.0,
            "total": speed.parameters / 1e6,
            "base": speed.parameters / 1e6,
            "head": None,
            "accuracy": 100 * speed.uncut,
            "accuracy_std": None,
            "delta": None,
            "speed": timing.mean,
            "speed_std": timing.std,
        }
        rows.append(Row(values, uncut, backbone.caption))
    return Findings(_text(plan), (Table("variants", "Variants", COLUMNS, tuple(rows)),))


Experiment(
    "table-efficiency", "Size, accuracy and speed of the variants", "Table 2", 3, _planned, _finding
)

# --- choices ----------------------------------------------------------------------------------

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
    "256 components": {"components": 256},
    "degree 2": {"max_degree": 2},
    "projection trained": {"train_projection": True},
    "distilled from the uncut network": {"distill": 0.7},
    "plain components": {"scale": "none"},
    "plain components, ψ = 0.01": {"scale": "none", "psi": 0.01},
}
CHOICE_COLUMNS = (
    Column("choice", "changed"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("delta", "Δ to uncut", "+.2f"),
    Column("gain", "gain", "+.2f"),
    Column("train", "train accuracy %", ".2f"),
    Column("polynomials", "polynomials", ","),
    Column("monomials", "monomials", ","),
    Column("head", "head, M", ".2f"),
)
ONE_CHANGE = (
    "One change at a time to a head on components of unit variance with ψ = {psi}, one seed each, "
    "{sizes}."
)
CHOSEN = (
    " The figures and the table of generators take plain components, the last rows here. "
    "The accuracy is that on test images, and the setting was chosen with this table in view, for "
    "held-out training images cannot rank heads: the backbone has seen them."
)


def _choices(plan: Plan) -> Trials:
    """A training for every network, size and choice."""
    return {
        (f"{backbone.caption}, {size}", choice): plan.trial(backbone, cut, **(START | changes))
        for backbone in plan.chosen
        for variant, cut in backbone.variants.items()
        if (size := variant.rpartition("-")[2]) in SIZES
        for choice, changes in list(CHOICES.items())[: 3 if plan.quick else None]
    }


def _chosen(plan: Plan, results: Results) -> Findings:
    rows = []
    for (section, choice), result in results.items():
        found, start = result.trained, results[section, next(iter(CHOICES))].trained
        values = {
            "choice": choice,
            "accuracy": 100 * found.accuracy,
            "delta": 100 * (found.accuracy - found.uncut),
            "gain": 100 * (found.accuracy - start.accuracy),
            "train": 100 * found.train_accuracy,
            "polynomials": found.polynomials,
            "monomials": found.monomials,
            "head": found.parameters_head / 1e6,
        }
        rows.append(Row(values, section=section))
    text = ONE_CHANGE.format(psi=plan.start.finding.psi, sizes=" and ".join(SIZES))
    text += "" if plan.quick else CHOSEN
    return Findings((text,), (Table("choices", "Choices", CHOICE_COLUMNS, tuple(rows)),))


Experiment("table-choices", "What the paper leaves open", "not in the paper", 11, _choices, _chosen)
