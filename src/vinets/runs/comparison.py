"""Networks side by side: the uncut one, polynomials behind a cut, and the baselines there."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from vinets.heads.class_sizes import Vanishing
from vinets.heads.facts import BuildFacts
from vinets.training.history import History


@dataclass(frozen=True)
class Speed:
    """Images per second: mean and standard deviation over windows of one measurement."""

    mean: float
    std: float


@dataclass(frozen=True)
class NetworkResult:
    """What is known of one network of a comparison."""

    name: str  # as in tables: "uncut", "product head", "linear, flat"
    parts: dict[str, int]  # parameters of each part, folded; "backbone" among them
    accuracies: tuple[float, ...]  # on the test images, in [0, 1], one for every seed
    wrong: tuple[tuple[int, ...], ...] = ()  # for every seed, the test images it gets wrong
    speed: Speed | None = None  # measured in turns with the others of the comparison
    seconds_build: float | None = None  # of building the head, its latents included
    seconds_train: float | None = None
    history: History | None = None  # of the first seed's training

    @property
    def accuracy(self) -> float:
        """Mean over the seeds."""
        return fmean(self.accuracies)

    @property
    def parameters(self) -> int:
        """Everything that is stored."""
        return sum(self.parts.values())

    @property
    def parameters_head(self) -> int:
        """Everything that is stored behind the cut."""
        return self.parameters - self.parts.get("backbone", 0)

    @property
    def seconds(self) -> float:
        """To build and to train."""
        return (self.seconds_build or 0.0) + (self.seconds_train or 0.0)


@dataclass(frozen=True)
class Comparison:
    """Heads behind one cut, all trained alike, beside the uncut network."""

    cut: str  # where the network was cut
    shape: tuple[int, int]  # channels and positions of the latents
    uncut: NetworkResult  # the network that was given
    networks: tuple[NetworkResult, ...]  # polynomials first, then the baselines; or another head
    build: BuildFacts | None = None  # of the polynomials of the first seed
    vanishing: Vanishing | None = None  # of a VI-Net on the test examples, after training
