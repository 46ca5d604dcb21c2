"""Accuracy over the cuts: by head, by size, by what is trained, by algorithm, and pruned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import mean
from typing import Any

from vinets.heads.vanishing import MAX_POLYNOMIALS
from vinets.paper import heading, table, text
from vinets.paper.backbones import Backbone
from vinets.paper.plan import (
    Experiment,
    Findings,
    Judged,
    Key,
    Plan,
    Results,
    Trials,
    accuracies,
    averaged,
    fields_of,
    judge,
    level,
    series_of,
    share,
)
from vinets.report.values import Axis, Figure, ReferenceLine, Row
from vinets.runs.trial import TrialResult

ACCURACY = Axis("test accuracy in %", format=".2f")


def accuracy_figure(
    name: str,
    title: str,
    results: Results,
    x: Axis,
    place: Callable[[TrialResult], float] = share,
    **more: Any,
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
        return Findings((text("fig-truncation", plan=plan),), figures=figures)
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
    levels = table("fig-truncation", f"levels-{backbone.data}", backbone.caption, rows)
    texts = (text("fig-truncation", part, plan=plan) for part in ("splits", "level"))
    return Findings(tuple(texts), (levels,), figures)


Experiment(*heading("fig-truncation"), _truncated, _truncation)


def _by_size(plan: Plan, results: Results) -> Findings:
    """Show the same accuracies against everything that the networks store."""
    (one,) = plan.chosen
    axis = Axis("parameters", log=True, format=",.0f")
    name, own = f"parameters-{one.data}", results.part(one)
    figure = accuracy_figure(
        name, one.caption, own, axis, lambda result: result.trained.parameters, kind="scatter"
    )
    return Findings((text("fig-parameters"),), figures=(figure,))


Experiment(*heading("fig-parameters"), lambda p: _truncated(p) if p.splits else {}, _by_size)

# --- baselines --------------------------------------------------------------------------------

SIMPLE = {  # heads of the figure on truncation come first, so that colours agree
    **{"vanishing": "VI-Net", "linear": "linear head, flat", "random": "random monomials"},
    **{"mlp": "MLP", "pooled": "linear head, pooled", "components": "linear on components"},
}


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
    duel = table("fig-baselines", "random", "VI-Net and random monomials", rows)
    figures = tuple(
        accuracy_figure(f"baselines-{backbone.data}", backbone.caption, own, plan.removed)
        for backbone in plan.chosen
        if backbone.baselines and (own := results.part(backbone, next(iter(backbone.readings))))
    )
    parts = ("text", "same") if plan.quick else ("text", "same", "early")
    texts = (text("fig-baselines", part, plan=plan) for part in parts)
    return Findings(tuple(texts), (duel,), figures)


Experiment(*heading("fig-baselines"), _seeds, _baselines)

# --- training of the coefficients -------------------------------------------------------------

CLASSIFIER, BOTH = "W_F alone", "C and W_F"
WEIGHTS = (0.0, 0.1, 1.0, 10.0)


def _trained(plan: Plan) -> Trials:
    trials: Trials = {}
    for backbone in plan.chosen:
        for cut in backbone.kept:
            drawn = bool(backbone.studied) and cut == backbone.kept[-1]
            changes = {**backbone.keeping, "trained": "classifier", "studied": drawn}
            trials[backbone, cut, CLASSIFIER, 0.0] = plan.trial(backbone, cut, **changes)
            for weight in WEIGHTS:
                changes |= {"trained": "coefficients", "vanish": weight}
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
            facts, built, after = one.trained, one.trained.vanishing_built, one.trained.vanishing
            assert after is not None and built is not None  # it is a VI-Net
            alone = what == CLASSIFIER
            values = {"trained": what, "weight": None if alone else weight}
            values["verdict"] = None if alone else level([facts], [first]).word
            values |= {"accuracy": 100 * facts.accuracy, "smallest": 100 * after.smallest_own}
            values |= {"ratio": after.own_over_other, "square": after.mean_square}
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
    unjudged = "verdict" * plan.quick  # a quick run judges nothing
    kept = table("fig-kept", "kept", "Training and vanishing", rows, unjudged)
    return Findings((text("fig-kept"),), (kept,), figures)


Experiment(*heading("fig-kept"), _trained, _kept)

# --- algorithms for ideals --------------------------------------------------------------------

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
FEW_RATIOS = (0.0, 0.9, 0.99)  # OAVI gets these, because it takes longer


def _pruned(plan: Plan) -> Trials:
    trials: Trials = {}
    for algorithm, (_, settings) in ALGORITHMS.items():
        ratios = (0.0, 0.9) if plan.quick else RATIOS if algorithm == "abm" else FEW_RATIOS
        for backbone in reversed(plan.chosen):  # the larger network first, as in the paper
            for cut in plan.cuts(backbone) if algorithm in backbone.algorithms else ():
                for ratio in ratios:
                    # Rounded, because 1 - 0.9 is not 0.1, and a trial is known by its settings.
                    keep = round(1 - ratio, 6) if ratio else None
                    changes = {**backbone.search, **settings, "keep": keep}
                    key = backbone, algorithm, f"{ratio:.0%} pruned", cut
                    trials[key] = plan.trial(backbone, cut, **changes)
    return trials


def _pruning(plan: Plan, results: Results) -> Findings:
    happens = text("fig-pruning", "happens") * plan.compared
    texts = [text("fig-pruning", room=MAX_POLYNOMIALS, happens=happens)]
    texts += [text("fig-pruning", "search", **one.search) for one in plan.chosen if one.search]
    figures = []
    for backbone, algorithm in dict.fromkeys(key[:2] for key in results):
        name, title = f"pruning-{backbone.data}-{algorithm}", ALGORITHMS[algorithm][0]
        own = results.part(backbone, algorithm)
        figure = accuracy_figure(name, f"{backbone.caption}, {title}", own, plan.removed)
        figures.append(figure)
    return Findings(tuple(texts), figures=tuple(figures))


Experiment(*heading("fig-pruning"), _pruned, _pruning)

# --- algorithms -------------------------------------------------------------------------------


def _oracle_row(section: str, name: str, results: Sequence[TrialResult], **more: Any) -> Row:
    """Return what an algorithm did behind a cut, and the accuracy of its polynomials."""
    ideals, training = results
    values = fields_of(ideals.found, "polynomials", "seconds", "steps", "nonzeros") | more
    accuracy = 100 * training.trained.accuracy
    return Row({"algorithm": name, "accuracy": accuracy} | values, section=section)


def _by_algorithm(plan: Plan) -> Trials:
    """Plan trainings of the figure on pruning anew where a network has several algorithms."""
    trials: Trials = {}
    for backbone, cut in plan.places:
        for algorithm in backbone.algorithms if len(backbone.algorithms) > 1 else ():
            name, settings = ALGORITHMS[algorithm]
            changes = {**backbone.search, **settings}
            trials[backbone, name, cut] = plan.trial(backbone, cut, keep=None, **changes)
            if backbone.splits:  # what the oracles did, next to their accuracy
                trials["ideals", name, cut] = plan.trial(backbone, cut, task="ideals", **changes)
    return trials


def _algorithms(plan: Plan, results: Results) -> Findings:
    (backbone,) = (one for one in plan.chosen if len(one.algorithms) > 1)
    caption, own = backbone.caption, results.part(backbone)
    figure = accuracy_figure("algorithms", f"{caption}: accuracy", own, plan.removed)
    sizes = {key: (share(one), one.trained.polynomials or 0) for key, one in own.items()}
    axes = (plan.removed, Axis("polynomials", log=True, format=",.0f"))
    title = f"{caption}: polynomials in the head"
    size = Figure("algorithms-size", title, *axes, series_of(sizes))
    if not backbone.splits:
        but = text("fig-algorithms", "but", room=MAX_POLYNOMIALS) * plan.compared
        return Findings((text("fig-algorithms", but=but),), figures=(figure, size))
    ideals = results.part("ideals").items()
    rows = [_oracle_row(cut, name, (one, own[name, cut])) for (name, cut), one in ideals]
    oracles = table("table-oracles", "oracles", ORACLES, rows, "few", few=KEEP_FEWER)
    stops = text("fig-algorithms", "stops", also="")
    how = text("fig-algorithms", "splits", stops=stops, **backbone.search)
    return Findings((how,), (oracles,), (figure, size))


def judge_algorithms(rows: str, words: Sequence[str]) -> Iterator[Judged]:
    """Judge what the paper says of ABM and OAVI by the words of differences, ABM less OAVI."""
    found = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    for claim, wanted in (("similar-level", "level"), ("abm-ahead", "ahead")):
        yield judge(claim, (word == wanted for word in words), cases=f"{rows}: {found}")


Experiment(*heading("fig-algorithms"), _by_algorithm, _algorithms)

# --- oracles that take steps ------------------------------------------------------------------

ORACLES = "What the oracles did"
KEEP, KEEP_FEWER = 8, 1
"""Polynomials that stay of every class, and how many of these after further pruning."""

UNIT_RULE = "ABM, unit rule"
STEPPING = {  # algorithms of the table, ABM first
    "ABM": {},
    UNIT_RULE: {"normalization": "unit"},
    **dict(ALGORITHMS[name] for name in ("cg", "agd", "cg-gap", "agd-gap")),
}


def _stepping(plan: Plan) -> Trials:
    trials: Trials = {}
    for backbone in plan.chosen:
        cuts = plan.cuts(backbone, tuple(backbone.variants.values()))
        for cut in cuts if backbone.stepping else ():
            for name, algorithm in STEPPING.items():
                changes, key = {**backbone.stepping, **algorithm}, (backbone, cut, name)
                # Trials of one algorithm follow each other, so that its ideals are found once.
                trials[*key, None] = plan.trial(backbone, cut, task="ideals", **changes)
                for keep in (KEEP, KEEP_FEWER):
                    trials[*key, keep] = plan.trial(backbone, cut, **(changes | {"keep": keep}))
    return trials


def _steps(plan: Plan, results: Results) -> Findings:
    rows, claims = [], []
    for backbone, cut, name in dict.fromkeys(key[:3] for key in results):
        ideals, most, few = (
            results[backbone, cut, name, keep] for keep in (None, KEEP, KEEP_FEWER)
        )
        accuracy, section = 100 * few.trained.accuracy, f"{backbone.caption}, {cut}"
        rows.append(_oracle_row(section, name, (ideals, most), few=accuracy))
    for backbone in dict.fromkeys(key[0] for key in results):
        for judged in _step_claims(results.part(backbone)):
            values = dict(zip(("claim", "found", "verdict"), judged, strict=True))
            claims.append(Row(values, section=backbone.caption))
    tables = [table("table-oracles", "oracles-cuts", ORACLES, rows, few=KEEP_FEWER)]
    if not plan.quick:  # a quick run judges nothing
        tables.append(table("table-oracles", "oracles-claims", "Claims on OAVI", claims))
    stops = text("fig-algorithms", "stops", also=" or provably cannot")
    how = (
        text("table-oracles", keep=KEEP, few=KEEP_FEWER),
        text("table-oracles", "rules", stops=stops),
    )
    return Findings(how, tuple(tables))


def _step_claims(own: Results) -> Iterator[Judged]:
    """Judge what the paper says of OAVI by the rule for *level*, cut by cut."""
    cuts = list(dict.fromkeys(cut for cut, *_ in own))
    abm, *oavi = (name for name in STEPPING if name != UNIT_RULE)
    most, few = (
        {key[:2]: one.trained for key, one in own.items() if key[2] == keep}
        for keep in (KEEP, KEEP_FEWER)
    )
    pairs = [([most[cut, abm]], [most[cut, name]]) for name in oavi for cut in cuts]
    rows = f"ABM against {len(oavi)} rows of OAVI at {len(cuts)} cuts"
    yield from judge_algorithms(rows, [level(*pair).word for pair in pairs])
    losses = {
        name: [100 * (most[cut, name].accuracy - few[cut, name].accuracy) for cut in cuts]
        for name in (abm, *oavi)
    }
    cases = ", ".join(f"{name} {mean(values):.2f}" for name, values in losses.items())
    better = [
        loss < ours for name in oavi for ours, loss in zip(losses[abm], losses[name], strict=True)
    ]
    yield judge("oavi-few", better, cases=cases, keep=KEEP, few=KEEP_FEWER)


Experiment(*heading("table-oracles"), _stepping, _steps)
