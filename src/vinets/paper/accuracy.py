"""Accuracy over the cuts: heads, pruning, algorithms, and what the polynomials add."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

from vinets.heads.vanishing import MAX_POLYNOMIALS
from vinets.paper.backbones import Backbone
from vinets.paper.level import level, level_with_uncut
from vinets.paper.plan import (
    Experiment,
    Findings,
    Plan,
    Results,
    Trials,
    line,
    part,
    share,
    spread,
)
from vinets.report.values import Axis, Column, Figure, ReferenceLine, Row, Series, Table
from vinets.runs.trial import Trial, TrialResult


def _accuracy_figure(plan: Plan, name: str, title: str, found: Results) -> Figure:
    """Accuracy against the share removed; the uncut network is a dashed line.

    Results have the keys (series, cut, ...); where the rest tells several apart, such as seeds,
    their mean and standard deviation are drawn.
    """
    series = []
    for head in dict.fromkeys(key[0] for key in found):
        own = part(found, head)
        by_cut = {cut: list(part(own, cut).values()) for cut, *_ in own}
        values = [[100 * one.trained.accuracy for one in some] for some in by_cut.values()]
        x, y = (share(some[0]) for some in by_cut.values()), map(mean, values)
        std = tuple(map(spread, values)) if any(len(some) > 1 for some in values) else None
        series.append(Series(head, tuple(x), tuple(y), tuple(by_cut), std))
    head, cut, *_ = next(iter(found))  # the uncut networks are the same behind every cut
    uncut = mean(one.trained.uncut for one in part(found, head, cut).values())
    accuracy = Axis("test accuracy in %", format=".2f")
    levels = (ReferenceLine("uncut network", 100 * uncut),)
    return Figure(name, title, plan.removed, accuracy, tuple(series), levels=levels)


def _accuracy_figures(plan: Plan, found: Results) -> tuple[Figure, ...]:
    """One for every id and title that keys begin with."""
    return tuple(
        _accuracy_figure(plan, name, title, part(found, (name, title)))
        for name, title in dict.fromkeys(key[0] for key in found)
    )


# --- truncation -------------------------------------------------------------------------------

TRUNCATION = (
    "Nothing is pruned. Coefficients and linear layer are trained for {}; the backbone "
    "stays as it is. The linear head sees the flat map, the MLP stores as many parameters as the "
    "VI head, and random monomials stand in blocks of the same shape."
)
SOLVED = (
    "Mean and standard deviation over {splits} splits into training and test images, each with an "
    "uncut network of its own. Of every class the {keep} polynomials with the highest score stay, "
    "and their coefficients stay as they were found: the linear layer behind them is the minimiser "
    "of the regularised logistic loss, and so is every linear layer of the baselines. The MLP, "
    "which has about as many parameters as the VI head, is trained for {epochs}. The linear layer "
    "on components and both kinds of random monomials see the same {components} variables as the "
    "polynomials.",
    "Two networks are level if the paired 95 % interval of their difference over splits and test "
    "images contains 0.",
)
PARAMETERS = (
    "The networks of the figure on truncation by everything that they store, backbone included. A "
    "mark is a cut, with the mean and standard deviation over the splits."
)
LEVEL_COLUMNS = (
    Column("head", "VI-Net against"),
    Column("theirs", "its accuracy %", ".2f", "theirs_std"),
    Column("difference", "difference", "+.2f"),
    Column("interval", "95 % interval"),
    Column("verdict", "VI-Net is"),
)


def _truncated(plan: Plan) -> Trials:
    return {
        (
            (f"truncation-{backbone.data}", backbone.caption),
            name,
            cut,
            seed,
        ): plan.trial(backbone, cut, head=head, seed=seed)
        for backbone, cut in plan.places
        for head, name in backbone.heads.items()
        for seed in range(len(plan.networks(backbone)))
    }


def _truncation_found(plan: Plan, found: Results) -> Findings:
    figures = _accuracy_figures(plan, found)
    if not plan.chosen[0].splits:
        return Findings((TRUNCATION.format(plan.epochs),), figures=figures)
    tables = tuple(
        _levels(backbone, part(found, (f"truncation-{backbone.data}", backbone.caption)))
        for backbone in plan.chosen
    )
    facts = {"splits": plan.seeds, "keep": plan.options.keep, "epochs": plan.epochs}
    text = tuple(one.format(components=plan.components, **facts) for one in SOLVED)
    return Findings(text, tables, figures)


def _levels(backbone: Backbone, found: Results) -> Table:
    """VI-Net against every other head and the uncut network, cut by cut."""
    rows = []
    ours, *others = backbone.heads.values()
    for cut in dict.fromkeys(key[1] for key in found):
        heads = {
            name: [one.trained for one in part(found, name, cut).values()]
            for name in backbone.heads.values()
        }
        accuracies = {name: [100 * one.accuracy for one in heads[name]] for name in others}
        compared = {name: level(heads[ours], heads[name]) for name in others}
        accuracies["uncut network"] = [100 * one.uncut for one in heads[ours]]
        compared["uncut network"] = level_with_uncut(heads[ours])
        mine = [100 * one.accuracy for one in heads[ours]]
        section = f"{cut}: VI-Net {mean(mine):.2f} %"
        for name, difference in compared.items():
            values = {
                "head": name,
                "cut": cut,
                "theirs": mean(accuracies[name]),
                "theirs_std": spread(accuracies[name]),
                "difference": difference.value,
                "interval": difference.shown,
                "verdict": difference.word,
            }
            rows.append(Row(values, section=section))
    return Table(f"levels-{backbone.data}", backbone.caption, LEVEL_COLUMNS, tuple(rows))


def _by_parameters(plan: Plan, found: Results) -> Findings:
    """The same accuracies against everything that the networks store."""
    figures = []
    for figure in _accuracy_figures(plan, found):
        own = part(found, (figure.id, figure.title))
        series = tuple(
            replace(
                one,
                x=tuple(own[one.name, cut, 0].trained.parameters for cut in one.labels),
            )
            for one in figure.series
        )
        name = figure.id.replace("truncation", "parameters")
        axis = Axis("parameters", log=True, format=",.0f")
        figures.append(replace(figure, id=name, x=axis, series=series, kind="scatter"))
    return Findings((PARAMETERS,), figures=tuple(figures))


Experiment(
    "fig-parameters",
    "Accuracy against parameters",
    "Table 2, as a figure",
    5.5,
    lambda plan: _truncated(plan) if plan.chosen[0].splits else {},
    _by_parameters,
)
Experiment(
    "fig-truncation",
    "Accuracy against the share of layers removed",
    "Figures on truncation, CIFAR-100 and CIFAR-10",
    4,
    _truncated,
    _truncation_found,
)

# --- pruning and algorithms -------------------------------------------------------------------

_OAVI = {"algorithm": "oavi", "normalization": None}  # the rule is an option of ABM alone
_CG = {**_OAVI, "oracle": "cg", "oracle_start": "vertex"}
_AGD = {**_OAVI, "oracle": "agd", "oracle_start": "zero"}
ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "abm": ("ABM", {}),
    # As they were published on CIFAR: the oracle starts at least squares, and takes no step.
    "oavi-cg": ("OAVI-CG from least squares", {**_OAVI, "oracle": "cg"}),
    "oavi-agd": ("OAVI-AGD from least squares", {**_OAVI, "oracle": "agd"}),
    # As the authors' algorithm starts and stops, and to a gap of a hundredth of ψ.
    "cg": ("OAVI-CG", {**_CG, "oracle_stop": "vanishing"}),
    "agd": ("OAVI-AGD", {**_AGD, "oracle_stop": "vanishing"}),
    "cg-gap": ("OAVI-CG, gap 0.01 ψ", {**_CG, "oracle_stop": "gap"}),
    "agd-gap": ("OAVI-AGD, gap 0.01 ψ", {**_AGD, "oracle_stop": "gap"}),
}
"""Algorithms by name, with the names that people read and the settings of the search."""

RATIOS = (0.0, 0.5, 0.9, 0.95, 0.99)
FEW = (0.0, 0.9, 0.99)  # of OAVI, which takes longer
PRUNING = (
    "Of every class, the polynomials with the highest pruning score stay; all their monomials "
    "stay with them. Heads are trained anew for every point. A head holds at most "
    f"{MAX_POLYNOMIALS:,} polynomials: where more are left, as many as fit are taken, the best of "
    "every class{}."
)
HAPPENS = "; this happens to OAVI at early cuts"  # in a full run
COMPARED = (
    "Nothing is pruned{}. Coefficients are retrained, so the algorithms differ in the monomials "
    "and in where training starts."
)
LARGER_PSI = (
    "Here ψ = {psi}, as in the paper: with a smaller one, conditional gradients take hundreds of "
    "thousands of steps."
)
KEPT = (
    "Nothing is pruned, coefficients stay as they were found, and ψ = {psi}. Conditional gradients "
    "(CG) start at a vertex of the ball, accelerated gradients (AGD) at its centre, and both stop "
    "as soon as a polynomial vanishes, as the authors' do; the rows with a gap go on until the "
    "mean square is proved to be within 0.01 ψ of the smallest, or 10,000 steps are done."
)
BUT = (
    f", but for OAVI at early cuts, where only the best {MAX_POLYNOMIALS:,} polynomials fit into a "
    "head"
)


def _pruned_trial(plan: Plan, backbone: Backbone, cut: str, algorithm: str, ratio: float) -> Trial:
    """Training after the share ``ratio`` of the polynomials was pruned."""
    # Rounded, for 1 - 0.9 is not 0.1, and a trial is known by its settings.
    keep = None if ratio == 0 else round(1 - ratio, 6)
    return plan.trial(
        backbone, cut, keep=keep, **(dict(backbone.search) | ALGORITHMS[algorithm][1])
    )


def _pruned(plan: Plan) -> Trials:
    found = {}
    for algorithm, (title, _) in ALGORITHMS.items():
        for backbone in reversed(plan.chosen):  # the larger network first, as in the paper
            name = f"pruning-{backbone.data}-{algorithm}"
            figure = name, f"{backbone.caption}, {title}"
            ratios = (0.0, 0.9) if plan.quick else RATIOS if algorithm == "abm" else FEW
            for cut in plan.cuts(backbone) if algorithm in backbone.algorithms else ():
                for ratio in ratios:
                    trial = _pruned_trial(plan, backbone, cut, algorithm, ratio)
                    found[figure, f"{ratio:.0%} pruned", cut] = trial
    return found


Experiment(
    "fig-pruning",
    "Accuracy against the share of polynomials pruned",
    "Figures on pruning: ABM, OAVI-CG and OAVI-AGD",
    5,
    _pruned,
    lambda plan, found: Findings(
        (
            PRUNING.format(HAPPENS if plan.compared else ""),
            *(LARGER_PSI.format(**one.search) for one in plan.chosen if one.search),
        ),
        figures=_accuracy_figures(plan, found),
    ),
)


ORACLE_COLUMNS = (
    Column("algorithm", "algorithm"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("polynomials", "polynomials", ","),
    Column("seconds", "seconds", ".2f"),
    Column("steps", "steps of the oracle", ","),
    Column("nonzeros", "coefficients that are not 0", ","),
)


def oracle_row(name: str, cut: str, ideals: TrialResult, training: TrialResult) -> Row:
    """Return what an algorithm did behind a cut, and the accuracy of its polynomials."""
    facts = ideals.found
    values = {
        "algorithm": name,
        "accuracy": 100 * training.trained.accuracy,
        "polynomials": facts.polynomials,
        "seconds": facts.seconds,
        "steps": facts.steps,
        "nonzeros": facts.nonzeros,
    }
    return Row(values, section=cut)


def _by_algorithm(plan: Plan) -> Trials:
    """Trainings that the figure on pruning has, too, where a network has several algorithms."""
    found: Trials = {}
    for backbone, cut in plan.places:
        figure = "algorithms", f"{backbone.caption}: accuracy"
        for algorithm in backbone.algorithms if len(backbone.algorithms) > 1 else ():
            name, changes = ALGORITHMS[algorithm]
            found[figure, name, cut] = _pruned_trial(plan, backbone, cut, algorithm, 0.0)
            if backbone.splits:  # what the oracles did, next to their accuracy
                found["ideals", name, cut] = plan.trial(
                    backbone, cut, "ideals", **(dict(backbone.search) | changes)
                )
    return found


def _algorithms_found(plan: Plan, found: Results) -> Findings:
    trained = {key: one for key, one in found.items() if key[0] != "ideals"}
    sizes: dict[str, list[tuple[float, float, str]]] = {}
    for (_, name, cut), one in trained.items():
        sizes.setdefault(name, []).append((share(one), one.trained.polynomials or 0, cut))
    series = tuple(line(name, points) for name, points in sizes.items())
    (figure,) = _accuracy_figures(plan, trained)
    title = figure.title.replace("accuracy", "polynomials in the head")
    count = Axis("polynomials", log=True, format=",.0f")
    figures = (figure, Figure("algorithms-size", title, plan.removed, count, series))
    rows = [
        oracle_row(name, cut, one, trained[(figure.id, figure.title), name, cut])
        for (name, cut), one in part(found, "ideals").items()
    ]
    table = Table("oracles", "What the oracles did", ORACLE_COLUMNS, tuple(rows))
    text = (COMPARED.format(BUT if plan.compared else ""),)
    if rows:
        return Findings((KEPT.format(**plan.chosen[0].search),), (table,), figures)
    return Findings(text, figures=figures)


Experiment(
    "fig-algorithms",
    "Three algorithms over the cuts",
    "Figure on the algorithms, CIFAR-100",
    8,
    _by_algorithm,
    _algorithms_found,
)

# --- baselines --------------------------------------------------------------------------------

SIMPLE = {  # those of the figure on truncation first, so that colours agree
    "vanishing": "VI-Net",
    "linear": "linear head, flat",
    "random": "random monomials",
    "mlp": "MLP",
    "pooled": "linear head, pooled",
    "components": "linear on components",
}
DUEL_COLUMNS = (
    Column("cut", "cut"),
    Column("removed", "removed %", ".1f"),
    Column("vi", "VI-Net %", ".2f", "vi_std"),
    Column("random", "random monomials %", ".2f", "random_std"),
    Column("difference", "difference", "+.2f", "difference_std"),
    Column("wins", "seeds ahead"),
)
BASELINES = (
    "Mean and standard deviation over seeds; a seed draws the points of the ideals, the "
    "augmentation, the random monomials, the first weights and the order of the batches. Nothing "
    "is pruned.",
    "VI-Net, random monomials and the linear layer on components see the same {} principal "
    "components: what VI-Net gains on the linear layer is what polynomials add, and what it gains "
    "on random monomials is what vanishing ideals add. The flat linear head and the MLP see all of "
    "the map, thousands of values, the pooled head the mean of every channel.",
    "At the early cuts of ResNet-18 one seed cannot tell VI-Net from random monomials; the paper "
    "sees the same at the start of residual blocks. There the table has all readings of the paper, "
    "those with components of unit variance for all seeds but the first.",
)


def _baselines(plan: Plan) -> Trials:
    """Trainings of the figure and of the table, for every seed."""
    wanted = []
    for backbone in reversed(plan.chosen):  # those of the figure first
        first = next(iter(backbone.readings))
        if backbone.baselines:
            places = plan.cuts(backbone)
            wanted += [(backbone, first, cut, head) for cut in places for head in SIMPLE]
        early = plan.cuts(backbone)[:1] if plan.quick else backbone.undecided
        for reading in backbone.readings if backbone.undecided else ():
            for cut in early:
                wanted += [(backbone, reading, cut, head) for head in ("vanishing", "random")]
    return {
        (backbone, reading, SIMPLE[head], cut, seed): plan.trial(
            backbone, cut, head=head, seed=seed, **backbone.readings[reading]
        )
        for backbone, reading, cut, head in wanted
        # Unit variance, which is not what the figures take, does without the first seed.
        for seed in range("scale" in backbone.readings[reading], plan.seeds)
    }


def _baselines_found(plan: Plan, found: Results) -> Findings:
    places = dict.fromkeys((backbone, reading, cut) for backbone, reading, _, cut, _ in found)
    rows = tuple(_duel(found, *place) for place in places)
    table = Table("random", "VI-Net and random monomials", DUEL_COLUMNS, rows)
    figures = tuple(
        _accuracy_figure(plan, f"baselines-{backbone.data}", backbone.caption, own)
        for backbone in plan.chosen
        if backbone.baselines and (own := part(found, backbone, next(iter(backbone.readings))))
    )
    text = tuple(one.format(plan.components) for one in BASELINES)
    return Findings(text[:-1] if plan.quick else text, (table,), figures)


def _duel(found: Results, backbone: Backbone, reading: str, cut: str) -> Row:
    """VI-Net against random monomials, seed by seed."""
    heads = [
        part(found, backbone, reading, SIMPLE[head], cut).values()
        for head in ("vanishing", "random")
    ]
    ours, theirs = ([100 * one.trained.accuracy for one in own] for own in heads)
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    values = {
        "cut": cut,
        "removed": share(next(iter(heads[0]))),
        "vi": mean(ours),
        "vi_std": spread(ours),
        "random": mean(theirs),
        "random_std": spread(theirs),
        "difference": mean(gaps),
        "difference_std": spread(gaps),
        "wins": f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}",
    }
    return Row(values, section=f"{backbone.caption}: {reading}")


Experiment(
    "fig-baselines",
    "What the polynomials add",
    "not in the paper",
    10,
    _baselines,
    _baselines_found,
)
