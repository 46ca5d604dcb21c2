"""What the paper says of its experiments, claim by claim, held against the results here.

A function for every place in the paper yields what it claims there, what was found here, and a
verdict. Where results keep single answers, accuracies are compared by :func:`level`; on CIFAR,
where they do not, by their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from statistics import mean
from typing import Any, TypeAlias

from scipy.stats import spearmanr

from vinets.measure.accuracy import Difference
from vinets.measure.dimension import dimension_correlation
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
)
from vinets.report.numbers import number
from vinets.report.values import Column, Row, Table

COUNTS = ("monomials", "polynomials")
STRONG = 0.7  # a correlation that counts
MOSTLY = 0.95  # share of the polynomials
EARLY, LATE = 40, 20  # percent of the layers: at least so many are removed, or at most
LINEAR = {  # linear heads by kind, as the figure on baselines names them, and what they see there
    "pooled": ("linear head, pooled", "on the pooled map"),
    "components": ("linear on components", "on the same components"),
    "linear": ("linear head, flat", "on the flat map"),
}
OTHERS = {
    "mlp": "an MLP of as many parameters",
    "same-degrees": "random monomials of the same degrees",
    "components": "a linear layer on its variables",
}


class Evidence:
    """Results by the name of their experiment, and the tables and figures that come of them."""

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results = plan, results
        self.findings = {
            name: EXPERIMENTS[name].finding(plan, results.part(name))
            for name in dict.fromkeys(key[0] for key in results)
        }

    def rows(self, experiment: str, section: str) -> list[Row]:
        """Return rows of the first table whose section begins so."""
        rows = self.findings[experiment].tables[0].rows
        return [row for row in rows if (row.section or "").startswith(section)]

    def figure(self, name: str) -> dict[str, dict[float, float]]:
        """Return series of a figure: name to values by x, mostly a share removed in percent."""
        figures = (figure for one in self.findings.values() for figure in one.figures)
        (figure,) = (figure for figure in figures if figure.id == name)
        return {
            series.name: {x: y for x, y in zip(series.x, series.y, strict=True) if y is not None}
            for series in figure.series
        }


def points(value: float) -> str:
    """Write a difference in points."""
    return number(value, "+.2f")


def ranks(pairs: dict[str, tuple[Iterable[float], Iterable[float]]]) -> list[tuple[str, float]]:
    """Return rank correlations with their text; a constant, which has no order, has 0."""
    found = []
    for name, (x, y) in pairs.items():
        a, b = list(x), list(y)
        rank = float(spearmanr(a, b).statistic) if min(len({*a}), len({*b})) > 1 else 0.0
        found.append((f"{number(rank, '.2f')} of {name}", rank))
    return found


# --- tables -----------------------------------------------------------------------------------


def _table_one(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    rows = [(row.values, row.paper) for row in evidence.rows("table-generators", backbone.caption)]
    removed = [ours["removed"] for ours, _ in rows]
    counts = (A_CLASS.name, "polynomials") if backbone.splits else COUNTS
    found = ranks({name: (removed, [ours[name] for ours, _ in rows]) for name in counts})
    cases = [(text, rank > STRONG) for text, rank in found]
    yield judge("earlier cuts give more (rank correlation over 0.7)", cases, "rank correlation {}")
    if backbone.name not in GENERATORS:
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

Gaps: TypeAlias = list[tuple[float, str, Difference]]
"""Shares removed in percent, what is said of the difference there, and the difference."""


def _gaps(evidence: Evidence, figure: str, ours: str, theirs: str, *key: Any) -> Gaps:
    """Return one series of a figure less another, cut by cut.

    Trainings whose keys begin with ``key``, a network first, are compared by :func:`level` where
    results keep single answers; otherwise there is nothing but the difference.
    """
    gaps, (backbone, *_) = [], key
    results = evidence.results.part(f"fig-{figure.partition('-')[0]}", *key)
    series, cuts = evidence.figure(figure), evidence.plan.cuts(backbone)
    for place, (x, y) in enumerate(series[ours].items()):
        if backbone.splits:
            gap = level(*(results.trained(name, cuts[place]) for name in (ours, theirs)))
            text = f"{cuts[place]} {points(gap.value)} ({gap.word})"
        else:
            value = y - series[theirs][x]
            # Without single answers, the sign of the difference is the verdict.
            gap, text = Difference(value, (value, value)), points(value)
        gaps.append((x, text, gap))
    return gaps


def _heads(evidence: Evidence, backbone: Backbone, ours: str, theirs: str) -> Gaps:
    """Return a kind of head less another, in the figure on truncation."""
    names = (backbone.heads[ours], backbone.heads[theirs])
    return _gaps(evidence, f"truncation-{backbone.data}", *names, backbone)


def _above(claim: str, gaps: Gaps, by_level: bool) -> Judged:
    """Judge whether one head is above another at every cut."""
    judged = judge(claim, [(text, gap.word == "ahead") for _, text, gap in gaps])
    values = [gap.value for *_, gap in gaps]
    text = f"{points(min(values))} to {points(max(values))}, {points(mean(values))} on average"
    return judged if by_level else (claim, text, judged[2])


def _truncation(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    splits, gaps = backbone.splits, partial(_heads, evidence, backbone)
    claim, ours = "VI-Net is above random monomials at every cut", gaps("vanishing", "random")
    if splits:
        yield _above(claim, ours, splits)
    else:
        # Over seeds, where there are several, the mean difference has to exceed its deviation.
        first, known = next(iter(backbone.readings)), {x: (gap.value, 0.0) for x, _, gap in ours}
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
        late = [(text, gap) for x, text, gap in gaps("linear", "vanishing") if x <= LATE]
        cases = [(text, gap.word != "behind" if splits else gap.value > -0.5) for text, gap in late]
        good = f"with at most {LATE} % removed a linear head is as good"
        good += " (level or ahead)" if splits else " (to 0.5)"
        yield judge(good, cases, f"linear head less VI-Net{':' * splits} {{}}")
    if not (backbone.baselines or splits):
        late = [(text, gap) for x, text, gap in gaps("random", "linear") if x <= 30]
        yield judge(
            "with at most 30 % removed random monomials are well below it (by over 1)",
            [(text, gap.value < -1) for text, gap in late],
            "random monomials less linear head {}",
        )
        return
    shares = [x for x, *_ in ours]
    half = min(shares, key=lambda share: abs(share - 50))
    if splits:
        cut = evidence.plan.cuts(backbone)[shares.index(half)]
        loss = level(evidence.results.trained("fig-truncation", backbone, "VI-Net", cut))
        text = f"{points(loss.value)} ({loss.shown})"
        holds = loss.interval is not None and loss.interval[0] > -3
        against = {f"of {backbone.heads[kind]}": gaps("vanishing", kind) for kind in LINEAR}
    else:
        uncut = evidence.rows("table-efficiency", backbone.caption)[-1].values["accuracy"]
        gain = evidence.figure(f"truncation-{backbone.data}")["VI-Net"][half] - uncut
        text, holds, figure = points(gain), gain > -3, f"baselines-{backbone.data}"
        against = {
            place: _gaps(evidence, figure, "VI-Net", head, backbone)
            for head, place in LINEAR.values()
        }
    claim = "with half of the layers removed VI-Net is competitive (3 points at most)"
    yield claim, f"{text} with {half:.0f} % removed", count([holds])
    cases = []
    for place, every in against.items():
        early = [gap for x, _, gap in every if x > EARLY] or [gap for *_, gap in every]
        wins = sum(gap.word == "ahead" for gap in early)
        cases.append((f"{wins} of {len(early)} {place}", wins == len(early)))
    claim = f"with many layers removed (over {EARLY} %) it is above a linear head"
    yield judge(claim, cases, "ahead at {}")


def _ours(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    for kind, what in OTHERS.items():
        if kind in backbone.heads:
            gaps = _heads(evidence, backbone, "vanishing", kind)
            yield _above(f"VI-Net is above {what}", gaps, backbone.splits)
    if backbone.baselines:
        heads = evidence.figure(f"baselines-{backbone.data}")
        x = max(heads["VI-Net"])
        base = heads["linear on components"][x]
        whole, some = heads["VI-Net"][x] - base, heads["random monomials"][x] - base
        text = f"with {x:.0f} % removed {points(whole)}, of which {points(some)} with random ones"
        claim = "most of the gain over the same components is lost with random monomials"
        yield claim, text, count([some < 0.5 * whole])
    if backbone.splits:
        cases = []
        for cut in evidence.plan.cuts(backbone):
            first, *_ = evidence.results.trained("fig-truncation", backbone, "VI-Net", cut)
            if facts := first.vanishing:
                cases.append((f"{cut} {facts.smallest_own:.0%}", facts.smallest_own >= MOSTLY))
        claim = f"polynomials are smallest on their own class on test images ({MOSTLY:.0%} or more)"
        yield judge(claim, cases, "{} of them")


def _algorithms(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    abm, *others = evidence.figure("algorithms").items()
    if backbone.splits:
        source = (evidence, "algorithms", abm[0])
        gaps = [gap for name, _ in others for *_, gap in _gaps(*source, name, backbone)]
        rows = f"ABM against {len(others)} others at {len(abm[1])} cuts"
        yield from judge_algorithms(rows, gaps)
        return
    by_cut = [(ours, [series[x] for _, series in others]) for x, ours in abm[1].items()]
    spreads = [max(ours, *theirs) - min(ours, *theirs) for ours, theirs in by_cut]
    text = f"apart by {mean(spreads):.2f} on average, {max(spreads):.2f} at most"
    yield "similar accuracy (to 2 points)", text, count(spread <= 2 for spread in spreads)
    ahead = [ours - max(theirs) for ours, theirs in by_cut]
    text = f"{points(mean(ahead))} on average over the better OAVI"
    yield "ABM is slightly ahead", text, count(gap > 0 for gap in ahead)


def _pruning(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    def losses(algorithm: str, ratio: str) -> dict[float, float]:
        shares = evidence.figure(f"pruning-{backbone.data}-{algorithm}")
        return {x: y - shares["0% pruned"][x] for x, y in shares[f"{ratio} pruned"].items()}

    moderate, deep = ("90%", "90%") if evidence.plan.quick else ("50%", "99%")
    if backbone.splits:
        figure, series = f"pruning-{backbone.data}-abm", (f"{moderate} pruned", "0% pruned")
        gaps = _gaps(evidence, figure, *series, backbone, "abm")
        claim = f"moderate pruning ({moderate.replace('%', ' %')}) costs nothing (level or ahead)"
        yield judge(claim, [(text, gap.word != "behind") for _, text, gap in gaps])
    else:
        some = losses("abm", moderate).values()
        text = f"{points(mean(some))} on average, {points(min(some))} at worst"
        yield "moderate pruning (50 %) costs less than a point", text, count(x > -1 for x in some)

    most = losses("abm", deep)
    order = sorted(most)
    half, worst = len(order) // 2, min(most, key=most.__getitem__)
    late, early = (mean(most[x] for x in cuts) for cuts in (order[:half], order[half:]))
    text = f"{points(early)} in the earlier half of the cuts, {points(late)} in the later; "
    text += f"most, {points(most[worst])}, with {worst:.0f} % removed"
    holds = count((early < late, worst == order[-1]))
    yield "extreme pruning (99 %) hurts more at early cuts, most at the first", text, holds

    if len(backbone.algorithms) > 1:
        every = {one: losses(one, deep).values() for one in backbone.algorithms}
        abm, *others = sizes = [mean(map(abs, values)) for values in every.values()]
        shown = zip(every, sizes, strict=True)
        text = ", ".join(f"{ALGORITHMS[one][0]} {size:.2f}" for one, size in shown)
        holds = count(size < abm for size in others)
        yield "OAVI depends less on it (99 %) than ABM", f"mean change {text}", holds


# --- generators and theory --------------------------------------------------------------------


def _monomials(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    figure = evidence.figure(f"monomials-{backbone.data}")
    every, limit = (
        figure["90% pruned" if evidence.plan.quick else "99% pruned"],
        evidence.plan.components,
    )
    counts = {x: every[x] for x in every if 20 <= x <= 50} or every
    cases = [(f"{left:.0f} with {x:.0f} %", left < limit) for x, left in counts.items()]
    yield judge(f"pruning (99 %) leaves fewer than {limit} with 20 to 50 % removed", cases)


def _generators(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    counts = evidence.figure("generators-by-layer")
    found = ranks({name: (series, series.values()) for name, series in counts.items()})
    cases = [(text, rank < -STRONG) for text, rank in found]
    claim = "earlier layers give more (rank correlation below −0.7)"
    yield judge(claim, cases, "rank correlation with depth {}")
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
    facts = [one.complexity for one in evidence.results.part("table-theory").values()]
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

NEEDS: dict[str, Callable[[Backbone], object]] = {
    "Generators": lambda backbone: backbone.layers,
    # The paper says these of the larger network alone, which is the one with several algorithms.
    **dict.fromkeys(
        ("Algorithms", "Monomials", "Dimension"), lambda backbone: len(backbone.algorithms) > 1
    ),
    "Theory": lambda backbone: backbone.studied,
}
"""Which networks a claim is about, where it is not about all of them."""

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
            for judged in claims(evidence, backbone) if NEEDS.get(where, bool)(backbone) else ():
                cells = zip(columns, (where, *judged), strict=False)
                values = {column.name: cell for column, cell in cells}
                rows.append(Row(values, section=backbone.caption))
    return Findings(texts, (Table("claims", "Claims", columns, tuple(rows)),))


Experiment("claims", "What holds", "all of its experiments", 1, _planned, _judged)
