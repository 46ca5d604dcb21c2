"""A trial, which is one cut, one head, one training and one measurement, and its result.

A trial is identified by those of its fields that differ from their defaults, so that a field added
later orphans no result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from vinets.core.checks import one_of, parameter_error
from vinets.core.files import slug
from vinets.core.options import gather
from vinets.core.plain import changes, from_plain
from vinets.core.settings import LatentOptions, SampleOptions, SpeedOptions, TrainingOptions
from vinets.heads import HEADS, BuildFacts, HeadOptions
from vinets.heads.facts import VanishingFacts
from vinets.training.epochs import History

T = TypeVar("T")

TASKS = ("train", "ideals", "dimension", "speed")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One thing to compute: a cut, a head, a training and a measurement."""

    network: str = ""  # name of the uncut network, with its data, among those that trials run with
    cut: str | int = ""  # where it is cut; speed is that of several networks and has no cut
    # Train and test a head; find the generators and count them; estimate the intrinsic dimension
    # in the latents; measure saved networks and the uncut one in turns.
    task: str = "train"
    head: str = "vanishing"  # a kind of vinets.heads.HEADS
    options: HeadOptions | None = None  # options of that head; None is its defaults
    latents: LatentOptions = LatentOptions()
    recipe: TrainingOptions = TrainingOptions()  # its seed is that of the trial
    sampling: SampleOptions = SampleOptions()
    timing: SpeedOptions = SpeedOptions()
    counting: str = "all"  # what counts in the share removed, a key of vinets.runs.setup.COUNTED
    save: str = ""  # folder of the store for the trained network; empty for none
    compared: tuple[tuple[str, str], ...] = ()  # names and folders of networks that are timed
    checkpoints: bool = field(default=True, metadata={"result": False})  # between epochs
    detailed: bool = False  # keep every epoch, wrong answers and how the head was built
    # Compute the spectral complexity of the trained network and of the uncut one as well, and the
    # mean absolute value of every polynomial on every class.
    studied: bool = False
    seed: int = 0
    alone: bool = False  # whether nothing else may run next to it, because its time counts

    def __post_init__(self) -> None:
        one_of("Trial", "task", self.task, TASKS)
        for name in (self.save, *(folder for _, folder in self.compared)):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                accepted = "a folder inside that of the results"
                raise parameter_error("Trial", "save", accepted, name)
        if self.options is None:
            object.__setattr__(self, "options", HEADS[self.head].Options())

    @classmethod
    def of(cls, head: str = "vanishing", **options: Any) -> Trial:
        """Return the trial of a head as ``vinets build`` makes it, with changes to any option.

        Its latents and its recipe are those that suit the head.

        Examples
        --------
        >>> Trial.of("products", factors=3).recipe.trained
        'backbone'
        """
        kind = HEADS[head]
        start = cls(head=head, recipe=TrainingOptions(**kind.training_defaults)).change(**options)
        if "latents" in options:
            return start
        changed = {one.name for one in fields(LatentOptions)} & options.keys()
        usual = replace(start, latents=LatentOptions(**kind.latent_defaults(start.options)))
        return usual.change(**{name: options[name] for name in changed})

    def change(self, **options: Any) -> Trial:
        """Return the trial with other values of its fields, or of the fields of its options.

        Another ``head`` starts from the defaults of its own options.

        Examples
        --------
        >>> Trial(cut="relu2").change(psi=0.01, keep=16, epochs=5).changes
        {'cut': 'relu2', 'recipe': {'epochs': 5}, 'options': {'psi': 0.01, 'keep': 16}}
        """
        known = tuple(self.__dataclass_fields__)
        own = {name: options.pop(name) for name in [*options] if name in known}
        if own.get("head", self.head) != self.head:
            own.setdefault("options", HEADS[own["head"]].Options())
        objects = {name: own.get(name, getattr(self, name)) for name in GROUPS}
        groups = {name: type(one) for name, one in objects.items()}
        return replace(self, **(own | gather("Trial", groups, options, objects, known=known)))

    @property
    def shares(self) -> Hashable:
        """Fields that are equal in trials that share latents."""
        return self.network, self.cut, self.seed, self.latents, self.sampling

    @property
    def changes(self) -> dict[str, object]:
        """Fields that differ from their defaults, nested, as plain values."""
        options = changes(self.options)
        outer = {name: value for name, value in changes(self).items() if name != "options"}
        return outer | ({"options": options} if options else {})

    @property
    def name(self) -> str:
        """A readable name with a digest of all its changes."""
        facts = json.dumps(self.changes, sort_keys=True)
        digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
        parts = (self.network, str(self.cut), self.task, self.head)
        return slug("-".join([*(slug(part) for part in parts if part), digest]))


def trial_from(values: Any) -> Trial:
    """Return the trial that :attr:`Trial.changes` describes."""
    if not isinstance(values, dict):
        raise ValueError("a trial must be an object.")
    rest = dict(values)
    options, head = rest.pop("options", None) or {}, str(rest.get("head", Trial.head))
    return replace(from_plain(Trial, rest), options=_options_from(HEADS[head].Options, options))


def _options_from(kind: type[HeadOptions], values: Any) -> HeadOptions:
    """Return options of a head from their changes; those of another head may be inside."""
    if not isinstance(values, dict):
        raise ValueError("options of a head must be an object.")
    rest = dict(values)
    inner, usual = rest.pop("like", None), getattr(kind, "like", None)
    options = from_plain(kind, rest, "options")
    if "like" not in values:
        return options
    if usual is None or not isinstance(inner, dict):
        raise ValueError("like must hold the options of the head that a baseline is compared with.")
    inner = dict(inner)
    other = HEADS[str(inner.pop("kind"))].Options if "kind" in inner else type(usual)
    return replace(options, like=_options_from(other, inner))  # type: ignore[call-arg]


GROUPS = ("options", "latents", "recipe", "sampling", "timing")
"""Fields that hold options."""


# --- results ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdealFacts:
    """Generators of all classes behind a cut."""

    points: int  # examples that ideals are fitted to
    features: int  # values of a latent
    variables: int  # each polynomial has as many
    explained_variance: float | None  # share that the variables keep
    polynomials: int  # the generators
    monomials: int  # terms that evaluating them takes, the constant left out
    seconds: float  # the fits alone, until the device was done
    monomials_left: dict[str, int]  # after a share of the polynomials was pruned
    by_class: dict[str, int] | None = None  # monomials that each class takes, where it was kept
    steps: int | None = None  # steps of the oracle, where the algorithm has one
    nonzeros: int | None = None  # coefficients that are not 0, without the leading ones


@dataclass(frozen=True)
class TrainingFacts:
    """A head that was trained and tested; the fields from ``wrong`` on are of a detailed trial."""

    accuracy: float  # on the test data, in [0, 1]
    uncut: float  # that of the uncut network
    train_accuracy: float  # in the epoch that was kept
    loss: float  # in the epoch that was kept
    parts: dict[str, int]  # parameters of each part, folded: everything that is stored
    seconds: float  # the training alone
    polynomials: int | None = None  # None for heads without any
    monomials: int | None = None
    capped: bool | None = None  # whether there was no room for more polynomials
    best_epoch: int | None = None  # the one that was kept
    vanishing_built: VanishingFacts | None = None  # a VI-Net on the test images, before training
    vanishing: VanishingFacts | None = None  # the same afterwards
    wrong: tuple[int, ...] | None = None  # test examples that it gets wrong
    uncut_wrong: tuple[int, ...] | None = None  # those that the uncut network gets wrong
    tested: int | None = None  # how many test examples there are
    history: History | None = None  # every epoch
    build: BuildFacts | None = None  # how the polynomials were built

    @property
    def parameters(self) -> int:
        """Count of the parameters of the whole network."""
        return sum(self.parts.values())

    @property
    def parameters_head(self) -> int:
        """Count of the parameters behind the cut."""
        return self.parameters - self.parts["backbone"]


@dataclass(frozen=True)
class DimensionFacts:
    """Intrinsic dimension of the latents of every class, and over them."""

    neighbours: int
    per_class: dict[str, float]
    mean: float
    std: float


@dataclass(frozen=True)
class Speed:
    """Images per second: mean and standard deviation over windows of one measurement."""

    mean: float
    std: float


@dataclass(frozen=True)
class SpeedFacts:
    """Images per second of networks that took turns, and facts of the uncut one."""

    speeds: dict[str, Speed]  # by name; that of the uncut one is the trial's network, or "uncut"
    uncut: float  # its accuracy on the test data
    parameters: int  # its own


@dataclass(frozen=True)
class TheoryFacts:
    """Decimal logarithms of spectral complexities, and the bounds of the theorem."""

    uncut: float  # the uncut network
    network: float  # the trained network, as the theorem counts
    guaranteed: float  # the same where variables may leave [-1, 1]
    bounds: tuple[dict[str, Any], ...] = ()  # fields of vinets.theory.bounds.Bound
    ratio: float | None = None  # between terms of the corollary, at the median margins

    @property
    def kappa(self) -> float:
        """Decimal logarithm of kappa: the complexity of the network over that of the uncut one."""
        return self.network - self.uncut


@dataclass(frozen=True)
class PolynomialFacts:
    """Polynomials of a VI-Net on the test examples of every class, to three digits."""

    owners: tuple[int, ...]  # class whose ideal each polynomial is from
    built: tuple[tuple[float, ...], ...]  # mean absolute values before training, a row for each
    trained: tuple[tuple[float, ...], ...]  # the same after training
    shortest: int  # the one with the fewest terms, of degree 2 or more if there is one
    text: str  # that one as it was found
    means: tuple[float, ...]  # mean absolute value of that text on every class


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial: a section for its task."""

    removed: float | None = None  # share of the convolutions that the cut takes away
    shape: tuple[int, int] | None = None  # channels and positions of the latents
    ideals: IdealFacts | None = None
    training: TrainingFacts | None = None
    dimension: DimensionFacts | None = None
    speed: SpeedFacts | None = None
    theory: TheoryFacts | None = None
    polynomials: PolynomialFacts | None = None

    @property
    def trained(self) -> TrainingFacts:
        """The result of a training."""
        return _section(self.training, "head was trained")

    @property
    def estimated(self) -> DimensionFacts:
        """The dimension that was estimated."""
        return _section(self.dimension, "dimension was estimated")

    @property
    def timed(self) -> SpeedFacts:
        """The speed that was measured."""
        return _section(self.speed, "speed was measured")

    @property
    def complexity(self) -> TheoryFacts:
        """The complexity of the network that was trained."""
        return _section(self.theory, "network was studied")

    @property
    def found(self) -> IdealFacts:
        """The ideals that were counted."""
        return _section(self.ideals, "ideals were counted")


def _section(facts: T | None, what: str) -> T:
    if facts is None:
        raise ValueError(f"This is the result of a trial in which no {what}.")
    return facts
