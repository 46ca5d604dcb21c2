"""Table 2: the variants, their theory, what vanishes in one, and what the paper leaves open."""

from __future__ import annotations

from statistics import mean
from typing import cast

from vinets.heads import VanishingOptions
from vinets.paper.backbones import UNCUT, VARIANTS
from vinets.paper.plan import (
    Experiment,
    Findings,
    Plan,
    Results,
    Trials,
    accuracies,
    averaged,
    fields_of,
    level,
    share,
)
from vinets.report.values import Axis, Column, Figure, Row, Series, Table
from vinets.runs.compare import speed_trial
from vinets.runs.trial import SpeedFacts

COUNTING = (
    "How we count: base is every parameter of the truncated network. Head is every number that "
    "the folded head stores: the projection, the indices of the monomials, the whole matrix of "
    "coefficients with its bias, the linear layer. The paper's Poly column is smaller than its own "
    "matrix of coefficients (1280 × 512 is 0.66M, 12800 × 512 is 6.55M)."
)
UNITS = {False: (1e6, "M"), True: (1e3, "k")}  # parameters that count as one; on digits, True
SEEDS = (
    "Accuracy is the mean and standard deviation over seeds, of the last epoch; a seed draws "
    "the points of the ideals, the augmentation, the first weights and the order of the "
    "batches. The backbone is the same."
)


def _text(plan: Plan) -> tuple[str, ...]:
    backbone = plan.chosen[0]
    trial = plan.trial(backbone, "", **backbone.variant)
    recipe, timing, options = trial.recipe, trial.timing, cast(VanishingOptions, trial.options)
    over = "all monomials" if options.monomials is None else f"{options.monomials} monomials"
    own = ", as in the paper's appendix," if plan.compared else ""
    start = (
        f"{options.keep} polynomials a class over {over}{own} found by ABM with ψ = {options.psi}, "
        f"a root mean square of {options.psi**0.5:.2g}, in tanh of {plan.components} principal "
        "components of unit variance. "
    )
    timed = (
        f"Images per second at batch size {timing.batch} over {timing.repeats} runs, all networks "
        "in turn. They depend on the machine, which the paper does not name: compare within a "
        "column."
    )
    if plan.splits:
        start += (
            "They stay as they were found, and the linear layer behind them minimises the "
            "regularised logistic loss. Accuracy is the mean and standard deviation over "
            f"{plan.seeds} splits into training and test images, each with an uncut network of its "
            "own; the interval is that of the difference over splits and test images. Parameters "
            "and speed are those of the first split."
        )
        return start, timed
    how = f"{plan.epochs} of SGD, learning rate {recipe.learning_rate}, momentum {recipe.momentum}"
    decay = f"{recipe.weight_decay:.0e}".replace("e-0", "e-")
    start += "Coefficients and linear layer are trained with "
    if not plan.compared:
        return f"{start}{how}, weight decay {decay}. {SEEDS}", timed
    start += f"the paper's recipe: {how}; the weight decay, which it does not give, is {decay}. "
    return f"{start}Why: see what the paper leaves open. {SEEDS}", COUNTING, timed


def planned_variants(plan: Plan) -> Trials:
    """Plan trainings of every variant for every seed, and the speed of all of the first seed."""
    trials: Trials = {}
    for backbone in plan.chosen:
        for name, cut in backbone.variants.items():
            for seed in range(plan.seeds):
                # The speed of the first one is measured later.
                save = f"networks/{name}{'-quick' * plan.quick}" if seed == 0 else ""
                studied = bool(backbone.studied) and seed == 0
                changes = {**backbone.variant, "save": save, "studied": studied}
                trials[backbone, name, seed] = plan.trial(backbone, cut, seed=seed, **changes)
    for backbone in plan.chosen:
        timed = {name: trials[backbone, name, 0] for name in backbone.variants}
        trials[backbone, "speed"] = speed_trial(timed)
    return trials


def _variants(plan: Plan, results: Results) -> Findings:
    rows, (unit, letter) = [], UNITS[plan.splits]
    for backbone in plan.chosen:
        speed, printed = results[backbone, "speed"].timed, UNCUT.get(backbone.name, {})
        whole = [100 * speed.uncut]  # accuracies of the uncut network
        for name, cut in backbone.variants.items():
            own, paper = results.trained(backbone, name), VARIANTS.get(name, {})
            found, uncut, first = accuracies(own), [100 * one.uncut for one in own], own[0]
            values = {"model": name, "cut": cut, "removed": share(results[backbone, name, 0])}
            values |= _size(speed, name, first.parameters, first.parts["backbone"], unit)
            values["head"] = first.parameters_head / unit
            values |= {**averaged("accuracy", found), "accuracies": found}
            values["delta"] = mean(found) - mean(uncut if plan.splits else uncut[:1])
            if plan.splits:
                gap, whole = level(own), uncut
                values |= {"interval": gap.shown, "verdict": gap.word}
            if paper:
                paper = paper | {"delta": paper["accuracy"] - printed["accuracy"]}
            rows.append(Row(values, paper, backbone.caption))
        values = {"model": backbone.title, "cut": "none", "removed": 0.0, "head": None}
        values |= {**averaged("accuracy", whole), "delta": None}
        values |= _size(speed, backbone.network(0), speed.parameters, speed.parameters, unit)
        rows.append(Row(values, printed, backbone.caption))
    digits = ".2f" if letter == "M" else ".1f"
    verdict = (Column("interval", "95 % interval"), Column("verdict", "with uncut"))
    columns = (
        Column("model", "network"),
        Column("cut", "cut"),
        Column("removed", "removed %", ".1f"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std"),
        Column("delta", "Δ to uncut", "+.2f"),
        *(verdict if plan.splits else ()),
        Column("total", f"total, {letter}", digits),
        Column("base", f"base, {letter}", digits, difference=False),
        Column("head", f"head, {letter}", digits, difference=False),
        Column("speed", "images/s", ",.0f", "speed_std", difference=False),
    )
    return Findings(_text(plan), (Table("variants", "Variants", columns, tuple(rows)),))


def _size(speed: SpeedFacts, name: str, total: int, base: int, unit: float) -> dict[str, float]:
    timing = speed.speeds[name]
    sizes = {"total": total / unit, "base": base / unit}
    return sizes | {"speed": timing.mean, "speed_std": timing.std}


title, place = "Size, accuracy and speed of the variants", "Table 2"
Experiment("table-efficiency", title, place, 3, planned_variants, _variants)

# --- theory -----------------------------------------------------------------------------------

THEORY_COLUMNS = (
    Column("model", "network"),
    Column("cut", "cut"),
    Column("complexity", "log₁₀ R", ".2f"),
    Column("kappa", "log₁₀ κ", "+.2f"),
    Column("ratio", "corollary, ratio to uncut", ".3g"),
    Column("holds", "bounds that hold"),
)
BOUND_COLUMNS = (
    Column("quantity", "quantity"),
    Column("source", "in the paper"),
    Column("actual", "here", ".3g"),
    Column("bound", "bound", ",.3g"),
)
THEORY = (
    "R is the spectral complexity that the paper's bound on the test error grows with, and κ is "
    "that of the VI-Net over that of the uncut network: below 0, its logarithm says that the "
    "VI-Net is less complex. Every layer counts, with the projection in front of the polynomials. "
    "The ratio is that of the complexity terms of the corollary, each at the median margin of its "
    "network on the training images."
)


def studied_variants(plan: Plan) -> Trials:
    """Plan the saved variants, which Table 2 trains."""
    return {
        key: trial
        for key, trial in planned_variants(plan).items()
        if trial.studied and key[0].studied
    }


def _theory(plan: Plan, results: Results) -> Findings:
    rows, bounds = [], []
    for (backbone, name, _), one in results.items():
        facts, caption = one.complexity, backbone.caption
        holds = [bound["holds"] for bound in facts.bounds]
        values = {"model": name, "cut": backbone.variants[name], "complexity": facts.network}
        values |= {**fields_of(facts, "kappa", "ratio"), "holds": f"{sum(holds)} of {len(holds)}"}
        rows.append(Row(values, section=caption))
        if name == backbone.studied:
            bounds += [Row(bound, section=caption) for bound in facts.bounds]
    rows.append(Row({"model": backbone.title, "cut": "none", "complexity": facts.uncut}))
    tables = (
        Table("theory", "Spectral complexity", THEORY_COLUMNS, tuple(rows)),
        Table("bounds", "Bounds", BOUND_COLUMNS, tuple(bounds)),
    )
    norms = "The theorem bounds the norms of the polynomials as two layers, W_M and W_C; the "
    norms += f"second table has its bounds next to the norms of {backbone.studied}."
    return Findings((THEORY, norms), tables)


title, place = "Spectral complexity, κ and its bounds", "Section 4"
Experiment("table-theory", title, place, 12, studied_variants, _theory)

# --- the polynomials of one network -----------------------------------------------------------

CLASS_COLUMNS = (
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
        Table("vanishing", "Polynomials by the class of their ideal", CLASS_COLUMNS, tuple(rows)),
        Table("measures", "How they vanish on test images", MEASURES, measures),
    )
    places = tuple(range(backbone.classes))
    series = Series(f"polynomial of class {label}", places, facts.means)
    axes = (Axis("class", names=tuple(map(str, places))), Axis("mean absolute value", format=".3f"))
    figure = Figure("polynomial", f"One polynomial of class {label}", *axes, (series,))
    texts = (
        f"Mean absolute values on test images of the {len(facts.owners)} polynomials of {name}, "
        f"cut at {backbone.variants[name]}, on the first split. Each was found as one that nearly "
        "vanishes on the training images of a class; on the test images of that class it should be "
        "smaller than on those of all others.",
        f"The shortest that is no line vanishes on class {label}: p = {facts.text}.",
    )
    return Findings(texts, tables, (figure,))


title, place = "Polynomials that vanish on one class each", "not in the paper"
Experiment("fig-vanishing", title, place, 1.5, _shown, _vanishing)

# --- choices ----------------------------------------------------------------------------------

CHOSEN = (
    " The figures and the table of generators take plain components, the last rows here. "
    "The accuracy is that on test images, and the setting was chosen with this table in view, for "
    "held-out training images cannot rank heads: the backbone has seen them."
)


def _choices(plan: Plan) -> Trials:
    """Plan a training for every network, size and choice."""
    trials: Trials = {}
    for backbone in plan.chosen:
        choices = list(backbone.choices.items())[: 3 if plan.quick else None]
        for name in backbone.chosen:
            section = f"{backbone.caption}, {size_of(name)}"
            for choice, changes in choices:
                trial = plan.trial(backbone, backbone.variants[name], **changes)
                trials[section, choice] = trial
    return trials


def size_of(variant: str) -> str:
    """Return the last word of a name such as VI-Net18-Tiny."""
    return variant.rpartition("-")[2]


def _chosen(plan: Plan, results: Results) -> Findings:
    rows, (unit, letter) = [], UNITS[plan.splits]
    first = next(iter(plan.chosen[0].choices))
    for (section, choice), result in results.items():
        facts, start = result.trained, results[section, first].trained
        values = {"choice": choice, **fields_of(facts, "polynomials", "monomials")}
        values |= {"accuracy": 100 * facts.accuracy, "train": 100 * facts.train_accuracy}
        values["delta"] = 100 * (facts.accuracy - facts.uncut)
        values["gain"] = 100 * (facts.accuracy - start.accuracy)
        values["head"] = facts.parameters_head / unit
        if plan.splits:
            values["verdict"] = level([facts], [start]).word
        rows.append(Row(values, section=section))
    sizes = " and ".join(size_of(name) for name in plan.chosen[0].chosen)
    text = "One change at a time to a head on components of unit variance with "
    text += f"ψ = {plan.options.psi}, one seed each, {sizes}.{CHOSEN * plan.compared}"
    verdict = (Column("verdict", "with the first row"),)
    columns = (
        Column("choice", "changed"),
        Column("accuracy", "accuracy %", ".2f"),
        Column("delta", "Δ to uncut", "+.2f"),
        Column("gain", "gain", "+.2f"),
        *(verdict if plan.splits else ()),
        Column("train", "train accuracy %", ".2f"),
        Column("polynomials", "polynomials", ","),
        Column("monomials", "monomials", ","),
        Column("head", f"head, {letter}", ".2f"),
    )
    return Findings((text,), (Table("choices", "Choices", columns, tuple(rows)),))


Experiment("table-choices", "What the paper leaves open", "not in the paper", 11, _choices, _chosen)
