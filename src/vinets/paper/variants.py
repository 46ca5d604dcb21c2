"""Table 2: the variants, their theory, what vanishes in one, and what the paper leaves open."""

from __future__ import annotations

from statistics import mean
from typing import cast

from vinets.heads import VanishingOptions
from vinets.paper import heading, table, text
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
from vinets.report.values import Axis, Figure, Row, Series
from vinets.runs.compare import speed_trial
from vinets.runs.trial import SpeedFacts

UNITS = {False: (1e6, "M"), True: (1e3, "k")}  # parameters that count as one; on digits, True


def _texts(plan: Plan) -> tuple[str, ...]:
    name, backbone = "table-efficiency", plan.chosen[0]
    trial = plan.trial(backbone, "", **backbone.variant)
    options, recipe = cast(VanishingOptions, trial.options), trial.recipe
    over = "all monomials" if options.monomials is None else f"{options.monomials} monomials"
    own = ", as in the paper's appendix," if plan.compared else ""
    facts = {"plan": plan, "options": options, "over": over, "own": own, "root": options.psi**0.5}
    start, timed = text(name, "start", **facts), text(name, "timed", timing=trial.timing)
    if plan.splits:
        return start + text(name, "splits", plan=plan), timed
    decay = f"{recipe.weight_decay:.0e}".replace("e-0", "e-")
    trained = "published" if plan.compared else "recipe"
    start += text(name, trained, plan=plan, recipe=recipe, decay=decay) + text(name, "seeds")
    return (start, text(name, "counting"), timed) if plan.compared else (start, timed)


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
    unjudged = () if plan.splits else ("interval", "verdict")
    facts = {"unit": letter, "format": ".1f" if plan.splits else ".2f"}
    sizes = table("table-efficiency", "variants", "Variants", rows, *unjudged, **facts)
    return Findings(_texts(plan), (sizes,))


def _size(speed: SpeedFacts, name: str, total: int, base: int, unit: float) -> dict[str, float]:
    timing = speed.speeds[name]
    sizes = {"total": total / unit, "base": base / unit}
    return sizes | {"speed": timing.mean, "speed_std": timing.std}


Experiment(*heading("table-efficiency"), planned_variants, _variants)

# --- theory -----------------------------------------------------------------------------------


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
        table("table-theory", "theory", "Spectral complexity", rows),
        table("table-theory", "bounds", "Bounds", bounds),
    )
    norms = text("table-theory", "norms", studied=backbone.studied)
    return Findings((text("table-theory"), norms), tables)


Experiment(*heading("table-theory"), studied_variants, _theory)

# --- the polynomials of one network -----------------------------------------------------------


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
    names = ("smallest_own", "own_over_other", "mean_square", "satisfied")
    measured = [
        Row({"when": when} | fields_of(one, *names))
        for when, one in (("as built", trained.vanishing_built), ("trained", trained.vanishing))
    ]
    experiment, caption = "fig-vanishing", "Polynomials by the class of their ideal"
    tables = (
        table(experiment, "vanishing", caption, rows),
        table(experiment, "measures", "How they vanish on test images", measured),
    )
    places = tuple(range(backbone.classes))
    series = Series(f"polynomial of class {label}", places, facts.means)
    axes = (Axis("class", names=tuple(map(str, places))), Axis("mean absolute value", format=".3f"))
    figure = Figure("polynomial", f"One polynomial of class {label}", *axes, (series,))
    cut, count = backbone.variants[name], len(facts.owners)
    shortest = text(experiment, "shortest", label=label, polynomial=facts.text)
    texts = text(experiment, count=count, name=name, cut=cut), shortest
    return Findings(texts, tables, (figure,))


Experiment(*heading("fig-vanishing"), _shown, _vanishing)

# --- choices ----------------------------------------------------------------------------------


def _choices(plan: Plan) -> Trials:
    """Plan a training for every network, size and choice."""
    return {
        (f"{backbone.caption}, {size}", choice): plan.trial(backbone, cut, **changes)
        for backbone in plan.chosen
        for size, cut in backbone.tried.items()
        for choice, changes in list(backbone.choices.items())[: 3 if plan.quick else None]
    }


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
    name, sizes = "table-choices", " and ".join(plan.chosen[0].tried)
    how = text(name, plan=plan, sizes=sizes)
    how += f" {text(name, 'published')}" if plan.compared else ""
    unjudged = "verdict" * (not plan.splits)
    return Findings((how,), (table(name, "choices", "Choices", rows, unjudged, unit=letter),))


Experiment(*heading("table-choices"), _choices, _chosen)
