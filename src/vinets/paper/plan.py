"""What an experiment is, and the settings that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Any, TypeAlias

from vinets.core.checks import counted
from vinets.core.registry import Registry
from vinets.core.settings import LatentOptions, SpeedOptions, TrainingOptions
from vinets.heads import VanishingOptions
from vinets.networks.build import rival_options
from vinets.paper import backbones, paper
from vinets.paper.backbones import BACKBONES, Backbone
from vinets.report.values import Axis, Figure, Series, Table
from vinets.runs.store import Store
from vinets.runs.trial import Trial, TrialResult

PAPER = Trial(
    options=VanishingOptions(normalization="unit", scale="none", keep=None, monomials=None),
    latents=LatentOptions(per_class=512, reuse=True, batch_size=2_000, memory_limit=64 << 30),
    recipe=TrainingOptions(
        epochs=20,
        # The paper does not give the weight decay. The last epoch: nothing is held out.
        weight_decay=2e-3,
        validation=0.0,
        precision="tf32",
        views=5,
        dtype="float16",
        projected=True,
    ),
    timing=SpeedOptions(repeats=5, seconds=1.0),
    counting="paper",
    checkpoints=False,  # a training takes seconds
)
"""What all experiments start from: the paper's settings, as they were taken on CIFAR."""

QUICK: dict[str, Any] = {
    "per_class": 16,
    "components": 12,
    "views": 1,
    "epochs": 1,
    "train": 16,
    "test": 6,
    "batch": 16,
    "repeats": 2,
    "seconds": 0.01,
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
        """The networks, in the order of the paper."""
        return [b for name, b in BACKBONES.items() if name in self.backbones]

    @property
    def start(self) -> Trial:
        """The trial that all others change; the chosen networks share their settings."""
        start = PAPER.change(**self.chosen[0].settings)
        return start.change(**QUICK) if self.quick else start

    @property
    def compared(self) -> bool:
        """Whether the paper prints results of the networks, and a full run stands next to them."""
        return not self.quick and all(one.name in paper.UNCUT for one in self.chosen)

    @property
    def unit(self) -> tuple[float, str]:
        """How many parameters are counted as one in tables, and the letter for it."""
        return (1e3, "k") if self.chosen[0].splits else (1e6, "M")

    @property
    def removed(self) -> Axis:
        """The axis of most figures: the share that a cut takes away."""
        what = "layers" if self.start.counting == "layers" else "convolutions"
        return Axis(f"{what} removed in %", format=".0f")

    def cuts(self, backbone: Backbone, every: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Cuts of the figures, or some of ``every``."""
        every = every or backbone.cuts
        return every[-3:] if self.quick else every  # late ones have the fewest generators

    @property
    def places(self) -> list[tuple[Backbone, str]]:
        """Every network with every cut of the figures."""
        return [(backbone, cut) for backbone in self.chosen for cut in self.cuts(backbone)]

    @property
    def suffix(self) -> str:
        """What ends the name of every file, so that none passes for one of a full run."""
        return "-quick" if self.quick else ""

    @property
    def components(self) -> int:
        """Principal components, the variables of the polynomials."""
        found = self.options.components
        assert found is not None
        return found

    @property
    def options(self) -> VanishingOptions:
        """How the generators of all experiments are found, unless they say otherwise."""
        found = self.start.options
        assert isinstance(found, VanishingOptions)
        return found

    @property
    def epochs(self) -> str:
        """How long heads are trained, in words."""
        return counted(self.start.recipe.epochs, "epoch")

    def networks(self, backbone: Backbone) -> list[str]:
        """Names of the uncut networks in the store: one, or one for every split."""
        return [network_name(backbone, k) for k in range(self.seeds if backbone.splits else 1)]

    def trial(
        self,
        backbone: Backbone,
        cut: str,
        task: str = "train",
        *,
        head: str = "vanishing",
        seed: int = 0,
        **changes: Any,
    ) -> Trial:
        """A trial of the paper, with changes as :meth:`Trial.change` takes them.

        Another head than the VI-Net is one of its rivals, and is compared with the VI-Net that the
        changes describe.
        """
        if self.quick:  # a change of the experiment's own does not undo the small slice
            changes = {name: v for name, v in changes.items() if name not in QUICK}
        network = network_name(backbone, seed)
        trial = self.start.change(network=network, cut=cut, task=task, seed=seed, **changes)
        if head == trial.head:
            return trial
        return replace(trial, head=head, options=rival_options(head, trial.head, trial.options))


def network_name(backbone: Backbone, split: int) -> str:
    """Name of an uncut network in the store."""
    return f"{backbone.name}-{split}" if backbone.splits else backbone.name


@dataclass(frozen=True)
class Findings:
    """What an experiment says: paragraphs, tables, figures, remarks."""

    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()

    def alone(self) -> Findings:
        """Without the paper's values, beside which those of a quick run would mislead."""
        tables = (
            replace(table, rows=tuple(replace(row, paper={}) for row in table.rows))
            for table in self.tables
        )
        return replace(self, tables=tuple(tables))


Key: TypeAlias = tuple[Any, ...]
"""What tells the trials of an experiment apart, such as network, series and cut."""

Trials: TypeAlias = dict[Key, Trial]
Results: TypeAlias = Mapping[Key, TrialResult]


def part(found: Results, *first: Any) -> dict[Key, TrialResult]:
    """What has a key that begins so, by the rest of its key."""
    return {key[len(first) :]: one for key, one in found.items() if key[: len(first)] == first}


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
        """What has to be carried out."""
        return list(self.planned(plan).values())

    def findings(self, plan: Plan, store: Store) -> Findings:
        """What comes of it, where it was carried out."""
        found = self.finding(plan, {k: store.read(t) for k, t in self.planned(plan).items()})
        return found.alone() if plan.quick else found


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "vinets.paper")
"""Every experiment by name; a file in this folder that makes one adds it."""


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation, where there are several values."""
    return stdev(values) if len(values) > 1 else None


def share(result: TrialResult) -> float:
    """Share of what is counted that the cut takes away, in percent."""
    assert result.removed is not None  # it is None of trials without a cut
    return 100 * result.removed


def line(name: str, points: Iterable[tuple[float, float, str]]) -> Series:
    """A series of a figure: x, y and a label for every point."""
    x, y, labels = zip(*points, strict=True)
    return Series(name, x, y, labels)
