"""What an experiment is, and what all of them share: settings, series over cuts, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, TypeAlias, cast

from vinets.core.checks import counted
from vinets.core.registry import Registry
from vinets.core.settings import LatentOptions, SpeedOptions, TrainingOptions
from vinets.heads import VanishingOptions
from vinets.measure.accuracy import Difference, over_images, over_seeds
from vinets.networks.build import rival_options
from vinets.paper import WORDS, backbones
from vinets.paper.backbones import BACKBONES, UNCUT, Backbone
from vinets.report.values import Axis, Figure, Number, Series, Table
from vinets.runs.store import Store
from vinets.runs.trial import TrainingFacts, Trial, TrialResult

PAPER = Trial(
    options=VanishingOptions(normalization="unit", scale="none", keep=None, monomials=None),
    latents=LatentOptions(per_class=512, reuse=True, batch_size=2_000, memory_limit=64 << 30),
    # The paper does not give the weight decay. The last epoch: nothing is held out.
    recipe=TrainingOptions(epochs=20, weight_decay=2e-3, validation=0.0, projected=True),
    timing=SpeedOptions(repeats=5, seconds=1.0),
    counting="paper",
    checkpoints=False,  # a training takes seconds
).change(views=5, dtype="float16", precision="tf32")
"""What all experiments start from: the paper's settings, as they were taken on CIFAR."""

QUICK_CHANGES: dict[str, Any] = {
    **{"per_class": 16, "components": 12, "views": 1, "epochs": 1, "train": 16, "test": 6},
    **{"batch": 16, "repeats": 2, "seconds": 0.01},
}
"""Changes to it to see that everything runs."""


@dataclass(frozen=True)
class Plan:
    """Which networks, by name, and how many seeds; a quick one takes a small slice of all.

    Seeds are for the table of variants and the figure on baselines; other figures have one. Where
    the data has no split of its own, a seed is that of the split, too, and the figure on truncation
    has all of them.
    """

    seeds: int = 3
    quick: bool = False
    backbones: tuple[str, ...] = backbones.PAPER

    @property
    def chosen(self) -> list[Backbone]:
        """Return the networks, in the order of the paper."""
        return [b for name, b in BACKBONES.items() if name in self.backbones]

    @property
    def start(self) -> Trial:
        """Return the trial that all others change; the chosen networks share their settings."""
        start = PAPER.change(**self.chosen[0].settings)
        return start.change(**QUICK_CHANGES) if self.quick else start

    @property
    def splits(self) -> bool:
        """Tell whether a seed has a split of the data and an uncut network of its own."""
        return self.chosen[0].splits

    @property
    def compared(self) -> bool:
        """Tell whether the paper prints results of the networks, to stand next to a full run's."""
        return not self.quick and all(one.name in UNCUT for one in self.chosen)

    @property
    def removed(self) -> Axis:
        """Return the axis of most figures: the share that a cut takes away."""
        return Axis(f"{'layers' if self.splits else 'convolutions'} removed in %", format=".0f")

    def cuts(self, backbone: Backbone, every: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the cuts of the figures, or some of ``every``."""
        every = every or backbone.cuts
        return every[-3:] if self.quick else every  # late ones have the fewest generators

    @property
    def places(self) -> list[tuple[Backbone, str]]:
        """Return every network with every cut of the figures."""
        return [(backbone, cut) for backbone in self.chosen for cut in self.cuts(backbone)]

    @property
    def options(self) -> VanishingOptions:
        """Return how the generators of all experiments are found, unless they say otherwise."""
        return cast(VanishingOptions, self.start.options)

    @property
    def components(self) -> int:
        """Return the number of principal components, the variables of the polynomials."""
        return cast(int, self.options.components)

    @property
    def epochs(self) -> str:
        """Return how long heads are trained, in words."""
        return counted(self.start.recipe.epochs, "epoch")

    def trial(
        self, backbone: Backbone, cut: str, *, head: str = "", seed: int = 0, **changes: Any
    ) -> Trial:
        """Return a trial of the paper, with changes as :meth:`Trial.change` takes them.

        Another head than the VI-Net is one of its rivals, and is compared with the VI-Net that the
        changes describe.
        """
        if self.quick:  # a change of the experiment's own does not undo the small slice
            changes = {name: v for name, v in changes.items() if name not in QUICK_CHANGES}
        network = backbone.network(seed)
        trial = self.start.change(network=network, cut=cut, seed=seed, **changes)
        if head in ("", trial.head):
            return trial
        return replace(trial, head=head, options=rival_options(head, trial.head, trial.options))


@dataclass(frozen=True)
class Findings:
    """What an experiment says: paragraphs, tables, figures, remarks."""

    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


Key: TypeAlias = tuple[Any, ...]
"""What tells the trials of an experiment apart, such as network, series and cut."""

Trials: TypeAlias = dict[Key, Trial]


class Results(dict[Key, TrialResult]):
    """Results of trials by their keys."""

    def part(self, *first: Any) -> Results:
        """Return those whose keys begin so, by the rest of their keys."""
        size = len(first)
        return Results({key[size:]: one for key, one in self.items() if key[:size] == first})

    def trained(self, *first: Any) -> list[TrainingFacts]:
        """Return the trainings whose keys begin so, mostly one for every seed."""
        return [one.trained for one in self.part(*first).values()]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    It has a ``name`` on the command line, a ``title`` for people, a place in the ``paper`` and
    one on the page, its ``order``. ``planned`` gives its trials by what tells them apart, and
    ``finding`` makes something of their results, which have the same keys.
    """

    name: str
    title: str
    paper: str
    order: float
    planned: Callable[[Plan], Mapping[Key, Trial]]
    finding: Callable[[Plan, Results], Findings]

    def __post_init__(self) -> None:
        EXPERIMENTS.add(self.name, self)

    def trials(self, plan: Plan) -> list[Trial]:
        """Return what has to be carried out."""
        return list(self.planned(plan).values())

    def findings(self, plan: Plan, store: Store) -> Findings:
        """Return what comes of it, where it was carried out."""
        planned = self.planned(plan).items()
        findings = self.finding(plan, Results({key: store.read(one) for key, one in planned}))
        if not plan.quick:
            return findings
        # The paper's values would mislead next to those of a quick run.
        tables = (
            replace(table, rows=tuple(replace(row, paper={}) for row in table.rows))
            for table in findings.tables
        )
        return replace(findings, tables=tuple(tables))


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "vinets.paper")
"""Every experiment by name; a file in this folder that makes one adds it."""

# --- what experiments do with their results ---------------------------------------------------


def share(result: TrialResult) -> float:
    """Return the share of what is counted that the cut takes away, in percent."""
    assert result.removed is not None  # it is None of trials without a cut
    return 100 * result.removed


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation, where there are several values."""
    return stdev(values) if len(values) > 1 else None


def accuracies(facts: Iterable[TrainingFacts]) -> list[float]:
    """Return the accuracies of trainings in percent."""
    return [100 * one.accuracy for one in facts]


def averaged(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Return the mean and the standard deviation of values, as a column of a table takes them."""
    return {name: mean(values), f"{name}_std": spread(values)}


def fields_of(facts: object, *names: str) -> dict[str, Any]:
    """Return fields of a result as the values of columns that have their names."""
    return {name: getattr(facts, name) for name in names}


def series_of(points: Mapping[Key, tuple[float, Number]]) -> tuple[Series, ...]:
    """Return a series for every first part of a key, with a point for every second, mostly a cut.

    Points are (x, y). Where the rest of the key tells several apart, such as seeds, x is that of
    the first, and the mean and standard deviation of y are drawn.
    """
    by_name: dict[str, dict[str, list[tuple[float, Number]]]] = {}
    for (name, label, *_), point in points.items():
        by_name.setdefault(name, {}).setdefault(label, []).append(point)
    series = []
    for name, by_label in by_name.items():
        values = [[y for _, y in some] for some in by_label.values()]
        x = tuple(some[0][0] for some in by_label.values())
        std = tuple(map(spread, values)) if max(map(len, values)) > 1 else None
        series.append(Series(name, x, tuple(map(mean, values)), tuple(by_label), std))
    return tuple(series)


# --- verdicts ---------------------------------------------------------------------------------

Judged: TypeAlias = tuple[str, str, str]
"""A claim of the paper in our words, what was found here, and whether it holds."""


def judge(claim: str, holds: Iterable[bool] | str, **facts: object) -> Judged:
    """Say in how many cases a claim holds, in the words of ``experiments.toml``.

    ``facts`` are what these words leave open. A verdict of another kind is given as text.
    """
    says, found = (words.format(**facts) for words in WORDS.parts["judged"][claim])
    if isinstance(holds, str):
        return says, found, holds
    cases = list(holds)
    yes, total = sum(cases), len(cases)
    return says, found, "yes" if yes == total else "no" if yes == 0 else f"in {yes} of {total}"


def judge_each(claim: str, cases: Iterable[tuple[str, bool]], **facts: object) -> Judged:
    """Judge a claim by cases of which something is said, each with whether the claim holds."""
    texts, holds = zip(*cases, strict=True)
    return judge(claim, holds, cases=", ".join(texts), **facts)


def level(
    ours: Sequence[TrainingFacts], theirs: Sequence[TrainingFacts] | None = None
) -> Difference:
    """Compare two heads over the same splits or seeds, pair by pair; by default, with the uncut.

    They are level if the paired 95 % interval of the difference in accuracy contains 0. The
    interval is that of :func:`over_images` where results keep which test images were answered
    wrongly, and otherwise that of :func:`over_seeds`.
    """
    if theirs is None:
        theirs = [replace(one, accuracy=one.uncut, wrong=one.uncut_wrong) for one in ours]
    pairs = list(zip(ours, theirs, strict=True))
    images = [
        (a.wrong, b.wrong, a.tested)
        for a, b in pairs
        if a.wrong is not None and b.wrong is not None and a.tested
    ]
    if len(images) == len(pairs):
        return over_images(images)
    return over_seeds([100 * (a.accuracy - b.accuracy) for a, b in pairs])
