"""Results of other experiments as claims need them, and how a claim is judged."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeAlias

from scipy.stats import spearmanr

from vinets.paper.plan import EXPERIMENTS, Findings, Plan, Results, part
from vinets.report.formats import number
from vinets.report.values import Row
from vinets.runs.trial import TrainingFacts

COUNTS = ("monomials", "polynomials")
STRONG = 0.7  # a correlation that counts


class Evidence:
    """Results by the name of their experiment, and the tables and figures that come of them."""

    def __init__(self, plan: Plan, results: Results) -> None:
        self.plan, self.results = plan, results

    @cached_property
    def _known(self) -> dict[str, Findings]:
        return {}

    def findings(self, experiment: str) -> Findings:
        """What an experiment says, made once."""
        if experiment not in self._known:
            own = part(self.results, experiment)
            self._known[experiment] = EXPERIMENTS[experiment].finding(self.plan, own)
        return self._known[experiment]

    def rows(self, experiment: str, section: str) -> list[Row]:
        """Rows of the first table whose section begins so."""
        table = self.findings(experiment).tables[0]
        return [row for row in table.rows if (row.section or "").startswith(section)]

    def figure(self, experiment: str, name: str) -> dict[str, dict[float, float]]:
        """Series of a figure: name to values by x, mostly a share removed in percent."""
        figures = self.findings(experiment).figures
        found = next(figure for figure in figures if figure.id == name)
        return {
            series.name: {x: y for x, y in zip(series.x, series.y, strict=True) if y is not None}
            for series in found.series
        }

    def trained(self, *key: Any) -> list[TrainingFacts]:
        """Trainings whose keys begin so, one for every split."""
        return [one.trained for one in part(self.results, *key).values()]


Judged: TypeAlias = tuple[str, str, str]
"""A claim of the paper in our words, what was found here, and whether it holds."""


def count(holds: Iterable[bool]) -> str:
    """In how many cases a claim holds."""
    every = list(holds)
    found, total = sum(every), len(every)
    return "yes" if found == total else "no" if found == 0 else f"in {found} of {total}"


def judge(claim: str, cases: Iterable[tuple[str, bool]], found: str = "{}") -> Judged:
    """What is said of every case and put into a sentence, and in how many the claim holds."""
    texts, holds = zip(*cases, strict=True)
    return claim, found.format(", ".join(texts)), count(holds)


def points(value: float) -> str:
    """A difference in points."""
    return number(value, "+.2f")


def rank(x: Iterable[float], y: Iterable[float]) -> float:
    """Rank correlation; 0 where one of them is constant, so that it has no order."""
    given = list(x), list(y)
    return float(spearmanr(*given).statistic) if min(map(len, map(set, given))) > 1 else 0.0
