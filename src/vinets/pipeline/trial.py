"""A trial: one cut, one head, one training, one measurement; and what came of it.

Everything that is computed more than once, by ``vinets build``, the demo, the experiments of the
paper, is a list of trials. A trial is identified by those of its fields that differ from their
defaults, so that a field added later orphans no result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from vinets.checks import one_of
from vinets.files import slug
from vinets.options import gather
from vinets.pipeline.build import Design
from vinets.pipeline.comparison import Speed
from vinets.pipeline.report import BuildReport
from vinets.plain import changes
from vinets.settings import TrialSettings
from vinets.training.history import History

__all__ = [
    "TASKS",
    "DimensionFacts",
    "IdealFacts",
    "SpeedFacts",
    "TrainingFacts",
    "Trial",
    "TrialResult",
]

TASKS = ("train", "ideals", "dimension", "speed")


@dataclass(frozen=True, kw_only=True)
class Trial(TrialSettings):
    """One thing to compute.

    Parameters
    ----------
    network : str
        Name of the uncut network, with its data, among those that trials are run with.
    cut : str or int
        Where it is cut; speed is measured for several networks at once and has no cut.
    task : {"train", "ideals", "dimension", "speed"}
        Train and test a head; find the generators and count them; estimate the intrinsic dimension
        of the latents; measure saved networks and the uncut one in turns.
    head : str
        A kind of :data:`vinets.nn.heads.HEADS`, or ``"vi"`` for the VI head of the placement. A
        baseline is made for the VI head that the other fields describe.
    finding, collecting, placing, projecting, pruning, recipe, caching, sampling, timing
        See :mod:`vinets.settings`. The seed of the recipe is that of the trial.
    counting : {"all", "paper"}
        Which convolutions count in the share removed.
    baseline_degree : int
        Of random monomials.
    save : str
        Folder of the store into which the trained network is saved; empty for none.
    compared : tuple of (str, str)
        For speed: name and folder of every network that is measured beside the uncut one.
    checkpoints : bool
        Write one after every epoch, for long trainings; it changes no result.
    detailed : bool
        Keep every epoch, wrong answers and how the head was built in the result.
    seed : int
        Of everything.
    alone : bool
        Whether nothing else may run beside it, for its time counts.
    """

    network: str = ""
    cut: str | int = ""
    task: str = "train"
    head: str = "vi"
    counting: str = "all"
    baseline_degree: int = 5
    save: str = ""
    compared: tuple[tuple[str, str], ...] = ()
    checkpoints: bool = field(default=True, metadata={"result": False})
    detailed: bool = False
    seed: int = 0
    alone: bool = False

    def __post_init__(self) -> None:
        one_of("Trial", "task", self.task, TASKS)

    def change(self, **options: Any) -> Trial:
        """The trial with other values of its fields, or of the fields of its settings.

        Examples
        --------
        >>> Trial(cut="relu2").change(psi=0.01, keep=16, epochs=5).changes
        {'pruning': {'keep': 16}, 'finding': {'psi': 0.01}, 'recipe': {'epochs': 5}, 'cut': 'relu2'}
        """
        own = {name: options.pop(name) for name in [*options] if name in _OWN}
        groups = {name: type(getattr(self, name)) for name in GROUPS}
        objects = {name: getattr(self, name) for name in GROUPS} | own
        made = gather("Trial", groups, options, objects, known=_OWN)
        return replace(self, **(own | made))

    @property
    def design(self) -> Design:
        """What the VI head is made of."""
        return Design(self.placing, self.projecting, self.pruning)

    @property
    def shares(self) -> Hashable:
        """Trials that are equal in this share latents."""
        return self.network, self.cut, self.seed, self.collecting, self.sampling

    @property
    def changes(self) -> dict[str, object]:
        """Fields that differ from their defaults, nested, as plain values."""
        return changes(self)

    @property
    def name(self) -> str:
        """Name of its file: readable, with a digest of all its changes."""
        facts = json.dumps(self.changes, sort_keys=True)
        digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
        parts = (self.network, str(self.cut), self.task, self.head)
        return slug("-".join([*(slug(part) for part in parts if part), digest]))


GROUPS = tuple(one.name for one in fields(TrialSettings))
"""Fields that hold settings."""

_OWN = tuple(Trial.__dataclass_fields__)


# --- what came of it --------------------------------------------------------------------------


@dataclass(frozen=True)
class IdealFacts:
    """Generators of all classes behind a cut.

    Attributes
    ----------
    points, features, variables : int
        Examples that ideals are fitted to, values of a latent, variables of the polynomials.
    explained_variance : float or None
        Share of the variance that the variables keep.
    polynomials, monomials : int
        Generators, and terms that evaluating them takes, the constant left out.
    seconds : float
        Of the fits alone, until the device was done.
    monomials_left : dict
        Monomials after a share of the polynomials was pruned.
    by_class : dict
        Monomials that the generators of each class take; empty where it was not kept.
    """

    points: int
    features: int
    variables: int
    explained_variance: float | None
    polynomials: int
    monomials: int
    seconds: float
    monomials_left: dict[str, int]
    by_class: dict[str, int] | None = None


@dataclass(frozen=True)
class TrainingFacts:
    """A head that was trained and tested.

    Attributes
    ----------
    accuracy, uncut : float
        Of the network and of the uncut one on the test data, in [0, 1].
    train_accuracy, loss : float
        In the epoch that was kept.
    parts : dict
        Parameters of each part, folded: everything that is stored.
    seconds : float
        Of the training.
    polynomials, monomials, capped
        Size of a head of polynomials, and whether it had no room for more.
    best_epoch : int or None
        The epoch that was kept.
    wrong, history, build
        Test examples that it gets wrong, every epoch, and how the VI head was built; of a detailed
        trial.
    """

    accuracy: float
    uncut: float
    train_accuracy: float
    loss: float
    parts: dict[str, int]
    seconds: float
    polynomials: int | None = None
    monomials: int | None = None
    capped: bool | None = None
    best_epoch: int | None = None
    wrong: tuple[int, ...] | None = None
    history: History | None = None
    build: BuildReport | None = None

    @property
    def parameters(self) -> int:
        """Of the whole network."""
        return sum(self.parts.values())

    @property
    def parameters_head(self) -> int:
        """Behind the cut."""
        return self.parameters - self.parts["backbone"]


@dataclass(frozen=True)
class DimensionFacts:
    """Intrinsic dimension of the latents of every class, and over them."""

    neighbours: int
    per_class: dict[str, float]
    mean: float
    std: float


@dataclass(frozen=True)
class SpeedFacts:
    """Images per second of networks that took turns; of the uncut one also its size and accuracy.

    Attributes
    ----------
    speeds : dict
        By name; the uncut network has the name of the trial's network, or "uncut".
    uncut : float
        Its accuracy on the test data.
    parameters : int
        Its parameters.
    """

    speeds: dict[str, Speed]
    uncut: float
    parameters: int


@dataclass(frozen=True)
class TrialResult:
    """What came of a trial: a section for its task.

    Attributes
    ----------
    removed : float or None
        Share of the convolutions that the cut takes away; None without a cut.
    shape : (int, int) or None
        Channels and positions of the latents, where that was kept.
    """

    removed: float | None = None
    shape: tuple[int, int] | None = None
    ideals: IdealFacts | None = None
    training: TrainingFacts | None = None
    dimension: DimensionFacts | None = None
    speed: SpeedFacts | None = None

    @property
    def trained(self) -> TrainingFacts:
        """What came of a training."""
        if self.training is None:
            raise ValueError("This is the result of a trial in which no head was trained.")
        return self.training

    @property
    def estimated(self) -> DimensionFacts:
        """What came of estimating the dimension."""
        if self.dimension is None:
            raise ValueError("This is the result of a trial in which no dimension was estimated.")
        return self.dimension

    @property
    def timed(self) -> SpeedFacts:
        """What came of measuring speed."""
        if self.speed is None:
            raise ValueError("This is the result of a trial in which no speed was measured.")
        return self.speed

    @property
    def found(self) -> IdealFacts:
        """What came of finding ideals."""
        if self.ideals is None:
            raise ValueError("This is the result of a trial in which no ideals were counted.")
        return self.ideals
