"""Verdicts on results made up for the purpose: of every claim, both sides of its limit."""

from __future__ import annotations

import pytest

from vinets.paper.backbones import RESNET18, RESNET34
from vinets.paper.claims import CLAIMS, Evidence
from vinets.paper.comparisons import SIMPLE
from vinets.paper.plan import Plan, Results
from vinets.report.values import Row
from vinets.runs.trial import IdealFacts, TrainingFacts, TrialResult

VI = {60.0: 70.0, 50.0: 72.0, 15.0: 74.0}


class Made(Evidence):
    """Evidence in which every table has these rows, and every figure these series.

    Series that a test says nothing of are all alike.
    """

    def __init__(self, network=RESNET34, rows=(), uncut=70.0, ideals=None, **series):
        self._rows = [row if isinstance(row, Row) else Row(row) for row in rows]
        known = {name.replace("_", " "): values for name, values in series.items()}
        reading, *_ = network.readings
        names = {("fig-truncation", network): network.heads.values()}
        names["fig-baselines", network, reading] = SIMPLE.values()
        names["fig-algorithms", network] = ("ABM", "OAVI-CG", "OAVI-AGD")
        for algorithm in network.algorithms:
            names["fig-pruning", network, algorithm] = ("0% pruned", "50% pruned", "99% pruned")
        results = Results()
        for key, every in names.items():
            for name in every:
                values = known.get(f"{key[-1]} {name}", known.get(name, VI))
                for cut, (x, y) in zip(network.cuts, values.items(), strict=False):
                    facts = TrainingFacts(y / 100, uncut / 100, 1.0, 0.0, {}, 0.0)
                    results[*key, name, cut] = TrialResult(x / 100, training=facts)
        for place, (x, (monomials, polynomials)) in enumerate((ideals or {}).items()):
            left = {"0.99": monomials}
            facts = IdealFacts(1, 1, 1, None, polynomials, monomials, 0.1, left)
            results["fig-generators", network, place, "a cut"] = TrialResult(ideals=facts)
            results["fig-monomials", network, f"cut {place}"] = TrialResult(x / 100, ideals=facts)
        super().__init__(Plan(), network, results)

    def rows(self, experiment, reading=""):
        wanted = {"fig-baselines": "difference", "fig-dimension": "dimension"}.get(experiment)
        return [row for row in self._rows if wanted is None or wanted in row.values]


def judged(where, words, network=RESNET34, **made):
    """What was found, and the verdict on the one claim there that has these words."""
    every = CLAIMS[where](Made(network, **made))
    return next(judged[1:] for judged in every if words in judged[0])


def verdict(where, words, **made):
    return judged(where, words, **made)[1]


def variants(*changes):
    """Variants by what differs, and the uncut network of size and speed 1."""
    paper = {"total": 0.5, "base": 0.25, "head": 0.25, "delta": 0.0, "speed": 2.0}
    rows = [Row(paper | {"speed_std": 0.0} | change, paper) for change in changes]
    last = {"total": 1.0, "accuracy": 70.0, "speed": 1.0, "speed_std": 0.0}
    return [*rows, Row(last, {"speed": 1.0})]


def generators(*rows):
    names = ("removed", "monomials", "polynomials", "speedup")
    theirs = {"monomials": 100, "polynomials": 1000}
    made = [dict(zip(names, row, strict=True)) for row in rows]
    return [Row(values, theirs | {"seconds": float(values["removed"])}) for values in made]


def shifted(by, only=None):
    return {x: y + by if only in (None, x) else y for x, y in VI.items()}


VARIANTS = [  # words of the claim, a variant of which it holds, one of which it fails
    ("parameters of the truncated", {"base": 0.255}, {"base": 0.27}),
    ("what a cut does", {"delta": -0.9}, {"delta": -1.1}),
    ("what a cut does", {"delta": 0.9}, {"delta": 1.1}),
    ("match the uncut", {"delta": -0.9}, {"delta": -1.1}),
    ("smaller than", {"total": 0.99}, {"total": 1.01}),
    ("faster than", {"speed": 1.2, "speed_std": 0.1}, {"speed": 1.2, "speed_std": 0.3}),
]
GENERATORS = [
    ("earlier cuts", ((10, 1, 1, 2), (20, 2, 2, 2), (30, 3, 3, 2)), "yes"),
    ("earlier cuts", ((10, 3, 1, 2), (20, 2, 2, 2), (30, 1, 3, 2)), "in 1 of 2"),
    ("earlier cuts", ((10, 3, 3, 2), (20, 2, 2, 2), (30, 1, 1, 2)), "no"),
    ("numbers of", ((10, 91, 1090, 2), (20, 109, 910, 2)), "yes"),
    ("numbers of", ((10, 91, 1110, 2), (20, 100, 1000, 2)), "in 1 of 2"),
    ("seconds", ((10, 1, 1, 1.5), (20, 2, 2, 9)), "less here"),
    ("seconds", ((10, 1, 1, 0.5), (20, 2, 2, 9)), "less in 1"),
]
HEADS = [  # where, words of the claim, a head, by how much it differs where it holds and fails
    ("Truncation", "above random", "random_monomials", -0.1, 0.1),
    ("Truncation", "above a linear head (flat)", "linear_head", -0.1, 0.1),
    ("not in the paper", "MLP", "MLP", -0.1, 0.1),
    ("Truncation", "is as good", "linear_head", -0.4, -0.6),
    ("Truncation", "well below", "random_monomials", -1.1, -0.9),
]
PRUNING = [
    ("moderate", "50%", (-0.9, -0.9, -0.9), "yes"),  # may cost a point
    ("moderate", "50%", (0, 0, -1.1), "in 2 of 3"),
    ("extreme", "99%", (-3, -1, 0), "yes"),  # has to hurt early cuts most
    ("extreme", "99%", (-2, -3, 0), "in 1 of 2"),
    ("extreme", "99%", (0, 0, -3), "no"),
]
SLOPE = [{"dimension": x, "monomials": x * x} for x in range(1, 9)]
FLAT = [{"dimension": x, "monomials": (x * 3) % 5} for x in range(1, 9)]
# With 128 variables.
LEFT = {60.0: (500, 1), 45.0: (130, 1), 25.0: (120, 1)}
CROSSING = {1: (50, 20), 2: (40, 30), 3: (30, 40), 4: (20, 50)}
RISING = dict(zip(CROSSING, reversed(CROSSING.values()), strict=True))


def cases():
    """Yield where a claim stands, its words, evidence for it, and the verdict."""
    for claim, holds, fails in VARIANTS:
        yield "Table 2", claim, {"rows": variants({}, holds)}, "yes"
        yield "Table 2", claim, {"rows": variants({}, fails)}, "in 1 of 2"
    for claim, rows, expected in GENERATORS:
        yield "Table 1", claim, {"rows": generators(*rows)}, expected
    for where, claim, name, holds, fails in HEADS:
        yield where, claim, {"network": RESNET18, name: shifted(holds)}, "yes"
        yield where, claim, {"network": RESNET18, name: shifted(fails)}, "no"
    for claim, ratio, losses, expected in PRUNING:
        other = {x: y + loss for (x, y), loss in zip(VI.items(), losses, strict=True)}
        yield "Pruning", claim, {"0%_pruned": VI, f"{ratio}_pruned": other}, expected
    for accuracy, expected in ((74.9, "yes"), (75.1, "no")):  # three points
        yield "Truncation", "competitive", {"uncut": accuracy}, expected
    for gain, expected in ((4, "yes"), (6, "no")):  # most of a gain is more than half
        series = {"linear_on_components": shifted(-10), "random_monomials": shifted(gain - 10)}
        yield "not in the paper", "most of the gain", series, expected
    yield "Monomials", "fewer", {"ideals": LEFT}, "in 1 of 2"
    yield "Generators", "earlier", {"ideals": CROSSING}, "in 1 of 2"
    yield "Generators", "blocks", {"ideals": CROSSING}, "no"
    yield "Generators", "blocks", {"ideals": RISING}, "yes"
    yield "Dimension", "grow", {"rows": SLOPE}, "yes"
    yield "Dimension", "grow", {"rows": FLAT}, "no"


@pytest.mark.parametrize(("where", "claim", "made", "expected"), [*cases()])
def test_a_claim_holds_on_one_side_of_its_limit(where, claim, made, expected):
    assert verdict(where, claim, **made) == expected


def test_a_difference_below_its_deviation_decides_nothing():
    seeds = [{"removed": 60.0, "difference": 0.1, "difference_std": 0.2}]
    series = {"random_monomials": shifted(-0.5)}
    text, found = judged("Truncation", "above random", rows=seeds, **series)
    assert found == "in 2 of 3" and "not decided: +0.10 ± 0.20 with 60 %" in text
    seeds[0]["difference_std"] = 0.05
    assert verdict("Truncation", "above random", rows=seeds, **series) == "yes"


def test_every_kind_of_linear_head_counts():
    below = dict.fromkeys(
        ("linear_head,_flat", "linear_head,_pooled", "linear_on_components"), shifted(-0.1)
    )
    assert verdict("Truncation", "many layers", **below) == "yes"
    for name in below:
        series = below | {name: shifted(0.1)}
        assert verdict("Truncation", "many layers", **series) == "in 2 of 3"


def test_gains_and_losses_by_pruning_do_not_cancel():
    abm, oavi = ({60.0: 70.0 + by, 50.0: 72.0 - by, 15.0: 74.0} for by in (2.0, 3.0))
    pruned = {f"{one} 99% pruned": oavi for one in RESNET34.algorithms} | {"abm 99% pruned": abm}
    assert verdict("Pruning", "OAVI", **pruned) == "no"


def test_algorithms_are_compared_cut_by_cut():
    series = {"ABM": VI, "OAVI-CG": shifted(-1.9), "OAVI-AGD": shifted(0.2, only=60.0)}
    assert verdict("Algorithms", "similar", **series) == "in 2 of 3"
    assert verdict("Algorithms", "ahead", **series) == "no"
    series["OAVI-AGD"] = shifted(-0.1)
    assert verdict("Algorithms", "ahead", **series) == "yes"
