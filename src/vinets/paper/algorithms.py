"""What algorithms for ideals find: pruned, next to each other, and with oracles that take steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from vinets.heads.vanishing import MAX_POLYNOMIALS
from vinets.models.networks import SIZES
from vinets.paper.comparisons import accuracy_figure
from vinets.paper.plan import (
    Experiment,
    Findings,
    Judged,
    Plan,
    Results,
    Trials,
    count,
    fields_of,
    level,
    series_of,
    share,
)
from vinets.report.values import Axis, Column, Figure, Row, Table
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
    happens = "; this happens to OAVI at early cuts" * plan.compared
    texts = [
        "Of every class, the polynomials with the highest pruning score stay; all their monomials "
        "stay with them. Heads are trained anew for every point. A head holds at most "
        f"{MAX_POLYNOMIALS:,} polynomials: where more are left, as many as fit are taken, the best "
        f"of every class{happens}.",
        *(
            f"Here ψ = {one.search['psi']}, as in the paper: with a smaller one, conditional "
            "gradients take hundreds of thousands of steps."
            for one in plan.chosen
            if one.search
        ),
    ]
    figures = []
    for backbone, algorithm in dict.fromkeys(key[:2] for key in results):
        name, title = f"pruning-{backbone.data}-{algorithm}", ALGORITHMS[algorithm][0]
        own = results.part(backbone, algorithm)
        figure = accuracy_figure(name, f"{backbone.caption}, {title}", own, plan.removed)
        figures.append(figure)
    return Findings(tuple(texts), figures=tuple(figures))


title = "Accuracy against the share of polynomials pruned"
place = "Figures on pruning: ABM, OAVI-CG and OAVI-AGD"
Experiment("fig-pruning", title, place, 5, _pruned, _pruning)

# --- algorithms -------------------------------------------------------------------------------

STOPS = (
    "Conditional gradients (CG) start at a vertex of the ball, accelerated gradients (AGD) at its "
    "centre, and both stop as soon as a polynomial vanishes{}, as the authors' do; the rows with a "
    "gap go on until the mean square is proved to be within 0.01 ψ of the smallest, or 10,000 "
    "steps are done."
)
ORACLE_COLUMNS = (
    Column("algorithm", "algorithm"),
    Column("accuracy", "accuracy %", ".2f"),
    Column("polynomials", "polynomials", ","),
    Column("seconds", "seconds", ".2f"),
    Column("steps", "steps of the oracle", ","),
    Column("nonzeros", "coefficients that are not 0", ","),
)


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
    rows = [
        _oracle_row(cut, name, (one, own[name, cut]))
        for (name, cut), one in results.part("ideals").items()
    ]
    if rows:
        table = Table("oracles", "What the oracles did", ORACLE_COLUMNS, tuple(rows))
        psi = backbone.search["psi"]
        text = f"Nothing is pruned, coefficients stay as they were found, and ψ = {psi}. "
        return Findings((text + STOPS.format(""),), (table,), (figure, size))
    but = ", but for OAVI at early cuts, where only the best "
    but += f"{MAX_POLYNOMIALS:,} polynomials fit into a head"
    text = f"Nothing is pruned{but * plan.compared}. Coefficients are retrained, so the algorithms "
    text += "differ in the monomials and in where training starts."
    return Findings((text,), figures=(figure, size))


def judge_algorithms(rows: str, words: Sequence[str]) -> Iterator[Judged]:
    """Judge what the paper says of ABM and OAVI by the words of differences, ABM less OAVI."""
    text = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    yield "similar accuracy (level)", f"{rows}: {text}", count(w == "level" for w in words)
    yield "ABM is slightly ahead", f"{rows}: {text}", count(w == "ahead" for w in words)


title, place = "Three algorithms over the cuts", "Figure on the algorithms, CIFAR-100"
Experiment("fig-algorithms", title, place, 8, _by_algorithm, _algorithms)

# --- oracles that take steps ------------------------------------------------------------------

KEEP, FEW = 8, 1
"""Polynomials that stay of every class, and how many of these after further pruning."""

UNIT_RULE = "ABM, unit rule"
STEPPING = {  # algorithms of the table, ABM first
    "ABM": {},
    UNIT_RULE: {"normalization": "unit"},
    **dict(ALGORITHMS[name] for name in ("cg", "agd", "cg-gap", "agd-gap")),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "resnet34": {
        **SIZES["resnet34"],
        **{"scale": "unit", "normalization": "leading", "monomials": None},
        # The coefficients stay as the oracle found them: the classifier alone is trained.
        **{"trained": "classifier", "augment": False, "views": 1, "dtype": "float32"},
        **{"precision": "float32", "detailed": True},
    }
}
"""Changes to the settings of the figures, by the name of the network; others have no such table."""

STEP_COLUMNS = (
    *ORACLE_COLUMNS[:2],
    Column("few", f"{FEW} a class, %", ".2f"),
    *ORACLE_COLUMNS[2:],
)
CLAIM_COLUMNS = (
    Column("claim", "the paper says"),
    Column("found", "here"),
    Column("verdict", "holds", better="yes"),
)
STEPS = (
    "Variables are tanh of 128 principal components of unit variance, ψ = 0.1, degree 5. Of every "
    f"class the {KEEP} polynomials with the highest score stand in the head, and {FEW} of them in "
    "the third column. Their coefficients stay as they were found, so that what an oracle does is "
    "what is tested; the classifier behind them is the minimiser of its loss.",
    "ABM decides by the leading rule, as OAVI does, or by the unit rule. "
    f"{STOPS.format(' or provably cannot')} The ball has the radius τ - 1 = 999.",
)


def _stepping(plan: Plan) -> Trials:
    trials: Trials = {}
    for backbone in plan.chosen:
        settings = SETTINGS.get(backbone.name, {})
        for cut in plan.cuts(backbone, tuple(backbone.variants.values())) if settings else ():
            for name, algorithm in STEPPING.items():
                changes, key = settings | algorithm, (backbone, cut, name)
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
    tables = [Table("oracles-cuts", "What the oracles did", STEP_COLUMNS, tuple(rows))]
    if not plan.quick:  # a quick run judges nothing
        tables.append(Table("oracles-claims", "Claims on OAVI", CLAIM_COLUMNS, tuple(claims)))
    return Findings(STEPS, tuple(tables))


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
    text = ", ".join(f"{name} {fmean(values):.2f}" for name, values in losses.items())
    better = [
        loss < ours for name in oavi for ours, loss in zip(losses[abm], losses[name], strict=True)
    ]
    claim = f"OAVI depends less on pruning ({KEEP} to {FEW} polynomials a class) than ABM"
    yield claim, f"mean loss in points: {text}", count(better)


title, place = "Oracles that take steps", "Figures on pruning and on the algorithms, CIFAR-100"
Experiment("table-oracles", title, place, 8.5, _stepping, _steps)
