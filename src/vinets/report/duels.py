"""Who is right more often on the same examples, and whether chance explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from vinets.pipeline.comparison import Comparison, NetworkResult
from vinets.report.formats import number

__all__ = ["LEVEL", "Duel", "duel", "duels_of", "standings"]

LEVEL = 0.05


@dataclass(frozen=True)
class Duel:
    """The VI-Net and a baseline behind the same cut: wrong answers, the mean over the seeds.

    ``p`` is the probability of a difference at least this large if both were equally good: a sign
    test over the examples on which they differ (McNemar's exact test in case of one seed).
    """

    cut: str
    baseline: str
    ours: float
    theirs: float
    p: float

    @property
    def outcome(self) -> str:
        """``"wins"`` or ``"loses"`` if p is below 0.05, else ``"open"``."""
        if self.p >= LEVEL:
            return "open"
        return "wins" if self.ours < self.theirs else "loses"

    def __str__(self) -> str:
        p = f"p = {number(self.p, '.2g')}" if self.p >= 0.001 else "p < 0.001"
        return f"{self.outcome}, {self.ours:g} to {self.theirs:g} ({p})"


def duel(cut: str, ours: NetworkResult, theirs: NetworkResult) -> Duel:
    """Compare two networks behind a cut by the examples that each seed answers wrongly.

    Examples
    --------
    >>> ours = NetworkResult("VI-Net", {}, (0.9,), wrong=((3,),))
    >>> theirs = NetworkResult("MLP", {}, (0.7,), wrong=((3, 5, 8),))
    >>> result = duel("pool", ours, theirs)
    >>> result.ours, result.theirs, result.p, result.outcome
    (1.0, 3.0, 0.5, 'open')
    """
    balance: Counter[int] = Counter()
    for sign, network in ((1, theirs), (-1, ours)):
        for seed in network.wrong:
            for example in seed:
                balance[example] += sign
    better = sum(count > 0 for count in balance.values())
    worse = sum(count < 0 for count in balance.values())
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    return Duel(cut, theirs.name, _errors(ours), _errors(theirs), float(p))


def duels_of(comparisons: Iterable[Comparison]) -> list[Duel]:
    """The VI-Net against every baseline behind every cut."""
    return [
        duel(comparison.cut, comparison.networks[0], baseline)
        for comparison in comparisons
        for baseline in comparison.networks[1:]
    ]


def standings(duels: Sequence[Duel]) -> list[str]:
    """One sentence for every baseline, over all cuts."""
    sentences = []
    for baseline in dict.fromkeys(d.baseline for d in duels):
        mine = [d for d in duels if d.baseline == baseline]
        fewer = sum(d.ours < d.theirs for d in mine)
        more = sum(d.ours > d.theirs for d in mine)
        equal = len(mine) - fewer - more
        counts = [f"fewer errors behind {fewer} of {len(mine)} cuts", f"more behind {more}"]
        counts += [f"as many behind {equal}"] if equal else []
        clear = [
            f"It {verb} clearly at {_listed(cuts)}."
            for verb in ("wins", "loses")
            if (cuts := [d.cut for d in mine if d.outcome == verb])
        ]
        text = " ".join(clear) or "No difference is clear."
        sentences.append(f"{baseline}: the VI-Net makes {_listed(counts)}. {text}")
    return sentences


def _errors(network: NetworkResult) -> float:
    return sum(map(len, network.wrong)) / len(network.wrong)


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
