"""Claims on accuracies where results keep single answers: judged by :func:`level`."""

from __future__ import annotations

from collections.abc import Iterator

from vinets.measure.level import Difference
from vinets.paper.accuracy import ALGORITHMS
from vinets.paper.backbones import Backbone
from vinets.paper.evidence import Evidence, Judged, count, judge
from vinets.paper.level import level, level_with_uncut
from vinets.report.formats import number
from vinets.runs.trial import TrainingFacts

MOSTLY = 0.95  # share of the polynomials
EARLY, LATE = 40, 20  # percent of the layers: at least so many are removed, or at most


def difference_in_words(cut: str, found: Difference) -> str:
    """A difference at a cut with its verdict."""
    return f"{cut} {number(found.value, '+.2f')} ({found.word})"


class Heads:
    """Trainings of the figure on truncation: a list over splits for every head and cut."""

    def __init__(self, evidence: Evidence, backbone: Backbone) -> None:
        self._evidence, self._names = evidence, backbone.heads
        self._figure = f"truncation-{backbone.data}", backbone.caption
        found = evidence.figure("fig-truncation", self._figure[0])
        places = zip(found["VI-Net"], evidence.plan.cuts(backbone), strict=True)
        self.removed = {cut: x for x, cut in places}  # percent

    def of(self, kind: str, cut: str) -> list[TrainingFacts]:
        """Trainings of a head behind a cut."""
        return self._evidence.trained("fig-truncation", self._figure, self._names[kind], cut)

    def against(self, kind: str) -> dict[str, Difference]:
        """VI-Net less another head, cut by cut."""
        return {cut: level(self.of("vanishing", cut), self.of(kind, cut)) for cut in self.removed}


def _ahead(claim: str, found: dict[str, Difference]) -> Judged:
    """Whether the first of two is ahead at every cut."""
    return judge(
        claim, ((difference_in_words(*one), one[1].word == "ahead") for one in found.items())
    )


def truncation(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    """Judge what the paper says of the figures on truncation."""
    heads = Heads(evidence, backbone)
    yield _ahead("VI-Net is above random monomials at every cut", heads.against("random"))
    yield _ahead("VI-Net is above a linear head (flat)", heads.against("linear"))
    late = {cut: x for cut, x in heads.removed.items() if x <= LATE}
    yield judge(
        f"with at most {LATE} % removed a linear head is as good (level or ahead)",
        (
            (difference_in_words(cut, found), found.word != "behind")
            for cut in late
            for found in (level(heads.of("linear", cut), heads.of("vanishing", cut)),)
        ),
        "linear head less VI-Net: {}",
    )
    half = min(heads.removed, key=lambda cut: abs(heads.removed[cut] - 50))
    loss = level_with_uncut(heads.of("vanishing", half))
    yield (
        "with half of the layers removed VI-Net is competitive (3 points at most)",
        f"{number(loss.value, '+.2f')} ({loss.shown}) with {heads.removed[half]:.0f} % removed",
        count([loss.interval is not None and loss.interval[0] > -3]),
    )
    early = [cut for cut, x in heads.removed.items() if x > EARLY] or list(heads.removed)
    cases = []
    for kind in ("pooled", "components", "linear"):
        ahead = sum(heads.against(kind)[cut].word == "ahead" for cut in early)
        text = f"{ahead} of {len(early)} of {backbone.heads[kind]}"
        cases.append((text, ahead == len(early)))
    claim = f"with many layers removed (over {EARLY} %) it is above a linear head"
    yield judge(claim, cases, "ahead at {}")


def pruning(evidence: Evidence, backbone: Backbone, ratio: str) -> Judged:
    """Judge what the paper says of pruning some of ABM's polynomials."""
    name, _ = ALGORITHMS["abm"]
    figure = f"pruning-{backbone.data}-abm", f"{backbone.caption}, {name}"

    def trained(share: str, cut: str) -> list[TrainingFacts]:
        return evidence.trained("fig-pruning", figure, f"{share} pruned", cut)

    found = {
        cut: level(trained(ratio, cut), trained("0%", cut)) for cut in evidence.plan.cuts(backbone)
    }
    return judge(
        f"moderate pruning ({ratio.replace('%', ' %')}) costs nothing (level or ahead)",
        ((difference_in_words(*one), one[1].word != "behind") for one in found.items()),
    )


def algorithms(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    """Judge what the paper says of the figure on algorithms."""
    figure = "algorithms", f"{backbone.caption}: accuracy"
    names = [ALGORITHMS[algorithm][0] for algorithm in backbone.algorithms]
    cuts = evidence.plan.cuts(backbone)
    found = {
        (name, cut): evidence.trained("fig-algorithms", figure, name, cut)
        for name in names
        for cut in cuts
    }
    first, *others = names
    gaps = [level(found[first, cut], found[name, cut]) for name in others for cut in cuts]
    words = [gap.word for gap in gaps]
    text = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    text = f"{first} against {len(others)} others at {len(cuts)} cuts: {text}"
    yield "similar accuracy (level)", text, count(word == "level" for word in words)
    yield "ABM is slightly ahead", text, count(word == "ahead" for word in words)


def ours(evidence: Evidence, backbone: Backbone) -> Iterator[Judged]:
    """Judge what we add to the paper's comparison."""
    heads = Heads(evidence, backbone)
    yield _ahead("VI-Net is above an MLP of as many parameters", heads.against("mlp"))
    yield _ahead(
        "VI-Net is above random monomials of the same degrees", heads.against("same-degrees")
    )
    yield _ahead("VI-Net is above a linear layer on its variables", heads.against("components"))
    found = [
        (f"{cut} {one.smallest_own:.0%}", one.smallest_own >= MOSTLY)
        for cut in heads.removed
        for one in (heads.of("vanishing", cut)[0].vanishing,)
        if one is not None
    ]
    claim = f"polynomials are smallest on their own class on test images ({MOSTLY:.0%} or more)"
    yield judge(claim, found, "{} of them")
