"""Networks side by side: the uncut one, the VI-Net behind a cut, and the baselines there."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from vinets.pipeline.report import BuildReport
from vinets.training.history import History

__all__ = ["Comparison", "NetworkResult", "Speed"]


@dataclass(frozen=True)
class Speed:
    """Images per second: mean and standard deviation over windows of one measurement."""

    mean: float
    std: float


@dataclass(frozen=True)
class NetworkResult:
    """What is known of one network of a comparison.

    Attributes
    ----------
    name : str
        As in tables: "uncut", "VI-Net", "linear, flat".
    parts : dict
        Parameters of each part, folded; ``backbone`` among them.
    accuracies : tuple of float
        On the test images, in [0, 1], one for every seed.
    wrong : tuple of tuple of int
        For every seed, the test images that the network gets wrong.
    speed : Speed or None
        Measured in turns with the other networks of the comparison.
    seconds_build, seconds_train : float or None
        Of finding the polynomials and of training, without the latents that all heads share.
    history : History or None
        Of the first seed's training.
    """

    name: str
    parts: dict[str, int]
    accuracies: tuple[float, ...]
    wrong: tuple[tuple[int, ...], ...] = ()
    speed: Speed | None = None
    seconds_build: float | None = None
    seconds_train: float | None = None
    history: History | None = None

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
    """Heads behind one cut, all trained alike, beside the uncut network.

    Attributes
    ----------
    cut : str
        Where the network was cut.
    shape : (int, int)
        Channels and positions of the latents.
    uncut : NetworkResult
        The network that was given.
    networks : tuple of NetworkResult
        The VI-Net first, then the baselines.
    build : BuildReport
        How the VI-Net of the first seed was built.
    """

    cut: str
    shape: tuple[int, int]
    uncut: NetworkResult
    networks: tuple[NetworkResult, ...]
    build: BuildReport
