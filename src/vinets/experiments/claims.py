"""What the paper says of its experiments, each claim with the rule that it is held against.

A rule gives what was found here, and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import TypeAlias

from scipy.stats import spearmanr

from vinets.experiments.accuracy import ALGORITHMS, MEAN_SQUARE
from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.generators import variables
from vinets.experiments.plan import EXPERIMENTS, Experiment, Findings, Plan, Results, Trials, part
from vinets.measure.dimension import dimension_correlation
from vinets.report.formats import number
from vinets.report.values import Column, Row, Table

__all__ = ["ALL", "Claim", "ClaimRule", "Evidence", "claim"]


class Evidence:
    """Tables and figures of other experiments, of which ``findings`` are made when needed."""

    def __init__(self, plan: Plan, findings: Callable[[str], Findings]) -> None:
        self.plan, self._findings = plan, cache(findings)

    def rows(self, experiment: str, section: str) -> list[Row]:
        """Rows of the first table whose section begins so."""
        table = self._findings(experiment).tables[0]
        return [row for row in table.rows if (row.section or "").startswith(section)]

    def figure(self, experiment: str, name: str) -> dict[str, dict[float, float]]:
        """Series of a figure: name to values by x, mostly a share removed in percent."""
        figures = self._findings(experiment).figures
        found = next(figure for figure in figures if figure.id == name)
        return {
            series.name: {x: y for x, y in zip(series.x, series.y, strict=True) if y is not None}
            for series in found.series
        }

    @property
    def deepest(self) -> str:
        """The highest share that every algorithm is pruned to."""
        return "90%" if self.plan.quick else "99%"


Verdict: TypeAlias = tuple[str, str]
ClaimRule: TypeAlias = Callable[[Evidence, Backbone], Verdict]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, the networks it is about, and how to check it."""

    where: str
    text: str
    rule: ClaimRule
    about: tuple[Backbone, ...]


ALL: list[Claim] = []
"""All claims, in the order of the rules below."""

BOTH, SMALL, LARGE = (RESNET18, RESNET34), (RESNET18,), (RESNET34,)
ONE, TWO, CUT, PRUNED = "Table 1", "Table 2", "Truncation", "Pruning"
OURS = "not in the paper"
COUNTS = ("monomials", "polynomials")
STRONG = 0.7  # a correlation that counts


def claim(
    where: str, text: str, about: tuple[Backbone, ...] = BOTH
) -> Callable[[ClaimRule], ClaimRule]:
    """Adds a claim, to be checked by the rule below it."""

    def add(rule: ClaimRule) -> ClaimRule:
        ALL.append(Claim(where, text, rule, about))
        return rule

    return add


def _count(holds: Iterable[bool]) -> str:
    """In how many cases a claim holds."""
    every = list(holds)
    count, total = sum(every), len(every)
    return "yes" if count == total else "no" if count == 0 else f"in {count} of {total}"


def _judged(cases: Iterable[tuple[str, bool]], sentence: str = "{}") -> Verdict:
    """What is said of every case, put into a sentence, and in how many of them the claim holds."""
    texts, holds = zip(*cases, strict=True)
    return sentence.format(", ".join(texts)), _count(holds)


def _points(value: float) -> str:
    return number(value, "+.2f")


# --- tables -----------------------------------------------------------------------------------


def _ranked(
    pairs: Mapping[str, tuple[Iterable[float], Iterable[float]]], sign: int, sentence: str
) -> Verdict:
    """Whether two quantities rise together, or one falls as the other rises if the sign is -1."""
    ranks = {name: spearmanr(list(x), list(y)).statistic for name, (x, y) in pairs.items()}
    cases = ((f"{number(r, '.2f')} of {name}", sign * r > STRONG) for name, r in ranks.items())
    return _judged(cases, sentence)


@claim(ONE, "earlier cuts give more (rank correlation over 0.7)")
def earlier_cuts_give_more(evidence: Evidence, backbone: Backbone) -> Verdict:
    rows = evidence.rows("table-generators", backbone.caption)
    removed = [row.values["removed"] for row in rows]
    pairs = {name: (removed, [row.values[name] for row in rows]) for name in COUNTS}
    return _ranked(pairs, 1, "rank correlation {}")


@claim(ONE, "numbers of monomials and polynomials (to a tenth)")
def counts_agree(evidence: Evidence, backbone: Backbone) -> Verdict:
    rows = evidence.rows("table-generators", backbone.caption)
    near = {
        name: [abs(row.values[name] / row.paper[name] - 1) <= 0.1 for row in rows]
        for name in COUNTS
    }
    text = ", ".join(f"{sum(near[name])} of {len(rows)} of {name}" for name in COUNTS)
    return text, _count(map(all, zip(*near.values(), strict=True)))


@claim(ONE, "seconds")
def seconds_compare(evidence: Evidence, backbone: Backbone) -> Verdict:
    rows = evidence.rows("table-generators", backbone.caption)
    slowest = max(rows, key=lambda row: float(row.paper["seconds"]))
    ratios = [row.values["speedup"] for row in rows]
    text = f"{slowest.values['speedup']:,.0f} times less in the slowest row, {min(ratios):,.0f} "
    verdict = "less here" if min(ratios) > 1 else f"less in {sum(r > 1 for r in ratios)}"
    return f"{text}at least; other machines, other counts", verdict


def _variants(evidence: Evidence, backbone: Backbone) -> tuple[list[Row], Row]:
    *variants, uncut = evidence.rows("table-efficiency", backbone.caption)
    return variants, uncut


def parameters_agree(name: str, evidence: Evidence, backbone: Backbone) -> Verdict:
    pairs = [(row.values[name], row.paper[name]) for row in _variants(evidence, backbone)[0]]
    cases = ((f"{a:.2f} ({b:.2f})", abs(a - b) < 0.01) for a, b in pairs)
    return _judged(cases, "{} million")


claim(TWO, "parameters of the truncated networks")(partial(parameters_agree, "base"))
claim(TWO, "parameters of the heads")(partial(parameters_agree, "head"))


@claim(TWO, "what a cut does to accuracy (to 1 point)")
def changes_agree(evidence: Evidence, backbone: Backbone) -> Verdict:
    pairs = [(row.values["delta"], row.paper["delta"]) for row in _variants(evidence, backbone)[0]]
    return _judged((f"{_points(a)} ({_points(b)})", abs(a - b) <= 1) for a, b in pairs)


@claim(TWO, "VI-Nets match the uncut network (to 1 point)")
def variants_match(evidence: Evidence, backbone: Backbone) -> Verdict:
    changes = [row.values["delta"] for row in _variants(evidence, backbone)[0]]
    return _judged((_points(change), change > -1) for change in changes)


@claim(TWO, "VI-Nets are smaller than the uncut network")
def variants_are_smaller(evidence: Evidence, backbone: Backbone) -> Verdict:
    variants, uncut = _variants(evidence, backbone)
    shares = [row.values["total"] / uncut.values["total"] for row in variants]
    return _judged(((f"{share:.0%}", share < 1) for share in shares), "{} of its numbers")


@claim(TWO, "VI-Nets are often faster than it")
def variants_are_faster(evidence: Evidence, backbone: Backbone) -> Verdict:
    variants, uncut = _variants(evidence, backbone)
    base, theirs, cases = uncut.values, uncut.paper["speed"], []
    for row in variants:
        ours = row.values
        text = f"{ours['speed'] / base['speed']:.2f}× ({row.paper['speed'] / theirs:.2f}×)"
        noise = math.hypot(ours["speed_std"] or 0.0, base["speed_std"] or 0.0)
        cases.append((text, ours["speed"] - base["speed"] > noise))
    return _judged(cases, f"{{}}; {sum(faster for _, faster in cases)} beyond the spread")


# --- truncation -------------------------------------------------------------------------------


def _gaps(ours: Mapping[float, float], theirs: Mapping[float, float]) -> dict[float, float]:
    return {x: ours[x] - theirs[x] for x in ours}


def _heads(
    evidence: Evidence, backbone: Backbone, ours: str, theirs: str, at_most: float = 100
) -> dict[float, float]:
    """One head less another, at the cuts that remove at most so many percent."""
    found = evidence.figure("fig-truncation", f"truncation-{backbone.data}")
    return {x: gap for x, gap in _gaps(found[ours], found[theirs]).items() if x <= at_most}


@claim(CUT, "VI-Net is above random monomials at every cut")
def above_random(evidence: Evidence, backbone: Backbone) -> Verdict:
    """Over seeds, where there are several, the mean difference has to exceed its deviation."""
    gaps = _heads(evidence, backbone, "VI-Net", "random monomials")
    spreads = dict.fromkeys(gaps, 0.0)
    for row in evidence.rows("fig-baselines", f"{backbone.caption}: {MEAN_SQUARE}"):
        x = row.values["removed"]
        gaps[x], spreads[x] = row.values["difference"], row.values["difference_std"] or 0.0
    ahead = {x: gaps[x] > spreads[x] for x in gaps}
    rest = [f"{_points(gaps[x])} ± {spreads[x]:.2f} with {x:.0f} %" for x in gaps if not ahead[x]]
    text = f"ahead at {sum(ahead.values())} of {len(gaps)} cuts"
    if rest:
        text += f"; not decided: {', '.join(rest)}"
    return text, _count(ahead.values())


def above(name: str, evidence: Evidence, backbone: Backbone) -> Verdict:
    """Whether VI-Net is above another head at every cut."""
    gaps = _heads(evidence, backbone, "VI-Net", name).values()
    text = f"{_points(min(gaps))} to {_points(max(gaps))}, {_points(mean(gaps))} on average"
    return text, _count(gap > 0 for gap in gaps)


claim(CUT, "VI-Net is above a linear head (flat)", SMALL)(partial(above, "linear head"))


@claim(CUT, "with at most 20 % removed a linear head is as good (to 0.5)", SMALL)
def linear_is_as_good(evidence: Evidence, backbone: Backbone) -> Verdict:
    late = _heads(evidence, backbone, "linear head", "VI-Net", at_most=20).values()
    return _judged(((_points(gap), gap > -0.5) for gap in late), "linear head less VI-Net {}")


@claim(CUT, "with at most 30 % removed random monomials are well below it (by over 1)", SMALL)
def random_is_worse(evidence: Evidence, backbone: Backbone) -> Verdict:
    late = _heads(evidence, backbone, "random monomials", "linear head", at_most=30).values()
    cases = ((_points(gap), gap < -1) for gap in late)
    return _judged(cases, "random monomials less linear head {}")


@claim(CUT, "with half of the layers removed VI-Net is competitive (3 points at most)", LARGE)
def half_is_competitive(evidence: Evidence, backbone: Backbone) -> Verdict:
    found = evidence.figure("fig-truncation", f"truncation-{backbone.data}")["VI-Net"]
    x = min(found, key=lambda share: abs(share - 50))
    loss = found[x] - _variants(evidence, backbone)[1].values["accuracy"]
    return f"{_points(loss)} with {x:.0f} % removed", _count([loss > -3])


@claim(CUT, "with many layers removed (over 40 %) it is above a linear head", LARGE)
def above_linear_heads(evidence: Evidence, backbone: Backbone) -> Verdict:
    found = evidence.figure("fig-baselines", f"baselines-{backbone.data}")
    places = {
        "linear head, pooled": "the pooled map",
        "linear on components": "the same components",
        "linear head, flat": "the flat map",
    }
    early = [x for x in found["VI-Net"] if x > 40] or list(found["VI-Net"])
    cases = []
    for head, place in places.items():
        ahead = sum(found["VI-Net"][x] > found[head][x] for x in early)
        cases.append((f"{ahead} of {len(early)} on {place}", ahead == len(early)))
    return _judged(cases, "ahead at {}")


# --- pruning ----------------------------------------------------------------------------------


def _losses(
    evidence: Evidence, backbone: Backbone, algorithm: str, ratio: str
) -> dict[float, float]:
    found = evidence.figure("fig-pruning", f"pruning-{backbone.data}-{algorithm}")
    return _gaps(found[f"{ratio} pruned"], found["0% pruned"])


@claim(PRUNED, "moderate pruning (50 %) costs less than a point")
def moderate_pruning_is_cheap(evidence: Evidence, backbone: Backbone) -> Verdict:
    ratio = "90%" if evidence.plan.quick else "50%"
    losses = _losses(evidence, backbone, "abm", ratio).values()
    text = f"{_points(mean(losses))} on average, {_points(min(losses))} at worst"
    return text, _count(loss > -1 for loss in losses)


@claim(PRUNED, "extreme pruning (99 %) hurts more at early cuts, most at the first")
def extreme_pruning_hurts_early(evidence: Evidence, backbone: Backbone) -> Verdict:
    losses = _losses(evidence, backbone, "abm", evidence.deepest)
    order = sorted(losses)
    half = len(order) // 2
    late, early = (mean(losses[x] for x in part) for part in (order[:half], order[half:]))
    worst = min(losses, key=losses.__getitem__)
    text = f"{_points(early)} in the earlier half of the cuts, {_points(late)} in the later; "
    text += f"most, {_points(losses[worst])}, with {worst:.0f} % removed"
    return text, _count((early < late, worst == order[-1]))


@claim(PRUNED, "OAVI depends less on it (99 %) than ABM", LARGE)
def oavi_depends_less(evidence: Evidence, backbone: Backbone) -> Verdict:
    sizes = {
        name: mean(map(abs, _losses(evidence, backbone, algorithm, evidence.deepest).values()))
        for algorithm, name in ALGORITHMS.items()
    }
    text = ", ".join(f"{name} {size:.2f}" for name, size in sizes.items())
    first, *others = sizes.values()
    return f"mean change {text}", _count(size < first for size in others)


@claim("Monomials", "pruning (99 %) leaves fewer than 128 with 20 to 50 % removed", LARGE)
def pruning_leaves_few_monomials(evidence: Evidence, backbone: Backbone) -> Verdict:
    found = evidence.figure("fig-monomials", f"monomials-{backbone.data}")
    left, limit = found[f"{evidence.deepest} pruned"], variables(evidence.plan)
    counts = {x: left[x] for x in left if 20 <= x <= 50} or left
    return _judged((f"{n:.0f} with {x:.0f} %", n < limit) for x, n in counts.items())


# --- algorithms, layers, dimension ------------------------------------------------------------


def _by_cut(evidence: Evidence) -> list[list[float]]:
    """Accuracies of all algorithms at every cut, those of ABM first."""
    found = evidence.figure("fig-algorithms", "algorithms")
    return [[series[x] for series in found.values()] for x in next(iter(found.values()))]


@claim("Algorithms", "similar accuracy (to 2 points)", LARGE)
def algorithms_are_similar(evidence: Evidence, backbone: Backbone) -> Verdict:
    spreads = [max(values) - min(values) for values in _by_cut(evidence)]
    text = f"apart by {mean(spreads):.2f} on average, {max(spreads):.2f} at most"
    return text, _count(spread <= 2 for spread in spreads)


@claim("Algorithms", "ABM is slightly ahead", LARGE)
def abm_is_ahead(evidence: Evidence, backbone: Backbone) -> Verdict:
    gaps = [values[0] - max(values[1:]) for values in _by_cut(evidence)]
    text = f"{_points(mean(gaps))} on average over the better OAVI"
    return text, _count(gap > 0 for gap in gaps)


@claim("Generators", "earlier layers give more (rank correlation below −0.7)", LARGE)
def earlier_layers_give_more(evidence: Evidence, backbone: Backbone) -> Verdict:
    counts = evidence.figure("fig-generators", "generators-by-layer")
    pairs = {name: (series.keys(), series.values()) for name, series in counts.items()}
    return _ranked(pairs, -1, "rank correlation with depth {}")


@claim("Generators", "unusually many monomials where residual blocks begin", LARGE)
def blocks_begin_with_more(evidence: Evidence, backbone: Backbone) -> Verdict:
    monomials = list(evidence.figure("fig-generators", "generators-by-layer")["monomials"].values())
    # Of every block the cut inside, then the one behind its sum; the last block comes first, for
    # a quick plan has an odd number of the last cuts.
    more = [a < b for a, b in zip(monomials[-2::-2], monomials[::-2], strict=False)]
    half = len(more) // 2
    text = f"more behind a block's sum than inside it in {sum(more)} of {len(more)} blocks"
    return f"{text}, {sum(more[:half])} of the {half} last", _count(more)


@claim("Dimension", "monomials grow with it (correlation over 0.7)", LARGE)
def dimension_correlates(evidence: Evidence, backbone: Backbone) -> Verdict:
    rows = evidence.rows("fig-dimension", backbone.caption)
    x, y = ([row.values[name] for row in rows] for name in ("dimension", "monomials"))
    found = dimension_correlation(x, y)
    text = f"correlation {number(found.pearson, '.2f')} (p = {found.pearson_p:.2g})"
    clear = found.pearson > STRONG and found.pearson_p < 0.05
    return f"{text}, {found.count} cuts", _count([clear])


claim(OURS, "VI-Net is above an MLP of as many numbers")(partial(above, "MLP"))


@claim(OURS, "most of the gain over the same components is lost with random monomials", LARGE)
def random_above_components(evidence: Evidence, backbone: Backbone) -> Verdict:
    found = evidence.figure("fig-baselines", f"baselines-{backbone.data}")
    x = max(found["VI-Net"])
    base = found["linear on components"][x]
    whole, some = found["VI-Net"][x] - base, found["random monomials"][x] - base
    text = f"with {x:.0f} % removed {_points(whole)}, of which {_points(some)} with random ones"
    return text, _count([some < 0.5 * whole])


# --- the experiment ---------------------------------------------------------------------------

SOURCES = (
    *("table-generators", "table-efficiency", "fig-truncation", "fig-pruning", "fig-monomials"),
    *("fig-generators", "fig-algorithms", "fig-dimension", "fig-baselines"),
)
COLUMNS = (
    Column("where", "in the paper"),
    Column("claim", "it says"),
    Column("found", "here"),
    Column("verdict", "holds", better="yes"),
)
TEXT = (
    "Our words for what the paper says of each table and figure, what the same experiment gave "
    "here, and whether it agrees; what its words leave open is in brackets behind them. Numbers "
    "in brackets in the third column are the paper's. Four numbers are those of Tiny, Small, "
    "Medium and Large.",
)


def _planned(plan: Plan) -> Trials:
    """The trials of all experiments of the paper."""
    return {
        (name, *key): trial
        for name in SOURCES
        for key, trial in EXPERIMENTS[name].planned(plan).items()
    }


def _finding(plan: Plan, found: Results) -> Findings:
    evidence = Evidence(plan, lambda name: EXPERIMENTS[name].finding(plan, part(found, name)))
    rows = []
    for backbone in plan.chosen:
        for claim in ALL:
            if backbone in claim.about:
                here, verdict = claim.rule(evidence, backbone)
                values = {"where": claim.where, "claim": claim.text}
                values |= {"found": here, "verdict": verdict}
                rows.append(Row(values, section=backbone.caption))
    return Findings(TEXT, (Table("claims", "Claims", COLUMNS, tuple(rows)),))


Experiment("claims", "What holds", "all of its experiments", 1, _planned, _finding)
