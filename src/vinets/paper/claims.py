"""What the paper says of its experiments, claim by claim, held against the results here.

A function for every place in the paper yields what it claims there, what was found here, and a
verdict. Where results keep single answers, accuracies are compared by :func:`level`; on CIFAR,
where they do not, by their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import mean
from typing import TypeAlias

from scipy.stats import spearmanr

from vinets.measure.dimension import dimension_correlation
from vinets.measure.level import Difference
from vinets.paper.algorithms import ALGORITHMS, judge_algorithms
from vinets.paper.backbones import GENERATORS, UNCUT, Backbone
from vinets.paper.generators import A_CLASS
from vinets.paper.plan import (
    EXPERIMENTS,
    Experiment,
    Findings,
    Judged,
    Plan,
    Results,
    Trials,
    count,
    judge,
    level,
    part,
    trained,
)
from vinets.report.formats import number
from vinets.report.values import Column, Row, Table
from vinets.runs.trial import TrainingFacts

COUNTS = ("monomials", "polynomials")
STRONG = 0.7  # a correlation that counts
MOSTLY = 0.95  # share of the polynomials
EARLY, LATE = 40, 20  # percent of the layers: at least so many are removed, or at most


class Evidence:
    """Results by the name of their experiment, and the tables and figures that come of them."""

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results = plan, results
        self._known: dict[str, Findings] = {}

    def findings(self, experiment: str) -> Findings:
        """Return what an experiment says, which is put together once."""
        if experiment not in self._known:
            own = part(self.results, experiment)
            self._known[experiment] = EXPERIMENTS[experiment].finding(self.plan, own)
        return self._known[experiment]

    def rows(self, experiment: str, section: str) -> list[Row]:
        """Return rows of the first table whose section begins so."""
        table = self.findings(experiment).tables[0]
        return [row for row in table.rows if (row.section or "").startswith(section)]

    def figure(self, experiment: str, name: str) -> dict[str, dict[float, float]]:
        """Return series of a figure: name to values by x, mostly a share removed in percent."""
        figures = self.findings(experiment).figures
        figure = next(figure for figure in figures if figure.id == name)
        return {
            series.name: {x: y for x, y in zip(series.x, series.y, strict=True) if y is not None}
            for series in figure.series
        }


def points(value: float) -> str:
    """Write a difference in points."""
    return number(value, "+.2f")


def rank(x: Iterable[float], y: Iterable[float]) -> float:
    """Return the rank correlation; 0 where one of them is constant, so that it has no order."""
    values = list(x), list(y)
    return float(spearmanr(*values).statistic) if min(map(len, map(set, values))) > 1 else 0.0


# --- tables -----------------------------------------------------------------------------------


def _table_one(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    rows = evidence.rows("table-generators", backbone.caption)
    removed = [row.values["removed"] for row in rows]
    counts = (A_CLASS.name, "polynomials") if backbone.splits else COUNTS
    ranks = {name: rank(removed, [row.values[name] for row in rows]) for name in counts}
    yield judge(
        "earlier cuts give more (rank correlation over 0.7)",
        ((f"{number(value, '.2f')} of {name}", value > STRONG) for name, value in ranks.items()),
        "rank correlation {}",
    )
    if backbone.name not in GENERATORS:
        return
    near = {
        name: [abs(row.values[name] / row.paper[name] - 1) <= 0.1 for row in rows]
        for name in COUNTS
    }
    text = ", ".join(f"{sum(near[name])} of {len(rows)} of {name}" for name in COUNTS)
    holds = count(map(all, zip(*near.values(), strict=True)))
    yield "numbers of monomials and polynomials (to a tenth)", text, holds
    slowest = max(rows, key=lambda row: float(row.paper["seconds"])).values["speedup"]
    ratios = [row.values["speedup"] for row in rows]
    text = f"{slowest:,.0f} times less in the slowest row, {min(ratios):,.0f} at least; other "
    holds = "less here" if min(ratios) > 1 else f"less in {sum(r > 1 for r in ratios)}"
    yield "seconds", f"{text}machines, other counts", holds


def _table_two(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    *variants, uncut = evidence.rows("table-efficiency", backbone.caption)
    if backbone.name in UNCUT:
        for name, what in (("base", "truncated networks"), ("head", "heads")):
            pairs = [(row.values[name], row.paper[name]) for row in variants]
            cases = [(f"{a:.2f} ({b:.2f})", abs(a - b) < 0.01) for a, b in pairs]
            yield judge(f"parameters of the {what}", cases, "{} million")
        pairs = [(row.values["delta"], row.paper["delta"]) for row in variants]
        cases = [(f"{points(a)} ({points(b)})", abs(a - b) <= 1) for a, b in pairs]
        yield judge("what a cut does to accuracy (to 1 point)", cases)
        cases = [(points(a), a > -1) for a, _ in pairs]
        yield judge("VI-Nets match the uncut network (to 1 point)", cases)
    else:
        words = [(row.values["delta"], row.values["verdict"]) for row in variants]
        cases = [(f"{points(delta)} ({word})", word in ("level", "ahead")) for delta, word in words]
        yield judge("VI-Nets match the uncut network (level or ahead)", cases)
    shares = [row.values["total"] / uncut.values["total"] for row in variants]
    cases = [(f"{share:.0%}", share < 1) for share in shares]
    yield judge("VI-Nets are smaller than the uncut network", cases, "{} of its parameters")
    base, theirs, cases = uncut.values, uncut.paper.get("speed"), []
    for row in variants:
        ours = row.values
        text = f"{ours['speed'] / base['speed']:.2f}×"
        text += f" ({row.paper['speed'] / theirs:.2f}×)" if theirs else ""
        noise = math.hypot(ours["speed_std"] or 0.0, base["speed_std"] or 0.0)
        cases.append((text, ours["speed"] - base["speed"] > noise))
    clear = f"{{}}; {sum(faster for _, faster in cases)} beyond the spread"
    yield judge("VI-Nets are often faster than it", cases, clear)


# --- truncation, by the means of accuracies ---------------------------------------------------


def _gaps(ours: Mapping[float, float], theirs: Mapping[float, float]) -> dict[float, float]:
    return {x: ours[x] - theirs[x] for x in ours}


def _above(claim: str, ours: Mapping[float, float], theirs: Mapping[float, float]) -> Judged:
    """Judge whether one head is above another at every cut."""
    gaps = _gaps(ours, theirs).values()
    text = f"{points(min(gaps))} to {points(max(gaps))}, {points(mean(gaps))} on average"
    return claim, text, count(gap > 0 for gap in gaps)


def _truncation(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    heads = evidence.figure("fig-truncation", f"truncation-{backbone.data}")
    ours, linear, random = (heads[n] for n in ("VI-Net", "linear head", "random monomials"))
    # Over seeds, where there are several, the mean difference has to exceed its deviation.
    gaps = _gaps(ours, random)
    spreads, first = dict.fromkeys(gaps, 0.0), next(iter(backbone.readings))
    for row in evidence.rows("fig-baselines", f"{backbone.caption}: {first}"):
        x = row.values["removed"]
        gaps[x], spreads[x] = row.values["difference"], row.values["difference_std"] or 0.0
    ahead = {x: gaps[x] > spreads[x] for x in gaps}
    rest = [f"{points(gaps[x])} ± {spreads[x]:.2f} with {x:.0f} %" for x in gaps if not ahead[x]]
    text = f"ahead at {sum(ahead.values())} of {len(gaps)} cuts"
    text += f"; not decided: {', '.join(rest)}" if rest else ""
    yield "VI-Net is above random monomials at every cut", text, count(ahead.values())
    if not backbone.baselines:
        yield _above("VI-Net is above a linear head (flat)", ours, linear)
        late = [gap for x, gap in _gaps(linear, ours).items() if x <= LATE]
        yield judge(
            f"with at most {LATE} % removed a linear head is as good (to 0.5)",
            ((points(gap), gap > -0.5) for gap in late),
            "linear head less VI-Net {}",
        )
        late = [gap for x, gap in _gaps(random, linear).items() if x <= 30]
        yield judge(
            "with at most 30 % removed random monomials are well below it (by over 1)",
            ((points(gap), gap < -1) for gap in late),
            "random monomials less linear head {}",
        )
        return
    half = min(ours, key=lambda share: abs(share - 50))
    uncut = evidence.rows("table-efficiency", backbone.caption)[-1].values["accuracy"]
    loss = ours[half] - uncut
    claim = "with half of the layers removed VI-Net is competitive (3 points at most)"
    yield claim, f"{points(loss)} with {half:.0f} % removed", count([loss > -3])
    heads = evidence.figure("fig-baselines", f"baselines-{backbone.data}")
    ours = heads["VI-Net"]
    early = [x for x in ours if x > EARLY] or list(ours)
    cases = []
    for head, place in (
        ("linear head, pooled", "the pooled map"),
        ("linear on components", "the same components"),
        ("linear head, flat", "the flat map"),
    ):
        wins = sum(ours[x] > heads[head][x] for x in early)
        cases.append((f"{wins} of {len(early)} on {place}", wins == len(early)))
    claim = f"with many layers removed (over {EARLY} %) it is above a linear head"
    yield judge(claim, cases, "ahead at {}")


def _ours(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    heads = evidence.figure("fig-truncation", f"truncation-{backbone.data}")
    yield _above("VI-Net is above an MLP of as many parameters", heads["VI-Net"], heads["MLP"])
    if backbone.baselines:
        heads = evidence.figure("fig-baselines", f"baselines-{backbone.data}")
        x = max(heads["VI-Net"])
        base = heads["linear on components"][x]
        whole, some = heads["VI-Net"][x] - base, heads["random monomials"][x] - base
        text = f"with {x:.0f} % removed {points(whole)}, of which {points(some)} with random ones"
        claim = "most of the gain over the same components is lost with random monomials"
        yield claim, text, count([some < 0.5 * whole])


def _algorithms(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    abm, *others = evidence.figure("fig-algorithms", "algorithms").values()
    by_cut = [(abm[x], [other[x] for other in others]) for x in abm]
    spreads = [max(ours, *theirs) - min(ours, *theirs) for ours, theirs in by_cut]
    text = f"apart by {mean(spreads):.2f} on average, {max(spreads):.2f} at most"
    yield "similar accuracy (to 2 points)", text, count(spread <= 2 for spread in spreads)
    gaps = [ours - max(theirs) for ours, theirs in by_cut]
    text = f"{points(mean(gaps))} on average over the better OAVI"
    yield "ABM is slightly ahead", text, count(gap > 0 for gap in gaps)


# --- truncation, by single answers ------------------------------------------------------------


ByCut: TypeAlias = dict[str, list[TrainingFacts]]
"""Trainings by cut, one for every split."""


def _against(ours: ByCut, theirs: ByCut) -> dict[str, Difference]:
    """Return one head less another, cut by cut."""
    return {cut: level(ours[cut], theirs[cut]) for cut in ours}


def _judge_gaps(claim: str, gaps: Mapping[str, Difference], wins: bool, said: str = "{}") -> Judged:
    """Judge differences by cut: whether the first of two is ahead, or at least not behind."""
    cases = []
    for cut, gap in gaps.items():
        holds = gap.word == "ahead" if wins else gap.word != "behind"
        cases.append((f"{cut} {points(gap.value)} ({gap.word})", holds))
    return judge(claim, cases, said)


def _heads(evidence: Evidence, backbone: Backbone) -> dict[str, ByCut]:
    """Return the trainings of the figure on truncation by the kind of their head."""
    results = part(evidence.results, "fig-truncation", backbone)
    cuts = evidence.plan.cuts(backbone)
    return {
        kind: {cut: trained(results, name, cut) for cut in cuts}
        for kind, name in backbone.heads.items()
    }


def _truncation_by_level(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    heads = _heads(evidence, backbone)
    shares = evidence.figure("fig-truncation", f"truncation-{backbone.data}")["VI-Net"]
    removed = dict(zip(heads["vanishing"], shares, strict=True))  # percent
    ours, linear = heads["vanishing"], heads["linear"]
    claim = "VI-Net is above random monomials at every cut"
    yield _judge_gaps(claim, _against(ours, heads["random"]), wins=True)
    yield _judge_gaps("VI-Net is above a linear head (flat)", _against(ours, linear), wins=True)
    late = {cut: linear[cut] for cut, x in removed.items() if x <= LATE}
    claim = f"with at most {LATE} % removed a linear head is as good (level or ahead)"
    yield _judge_gaps(claim, _against(late, ours), wins=False, said="linear head less VI-Net: {}")
    half = min(removed, key=lambda cut: abs(removed[cut] - 50))
    loss = level(ours[half])
    text = f"{points(loss.value)} ({loss.shown}) with {removed[half]:.0f} % removed"
    holds = count([loss.interval is not None and loss.interval[0] > -3])
    yield "with half of the layers removed VI-Net is competitive (3 points at most)", text, holds
    early = [cut for cut, x in removed.items() if x > EARLY] or list(removed)
    cases = []
    for kind in ("pooled", "components", "linear"):
        gaps = _against(ours, heads[kind])
        wins = sum(gaps[cut].word == "ahead" for cut in early)
        text = f"{wins} of {len(early)} of {backbone.heads[kind]}"
        cases.append((text, wins == len(early)))
    claim = f"with many layers removed (over {EARLY} %) it is above a linear head"
    yield judge(claim, cases, "ahead at {}")


def _ours_by_level(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    heads = _heads(evidence, backbone)
    ours = heads["vanishing"]
    for kind, what in (
        ("mlp", "an MLP of as many parameters"),
        ("same-degrees", "random monomials of the same degrees"),
        ("components", "a linear layer on its variables"),
    ):
        yield _judge_gaps(f"VI-Net is above {what}", _against(ours, heads[kind]), wins=True)
    cases = []
    for cut, (first, *_) in ours.items():
        if facts := first.vanishing:
            cases.append((f"{cut} {facts.smallest_own:.0%}", facts.smallest_own >= MOSTLY))
    claim = f"polynomials are smallest on their own class on test images ({MOSTLY:.0%} or more)"
    yield judge(claim, cases, "{} of them")


def _algorithms_by_level(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    results = part(evidence.results, "fig-algorithms", backbone)
    cuts = evidence.plan.cuts(backbone)
    abm, *others = (
        {cut: trained(results, ALGORITHMS[algorithm][0], cut) for cut in cuts}
        for algorithm in backbone.algorithms
    )
    gaps = [gap for theirs in others for gap in _against(abm, theirs).values()]
    yield from judge_algorithms(f"ABM against {len(others)} others at {len(cuts)} cuts", gaps)


# --- pruning ----------------------------------------------------------------------------------


def _deepest(plan: Plan) -> str:
    """Return the highest share that every algorithm is pruned to."""
    return "90%" if plan.quick else "99%"


def _pruning(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    def losses(algorithm: str, ratio: str) -> dict[float, float]:
        shares = evidence.figure("fig-pruning", f"pruning-{backbone.data}-{algorithm}")
        return _gaps(shares[f"{ratio} pruned"], shares["0% pruned"])

    moderate = "90%" if evidence.plan.quick else "50%"
    if backbone.splits:
        own = part(evidence.results, "fig-pruning", backbone, "abm")
        some, none = (
            {cut: trained(own, f"{ratio} pruned", cut) for cut in evidence.plan.cuts(backbone)}
            for ratio in (moderate, "0%")
        )
        claim = f"moderate pruning ({moderate.replace('%', ' %')}) costs nothing (level or ahead)"
        yield _judge_gaps(claim, _against(some, none), wins=False)
    else:
        gaps = losses("abm", moderate).values()
        text = f"{points(mean(gaps))} on average, {points(min(gaps))} at worst"
        holds = count(gap > -1 for gap in gaps)
        yield "moderate pruning (50 %) costs less than a point", text, holds

    deep = _deepest(evidence.plan)
    most = losses("abm", deep)
    order = sorted(most)
    half = len(order) // 2
    late, early = (mean(most[x] for x in cuts) for cuts in (order[:half], order[half:]))
    worst = min(most, key=most.__getitem__)
    text = f"{points(early)} in the earlier half of the cuts, {points(late)} in the later; "
    text += f"most, {points(most[worst])}, with {worst:.0f} % removed"
    holds = count((early < late, worst == order[-1]))
    yield "extreme pruning (99 %) hurts more at early cuts, most at the first", text, holds

    if len(backbone.algorithms) > 1:
        sizes = {
            ALGORITHMS[algorithm][0]: mean(map(abs, losses(algorithm, deep).values()))
            for algorithm in backbone.algorithms
        }
        text = ", ".join(f"{name} {size:.2f}" for name, size in sizes.items())
        abm, *others = sizes.values()
        holds = count(size < abm for size in others)
        yield "OAVI depends less on it (99 %) than ABM", f"mean change {text}", holds


# --- generators and theory --------------------------------------------------------------------


def _monomials(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    figure = evidence.figure("fig-monomials", f"monomials-{backbone.data}")
    every, limit = figure[f"{_deepest(evidence.plan)} pruned"], evidence.plan.components
    counts = {x: every[x] for x in every if 20 <= x <= 50} or every
    yield judge(
        f"pruning (99 %) leaves fewer than {limit} with 20 to 50 % removed",
        ((f"{left:.0f} with {x:.0f} %", left < limit) for x, left in counts.items()),
    )


def _generators(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    counts = evidence.figure("fig-generators", "generators-by-layer")
    ranks = {name: rank(series, series.values()) for name, series in counts.items()}
    yield judge(
        "earlier layers give more (rank correlation below −0.7)",
        ((f"{number(value, '.2f')} of {name}", value < -STRONG) for name, value in ranks.items()),
        "rank correlation with depth {}",
    )
    if not backbone.residual:
        return
    monomials = list(counts["monomials"].values())
    # The last block comes first, because a quick plan begins in the middle of a block.
    pairs = zip(monomials[-2::-2], monomials[::-2], strict=False)
    more = [behind > inside for inside, behind in pairs]
    half = len(more) // 2
    text = f"more behind a block's sum than inside it in {sum(more)} of {len(more)} blocks"
    text += f", {sum(more[:half])} of the {half} last"
    yield "unusually many monomials where residual blocks begin", text, count(more)


def _dimension(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    rows = evidence.rows("fig-dimension", backbone.caption)
    counted = A_CLASS.name if backbone.splits else "monomials"
    x, y = ([row.values[name] for row in rows] for name in ("dimension", counted))
    c = dimension_correlation(x, y)
    text = f"correlation {number(c.pearson, '.2f')} (p = {c.pearson_p:.2g}), {c.count} cuts"
    clear = c.pearson > STRONG and c.pearson_p < 0.05
    yield "monomials grow with it (correlation over 0.7)", text, count([clear])


def _theory(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    facts = [one.complexity for one in part(evidence.results, "table-theory").values()]
    yield judge(
        "VI-Nets have a smaller spectral complexity than the uncut network (κ below 1)",
        ((number(one.kappa, "+.2f"), one.kappa < 0) for one in facts),
        "log₁₀ κ {}",
    )
    holds = [bound["holds"] for one in facts for bound in one.bounds]
    text = f"{sum(holds)} of {len(holds)} bounds hold"
    yield "the theorem's bounds on W_M, W_C and W_F hold", text, count(holds)


# --- the experiment ---------------------------------------------------------------------------

CLAIMS: dict[str, Callable[[Evidence, Backbone], Iterator[Judged]]] = {
    "Table 1": _table_one,
    "Table 2": _table_two,
    "Truncation": _truncation,
    "Pruning": _pruning,
    "Monomials": _monomials,
    "Algorithms": _algorithms,
    "Generators": _generators,
    "Dimension": _dimension,
    "not in the paper": _ours,
}
"""What is claimed by where it stands in the paper."""

BY_LEVEL = CLAIMS | {
    "Truncation": _truncation_by_level,
    "Algorithms": _algorithms_by_level,
    "Theory": _theory,
    "not in the paper": _ours_by_level,
}
"""The same where accuracies are compared over splits and test images."""

NEEDS: dict[str, Callable[[Backbone], object]] = {
    "Generators": lambda backbone: backbone.layers,
    # The paper says these of the larger network alone, which is the one with several algorithms.
    **dict.fromkeys(
        ("Algorithms", "Monomials", "Dimension"), lambda backbone: len(backbone.algorithms) > 1
    ),
}
"""Which networks a claim is about, where it is not about all of them."""

SOURCES = (
    *("table-generators", "table-efficiency", "fig-truncation", "fig-pruning", "fig-monomials"),
    *("fig-generators", "fig-algorithms", "fig-dimension", "fig-baselines"),
    "table-theory",
)
COLUMNS = (
    Column("where", "in the paper"),
    Column("claim", "it says"),
    Column("found", "here"),
    Column("verdict", "holds", better="yes"),
)
TEXT = (
    "Our words for what the paper says of each table and figure, what the same experiment gave "
    "here{}, and whether it agrees; what its words leave open is in brackets behind them. {}. Four "
    "numbers are those of Tiny, Small, Medium and Large."
)
AS_PRINTED = "", "Numbers in brackets in the third column are the paper's"
ON_SMALLER_DATA = (
    " on smaller data",
    "Two networks are level if the paired 95 % interval of their difference in accuracy over "
    "splits and test images contains 0",
)
UNJUDGED = (
    "A full run holds these claims of the paper, in our words, against its results. Those of a "
    "quick run decide nothing, so that none of them is judged here.",
)


def _planned(plan: Plan) -> Trials:
    """Plan the trials of all experiments of the paper."""
    return {
        (name, *key): trial
        for name in SOURCES
        for key, trial in EXPERIMENTS[name].planned(plan).items()
    }


def _judged(plan: Plan, results: Results) -> Findings:
    evidence, rows = Evidence(plan, results), []
    for backbone in plan.chosen:
        for where, claims in (BY_LEVEL if backbone.splits else CLAIMS).items():
            for judged in claims(evidence, backbone) if NEEDS.get(where, bool)(backbone) else ():
                values = dict(zip(("claim", "found", "verdict"), judged, strict=True))
                rows.append(Row({"where": where} | values, section=backbone.caption))
    if plan.quick:
        shown = ("where", "claim")
        rows = [replace(row, values={name: row.values[name] for name in shown}) for row in rows]
        return Findings(UNJUDGED, (Table("claims", "Claims", COLUMNS[:2], tuple(rows)),))
    text = TEXT.format(*(AS_PRINTED if plan.compared else ON_SMALLER_DATA))
    return Findings((text,), (Table("claims", "Claims", COLUMNS, tuple(rows)),))


Experiment("claims", "What holds", "all of its experiments", 1, _planned, _judged)
