"""What the paper says of its experiments, claim by claim, held against the results here.

A function for every place in the paper yields what it claims there, what was found here, and a
verdict. Accuracies are compared by :func:`level` where results keep single answers, and on CIFAR,
where they do not, by their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any, NamedTuple

from scipy.stats import spearmanr

from vinets.measure.accuracy import Difference
from vinets.measure.dimension import dimension_correlation
from vinets.paper.algorithms import ALGORITHMS, judge_algorithms
from vinets.paper.backbones import UNCUT, Backbone
from vinets.paper.comparisons import SIMPLE
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
    count,
    judge,
    level,
    share,
)
from vinets.report.numbers import number
from vinets.report.values import Column, Row, Table

COUNTS = ("monomials", "polynomials")
STRONG = 0.7  # a correlation that counts
MOSTLY = 0.95  # share of the polynomials
EARLY, LATE = 40, 20  # percent of the layers: at least so many are removed, or at most
LINEAR = {  # what linear heads of the figure on baselines see there
    "pooled": "on the pooled map",
    "components": "on the same components",
    "linear": "on the flat map",
}
OTHERS = {
    "mlp": "an MLP of as many parameters",
    "same-degrees": "random monomials of the same degrees",
    "components": "a linear layer on its variables",
}


class Evidence:
    """Results by the name of their experiment, and the tables that come of them."""

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results = plan, results

    def rows(self, experiment: str, section: str) -> list[Row]:
        """Return rows of the first table whose section begins so."""
        findings = EXPERIMENTS[experiment].finding(self.plan, self.results.part(experiment))
        rows = findings.tables[0].rows
        return [row for row in rows if (row.section or "").startswith(section)]


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


def _table_one(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    rows = [(row.values, row.paper) for row in evidence.rows("table-generators", backbone.caption)]
    removed = [ours["removed"] for ours, _ in rows]
    counts = (A_CLASS.name, "polynomials") if backbone.splits else COUNTS
    found = ranks(removed, {name: [ours[name] for ours, _ in rows] for name in counts})
    cases = [(text, rank > STRONG) for text, rank in found]
    yield judge("earlier cuts give more (rank correlation over 0.7)", cases, "rank correlation {}")
    if backbone.name not in UNCUT:
        return
    near = [[abs(ours[name] / paper[name] - 1) <= 0.1 for name in COUNTS] for ours, paper in rows]
    cells = zip(COUNTS, zip(*near, strict=True), strict=True)
    text = ", ".join(f"{sum(holds)} of {len(rows)} of {name}" for name, holds in cells)
    yield "numbers of monomials and polynomials (to a tenth)", text, count(map(all, near))
    slowest, _ = max(rows, key=lambda row: float(row[1]["seconds"]))
    ratios = [ours["speedup"] for ours, _ in rows]
    text = f"{slowest['speedup']:,.0f} times less in the slowest row, {min(ratios):,.0f} at least"
    holds = "less here" if min(ratios) > 1 else f"less in {sum(r > 1 for r in ratios)}"
    yield "seconds", f"{text}; other machines, other counts", holds


def _table_two(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    *variants, uncut = (
        (row.values, row.paper) for row in evidence.rows("table-efficiency", backbone.caption)
    )
    match = "VI-Nets match the uncut network"
    if backbone.name in UNCUT:
        for name, what in (("base", "truncated networks"), ("head", "heads")):
            pairs = [(ours[name], paper[name]) for ours, paper in variants]
            cases = [(f"{a:.2f} ({b:.2f})", abs(a - b) < 0.01) for a, b in pairs]
            yield judge(f"parameters of the {what}", cases, "{} million")
        pairs = [(ours["delta"], paper["delta"]) for ours, paper in variants]
        cases = [(f"{points(a)} ({points(b)})", abs(a - b) <= 1) for a, b in pairs]
        yield judge("what a cut does to accuracy (to 1 point)", cases)
        yield judge(f"{match} (to 1 point)", [(points(a), a > -1) for a, _ in pairs])
    else:
        words = [(ours["delta"], ours["verdict"]) for ours, _ in variants]
        cases = [(f"{points(delta)} ({word})", word in ("level", "ahead")) for delta, word in words]
        yield judge(f"{match} (level or ahead)", cases)
    base, theirs = uncut
    shares = [ours["total"] / base["total"] for ours, _ in variants]
    cases = [(f"{share:.0%}", share < 1) for share in shares]
    yield judge("VI-Nets are smaller than the uncut network", cases, "{} of its parameters")
    cases = []
    for ours, paper in variants:
        text = f"{ours['speed'] / base['speed']:.2f}×"
        text += f" ({paper['speed'] / theirs['speed']:.2f}×)" if "speed" in theirs else ""
        noise = math.hypot(ours["speed_std"] or 0.0, base["speed_std"] or 0.0)
        cases.append((text, ours["speed"] - base["speed"] > noise))
    clear = f"{{}}; {sum(faster for _, faster in cases)} beyond the spread"
    yield judge("VI-Nets are often faster than it", cases, clear)


# --- accuracies over the cuts -----------------------------------------------------------------


class Gap(NamedTuple):
    """One series of a figure less another at a cut, in points."""

    removed: float  # share that the cut takes away, in percent
    text: str  # what is said of the difference
    value: float
    word: str  # as that of Difference


def _gaps(evidence: Evidence, ours: str, theirs: str, *key: Any) -> list[Gap]:
    """Return one series of a figure less another, cut by cut.

    ``key`` is an experiment, a network, and what else the keys of its results begin with.
    """
    gaps, results, (_, backbone, *_) = [], evidence.results.part(*key), key
    for cut in dict.fromkeys(cut for cut, *_ in results.part(ours)):
        first, *_ = results.part(ours, cut).values()
        pair = results.trained(ours, cut), results.trained(theirs, cut)
        if backbone.splits:
            value, word = (gap := level(*pair)).value, gap.word
            text = f"{cut} {points(value)} ({word})"
        else:  # without single answers, the sign of the difference is the verdict
            more, less = (mean(accuracies(facts)) for facts in pair)
            value, text = more - less, points(more - less)
            word = Difference(value, (value, value)).word
        gaps.append(Gap(share(first), text, value, word))
    return gaps


def _heads(
    evidence: Evidence, backbone: Backbone, ours: str, theirs: str, seeds: bool = False
) -> list[Gap]:
    """Return a kind of head less another in the figure on truncation, or that over seeds."""
    if not seeds:
        names = (backbone.heads[ours], backbone.heads[theirs])
        return _gaps(evidence, *names, "fig-truncation", backbone)
    reading, *_ = backbone.readings
    return _gaps(evidence, SIMPLE[ours], SIMPLE[theirs], "fig-baselines", backbone, reading)


def _above(claim: str, gaps: list[Gap], by_level: bool) -> Judged:
    """Judge whether one head is above another at every cut."""
    judged = judge(claim, [(gap.text, gap.word == "ahead") for gap in gaps])
    values = [gap.value for gap in gaps]
    text = f"{points(min(values))} to {points(max(values))}, {points(mean(values))} on average"
    return judged if by_level else (claim, text, judged[2])


def _truncation(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    splits, gaps = backbone.splits, partial(_heads, evidence, backbone)
    claim, ours = "VI-Net is above random monomials at every cut", gaps("vanishing", "random")
    if splits:
        yield _above(claim, ours, splits)
    else:
        # Over seeds, where there are several, the mean difference has to exceed its deviation.
        first, known = next(iter(backbone.readings)), {x: (gap, 0.0) for x, _, gap, _ in ours}
        for row in evidence.rows("fig-baselines", f"{backbone.caption}: {first}"):
            spread = row.values["difference_std"] or 0.0
            known[row.values["removed"]] = row.values["difference"], spread
        undecided = {x: pair for x, pair in known.items() if pair[0] <= pair[1]}
        text = f"ahead at {len(known) - len(undecided)} of {len(known)} cuts"
        rest = [f"{points(gap)} ± {std:.2f} with {x:.0f} %" for x, (gap, std) in undecided.items()]
        text += f"; not decided: {', '.join(rest)}" if rest else ""
        yield claim, text, count(x not in undecided for x in known)
    if not backbone.baselines:
        yield _above("VI-Net is above a linear head (flat)", gaps("vanishing", "linear"), splits)
        late = [gap for gap in gaps("linear", "vanishing") if gap.removed <= LATE]
        cases = [(g.text, g.word != "behind" if splits else g.value > -0.5) for g in late]
        good = f"with at most {LATE} % removed a linear head is as good"
        good += " (level or ahead)" if splits else " (to 0.5)"
        yield judge(good, cases, f"linear head less VI-Net{':' * splits} {{}}")
    if not (backbone.baselines or splits):
        late = [gap for gap in gaps("random", "linear") if gap.removed <= 30]
        yield judge(
            "with at most 30 % removed random monomials are well below it (by over 1)",
            [(gap.text, gap.value < -1) for gap in late],
            "random monomials less linear head {}",
        )
        return
    half = min(range(len(ours)), key=lambda place: abs(ours[place].removed - 50))
    cut = evidence.plan.cuts(backbone)[half]
    loss = level(evidence.results.trained("fig-truncation", backbone, "VI-Net", cut))
    text, worst = points(loss.value), loss.value
    if splits:
        text, worst = f"{text} ({loss.shown})", loss.interval[0] if loss.interval else -math.inf
    claim = "with half of the layers removed VI-Net is competitive (3 points at most)"
    yield claim, f"{text} with {ours[half].removed:.0f} % removed", count([worst > -3])
    cases = []
    for kind, place in LINEAR.items():
        every = gaps("vanishing", kind, seeds=backbone.baselines)
        early = [gap for gap in every if gap.removed > EARLY] or every
        wins = sum(gap.word == "ahead" for gap in early)
        rival = f"of {backbone.heads[kind]}" if splits else place
        cases.append((f"{wins} of {len(early)} {rival}", wins == len(early)))
    claim = f"with many layers removed (over {EARLY} %) it is above a linear head"
    yield judge(claim, cases, "ahead at {}")


def _ours(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    for kind, what in OTHERS.items():
        if kind in backbone.heads:
            gaps = _heads(evidence, backbone, "vanishing", kind)
            yield _above(f"VI-Net is above {what}", gaps, backbone.splits)
    if backbone.baselines:
        whole, some = (
            _heads(evidence, backbone, kind, "components", seeds=True)[0]
            for kind in ("vanishing", "random")
        )
        text = f"with {whole.removed:.0f} % removed {points(whole.value)}, of which "
        text += f"{points(some.value)} with random ones"
        claim = "most of the gain over the same components is lost with random monomials"
        yield claim, text, count([some.value < 0.5 * whole.value])
    if backbone.splits:
        cases = []
        for cut in evidence.plan.cuts(backbone):
            first, *_ = evidence.results.trained("fig-truncation", backbone, "VI-Net", cut)
            if facts := first.vanishing:
                cases.append((f"{cut} {facts.smallest_own:.0%}", facts.smallest_own >= MOSTLY))
        claim = f"polynomials are smallest on their own class on test images ({MOSTLY:.0%} or more)"
        yield judge(claim, cases, "{} of them")


def _algorithms(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    key = ("fig-algorithms", backbone)
    abm, *others = dict.fromkeys(name for name, _ in evidence.results.part(*key))
    every = [_gaps(evidence, abm, name, *key) for name in others]
    if backbone.splits:
        rows = f"ABM against {len(others)} others at {len(every[0])} cuts"
        yield from judge_algorithms(rows, [gap.word for gaps in every for gap in gaps])
        return
    by_cut = [[gap.value for gap in gaps] for gaps in zip(*every, strict=True)]
    spreads = [max(0.0, *gaps) - min(0.0, *gaps) for gaps in by_cut]
    text = f"apart by {mean(spreads):.2f} on average, {max(spreads):.2f} at most"
    yield "similar accuracy (to 2 points)", text, count(spread <= 2 for spread in spreads)
    ahead = [min(gaps) for gaps in by_cut]
    text = f"{points(mean(ahead))} on average over the better OAVI"
    yield "ABM is slightly ahead", text, count(gap > 0 for gap in ahead)


def _pruning(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    def losses(algorithm: str, ratio: str) -> list[Gap]:
        names = (f"{ratio} pruned", "0% pruned")
        return _gaps(evidence, *names, "fig-pruning", backbone, algorithm)

    moderate, deep = ("90%", "90%") if evidence.plan.quick else ("50%", "99%")
    some = losses("abm", moderate)
    if backbone.splits:
        claim = "moderate pruning (50 %) costs nothing (level or ahead)"
        yield judge(claim, [(gap.text, gap.word != "behind") for gap in some])
    else:
        values = [gap.value for gap in some]
        text = f"{points(mean(values))} on average, {points(min(values))} at worst"
        claim = "moderate pruning (50 %) costs less than a point"
        yield claim, text, count(value > -1 for value in values)

    most = sorted(losses("abm", deep))  # late cuts first
    half, worst = len(most) // 2, min(most, key=lambda gap: gap.value)
    late, early = (mean(gap.value for gap in gaps) for gaps in (most[:half], most[half:]))
    text = f"{points(early)} in the earlier half of the cuts, {points(late)} in the later; "
    text += f"most, {points(worst.value)}, with {worst.removed:.0f} % removed"
    holds = count((early < late, worst == most[-1]))
    yield "extreme pruning (99 %) hurts more at early cuts, most at the first", text, holds

    if len(backbone.algorithms) > 1:
        sizes = {
            one: mean(abs(gap.value) for gap in losses(one, deep)) for one in backbone.algorithms
        }
        text = ", ".join(f"{ALGORITHMS[one][0]} {size:.2f}" for one, size in sizes.items())
        abm, *others = sizes.values()
        holds = count(size < abm for size in others)
        yield "OAVI depends less on it (99 %) than ABM", f"mean change {text}", holds


# --- generators and theory --------------------------------------------------------------------


def _monomials(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    limit, own = evidence.plan.components, evidence.results.part("fig-monomials", backbone)
    every = {share(one): one.found.monomials_left["0.99"] for one in own.values()}
    counts = {x: every[x] for x in every if 20 <= x <= 50} or every
    cases = [(f"{left:.0f} with {x:.0f} %", left < limit) for x, left in counts.items()]
    yield judge(f"pruning (99 %) leaves fewer than {limit} with 20 to 50 % removed", cases)


def _generators(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    own = evidence.results.part("fig-generators", backbone)
    if not own:
        return
    every = [counts_of(one.found, backbone) for one in own.values()]
    counts = {name: [one[name] for one in every] for name in every[0]}
    cases = [(text, rank < -STRONG) for text, rank in ranks(range(len(every)), counts)]
    claim = "earlier layers give more (rank correlation below −0.7)"
    yield judge(claim, cases, "rank correlation with depth {}")
    if not backbone.residual:
        return
    monomials = counts["monomials"]
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
    facts = [one.complexity for one in evidence.results.part("table-theory", backbone).values()]
    if not facts:
        return
    claim = "VI-Nets have a smaller spectral complexity than the uncut network (κ below 1)"
    yield judge(claim, [(points(one.kappa), one.kappa < 0) for one in facts], "log₁₀ κ {}")
    holds = [bound["holds"] for one in facts for bound in one.bounds]
    text = f"{sum(holds)} of {len(holds)} bounds hold"
    yield "the theorem's bounds on W_M, W_C and W_F hold", text, count(holds)


# --- the experiment ---------------------------------------------------------------------------

CLAIMS: dict[str, Callable[[Evidence, Backbone], Iterator[Judged]]] = {
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
COLUMNS = (
    Column("where", "in the paper"),
    Column("claim", "it says"),
    Column("found", "here"),
    Column("verdict", "holds", better="yes"),
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
    smaller, how = "", "Numbers in brackets in the third column are the paper's"
    if not plan.compared:
        smaller = " on smaller data"
        how = "Two networks are level if the paired 95 % interval of their difference in accuracy "
        how += "over splits and test images contains 0"
    text = (
        "Our words for what the paper says of each table and figure, what the same experiment gave "
        f"here{smaller}, and whether it agrees; what its words leave open is in brackets behind "
        f"them. {how}. Four numbers are those of Tiny, Small, Medium and Large."
    )
    columns, texts = (COLUMNS[:2], UNJUDGED) if plan.quick else (COLUMNS, (text,))
    for backbone in plan.chosen:
        for where, claims in CLAIMS.items():
            if where in LARGER_ALONE and len(backbone.algorithms) == 1:
                continue
            for judged in claims(evidence, backbone):
                cells = zip(columns, (where, *judged), strict=False)
                values = {column.name: cell for column, cell in cells}
                rows.append(Row(values, section=backbone.caption))
    return Findings(texts, (Table("claims", "Claims", columns, tuple(rows)),))


Experiment("claims", "What holds", "all of its experiments", 1, _planned, _judged)
