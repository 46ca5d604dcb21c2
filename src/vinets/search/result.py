"""What came of a search: networks side by side, the frontier, and the choice in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from vinets.core.checks import format_bytes
from vinets.search.budget import Budget, Cost
from vinets.search.space import Candidate

T = TypeVar("T")


@dataclass(frozen=True)
class Tried:
    """A candidate, what it costs, and how far it came.

    Attributes
    ----------
    accuracies : dict of int to float
        On the validation examples, in [0, 1], by the number of epochs it was trained for.
    error : float or None
        Standard error of the difference to the uncut network there, after training to the end: of
        the examples that only one of the two gets wrong.
    test : float or None
        On the test examples, of a network that was trained to the end.
    speed : float or None
        Examples per second, measured in turns with the others that were trained to the end.
    latency : float or None
        Seconds of a forward pass, measured like the speed.
    seconds : float
        Of all its trainings.
    command : tuple of str
        Makes the network again, as it is after its longest training.
    wrong : dict of int to tuple
        Validation examples that it gets wrong, by the number of epochs; not part of the JSON.
    """

    candidate: Candidate
    cost: Cost
    accuracies: Mapping[int, float]
    error: float | None = None
    test: float | None = None
    speed: float | None = None
    latency: float | None = None
    seconds: float = 0.0
    command: tuple[str, ...] = ()
    wrong: Mapping[int, tuple[int, ...]] = field(default_factory=dict, metadata={"plain": False})

    @property
    def epochs(self) -> int:
        """Of the longest training; 0 if there was none."""
        return max(self.accuracies, default=0)

    @property
    def accuracy(self) -> float:
        """On the validation examples, after the longest training."""
        return self.accuracies[self.epochs]


@dataclass(frozen=True)
class Uncut:
    """The network that was given."""

    cost: Cost
    validation: float  # its accuracy on the validation examples
    test: float | None = None
    speed: float | None = None
    latency: float | None = None
    command: tuple[str, ...] = ()  # that tests it again


INT8 = "onnx-int8"  # the format


@dataclass(frozen=True)
class Quantised:
    """A network in int8, in a file of ONNX that onnxruntime runs on the CPU."""

    of: str  # name of the candidate, or "uncut"
    size: int  # bytes of the file
    validation: float
    test: float
    speed: float | None = None  # where the others were measured on the CPU, too
    latency: float | None = None
    command: tuple[str, ...] = ()  # that writes and tests the file again


@dataclass(frozen=True)
class SearchPlan:
    """What a search would try, and what it would take."""

    candidates: tuple[Tried, ...]  # with their costs alone
    rounds: tuple[tuple[int, int], ...]  # how many are trained for how many epochs
    seconds: float  # about
    memory: int | None  # bytes, on the device, about; None where the system does not tell
    unmet: str = ""  # the budget, where no candidate is within its limits

    def __str__(self) -> str:
        rounds = ", then ".join(f"{count} for {epochs}" for count, epochs in self.rounds)
        near = f"Nothing is within the budget, {self.unmet}: these come nearest. "
        memory = "" if self.memory is None else f" and {format_bytes(self.memory)}"
        return (
            f"{near if self.unmet else ''}Trained in rounds: {rounds} epochs. This will take about "
            f"{duration(self.seconds)}{memory}."
        )


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


@dataclass(frozen=True)
class SearchResult:
    """Everything that a search found.

    Attributes
    ----------
    chosen : str or None
        Name of the candidate that was chosen; None if there is nothing smaller.
    met : bool
        Whether it is within the budget.
    int8 : tuple of Quantised
        The uncut and the chosen network in int8; empty where that was not asked for.
    batch : int
        Examples in a forward pass, where speed and latency were measured.
    recorded : bool
        Whether passes were recorded as CUDA graphs for that, as they are on a GPU if possible.
    notes : tuple of str
        What could not be measured, and why.
    """

    REMOVED: ClassVar = ("correlations", "elsewhere")

    data: str
    budget: Budget
    uncut: Uncut
    tried: tuple[Tried, ...]
    chosen: str | None
    met: bool
    verdict: str
    validation: int  # examples on which was chosen
    tested: int  # examples that were looked at once, at the end
    int8: tuple[Quantised, ...] = ()
    batch: int = 0
    recorded: bool = False
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    command: tuple[str, ...] = ()
    machine: Mapping[str, object] = field(default_factory=dict)

    @property
    def finished(self) -> tuple[Tried, ...]:
        """Those that were trained to the end, the smallest first."""
        found = [one for one in self.tried if one.test is not None]
        return tuple(sorted(found, key=lambda one: one.cost.parameters))

    @property
    def choice(self) -> Tried | None:
        """The one that was chosen."""
        return next((one for one in self.tried if one.candidate.name == self.chosen), None)


def frontier(points: Iterable[tuple[float, float, T]]) -> list[T]:
    """Of (cost, gain, thing), the things that no other beats in both, the cheapest first.

    Examples
    --------
    >>> frontier([(1, 0.5, "a"), (2, 0.4, "b"), (3, 0.9, "c"), (3, 0.8, "d")])
    ['a', 'c']
    """
    found: list[T] = []
    best = float("-inf")
    for _, gain, thing in sorted(points, key=lambda point: (point[0], -point[1])):
        if gain > best:
            best = gain
            found.append(thing)
    return found


def layers_of(points: Sequence[tuple[float, float, T]]) -> list[list[T]]:
    """Frontier after frontier, each of what the ones before left over."""
    rest, found = list(enumerate(points)), []
    while rest:
        front = frontier((cost, gain, index) for index, (cost, gain, _) in rest)
        found.append([points[index][2] for index in front])
        gone = set(front)
        rest = [one for one in rest if one[0] not in gone]
    return found
