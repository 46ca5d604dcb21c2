"""What the paper says of its experiments, sentence by sentence, held against the results here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import mean
from typing import Any

from scipy.stats import spearmanr

from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.fig_algorithms import FIG_ALGORITHMS
from vinets.experiments.fig_dimension import FIG_DIMENSION
from vinets.experiments.fig_generators import FIG_GENERATORS
from vinets.experiments.fig_monomials import FIG_MONOMIALS
from vinets.experiments.fig_pruning import FIG_PRUNING
from vinets.experiments.fig_rivals import FIG_RIVALS
from vinets.experiments.fig_truncation import FIG_TRUNCATION
from vinets.experiments.plan import Experiment, Plan
from vinets.experiments.runs import Run, Store
from vinets.experiments.table_efficiency import TABLE_EFFICIENCY
from vinets.experiments.table_generators import TABLE_GENERATORS
from vinets.measure.dimension import dimension_correlation
from vinets.report.formats import number
from vinets.report.schema import Column, Figure, Row, Table

__all__ = ["CLAIMS"]

SOURCES = (
    *(TABLE_GENERATORS, TABLE_EFFICIENCY, FIG_TRUNCATION, FIG_PRUNING, FIG_MONOMIALS),
    *(FIG_GENERATORS, FIG_ALGORITHMS, FIG_DIMENSION, FIG_RIVALS),
)
COLUMNS = (
    Column("claim", "the paper"),
    Column("found", "here"),
    Column("verdict", "holds"),
)
TEXT = (
    "Our words for what the paper says of each table and figure, what the same experiment gave "
    "here, and whether it agrees. The last column follows from the numbers by a rule, which the "
    "claim states where the paper gives none. Numbers in brackets are the paper's.",
)
PLACES = (
    *("Table 1", "Table 2", "Truncation", "Pruning", "Monomials"),
    *("Algorithms", "Generators", "Dimension", "Not in the paper"),
)
Verdict = tuple[str, str]  # what was found, and whether the claim holds


class Results:
    """Tables and figures of the other experiments, by name."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan, self.store = plan, store
        self._made: dict[str, dict[str, Any]] = {}

    def _of(self, experiment: Experiment) -> dict[str, Any]:
        if experiment.name not in self._made:
            self._made[experiment.name] = experiment.result(self.plan, self.store)
        return self._made[experiment.name]

    def rows(self, experiment: Experiment, section: str) -> list[Row]:
        """Rows of the first table whose section begins so."""
        table: Table = self._of(experiment)["tables"][0]
        return [row for row in table.rows if (row.section or "").startswith(section)]

    def figure(self, experiment: Experiment, name: str) -> dict[str, dict[float, float]]:
        """Series of a figure: name to values by x, a share removed in percent."""
        figures: Iterable[Figure] = self._of(experiment)["figures"]
        found = next(figure for figure in figures if figure.id == name)
        return {
            series.name: {x: y for x, y in zip(series.x, series.y, strict=True) if y is not None}
            for series in found.series
        }

    def uncut(self, backbone: Backbone) -> float:
        """Accuracy of the uncut network in percent."""
        row = self.rows(TABLE_EFFICIENCY, backbone.caption)[-1]
        return float(row.values["accuracy"])


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper in our words, the network it is about, and how to check it."""

    backbone: Backbone
    where: str
    text: str
    check: Callable[[Results, Backbone], Verdict]


def _verdict(count: int, total: int) -> str:
    return "yes" if count == total else "no" if count == 0 else f"in {count} of {total}"


def _points(value: float) -> str:
    return number(value, "+.2f")


# --- tables -----------------------------------------------------------------------------------


def _variants(results: Results, backbone: Backbone) -> tuple[list[Row], Row]:
    *variants, uncut = results.rows(TABLE_EFFICIENCY, backbone.caption)
    return variants, uncut


def _sizes(results: Results, backbone: Backbone) -> Verdict:
    variants, _ = _variants(results, backbone)
    gaps = [abs(row.values["base"] - row.paper["base"]) for row in variants]
    same = sum(gap < 0.01 for gap in gaps)
    return f"{same} of {len(gaps)} agree to 0.01M", _verdict(same, len(gaps))


def _changes(limit: float) -> Callable[[Results, Backbone], Verdict]:
    def check(results: Results, backbone: Backbone) -> Verdict:
        variants, _ = _variants(results, backbone)
        gaps = [row.values["delta"] - row.paper["delta"] for row in variants]
        text = ", ".join(
            f"{_points(row.values['delta'])} ({_points(row.paper['delta'])})" for row in variants
        )
        near = sum(abs(gap) <= limit for gap in gaps)
        worst = _points(max(gaps, key=abs))
        return f"{text}; {worst} at the furthest", _verdict(near, len(gaps))

    return check


def _smaller(results: Results, backbone: Backbone) -> Verdict:
    variants, uncut = _variants(results, backbone)
    shares = {row.values["model"]: row.values["total"] / uncut.values["total"] for row in variants}
    text = ", ".join(f"{name.rsplit('-', 1)[1]} {share:.0%}" for name, share in shares.items())
    smaller = sum(share < 1 for share in shares.values())
    return f"of the uncut network: {text}", _verdict(smaller, len(shares))


def _faster(results: Results, backbone: Backbone) -> Verdict:
    variants, uncut = _variants(results, backbone)
    ours = [row.values["speed"] / uncut.values["speed"] for row in variants]
    theirs = [row.paper["speed"] / uncut.paper["speed"] for row in variants]
    text = ", ".join(f"{a:.2f}× ({b:.2f}×)" for a, b in zip(ours, theirs, strict=True))
    return text, _verdict(sum(a > 1 for a in ours), len(ours))


def _grow(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(TABLE_GENERATORS, backbone.caption)
    removed = [row.values["removed"] for row in rows]
    ranks = [
        float(spearmanr(removed, [row.values[name] for row in rows]).statistic)
        for name in ("monomials", "polynomials")
    ]
    text = f"rank correlation {ranks[0]:.2f} of monomials and {ranks[1]:.2f} of polynomials"
    return text, "yes" if min(ranks) > 0.7 else "in part" if max(ranks) > 0.7 else "no"


def _quick(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(TABLE_GENERATORS, backbone.caption)
    ratios = {row.paper["seconds"]: row.values["speedup"] for row in rows}
    least = min(row.values["speedup"] for row in rows)
    slowest = ratios[max(ratios)]
    text = f"{slowest:,.0f} times less in the slowest row, {least:,.0f} in the nearest"
    return text, "faster here"


# --- truncation -------------------------------------------------------------------------------


def _above_random(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_TRUNCATION, f"truncation-{backbone.data}")
    ours, random = found["VI-Net"], found["random monomials"]
    gaps = {x: ours[x] - random[x] for x in ours}
    reading = results.rows(FIG_RIVALS, f"{backbone.caption}: plain components, mean square")
    for row in reading:  # over seeds, where there are several
        gaps[row.values["removed"]] = row.values["difference"]
    ahead = sum(gap > 0 for gap in gaps.values())
    x = min(gaps, key=gaps.__getitem__)
    seeds = next((row for row in reading if row.values["removed"] == x), None)
    spread = f" ± {seeds.values['difference_std']:.2f}" if seeds and _has_spread(seeds) else ""
    text = f"ahead at {ahead} of {len(gaps)} cuts, least with {x:.0f} % removed"
    return f"{text}: {_points(gaps[x])}{spread}", _verdict(ahead, len(gaps))


def _has_spread(row: Row) -> bool:
    return row.values.get("difference_std") is not None


def _above_mlp(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_TRUNCATION, f"truncation-{backbone.data}")
    gaps = [found["VI-Net"][x] - found["MLP"][x] for x in found["VI-Net"]]
    ahead = sum(gap > 0 for gap in gaps)
    text = f"ahead at {ahead} of {len(gaps)} cuts, {_points(mean(gaps))} on average"
    return text, _verdict(ahead, len(gaps))


def _above_linear(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_RIVALS, f"rivals-{backbone.data}")
    heads = {
        "linear head, pooled": "the pooled map",
        "linear on components": "the same components",
        "linear head, flat": "the flat map",
    }
    early = [x for x in found["VI-Net"] if x > 40] or list(found["VI-Net"])
    counts = {
        place: sum(found["VI-Net"][x] > found[head][x] for x in early)
        for head, place in heads.items()
    }
    text = ", ".join(f"{count} of {len(early)} on {place}" for place, count in counts.items())
    wins = [count == len(early) for count in counts.values()]
    return f"ahead at {text}", "yes" if all(wins) else "in part" if any(wins) else "no"


def _late_linear(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_TRUNCATION, f"truncation-{backbone.data}")
    late = [x for x in found["VI-Net"] if x <= 20]
    gaps = [found["linear head"][x] - found["VI-Net"][x] for x in late]
    text = ", ".join(map(_points, gaps))
    return f"linear head less VI-Net: {text}", _verdict(sum(gap > -0.5 for gap in gaps), len(gaps))


def _late_random(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_TRUNCATION, f"truncation-{backbone.data}")
    late = [x for x in found["VI-Net"] if x <= 30]
    gaps = [found["random monomials"][x] - found["linear head"][x] for x in late]
    text = ", ".join(map(_points, gaps))
    return f"random less linear: {text}", _verdict(sum(gap < -1 for gap in gaps), len(gaps))


def _half(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_TRUNCATION, f"truncation-{backbone.data}")["VI-Net"]
    x = min(found, key=lambda share: abs(share - 50))
    loss = found[x] - results.uncut(backbone)
    return f"{_points(loss)} with {x:.0f} % removed", "yes" if loss > -3 else "no"


# --- pruning, algorithms, dimension -----------------------------------------------------------


def _losses(results: Results, backbone: Backbone, algorithm: str, ratio: str) -> dict[float, float]:
    found = results.figure(FIG_PRUNING, f"pruning-{backbone.data}-{algorithm}")
    return {x: y - found["0% pruned"][x] for x, y in found[f"{ratio} pruned"].items()}


def _deepest(results: Results) -> str:
    """The highest share that every algorithm is pruned to."""
    return "90%" if results.plan.quick else "99%"


def _moderate(results: Results, backbone: Backbone) -> Verdict:
    ratio = "90%" if results.plan.quick else "50%"
    losses = _losses(results, backbone, "abm", ratio)
    small = sum(loss > -1 for loss in losses.values())
    usual, worst = _points(mean(losses.values())), _points(min(losses.values()))
    return f"{ratio} pruned: {usual} on average, {worst} at worst", _verdict(small, len(losses))


def _extreme(results: Results, backbone: Backbone) -> Verdict:
    ratio = _deepest(results)
    losses = _losses(results, backbone, "abm", ratio)
    order = sorted(losses)
    half = len(order) // 2
    late, early = (mean(losses[x] for x in part) for part in (order[:half], order[half:]))
    text = f"{_points(early)} in the earlier half of the cuts, {_points(late)} in the later"
    return f"{ratio} pruned: {text}", "yes" if early < late - 0.5 else "no"


def _redundant(results: Results, backbone: Backbone) -> Verdict:
    ratio = _deepest(results)
    means = {
        name: mean(_losses(results, backbone, algorithm, ratio).values())
        for algorithm, name in (("abm", "ABM"), ("oavi-cg", "OAVI-CG"), ("oavi-agd", "OAVI-AGD"))
    }
    text = ", ".join(f"{name} {_points(loss)}" for name, loss in means.items())
    weaker = [abs(means[name]) < abs(means["ABM"]) for name in ("OAVI-CG", "OAVI-AGD")]
    return f"{ratio} pruned, on average: {text}", _verdict(sum(weaker), 2)


def _fewer_monomials(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_MONOMIALS, f"monomials-{backbone.data}")
    cuts = [x for x in found["0% pruned"] if 20 <= x <= 50] or list(found["0% pruned"])[-1:]
    counts = {x: min(series[x] for series in found.values()) for x in cuts}
    text = ", ".join(f"{count:.0f} with {x:.0f} % removed" for x, count in counts.items())
    below = sum(count < results.plan.scale.components for count in counts.values())
    return f"as few as {text}", _verdict(below, len(counts))


def _similar(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_ALGORITHMS, "algorithms")
    cuts = list(found["ABM"])
    spreads = [max(s[x] for s in found.values()) - min(s[x] for s in found.values()) for x in cuts]
    first = sum(found["ABM"][x] == max(s[x] for s in found.values()) for x in cuts)
    text = f"apart by {mean(spreads):.2f} on average, {max(spreads):.2f} at most"
    holds = "yes" if max(spreads) < 3 and first > len(cuts) / 2 else "in part"
    return f"{text}; ABM first at {first} of {len(cuts)} cuts", holds


def _by_layer(results: Results, backbone: Backbone) -> Verdict:
    counts = results.figure(FIG_GENERATORS, "generators-by-layer")
    ranks = [float(spearmanr(list(s), list(s.values())).statistic) for s in counts.values()]
    first, second = (number(rank, ".2f") for rank in ranks)
    text = f"rank correlation with depth {first} of monomials, {second} of polynomials"
    return text, "yes" if max(ranks) < -0.7 else "in part" if min(ranks) < -0.5 else "no"


def _blocks(results: Results, backbone: Backbone) -> Verdict:
    monomials = list(results.figure(FIG_GENERATORS, "generators-by-layer")["monomials"].values())
    pairs = list(zip(monomials[-2::-2], monomials[::-2], strict=False))  # inside, then behind
    more = sum(behind > inside for inside, behind in pairs)
    text = f"more monomials behind a block's sum than inside it in {more} of {len(pairs)} blocks"
    half = len(pairs) // 2
    late = sum(behind > inside for inside, behind in pairs[:half])
    return f"{text}, {late} of the {half} last", _verdict(more, len(pairs))


def _dimension(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(FIG_DIMENSION, backbone.caption)
    found = dimension_correlation(
        [row.values["dimension"] for row in rows], [row.values["monomials"] for row in rows]
    )
    text = f"correlation {found.pearson:.2f} (p = {found.pearson_p:.2g}), {found.count} cuts"
    return text, "yes" if found.pearson > 0.7 and found.pearson_p < 0.05 else "no"


BOTH: tuple[tuple[str, str, Callable[[Results, Backbone], Verdict]], ...] = (
    ("Table 1", "earlier cuts give more generators", _grow),
    ("Table 1", "seconds to find them", _quick),
    ("Table 2", "parameters of the truncated networks", _sizes),
    ("Table 2", "VI-Nets are smaller than the uncut network", _smaller),
    ("Table 2", "VI-Nets are faster than the uncut network", _faster),
    ("Truncation", "VI-Net is above random monomials at every cut", _above_random),
    ("Pruning", "moderate pruning costs less than a point", _moderate),
    ("Pruning", "extreme pruning hurts most at early cuts", _extreme),
    ("Not in the paper", "VI-Net is above an MLP of as many numbers", _above_mlp),
)
ALL = (
    *(Claim(b, where, text, check) for b in (RESNET18, RESNET34) for where, text, check in BOTH),
    Claim(
        RESNET18,
        "Table 2",
        "what a cut does to accuracy, to 1.0 points",
        _changes(1.0),
    ),
    Claim(
        RESNET34,
        "Table 2",
        "what a cut does to accuracy, to 1.5 points",
        _changes(1.5),
    ),
    Claim(
        RESNET18,
        "Truncation",
        "with at most 20 % removed a linear head is as good (to 0.5)",
        _late_linear,
    ),
    Claim(
        RESNET18,
        "Truncation",
        "with at most 30 % removed random monomials are well below it (by over 1)",
        _late_random,
    ),
    Claim(
        RESNET34,
        "Truncation",
        "competitive with half of the layers removed (3 points at most)",
        _half,
    ),
    Claim(
        RESNET34,
        "Truncation",
        "VI-Net is above a linear head with many layers removed (over 40 %)",
        _above_linear,
    ),
    Claim(RESNET34, "Pruning", "OAVI depends less on pruning than ABM", _redundant),
    Claim(
        RESNET34,
        "Monomials",
        "pruning leaves fewer than 128 monomials with 20 to 50 % removed",
        _fewer_monomials,
    ),
    Claim(RESNET34, "Algorithms", "similar accuracy, ABM slightly ahead", _similar),
    Claim(RESNET34, "Generators", "earlier layers give more generators", _by_layer),
    Claim(RESNET34, "Generators", "unusually many where residual blocks begin", _blocks),
    Claim(RESNET34, "Dimension", "monomials grow with the intrinsic dimension", _dimension),
)


def runs(plan: Plan) -> list[Run]:
    """Those of all other experiments of the paper."""
    return [run for source in SOURCES for run in source.runs(plan)]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    results = Results(plan, store)
    rows = []
    for backbone in plan.chosen:
        own = [claim for claim in ALL if claim.backbone == backbone]
        for claim in sorted(own, key=lambda claim: PLACES.index(claim.where)):
            found, verdict = claim.check(results, backbone)
            text = f"{claim.where}: {claim.text}"
            values = {"claim": text, "found": found, "verdict": verdict}
            rows.append(Row(values, section=backbone.caption))
    return {"text": TEXT, "tables": (Table("claims", "Claims", COLUMNS, tuple(rows)),)}


CLAIMS = Experiment("claims", "What holds", "all of its experiments", runs, result)
