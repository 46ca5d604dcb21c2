"""Accuracy head by head: truncation, parameters, what polynomials add, and if they still vanish."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any, TypeAlias

from vinets.paper.backbones import Backbone
from vinets.paper.plan import (
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    Trials,
    accuracies,
    averaged,
    level,
    series_of,
    share,
)
from vinets.report.values import Axis, Column, Figure, ReferenceLine, Row, Table
from vinets.runs.trial import TrialResult

ACCURACY = Axis("test accuracy in %", format=".2f")
Place: TypeAlias = Callable[[TrialResult], float]


def accuracy_figure(
    name: str, title: str, results: Results, x: Axis, place: Place = share, **more: Any
) -> Figure:
    """Return accuracy against the share removed, or another x; the uncut network is a dashed line.

    Results have the keys (series, cut, ...); where the rest tells several apart, such as seeds,
    their mean and standard deviation are drawn.
    """
    points = {key: (place(one), 100 * one.trained.accuracy) for key, one in results.items()}
    first, *_ = results  # the uncut networks are the same behind every cut
    uncut = 100 * mean(one.uncut for one in results.trained(*first[:2]))
    levels = (ReferenceLine("uncut network", uncut),)
    return Figure(name, title, x, ACCURACY, series_of(points), levels=levels, **more)


# --- truncation -------------------------------------------------------------------------------

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
        (backbone, name, cut, seed): plan.trial(backbone, cut, head=head, seed=seed)
        for backbone, cut in plan.places
        for head, name in backbone.heads.items()
        for seed in range(plan.seeds if backbone.splits else 1)
    }


def _truncation(plan: Plan, results: Results) -> Findings:
    figures = tuple(
        accuracy_figure(f"truncation-{one.data}", one.caption, results.part(one), plan.removed)
        for one in plan.chosen
    )
    if not plan.splits:
        text = (
            f"Nothing is pruned. Coefficients and linear layer are trained for {plan.epochs}; the "
            "backbone stays as it is. The linear head sees the flat map, the MLP stores as many "
            "parameters as the VI head, and random monomials stand in blocks of the same shape."
        )
        return Findings((text,), figures=figures)
    rows = []
    (backbone,) = plan.chosen
    vi, *others = backbone.heads.values()
    for cut in plan.cuts(backbone):
        ours = results.trained(backbone, vi, cut)
        section = f"{cut}: VI-Net {mean(accuracies(ours)):.2f} %"
        for name in (*others, "uncut network"):
            theirs = results.trained(backbone, name, cut) or None  # None is the uncut network
            gap = level(ours, theirs)
            means = accuracies(theirs) if theirs else [100 * one.uncut for one in ours]
            values = {"head": name, "cut": cut, **averaged("theirs", means)}
            values |= {"difference": gap.value, "interval": gap.shown, "verdict": gap.word}
            rows.append(Row(values, section=section))
    table = Table(f"levels-{backbone.data}", backbone.caption, LEVEL_COLUMNS, tuple(rows))
    texts = (
        f"Mean and standard deviation over {plan.seeds} splits into training and test images, each "
        f"with an uncut network of its own. Of every class the {plan.options.keep} polynomials "
        "with the highest score stay, and their coefficients stay as they were found: the linear "
        "layer behind them is the minimiser of the regularised logistic loss, and so is every "
        "linear layer of the baselines. The MLP, which has about as many parameters as the VI "
        f"head, is trained for {plan.epochs}. The linear layer on components and both kinds of "
        f"random monomials see the same {plan.components} variables as the polynomials.",
        "Two networks are level if the paired 95 % interval of their difference over splits and "
        "test images contains 0.",
    )
    return Findings(texts, (table,), figures)


title = "Accuracy against the share of layers removed"
place = "Figures on truncation, CIFAR-100 and CIFAR-10"
Experiment("fig-truncation", title, place, 4, _truncated, _truncation)


def _by_size(plan: Plan, results: Results) -> Findings:
    """Show the same accuracies against everything that the networks store."""
    (one,) = plan.chosen
    axis = Axis("parameters", log=True, format=",.0f")
    name, own = f"parameters-{one.data}", results.part(one)
    figure = accuracy_figure(
        name, one.caption, own, axis, lambda result: result.trained.parameters, kind="scatter"
    )
    return Findings((PARAMETERS,), figures=(figure,))


title, place = "Accuracy against parameters", "Table 2, as a figure"
Experiment(
    "fig-parameters", title, place, 5.5, lambda p: _truncated(p) if p.splits else {}, _by_size
)

# --- baselines --------------------------------------------------------------------------------

SIMPLE = {  # heads of the figure on truncation come first, so that colours agree
    **{"vanishing": "VI-Net", "linear": "linear head, flat", "random": "random monomials"},
    **{"mlp": "MLP", "pooled": "linear head, pooled", "components": "linear on components"},
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


def _seeds(plan: Plan) -> Trials:
    """Plan trainings of the figure and of the table, for every seed."""
    wanted = []
    for backbone in reversed(plan.chosen):  # the network of the figure comes first
        if backbone.baselines:
            first, places = next(iter(backbone.readings)), plan.cuts(backbone)
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


def _baselines(plan: Plan, results: Results) -> Findings:
    rows = []
    for backbone, reading, cut in dict.fromkeys((b, r, cut) for b, r, _, cut, _ in results):
        key, other = (backbone, reading, SIMPLE["vanishing"], cut), SIMPLE["random"]
        first, *_ = results.part(*key).values()
        ours = accuracies(results.trained(*key))
        theirs = accuracies(results.trained(backbone, reading, other, cut))
        gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
        values = {"cut": cut, "removed": share(first), **averaged("vi", ours)}
        values |= averaged("random", theirs) | averaged("difference", gaps)
        values["wins"] = f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}"
        rows.append(Row(values, section=f"{backbone.caption}: {reading}"))
    table = Table("random", "VI-Net and random monomials", DUEL_COLUMNS, tuple(rows))
    figures = tuple(
        accuracy_figure(f"baselines-{backbone.data}", backbone.caption, own, plan.removed)
        for backbone in plan.chosen
        if backbone.baselines and (own := results.part(backbone, next(iter(backbone.readings))))
    )
    text = tuple(one.format(plan.components) for one in BASELINES)
    return Findings(text[:-1] if plan.quick else text, (table,), figures)


Experiment("fig-baselines", "What the polynomials add", "not in the paper", 10, _seeds, _baselines)

# --- training of the coefficients -------------------------------------------------------------

# The one paper pipeline, of which the published figures on CIFAR differ in scale and rule.
_PIPELINE = {"scale": "unit", "normalization": "leading", "keep": 128, "monomials": 512}
_PIPELINE |= {"views": 2, "precision": "float32"}
LOOKED_AT: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "digits": (("relu1", "pool"), {"epochs": 20}),
    "resnet18": (("layer2.1.bn2", "layer3.1.bn1"), _PIPELINE),
}
"""Cuts that are looked at, and changes to the settings, by the name of the network."""

CLASSIFIER, BOTH = "W_F alone", "C and W_F"
WEIGHTS = (0.0, 0.1, 1.0, 10.0)
KEPT_COLUMNS = (
    Column("trained", "trained"),
    Column("weight", "weight", "g"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("verdict", "against W_F alone"),
    Column("smallest", "smallest on their class %", ".1f"),
    Column("ratio", "mean own ÷ mean other", ".3f"),
    Column("square", "mean square, leading 1", ".3g"),
    Column("built", "mean own ÷ mean other, as built", ".3f"),
)
KEPT = (
    "Polynomials are generators of class ideals as long as nothing but the linear layer behind "
    "them, W_F, is trained. Training of the coefficients, C, moves them. The loss then gets a "
    "second part: the mean square of every polynomial on its own class, divided by that on the "
    "others, times a weight. All figures are those of test images; a polynomial that vanishes on "
    "its class alone is smallest there, and the ratio of its means is near 0.",
)


def _trained(plan: Plan) -> Trials:
    trials: Trials = {}
    for backbone in plan.chosen:
        cuts, settings = LOOKED_AT.get(backbone.name, ((), {}))
        for cut in cuts:
            drawn = bool(backbone.studied) and cut == cuts[-1]
            changes = settings | {"trained": "classifier", "studied": drawn}
            trials[backbone, cut, CLASSIFIER, 0.0] = plan.trial(backbone, cut, **changes)
            for weight in WEIGHTS:
                changes = settings | {"trained": "coefficients", "vanish": weight}
                changes["studied"] = drawn and weight in (0.0, 1.0)
                trials[backbone, cut, BOTH, weight] = plan.trial(backbone, cut, **changes)
    return trials


def _kept(plan: Plan, results: Results) -> Findings:
    rows = []
    points: dict[Backbone, dict[Key, tuple[float, float]]] = {}
    for backbone, cut in dict.fromkeys(key[:2] for key in results):
        own, here = results.part(backbone, cut), {}
        first = own[CLASSIFIER, 0.0].trained
        for (what, weight), one in own.items():
            facts, built, kept = one.trained, one.trained.vanishing_built, one.trained.vanishing
            assert kept is not None and built is not None  # it is a VI-Net
            alone = what == CLASSIFIER
            values = {"trained": what, "weight": None if alone else weight}
            values["verdict"] = None if alone else level([facts], [first]).word
            values |= {"accuracy": 100 * facts.accuracy, "smallest": 100 * kept.smallest_own}
            values |= {"ratio": kept.own_over_other, "square": kept.mean_square}
            values["built"] = built.own_over_other
            if one.polynomials is not None:  # the drawing takes a line of text for each
                means = [" ".join(f"{x:.2g}" for x in row) for row in one.polynomials.trained]
                values |= {"owners": one.polynomials.owners, "means": means}
            rows.append(Row(values, section=f"{backbone.caption}, {cut}"))
            name = what if alone else f"weight {weight:g}"
            here[cut, name] = values["ratio"], values["accuracy"]
        ordered = sorted(here.items(), key=lambda item: item[1])
        points.setdefault(backbone, {}).update(ordered)
    axes = (Axis("mean on the own class ÷ mean on the others", format=".2f"), ACCURACY)
    figures = tuple(
        Figure(f"kept-{one.data}", one.caption, *axes, series_of(own))
        for one, own in points.items()
    )
    # A quick run judges nothing.
    columns = tuple(one for one in KEPT_COLUMNS if one.name != "verdict" or not plan.quick)
    table = Table("kept", "Training and vanishing", columns, tuple(rows))
    return Findings(KEPT, (table,), figures)


Experiment(
    "fig-kept", "Accuracy and vanishing after training", "not in the paper", 12, _trained, _kept
)
