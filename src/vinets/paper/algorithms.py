"""What algorithms for ideals find: pruned, next to each other, and with oracles that take steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from vinets.heads.vanishing import MAX_POLYNOMIALS
from vinets.paper import columns, heading, text
from vinets.paper.comparisons import accuracy_figure
from vinets.paper.plan import (
    Experiment,
    Findings,
    Judged,
    Plan,
    Results,
    Trials,
    fields_of,
    judge,
    level,
    series_of,
    share,
)
from vinets.report.values import Axis, Figure, Row, Table
from vinets.runs.trial import TrialResult

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

# --- pruning ----------------------------------------------------------------------------------

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
    rows = tuple(
        _oracle_row(cut, name, (one, own[name, cut]))
        for (name, cut), one in results.part("ideals").items()
    )
    shown = columns("table-oracles", "few", few=FEW)
    stops = text("fig-algorithms", "stops", also="")
    how = text("fig-algorithms", "splits", stops=stops, **backbone.search)
    return Findings((how,), (Table("oracles", ORACLES, shown, rows),), (figure, size))


def judge_algorithms(rows: str, words: Sequence[str]) -> Iterator[Judged]:
    """Judge what the paper says of ABM and OAVI by the words of differences, ABM less OAVI."""
    found = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    for claim, wanted in (("similar-level", "level"), ("abm-ahead", "ahead")):
        yield judge(claim, (word == wanted for word in words), cases=f"{rows}: {found}")


Experiment(*heading("fig-algorithms"), _by_algorithm, _algorithms)

# --- oracles that take steps ------------------------------------------------------------------

ORACLES = "What the oracles did"
KEEP, FEW = 8, 1
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
                for keep in (KEEP, FEW):
                    trials[*key, keep] = plan.trial(backbone, cut, **(changes | {"keep": keep}))
    return trials


def _steps(plan: Plan, results: Results) -> Findings:
    rows, claims = [], []
    for backbone, cut, name in dict.fromkeys(key[:3] for key in results):
        ideals, most, few = (results[backbone, cut, name, keep] for keep in (None, KEEP, FEW))
        accuracy, section = 100 * few.trained.accuracy, f"{backbone.caption}, {cut}"
        rows.append(_oracle_row(section, name, (ideals, most), few=accuracy))
    for backbone in dict.fromkeys(key[0] for key in results):
        for judged in _step_claims(results.part(backbone)):
            values = dict(zip(("claim", "found", "verdict"), judged, strict=True))
            claims.append(Row(values, section=backbone.caption))
    tables = [Table("oracles-cuts", ORACLES, columns("table-oracles", few=FEW), tuple(rows))]
    if not plan.quick:  # a quick run judges nothing
        shown = columns("table-oracles", table="claims")
        tables.append(Table("oracles-claims", "Claims on OAVI", shown, tuple(claims)))
    stops = text("fig-algorithms", "stops", also=" or provably cannot")
    how = text("table-oracles", keep=KEEP, few=FEW), text("table-oracles", "rules", stops=stops)
    return Findings(how, tuple(tables))


def _step_claims(own: Results) -> Iterator[Judged]:
    """Judge what the paper says of OAVI by the rule for *level*, cut by cut."""
    cuts = list(dict.fromkeys(cut for cut, *_ in own))
    abm, *oavi = (name for name in STEPPING if name != UNIT_RULE)
    most, few = (
        {key[:2]: one.trained for key, one in own.items() if key[2] == keep} for keep in (KEEP, FEW)
    )
    pairs = [([most[cut, abm]], [most[cut, name]]) for name in oavi for cut in cuts]
    rows = f"ABM against {len(oavi)} rows of OAVI at {len(cuts)} cuts"
    yield from judge_algorithms(rows, [level(*pair).word for pair in pairs])
    losses = {
        name: [100 * (most[cut, name].accuracy - few[cut, name].accuracy) for cut in cuts]
        for name in (abm, *oavi)
    }
    cases = ", ".join(f"{name} {fmean(values):.2f}" for name, values in losses.items())
    better = [
        loss < ours for name in oavi for ours, loss in zip(losses[abm], losses[name], strict=True)
    ]
    yield judge("oavi-few", better, cases=cases, keep=KEEP, few=FEW)


Experiment(*heading("table-oracles"), _stepping, _steps)
