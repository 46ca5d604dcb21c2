"""Rules by which claims of the paper are held against results: what was found, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import mean
from typing import Any, TypeAlias

from scipy.stats import spearmanr

from vinets.experiments.backbones import Backbone
from vinets.experiments.fig_algorithms import FIG_ALGORITHMS
from vinets.experiments.fig_baselines import FIG_BASELINES, MEAN_SQUARE
from vinets.experiments.fig_dimension import FIG_DIMENSION
from vinets.experiments.fig_generators import FIG_GENERATORS
from vinets.experiments.fig_monomials import FIG_MONOMIALS
from vinets.experiments.fig_pruning import ALGORITHMS, FIG_PRUNING
from vinets.experiments.fig_truncation import FIG_TRUNCATION
from vinets.experiments.plan import Experiment, Plan
from vinets.experiments.runs import Store
from vinets.experiments.table_efficiency import TABLE_EFFICIENCY
from vinets.experiments.table_generators import TABLE_GENERATORS
from vinets.measure.dimension import dimension_correlation
from vinets.report.formats import number
from vinets.report.values import Figure, Row, Table

__all__ = ["SOURCES", "Results", "Rule"]

SOURCES = (
    *(TABLE_GENERATORS, TABLE_EFFICIENCY, FIG_TRUNCATION, FIG_PRUNING, FIG_MONOMIALS),
    *(FIG_GENERATORS, FIG_ALGORITHMS, FIG_DIMENSION, FIG_BASELINES),
)
COUNTS = ("monomials", "polynomials")
STRONG = 0.7  # a correlation that counts


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
        """Series of a figure: name to values by x, mostly a share removed in percent."""
        figures: Iterable[Figure] = self._of(experiment)["figures"]
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
Rule: TypeAlias = Callable[[Results, Backbone], Verdict]


def _count(count: int, total: int) -> str:
    return "yes" if count == total else "no" if count == 0 else f"in {count} of {total}"


def _points(value: float) -> str:
    return number(value, "+.2f")


def _listed(values: Iterable[float]) -> str:
    return ", ".join(map(_points, values))


# --- tables -----------------------------------------------------------------------------------


def earlier_cuts_give_more(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(TABLE_GENERATORS, backbone.caption)
    removed = [row.values["removed"] for row in rows]
    ranks = [_rank(removed, [row.values[name] for row in rows]) for name in COUNTS]
    text = ", ".join(f"{number(rank, '.2f')} of {n}" for rank, n in zip(ranks, COUNTS, strict=True))
    return f"rank correlation {text}", _count(sum(rank > STRONG for rank in ranks), 2)


def _rank(x: Iterable[float], y: Iterable[float]) -> float:
    return float(spearmanr(list(x), list(y)).statistic)


def counts_agree(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(TABLE_GENERATORS, backbone.caption)
    near = {
        name: [abs(row.values[name] / row.paper[name] - 1) <= 0.1 for row in rows]
        for name in COUNTS
    }
    text = ", ".join(f"{sum(near[name])} of {len(rows)} of {name}" for name in COUNTS)
    both = sum(a and b for a, b in zip(*near.values(), strict=True))
    return text, _count(both, len(rows))


def seconds_compare(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(TABLE_GENERATORS, backbone.caption)
    slowest = max(rows, key=lambda row: float(row.paper["seconds"]))
    ratios = [row.values["speedup"] for row in rows]
    text = f"{slowest.values['speedup']:,.0f} times less in the slowest row, {min(ratios):,.0f} "
    verdict = "less here" if min(ratios) > 1 else f"less in {sum(r > 1 for r in ratios)}"
    return f"{text}at least; other machines, other counts", verdict


def parameters_agree(name: str) -> Rule:
    def rule(results: Results, backbone: Backbone) -> Verdict:
        variants, _ = _variants(results, backbone)
        same = sum(abs(row.values[name] - row.paper[name]) < 0.01 for row in variants)
        text = ", ".join(f"{row.values[name]:.2f} ({row.paper[name]:.2f})" for row in variants)
        return f"{text} million", _count(same, len(variants))

    return rule


def _variants(results: Results, backbone: Backbone) -> tuple[list[Row], Row]:
    *variants, uncut = results.rows(TABLE_EFFICIENCY, backbone.caption)
    return variants, uncut


def changes_agree(results: Results, backbone: Backbone) -> Verdict:
    variants, _ = _variants(results, backbone)
    pairs = [(row.values["delta"], row.paper["delta"]) for row in variants]
    text = ", ".join(f"{_points(ours)} ({_points(theirs)})" for ours, theirs in pairs)
    return text, _count(sum(abs(a - b) <= 1 for a, b in pairs), len(pairs))


def variants_match(results: Results, backbone: Backbone) -> Verdict:
    changes = [row.values["delta"] for row in _variants(results, backbone)[0]]
    return _listed(changes), _count(sum(change > -1 for change in changes), len(changes))


def variants_are_smaller(results: Results, backbone: Backbone) -> Verdict:
    variants, uncut = _variants(results, backbone)
    shares = [row.values["total"] / uncut.values["total"] for row in variants]
    text = ", ".join(f"{share:.0%}" for share in shares)
    return f"{text} of its numbers", _count(sum(share < 1 for share in shares), len(shares))


def variants_are_faster(results: Results, backbone: Backbone) -> Verdict:
    variants, uncut = _variants(results, backbone)
    base, theirs = uncut.values, uncut.paper["speed"]
    text = ", ".join(
        f"{row.values['speed'] / base['speed']:.2f}× ({row.paper['speed'] / theirs:.2f}×)"
        for row in variants
    )
    faster = sum(
        row.values["speed"] - base["speed"]
        > math.hypot(row.values["speed_std"] or 0.0, base["speed_std"] or 0.0)
        for row in variants
    )
    return f"{text}; {faster} beyond the spread", _count(faster, len(variants))


# --- truncation -------------------------------------------------------------------------------


def _truncation(results: Results, backbone: Backbone) -> dict[str, dict[float, float]]:
    return results.figure(FIG_TRUNCATION, f"truncation-{backbone.data}")


def above_random(results: Results, backbone: Backbone) -> Verdict:
    """Over seeds, where there are several, the mean difference has to exceed its deviation."""
    found = _truncation(results, backbone)
    gaps = _gaps(found["VI-Net"], found["random monomials"])
    spreads = dict.fromkeys(gaps, 0.0)
    for row in results.rows(FIG_BASELINES, f"{backbone.caption}: {MEAN_SQUARE}"):
        x = row.values["removed"]
        gaps[x], spreads[x] = row.values["difference"], row.values["difference_std"] or 0.0
    ahead = [x for x in gaps if gaps[x] > spreads[x]]
    rest = [f"{_points(gaps[x])} ± {spreads[x]:.2f} with {x:.0f} %" for x in gaps if x not in ahead]
    text = f"ahead at {len(ahead)} of {len(gaps)} cuts"
    if rest:
        text += f"; not decided: {', '.join(rest)}"
    return text, _count(len(ahead), len(gaps))


def _gaps(ours: Mapping[float, float], theirs: Mapping[float, float]) -> dict[float, float]:
    return {x: ours[x] - theirs[x] for x in ours}


def above(name: str) -> Rule:
    """Whether VI-Net is above another head at every cut."""

    def rule(results: Results, backbone: Backbone) -> Verdict:
        found = _truncation(results, backbone)
        gaps = list(_gaps(found["VI-Net"], found[name]).values())
        text = f"{_points(min(gaps))} to {_points(max(gaps))}, {_points(mean(gaps))} on average"
        return text, _count(sum(gap > 0 for gap in gaps), len(gaps))

    return rule


def above_linear_heads(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_BASELINES, f"baselines-{backbone.data}")
    places = {
        "linear head, pooled": "the pooled map",
        "linear on components": "the same components",
        "linear head, flat": "the flat map",
    }
    early = [x for x in found["VI-Net"] if x > 40] or list(found["VI-Net"])
    counts = {
        place: sum(found["VI-Net"][x] > found[head][x] for x in early)
        for head, place in places.items()
    }
    text = ", ".join(f"{count} of {len(early)} on {place}" for place, count in counts.items())
    return f"ahead at {text}", _count(sum(c == len(early) for c in counts.values()), len(counts))


def random_above_components(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_BASELINES, f"baselines-{backbone.data}")
    x = max(found["VI-Net"])
    base = found["linear on components"][x]
    whole, some = found["VI-Net"][x] - base, found["random monomials"][x] - base
    text = f"with {x:.0f} % removed {_points(whole)}, of which {_points(some)} with random ones"
    return text, "yes" if some < 0.5 * whole else "no"


def linear_is_as_good(results: Results, backbone: Backbone) -> Verdict:
    found = _truncation(results, backbone)
    gaps = _gaps(found["linear head"], found["VI-Net"])
    late = [gap for x, gap in gaps.items() if x <= 20]
    text = f"linear head less VI-Net {_listed(late)}"
    return text, _count(sum(gap > -0.5 for gap in late), len(late))


def random_is_worse(results: Results, backbone: Backbone) -> Verdict:
    found = _truncation(results, backbone)
    gaps = _gaps(found["random monomials"], found["linear head"])
    late = [gap for x, gap in gaps.items() if x <= 30]
    text = f"random monomials less linear head {_listed(late)}"
    return text, _count(sum(gap < -1 for gap in late), len(late))


def half_is_competitive(results: Results, backbone: Backbone) -> Verdict:
    found = _truncation(results, backbone)["VI-Net"]
    x = min(found, key=lambda share: abs(share - 50))
    uncut = results.rows(TABLE_EFFICIENCY, backbone.caption)[-1].values["accuracy"]
    loss = found[x] - uncut
    return f"{_points(loss)} with {x:.0f} % removed", "yes" if loss > -3 else "no"


# --- pruning ----------------------------------------------------------------------------------


def _losses(results: Results, backbone: Backbone, algorithm: str, ratio: str) -> dict[float, float]:
    found = results.figure(FIG_PRUNING, f"pruning-{backbone.data}-{algorithm}")
    return _gaps(found[f"{ratio} pruned"], found["0% pruned"])


def moderate_pruning_is_cheap(results: Results, backbone: Backbone) -> Verdict:
    ratio = "90%" if results.plan.quick else "50%"
    losses = list(_losses(results, backbone, "abm", ratio).values())
    text = f"{_points(mean(losses))} on average, {_points(min(losses))} at worst"
    return text, _count(sum(loss > -1 for loss in losses), len(losses))


def extreme_pruning_hurts_early(results: Results, backbone: Backbone) -> Verdict:
    losses = _losses(results, backbone, "abm", results.deepest)
    order = sorted(losses)
    half = len(order) // 2
    late, early = (mean(losses[x] for x in part) for part in (order[:half], order[half:]))
    worst = min(losses, key=losses.__getitem__)
    text = f"{_points(early)} in the earlier half of the cuts, {_points(late)} in the later; "
    text += f"most, {_points(losses[worst])}, with {worst:.0f} % removed"
    return text, _count((early < late) + (worst == order[-1]), 2)


def oavi_depends_less(results: Results, backbone: Backbone) -> Verdict:
    sizes = {
        name: mean(map(abs, _losses(results, backbone, algorithm, results.deepest).values()))
        for algorithm, name in ALGORITHMS.items()
    }
    text = ", ".join(f"{name} {size:.2f}" for name, size in sizes.items())
    first, *others = sizes.values()
    return f"mean change {text}", _count(sum(size < first for size in others), len(others))


def pruning_leaves_few_monomials(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_MONOMIALS, f"monomials-{backbone.data}")
    left = found[f"{results.deepest} pruned"]
    counts = {x: left[x] for x in left if 20 <= x <= 50} or left
    text = ", ".join(f"{count:.0f} with {x:.0f} %" for x, count in counts.items())
    few = sum(count < results.plan.scale.components for count in counts.values())
    return text, _count(few, len(counts))


# --- algorithms, layers, dimension ------------------------------------------------------------


def algorithms_are_similar(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_ALGORITHMS, "algorithms")
    spreads = [max(values) - min(values) for values in _columns(found)]
    text = f"apart by {mean(spreads):.2f} on average, {max(spreads):.2f} at most"
    return text, _count(sum(spread <= 2 for spread in spreads), len(spreads))


def abm_is_ahead(results: Results, backbone: Backbone) -> Verdict:
    found = results.figure(FIG_ALGORITHMS, "algorithms")
    gaps = [values[0] - max(values[1:]) for values in _columns(found)]
    text = f"{_points(mean(gaps))} on average over the better OAVI"
    return text, _count(sum(gap > 0 for gap in gaps), len(gaps))


def _columns(found: Mapping[str, Mapping[float, float]]) -> list[list[float]]:
    """Values of all series at every x."""
    return [[series[x] for series in found.values()] for x in next(iter(found.values()))]


def earlier_layers_give_more(results: Results, backbone: Backbone) -> Verdict:
    counts = results.figure(FIG_GENERATORS, "generators-by-layer")
    ranks = {name: _rank(series, series.values()) for name, series in counts.items()}
    text = ", ".join(f"{number(rank, '.2f')} of {name}" for name, rank in ranks.items())
    down = sum(rank < -STRONG for rank in ranks.values())
    return f"rank correlation with depth {text}", _count(down, len(ranks))


def blocks_begin_with_more(results: Results, backbone: Backbone) -> Verdict:
    monomials = list(results.figure(FIG_GENERATORS, "generators-by-layer")["monomials"].values())
    pairs = list(zip(monomials[-2::-2], monomials[::-2], strict=False))  # inside, then behind
    more = [behind > inside for inside, behind in pairs]
    half = len(pairs) // 2
    text = f"more behind a block's sum than inside it in {sum(more)} of {len(pairs)} blocks"
    return f"{text}, {sum(more[:half])} of the {half} last", _count(sum(more), len(pairs))


def dimension_correlates(results: Results, backbone: Backbone) -> Verdict:
    rows = results.rows(FIG_DIMENSION, backbone.caption)
    found = dimension_correlation(
        [row.values["dimension"] for row in rows], [row.values["monomials"] for row in rows]
    )
    text = f"correlation {number(found.pearson, '.2f')} (p = {found.pearson_p:.2g})"
    return (
        f"{text}, {found.count} cuts",
        "yes" if found.pearson > STRONG and found.pearson_p < 0.05 else "no",
    )
