"""Accuracy over the cuts: heads, pruning, algorithms, and what the polynomials add."""

from __future__ import annotations

from statistics import mean

from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.plan import (
    READINGS,
    REMOVED,
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
from vinets.pipeline.trial import Trial
from vinets.pipeline.vanish import MOST
from vinets.report.values import Axis, Column, Figure, ReferenceLine, Row, Series, Table


def _accuracy_figure(name: str, title: str, found: Results) -> Figure:
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
    level = ReferenceLine("uncut network", 100 * next(iter(found.values())).trained.uncut)
    accuracy = Axis("test accuracy in %", format=".2f")
    return Figure(name, title, REMOVED, accuracy, tuple(series), levels=(level,))


def _accuracy_figures(found: Results) -> tuple[Figure, ...]:
    """One for every id and title that keys begin with."""
    return tuple(
        _accuracy_figure(name, title, part(found, (name, title)))
        for name, title in dict.fromkeys(key[0] for key in found)
    )


# --- truncation -------------------------------------------------------------------------------

HEADS = {"vi": "VI-Net", "linear": "linear head", "random": "random monomials", "mlp": "MLP"}
TRUNCATION = (
    "Nothing is pruned. Coefficients and linear layer are trained for {}; the backbone "
    "stays as it is. The linear head sees the flat map, the MLP stores as many parameters as the "
    "VI head, and random monomials stand in blocks of the same shape."
)


def _truncated(plan: Plan) -> Trials:
    return {
        ((f"truncation-{backbone.data}", backbone.caption), name, cut): plan.trial(
            backbone, cut, head=head
        )
        for backbone, cut in plan.places
        for head, name in HEADS.items()
    }


Experiment(
    "fig-truncation",
    "Accuracy against the share of layers removed",
    "Figures on truncation, CIFAR-100 and CIFAR-10",
    4,
    _truncated,
    lambda plan, found: Findings(
        (TRUNCATION.format(plan.epochs),), figures=_accuracy_figures(found)
    ),
)

# --- pruning and algorithms -------------------------------------------------------------------

ALGORITHMS = {"abm": "ABM", "oavi-cg": "OAVI-CG", "oavi-agd": "OAVI-AGD"}
PANELS = ((RESNET34, "abm"), (RESNET18, "abm"), (RESNET34, "oavi-cg"), (RESNET34, "oavi-agd"))
RATIOS = (0.0, 0.5, 0.9, 0.95, 0.99)
FEW = (0.0, 0.9, 0.99)  # of OAVI, which takes longer
PRUNING = (
    "Of every class, the polynomials with the highest pruning score stay; all their monomials "
    f"stay with them. Heads are trained anew for every point. A head holds at most {MOST:,} "
    "polynomials: where more are left, as many as fit are taken, the best of every class{}."
)
HAPPENS = "; this happens to OAVI at early cuts"  # in a full run
COMPARED = (
    "Nothing is pruned{}. Coefficients are retrained, so the algorithms differ in the monomials "
    "and in where training starts."
)
BUT = f", but for OAVI at early cuts, where only the best {MOST:,} polynomials fit into a head"


def _pruned_trial(plan: Plan, backbone: Backbone, cut: str, algorithm: str, ratio: float) -> Trial:
    """Training after the share ``ratio`` of the polynomials was pruned."""
    # Rounded, for 1 - 0.9 is not 0.1, and a trial is known by its settings.
    keep = None if ratio == 0 else round(1 - ratio, 6)
    name, _, oracle = algorithm.partition("-")
    return plan.trial(backbone, cut, algorithm=name, oracle=oracle or None, keep=keep)


def _pruned(plan: Plan) -> Trials:
    found = {}
    for backbone, algorithm in PANELS:
        name = f"pruning-{backbone.data}-{algorithm}"
        figure = name, f"{backbone.caption}, {ALGORITHMS[algorithm]}"
        ratios = (0.0, 0.9) if plan.quick else RATIOS if algorithm == "abm" else FEW
        for cut in plan.cuts(backbone):
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
        (PRUNING.format("" if plan.quick else HAPPENS),), figures=_accuracy_figures(found)
    ),
)


def _by_algorithm(plan: Plan) -> Trials:
    """Trainings that the figure on pruning has, too."""
    figure = "algorithms", f"{RESNET34.caption}: accuracy"
    return {
        (figure, name, cut): _pruned_trial(plan, RESNET34, cut, algorithm, 0.0)
        for cut in plan.cuts(RESNET34)
        for algorithm, name in ALGORITHMS.items()
    }


def _algorithms_found(plan: Plan, found: Results) -> Findings:
    figures = _accuracy_figures(found)
    if figures:
        sizes: dict[str, list[tuple[float, float, str]]] = {}
        for (_, name, cut), one in found.items():
            point = share(one), one.trained.polynomials or 0, cut
            sizes.setdefault(name, []).append(point)
        series = tuple(line(name, points) for name, points in sizes.items())
        title = f"{RESNET34.caption}: polynomials in the head"
        count = Axis("polynomials", log=True, format=",.0f")
        figures += (Figure("algorithms-size", title, REMOVED, count, series),)
    return Findings((COMPARED.format("" if plan.quick else BUT),), figures=figures)


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
    "vi": "VI-Net",
    "linear": "linear head, flat",
    "random": "random monomials",
    "mlp": "MLP",
    "pooled": "linear head, pooled",
    "components": "linear on components",
}
MEAN_SQUARE = next(iter(READINGS))
EARLY = 3  # cuts of ResNet-18 where one seed cannot tell
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
    """Trainings of the figure on ResNet-34 and of the table, for every seed."""
    wanted = [(RESNET34, MEAN_SQUARE, cut, head) for cut in plan.cuts(RESNET34) for head in SIMPLE]
    for reading in READINGS:
        for cut in plan.cuts(RESNET18)[: 1 if plan.quick else EARLY]:
            wanted += [(RESNET18, reading, cut, head) for head in ("vi", "random")]
    return {
        (backbone, reading, SIMPLE[head], cut, seed): plan.trial(
            backbone, cut, head=head, seed=seed, **READINGS[reading]
        )
        for backbone, reading, cut, head in wanted
        # Unit variance, which is not what the figures take, does without the first seed.
        for seed in range("scale" in READINGS[reading], plan.seeds)
    }


def _baselines_found(plan: Plan, found: Results) -> Findings:
    places = dict.fromkeys((backbone, reading, cut) for backbone, reading, _, cut, _ in found)
    rows = tuple(_duel(found, *place) for place in places)
    table = Table("random", "VI-Net and random monomials", DUEL_COLUMNS, rows)
    name, own = f"baselines-{RESNET34.data}", part(found, RESNET34, MEAN_SQUARE)
    figures = (_accuracy_figure(name, RESNET34.caption, own),) if own else ()
    text = tuple(one.format(plan.components) for one in BASELINES)
    return Findings(text[:-1] if plan.quick else text, (table,), figures)


def _duel(found: Results, backbone: Backbone, reading: str, cut: str) -> Row:
    """VI-Net against random monomials, seed by seed."""
    heads = [part(found, backbone, reading, SIMPLE[h], cut).values() for h in ("vi", "random")]
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
