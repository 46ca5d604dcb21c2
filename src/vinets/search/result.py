"""The result of a search: every attempt, the choice, and the verdict on it in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from torch import nn

from vinets.core.checks import counted, format_bytes
from vinets.heads import ProductsHead
from vinets.measure.accuracy import over_images, over_seeds
from vinets.search.budget import LIMITS, Budget, Cost
from vinets.search.space import Candidate

if TYPE_CHECKING:
    from vinets.report import Figure, Table

T = TypeVar("T")

MIN_LEAD = 0.2  # points by which a network in int8 has to be ahead to be called better
MUCH_LOST = 5.0  # points, above which a loss is spoken of
TOLERANCE = 0.05  # share by which the last timing may exceed a latency without a word


@dataclass(frozen=True)
class Attempt:
    """A network of a search: what it costs, how it was trained and what was measured of it."""

    candidate: Candidate | None  # None for the uncut network
    cost: Cost
    # On the validation examples, in [0, 1], by the epochs of a training; 0 for the uncut network.
    accuracies: Mapping[int, float]
    # Standard error of the difference to the uncut network on the validation examples, after the
    # longest training, by the examples that exactly one of the two gets wrong.
    error: float | None = None
    test: float | None = None  # accuracy on the test examples, after training to the end
    # Interval of 95 % for the difference to the uncut network on the test examples, in points.
    interval: tuple[float, float] | None = None
    speed: float | None = None  # examples per second, where all that were tested took turns
    latency: float | None = None  # seconds of a forward pass, in the same turns
    spread: float | None = None  # standard deviation of the latency over windows of time
    memory: int | None = None  # bytes at the fullest moment of such a pass
    seconds: float = 0.0  # duration of all its trainings
    command: tuple[str, ...] = ()  # makes it again, as it is after its longest training
    int8: Attempt | None = None  # the same in a file of ONNX, which onnxruntime runs on the CPU
    # Validation examples that it gets wrong, by the epochs of a training; not part of the JSON.
    wrong: Mapping[int, tuple[int, ...]] = field(default_factory=dict, metadata={"plain": False})

    @property
    def name(self) -> str:
        """Name of the candidate, or "uncut"."""
        return "uncut" if self.candidate is None else self.candidate.name

    @property
    def label(self) -> str:
        """What tables call the network."""
        return "uncut" if self.candidate is None else self.candidate.label

    @property
    def polynomial(self) -> bool:
        """Whether its head has polynomials."""
        return self.candidate is not None and self.candidate.polynomial

    @property
    def epochs(self) -> int:
        """Epochs of the longest training; 0 if there was none."""
        return max(self.accuracies, default=0)

    @property
    def accuracy(self) -> float:
        """Accuracy on the validation examples, after the longest training."""
        return self.accuracies[self.epochs]

    @property
    def milliseconds(self) -> str:
        """Latency with its spread, in words."""
        spread = "" if self.spread is None else f" ± {1e3 * self.spread:.2g}"
        return "" if self.latency is None else f"{1e3 * self.latency:.3g}{spread} ms"

    def __str__(self) -> str:
        if self.candidate is None:
            return "the uncut network"
        return f"{self.label} behind {self.candidate.cut}, {self.cost.parameters:,} parameters"


@dataclass(frozen=True)
class SearchPlan:
    """What a search would try, and how long it would take."""

    candidates: tuple[Attempt, ...]  # their costs are known, and nothing else
    rounds: tuple[tuple[int, int], ...]  # how many are trained for how many epochs
    seconds: float  # about
    memory: int | None  # bytes on the device, about; None where the system does not tell
    unmet: str = ""  # the budget, where no candidate is within its limits

    def __str__(self) -> str:
        unmet = f"Nothing is within the budget, {self.unmet}: these come nearest. "
        rounds = ", then ".join(f"{count} for {epochs}" for count, epochs in self.rounds)
        length = f"{self.seconds / 3600:.1f} hours"
        if self.seconds < 6000:
            length = f"{self.seconds / 60:.0f} minutes"
        if self.seconds < 100:
            length = f"{self.seconds:.0f} seconds"
        length += "" if self.memory is None else f" and {format_bytes(self.memory)}"
        plan = f"Trained in rounds: {rounds} epochs. This will take about {length}."
        return unmet + plan if self.unmet else plan


@dataclass(frozen=True)
class SearchResult:
    """Everything that came of a search; as text, its verdict."""

    data: str
    budget: Budget
    uncut: Attempt
    attempts: tuple[Attempt, ...]  # networks that were trained, for however few epochs
    chosen: str | None  # name of the chosen candidate; None if there is nothing smaller
    met: bool  # whether it is within the budget
    validation: int  # examples that were used to choose
    tested: int  # examples that were looked at once, at the end
    skipped: int = 0  # files of the data that were left out, because they cannot be read
    batch: int = 0  # examples in a forward pass, where speed and latency were measured
    recorded: bool = False  # whether these passes were CUDA graphs, as on a GPU if possible
    notes: tuple[str, ...] = ()  # what could not be measured or cannot be relied on, and why
    seconds: float = 0.0
    command: tuple[str, ...] = ()  # command that started the search
    machine: Mapping[str, object] = field(default_factory=dict)
    saved: str = ""  # folder of the chosen network, as commands name it; empty if not saved
    verdict: str = ""  # written from the other fields if empty
    # The chosen network, folded, in eval mode; the uncut one if nothing is smaller. Not in JSON.
    network: nn.Module | None = field(
        default=None, repr=False, compare=False, metadata={"plain": False}
    )

    def __post_init__(self) -> None:
        if not self.verdict:
            object.__setattr__(self, "verdict", " ".join(sentences(self)))

    @property
    def finished(self) -> tuple[Attempt, ...]:
        """Those that were trained to the end, the smallest first."""
        tested = [one for one in self.attempts if one.test is not None]
        return tuple(sorted(tested, key=lambda one: one.cost.parameters))

    @property
    def choice(self) -> Attempt | None:
        """The one that was chosen."""
        return next((one for one in self.attempts if one.name == self.chosen), None)

    def gap(self, one: Attempt) -> float | None:
        """Return by how many points it is more accurate on the test examples than the uncut."""
        test, uncut = one.test, self.uncut.test
        return None if test is None or uncut is None else 100 * (test - uncut)

    def faster(self, one: Attempt) -> float | None:
        """Return how many times as fast as the uncut network it is."""
        return one.speed / self.uncut.speed if one.speed and self.uncut.speed else None

    @property
    def table(self) -> Table:
        """Networks that were trained to the end, on the test examples."""
        from vinets.search.page import finalists_table  # which is made of these values

        return finalists_table(self)

    @property
    def frontier(self) -> Figure:
        """All that was tried: accuracy against size."""
        from vinets.search.page import frontier_figure

        return frontier_figure(self)

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        from vinets.report.html import in_notebook

        return in_notebook(self.verdict, self.table)


def sentences(result: SearchResult) -> list[str]:
    """Return the verdict sentence by sentence, a missed budget first."""
    uncut, chosen, budget = result.uncut, result.choice, result.budget
    if chosen is None:
        return ["Nothing smaller was found: the network has no cut that saves anything."]
    verdict = []
    if not result.met:
        verdict.append(f"The budget, {budget}, was not met: this is the nearest network.")
    assert chosen.candidate is not None
    share = chosen.cost.parameters / uncut.cost.parameters
    text = (
        f"{chosen.label} behind {chosen.candidate.cut} has {chosen.cost.parameters:,} parameters, "
        f"{share:.1%} of the uncut network"
    )
    for kind in budget.limits:
        ours, theirs = (getattr(one.cost, LIMITS[kind].cost) for one in (chosen, uncut))
        if kind not in ("params", "latency") and ours and theirs:
            unit = LIMITS[kind].unit
            text += f", {ours:,} {unit}, {ours / theirs:.1%} of the uncut network's"
    if budget.latency and chosen.latency and uncut.latency:
        graph = ", recorded as a CUDA graph" if result.recorded else ""
        text += (
            f", takes {chosen.milliseconds} a pass at batch {budget.batch} on "
            f"{budget.where or 'this device'}{graph}, where the uncut one takes "
            f"{uncut.milliseconds}"
        )
        over = chosen.latency / budget.latency.of(uncut.latency) - 1
        if result.met and over > TOLERANCE:
            text += (
                f" ({over:.0%} above the budget, which it kept to before it was trained: on this "
                "machine speeds differ from one measurement to the next)"
            )
    elif faster := result.faster(chosen):
        text += f", runs {faster:.2f} times as fast"
    if (gap := result.gap(chosen)) is not None:
        text += f", and is right on {chosen.test:.2%} of the test examples ({gap:+.2f} points)"
    verdict.append(f"{text}.")
    lost = 100 * (uncut.accuracy - chosen.accuracy)
    if lost > MUCH_LOST:
        verdict.append(
            f"It loses {lost:.1f} points on the validation examples, which is much: try a larger "
            "budget, more epochs, or more data."
        )
    if judgement := _judge_polynomials(result, chosen):
        verdict.append(judgement)
    file, small = uncut.int8, chosen.int8
    if file is None:
        return verdict
    # Both latencies are those of the last timing, in which the two networks took turns.
    latest = replace(uncut.cost, latency=uncut.latency or uncut.cost.latency)
    better = budget.allows(file.cost, latest)
    if budget.drop is None:  # what is more accurate is better
        better &= not result.met or 100 * (file.accuracy - chosen.accuracy) >= MIN_LEAD
    else:  # what takes fewer bytes of what keeps to the drop
        better &= file.accuracy >= uncut.accuracy - budget.drop / 100
        better &= not result.met or file.cost.size < chosen.cost.size
    if better:
        theirs = f"{format_bytes(file.cost.size)}, {file.test:.2%} right on the test examples"
        ours = format_bytes(chosen.cost.size)
        ours += "" if chosen.test is None else f", {chosen.test:.2%}"
        if file.latency is not None and chosen.latency is not None:
            theirs += f", {file.milliseconds} a pass"
            ours += f", {chosen.milliseconds}"
        verdict.append(
            f"The uncut network in int8 does better by this budget: {theirs}, against {ours}."
        )
        if small is not None:
            size = format_bytes(small.cost.size)
            verdict.append(f"In int8, this one takes {size} and is right on {small.test:.2%}.")
    return verdict


def _judge_polynomials(result: SearchResult, chosen: Attempt) -> str:
    """Compare the choice with the best head of the other kind, plain or polynomial.

    That one is no larger by more than a tenth, and both are compared after the longest training
    that they have in common, by :mod:`vinets.measure.accuracy`. The text is empty without a rival.
    """
    most = 1.1 * chosen.cost.parameters
    others = [one for one in result.attempts if one.polynomial != chosen.polynomial]
    pairs = [(one, one.accuracies.keys() & chosen.accuracies.keys()) for one in others]
    rivals = [(one, max(both)) for one, both in pairs if both and one.cost.parameters <= most]
    if not rivals:
        return ""
    rival, epochs = max(rivals, key=lambda pair: pair[0].accuracies[pair[1]])
    if epochs in chosen.wrong and epochs in rival.wrong:
        gap = over_images([(chosen.wrong[epochs], rival.wrong[epochs], result.validation)])
    else:  # results that were read from a file do not keep single answers
        gap = over_seeds([100 * (chosen.accuracies[epochs] - rival.accuracies[epochs])])
    ours = chosen if chosen.polynomial else rival
    assert ours.candidate is not None
    head = ProductsHead.label if ours.candidate.head == ProductsHead.kind else ours.label
    apart = f"{abs(gap.value):.2f} points {'behind' if gap.value > 0 else 'ahead'}"
    if gap.word == "level":
        judgement, apart = "makes no difference here", f"level with it ({apart}, {gap.shown})"
    elif gap.word == "not decided":
        judgement = "may or may not have earned its place, because one training does not decide it"
    else:
        earned = (gap.value > 0) == chosen.polynomial
        judgement = "earned its place" if earned else "did not earn a place"
    after = f"after {counted(epochs, 'epoch')} on the validation examples"
    return f"The {head} {judgement}: {rival}, is {apart} {after}."


def frontier(points: Iterable[tuple[float, float, T]]) -> list[T]:
    """Return the things of (cost, gain, thing) that no other beats in both, the cheapest first.

    Examples
    --------
    >>> frontier([(1, 0.5, "a"), (2, 0.4, "b"), (3, 0.9, "c"), (3, 0.8, "d")])
    ['a', 'c']
    """
    front, best = list[T](), float("-inf")
    for _, gain, thing in sorted(points, key=lambda point: (point[0], -point[1])):
        if gain > best:
            best = gain
            front.append(thing)
    return front


def layers_of(points: Sequence[tuple[float, float, T]]) -> list[list[T]]:
    """Return frontier after frontier, each of what the ones before left over."""
    rest, layers = list(points), list[list[T]]()
    while rest:
        layers.append(frontier(rest))
        rest = [point for point in rest if point[2] not in layers[-1]]
    return layers
