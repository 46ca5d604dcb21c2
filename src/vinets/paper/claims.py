"""What the paper says of its experiments, claim by claim, held against the results here.

A function for every place in the paper yields what it claims there, what was found here, and a
verdict. Accuracies are compared by :func:`level` where results keep single answers, and on CIFAR,
where they do not, by their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from scipy.stats import spearmanr

from vinets.measure.accuracy import Difference
from vinets.measure.dimension import dimension_correlation
from vinets.paper import heading, table, text
from vinets.paper.backbones import UNCUT, Backbone
from vinets.paper.comparisons import ALGORITHMS, SIMPLE, judge_algorithms
from vinets.paper.generators import A_CLASS, counts_of
from vinets.paper.plan import (
    EXPERIMENTS,
    Experiment,
    Findings,
    Judged,
    Plan,
    Results,
    Trials,
    accuracies,
    judge,
    judge_each,
    level,
    share,
)
from vinets.report.numbers import number
from vinets.report.values import Row

COUNTS = ("monomials", "polynomials")
MIN_CORRELATION = 0.7  # a correlation that counts
MIN_SHARE = 0.95  # share of the polynomials
EARLY, LATE = 40, 20  # percent of the layers: at least so many are removed, or at most
LINEAR = {  # what linear heads of the figure on baselines see there
    "pooled": "on the pooled map",
    "components": "on the same components",
    "linear": "on the flat map",
}


class Gap(NamedTuple):
    """One series of a figure less another at a cut, in points."""

    removed: float  # share that the cut takes away, in percent
    text: str  # what is said of the difference
    value: float
    word: str  # as that of Difference


class Evidence:
    """Results on a network by the name of their experiment, and the tables that come of them."""

    def __init__(self, plan: Plan, backbone: Backbone, results: Results) -> None:
        self.plan, self.backbone, self.results = plan, backbone, results
        self.splits = backbone.splits

    def rows(self, experiment: str, reading: str = "") -> list[Row]:
        """Return rows of the first table whose section begins with the network and a reading."""
        findings = EXPERIMENTS[experiment].finding(self.plan, self.results.part(experiment))
        section = f"{self.backbone.caption}{reading}"
        return [row for row in findings.tables[0].rows if (row.section or "").startswith(section)]

    def part(self, experiment: str, *key: Any) -> Results:
        """Return results on the network whose keys go on like this."""
        return self.results.part(experiment, self.backbone, *key)

    def gaps(self, ours: str, theirs: str, *key: Any) -> list[Gap]:
        """Return one series of a figure less another, cut by cut."""
        gaps, results = [], self.part(*key)
        for cut in dict.fromkeys(cut for cut, *_ in results.part(ours)):
            first, *_ = results.part(ours, cut).values()
            pair = results.trained(ours, cut), results.trained(theirs, cut)
            if self.splits:
                value, word = (gap := level(*pair)).value, gap.word
                said = f"{cut} {points(value)} ({word})"
            else:  # without single answers, the sign of the difference is the verdict
                more, less = (mean(accuracies(facts)) for facts in pair)
                value, said = more - less, points(more - less)
                word = Difference(value, (value, value)).word
            gaps.append(Gap(share(first), said, value, word))
        return gaps

    def heads(self, ours: str, theirs: str, seeds: bool = False) -> list[Gap]:
        """Return a kind of head less another in the figure on truncation, or that over seeds."""
        if seeds:
            reading, *_ = self.backbone.readings
            return self.gaps(SIMPLE[ours], SIMPLE[theirs], "fig-baselines", reading)
        names = self.backbone.heads
        return self.gaps(names[ours], names[theirs], "fig-truncation")


Claims = Iterator[Judged]


def points(value: float) -> str:
    """Write a difference in points."""
    return number(value, "+.2f")


def ranks(x: Sequence[float], series: Mapping[str, Sequence[float]]) -> list[tuple[str, float]]:
    """Return rank correlations with x and their text; a constant, which has no order, has 0."""
    found = []
    for name, y in series.items():
        rank = float(spearmanr(x, y).statistic) if min(len({*x}), len({*y})) > 1 else 0.0
        found.append((f"{number(rank, '.2f')} of {name}", rank))
    return found


# --- tables -----------------------------------------------------------------------------------


def _table_one(evidence: Evidence) -> Claims:
    rows = [(row.values, row.paper) for row in evidence.rows("table-generators")]
    removed = [ours["removed"] for ours, _ in rows]
    counts = (A_CLASS, "polynomials") if evidence.splits else COUNTS
    found = ranks(removed, {name: [ours[name] for ours, _ in rows] for name in counts})
    yield judge_each("earlier-cuts", [(said, rank > MIN_CORRELATION) for said, rank in found])
    if evidence.backbone.name not in UNCUT:
        return
    near = [[abs(ours[name] / paper[name] - 1) <= 0.1 for name in COUNTS] for ours, paper in rows]
    cells = zip(COUNTS, zip(*near, strict=True), strict=True)
    cases = ", ".join(f"{sum(holds)} of {len(rows)} of {name}" for name, holds in cells)
    yield judge("counts", map(all, near), cases=cases)
    slowest, _ = max(rows, key=lambda row: float(row[1]["seconds"]))
    ratios = [ours["speedup"] for ours, _ in rows]
    verdict = "less here" if min(ratios) > 1 else f"less in {sum(r > 1 for r in ratios)}"
    yield judge("seconds", verdict, slowest=slowest["speedup"], least=min(ratios))


def _table_two(evidence: Evidence) -> Claims:
    *variants, (base, theirs) = (
        (row.values, row.paper) for row in evidence.rows("table-efficiency")
    )
    if evidence.backbone.name in UNCUT:
        for name in ("base", "head"):
            pairs = [(ours[name], paper[name]) for ours, paper in variants]
            yield judge_each(name, [(f"{a:.2f} ({b:.2f})", abs(a - b) < 0.01) for a, b in pairs])
        pairs = [(ours["delta"], paper["delta"]) for ours, paper in variants]
        cases = [(f"{points(a)} ({points(b)})", abs(a - b) <= 1) for a, b in pairs]
        yield judge_each("delta", cases)
        yield judge_each("match", [(points(a), a > -1) for a, _ in pairs])
    else:
        words = [(ours["delta"], ours["verdict"]) for ours, _ in variants]
        cases = [(f"{points(delta)} ({word})", word in ("level", "ahead")) for delta, word in words]
        yield judge_each("match-level", cases)
    shares = [ours["total"] / base["total"] for ours, _ in variants]
    yield judge_each("smaller", [(f"{share:.0%}", share < 1) for share in shares])
    cases = []
    for ours, paper in variants:
        said = f"{ours['speed'] / base['speed']:.2f}×"
        said += f" ({paper['speed'] / theirs['speed']:.2f}×)" if "speed" in theirs else ""
        noise = math.hypot(ours["speed_std"] or 0.0, base["speed_std"] or 0.0)
        cases.append((said, ours["speed"] - base["speed"] > noise))
    yield judge_each("faster", cases, clear=sum(faster for _, faster in cases))


# --- accuracies over the cuts -----------------------------------------------------------------


def _above(claim: str, gaps: list[Gap], by_level: bool) -> Judged:
    """Judge whether one head is above another at every cut."""
    if by_level:
        return judge_each(claim, [(gap.text, gap.word == "ahead") for gap in gaps])
    values = [gap.value for gap in gaps]
    said = f"{points(min(values))} to {points(max(values))}, {points(mean(values))} on average"
    return judge(claim, (gap.word == "ahead" for gap in gaps), cases=said)


def _truncation(evidence: Evidence) -> Claims:
    splits, backbone, gaps = evidence.splits, evidence.backbone, evidence.heads
    ours = gaps("vanishing", "random")
    if splits:
        yield _above("random", ours, splits)
    else:
        # Over seeds, where there are several, the mean difference has to exceed its deviation.
        first, known = next(iter(backbone.readings)), {x: (gap, 0.0) for x, _, gap, _ in ours}
        for row in evidence.rows("fig-baselines", f": {first}"):
            spread = row.values["difference_std"] or 0.0
            known[row.values["removed"]] = row.values["difference"], spread
        undecided = {x: pair for x, pair in known.items() if pair[0] <= pair[1]}
        cases = f"ahead at {len(known) - len(undecided)} of {len(known)} cuts"
        rest = [f"{points(gap)} ± {std:.2f} with {x:.0f} %" for x, (gap, std) in undecided.items()]
        cases += f"; not decided: {', '.join(rest)}" if rest else ""
        yield judge("random", (x not in undecided for x in known), cases=cases)
    if not backbone.baselines:
        yield _above("linear", gaps("vanishing", "linear"), splits)
        late = [gap for gap in gaps("linear", "vanishing") if gap.removed <= LATE]
        good = [(g.text, g.word != "behind" if splits else g.value > -0.5) for g in late]
        yield judge_each("late-level" if splits else "late", good, late=LATE)
    if not (backbone.baselines or splits):
        late = [gap for gap in gaps("random", "linear") if gap.removed <= 30]
        yield judge_each("late-random", [(gap.text, gap.value < -1) for gap in late])
        return
    half = min(range(len(ours)), key=lambda place: abs(ours[place].removed - 50))
    cut = evidence.plan.cuts(backbone)[half]
    loss = level(evidence.part("fig-truncation").trained("VI-Net", cut))
    said, worst = points(loss.value), loss.value
    if splits:
        said, worst = f"{said} ({loss.shown})", loss.interval[0] if loss.interval else -math.inf
    yield judge("half", [worst > -3], loss=said, removed=ours[half].removed)
    wins = []
    for kind, place in LINEAR.items():
        every = gaps("vanishing", kind, seeds=backbone.baselines)
        early = [gap for gap in every if gap.removed > EARLY] or every
        ahead = sum(gap.word == "ahead" for gap in early)
        rival = f"of {backbone.heads[kind]}" if splits else place
        wins.append((f"{ahead} of {len(early)} {rival}", ahead == len(early)))
    yield judge_each("early", wins, early=EARLY)


def _ours(evidence: Evidence) -> Claims:
    for kind in ("mlp", "same-degrees", "components"):
        if kind in evidence.backbone.heads:
            yield _above(kind, evidence.heads("vanishing", kind), evidence.splits)
    if evidence.backbone.baselines:
        whole, some = (
            evidence.heads(kind, "components", seeds=True)[0] for kind in ("vanishing", "random")
        )
        facts = {"gain": points(whole.value), "random": points(some.value)}
        yield judge("gain", [some.value < 0.5 * whole.value], removed=whole.removed, **facts)
    if evidence.splits:
        cases = []
        for cut in evidence.plan.cuts(evidence.backbone):
            first, *_ = evidence.part("fig-truncation").trained("VI-Net", cut)
            if kept := first.vanishing:
                cases.append((f"{cut} {kept.smallest_own:.0%}", kept.smallest_own >= MIN_SHARE))
        yield judge_each("smallest", cases, mostly=MIN_SHARE)


def _algorithms(evidence: Evidence) -> Claims:
    abm, *others = dict.fromkeys(name for name, _ in evidence.part("fig-algorithms"))
    every = [evidence.gaps(abm, name, "fig-algorithms") for name in others]
    if evidence.splits:
        rows = f"ABM against {len(others)} others at {len(every[0])} cuts"
        yield from judge_algorithms(rows, [gap.word for gaps in every for gap in gaps])
        return
    by_cut = [[gap.value for gap in gaps] for gaps in zip(*every, strict=True)]
    spreads = [max(0.0, *gaps) - min(0.0, *gaps) for gaps in by_cut]
    near = (spread <= 2 for spread in spreads)
    yield judge("similar", near, mean=mean(spreads), most=max(spreads))
    ahead = [min(gaps) for gaps in by_cut]
    said = f"{points(mean(ahead))} on average over the better OAVI"
    yield judge("abm-ahead", (gap > 0 for gap in ahead), cases=said)


def _pruning(evidence: Evidence) -> Claims:
    def losses(algorithm: str, ratio: str) -> list[Gap]:
        return evidence.gaps(f"{ratio} pruned", "0% pruned", "fig-pruning", algorithm)

    moderate, deep = ("90%", "90%") if evidence.plan.quick else ("50%", "99%")
    some = losses("abm", moderate)
    if evidence.splits:
        yield judge_each("moderate-level", [(gap.text, gap.word != "behind") for gap in some])
    else:
        values = [gap.value for gap in some]
        facts = {"mean": points(mean(values)), "worst": points(min(values))}
        yield judge("moderate", (value > -1 for value in values), **facts)

    most = sorted(losses("abm", deep))  # late cuts first
    half, worst = len(most) // 2, min(most, key=lambda gap: gap.value)
    late, early = (mean(gap.value for gap in gaps) for gaps in (most[:half], most[half:]))
    facts = {"early": points(early), "late": points(late), "worst": points(worst.value)}
    yield judge("extreme", (early < late, worst == most[-1]), removed=worst.removed, **facts)

    if len(evidence.backbone.algorithms) > 1:
        every = [(one, losses(one, deep)) for one in evidence.backbone.algorithms]
        sizes = [(one, mean(abs(gap.value) for gap in gaps)) for one, gaps in every]
        cases = ", ".join(f"{ALGORITHMS[one][0]} {size:.2f}" for one, size in sizes)
        (_, abm), *others = sizes
        yield judge("oavi-pruned", (size < abm for _, size in others), cases=cases)


# --- generators and theory --------------------------------------------------------------------


def _monomials(evidence: Evidence) -> Claims:
    limit, own = evidence.plan.components, evidence.part("fig-monomials")
    every = {share(one): one.found.monomials_left["0.99"] for one in own.values()}
    counts = {x: every[x] for x in every if 20 <= x <= 50} or every
    cases = [(f"{left:.0f} with {x:.0f} %", left < limit) for x, left in counts.items()]
    yield judge_each("few-monomials", cases, limit=limit)


def _generators(evidence: Evidence) -> Claims:
    own = evidence.part("fig-generators")
    if not own:
        return
    every = [counts_of(one.found, evidence.backbone) for one in own.values()]
    counts = {name: [one[name] for one in every] for name in every[0]}
    found = ranks(range(len(every)), counts)
    yield judge_each("earlier-layers", [(said, rank < -MIN_CORRELATION) for said, rank in found])
    if not evidence.backbone.residual:
        return
    monomials = counts["monomials"]
    # The last block comes first, because a quick plan begins in the middle of a block.
    pairs = zip(monomials[-2::-2], monomials[::-2], strict=False)
    more = [behind > inside for inside, behind in pairs]
    half = len(more) // 2
    facts = {"more": sum(more), "blocks": len(more), "late": sum(more[:half]), "half": half}
    yield judge("blocks", more, **facts)


def _dimension(evidence: Evidence) -> Claims:
    rows = evidence.rows("fig-dimension")
    counted = A_CLASS if evidence.splits else "monomials"
    x, y = ([row.values[name] for row in rows] for name in ("dimension", counted))
    c = dimension_correlation(x, y)
    clear = c.pearson > MIN_CORRELATION and c.pearson_p < 0.05
    yield judge("dimension", [clear], r=number(c.pearson, ".2f"), p=c.pearson_p, count=c.count)


def _theory(evidence: Evidence) -> Claims:
    facts = [one.complexity for one in evidence.part("table-theory").values()]
    if facts:
        yield judge_each("complexity", [(points(one.kappa), one.kappa < 0) for one in facts])
        holds = [bound["holds"] for one in facts for bound in one.bounds]
        yield judge("bounds", holds, yes=sum(holds), all=len(holds))


# --- the experiment ---------------------------------------------------------------------------

CLAIMS: dict[str, Callable[[Evidence], Claims]] = {
    **{"Table 1": _table_one, "Table 2": _table_two, "Truncation": _truncation},
    **{"Pruning": _pruning, "Monomials": _monomials, "Algorithms": _algorithms},
    **{"Generators": _generators, "Dimension": _dimension},
    **{"not in the paper": _ours, "Theory": _theory},
}
"""What is claimed by where it stands in the paper."""

LARGER_ALONE = ("Algorithms", "Monomials", "Dimension")
"""What the paper says of the larger network alone, which is the one with several algorithms."""

SOURCES = (
    *("table-generators", "table-efficiency", "fig-truncation", "fig-pruning", "fig-monomials"),
    *("fig-generators", "fig-algorithms", "fig-dimension", "fig-baselines", "table-theory"),
)


def _planned(plan: Plan) -> Trials:
    """Plan the trials of all experiments of the paper."""
    return {
        (name, *key): trial
        for name in SOURCES
        for key, trial in EXPERIMENTS[name].planned(plan).items()
    }


def _judged(plan: Plan, results: Results) -> Findings:
    rows = []
    how = text("claims", "compared" if plan.compared else "level")
    smaller = "" if plan.compared else " on smaller data"
    said = text("claims", "quick") if plan.quick else text("claims", how=how, smaller=smaller)
    unjudged = ("found", "verdict") if plan.quick else ()
    for backbone in plan.chosen:
        evidence = Evidence(plan, backbone, results)
        for where, claims in CLAIMS.items():
            if where in LARGER_ALONE and len(backbone.algorithms) == 1:
                continue
            for judged in claims(evidence):
                values = dict(zip(("claim", "found", "verdict"), judged, strict=True))
                for name in unjudged:
                    del values[name]
                rows.append(Row({"where": where, **values}, section=backbone.caption))
    return Findings((said,), (table("claims", "claims", "Claims", rows, *unjudged),))


Experiment(*heading("claims"), _planned, _judged)
