"""Compare networks: the uncut one, polynomials behind a cut, and the baselines there."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev

from vinets.heads.facts import BuildFacts, Vanishing
from vinets.measure.level import over_images
from vinets.report.formats import number
from vinets.report.values import Column, Row, Table, Value
from vinets.training.checkpoint import History

SHORT_HEADINGS = {
    "backbone": "back.",
    "projection": "proj.",
    "monomials": "mono.",
    "coefficients": "coeffs",
    "linear": "lin.",
}


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


def comparison_table(comparison: Comparison) -> Table:
    """List the uncut network and the heads behind a cut; what was not measured has no column.

    Accuracies are in percent, differences Δ to the uncut network in percentage points.
    """
    uncut = comparison.uncut
    networks = (uncut, *comparison.networks)
    # Parts of polynomials come first, and in their order.
    parts = dict.fromkeys(part for network in networks for part in network.parts)
    named = [part for part in dict.fromkeys([*SHORT_HEADINGS, *parts]) if part in parts]
    columns = [
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std", "higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        *(Column(name, format=",", short=SHORT_HEADINGS.get(name, "")) for name in named),
        Column("parameters", "total", ","),
        Column("speed", "images/s", ",.0f", better="higher", short="img/s"),
        Column("seconds", "", ".1f", short="s"),
    ]
    rows = []
    for index, network in enumerate(networks):
        values: dict[str, Value] = {"network": network.name, "accuracy": 100 * network.accuracy}
        if len(network.accuracies) > 1:
            values["accuracy_std"] = 100 * stdev(network.accuracies)
        if network is not uncut:
            values["gap"] = 100 * (network.accuracy - uncut.accuracy)
        values |= network.parts | {"parameters": network.parameters}
        if network.speed is not None:
            values["speed"] = network.speed.mean
        if network.seconds:
            values["seconds"] = network.seconds
        rows.append(Row(values, marked=index == 1))  # the first head behind the cut
    known = {name for row in rows for name in row.values}
    channels, positions = comparison.shape
    return Table(
        "comparison",
        f"Cut at {comparison.cut}: {channels} channels at {positions} positions",
        tuple(column for column in columns if column.name in known),
        tuple(rows),
    )


def remarks(comparison: Comparison) -> list[str]:
    """Say how polynomials vanish, and what one would not want.

    That is a network that is no smaller than the uncut one, or not the best head.

    Examples
    --------
    >>> uncut, large = (NetworkResult("it", {"all": size}, (0.9,)) for size in (9, 18))
    >>> remarks(Comparison("pool", (8, 4), uncut, (large,)))[0][:61]
    'it is not smaller, with 2.0 times the parameters of the uncut'
    """
    uncut, (ours, *others) = comparison.uncut, comparison.networks
    found = []
    if comparison.vanishing is not None:
        found.append(f"On the test examples, {comparison.vanishing}.")
    if ours.parameters >= uncut.parameters:
        times = number(ours.parameters / uncut.parameters, ".1f")
        found.append(
            f"{ours.name} is not smaller, with {times} times the parameters of the uncut network: "
            "choose another cut (vinets cuts) or a smaller head, or let vinets compress choose."
        )
    for other in others:
        if other.parameters <= ours.parameters and _is_ahead(other, ours):
            gap = number(100 * (other.accuracy - ours.accuracy), ".2f")
            found.append(
                f"{other.name} is ahead of {ours.name} by {gap} points, with no more parameters."
            )
    return found


def _is_ahead(one: NetworkResult, other: NetworkResult) -> bool:
    """Tell whether a network is ahead of another, by the rule of :mod:`vinets.measure.level`."""
    splits = []
    for ours, theirs, right in zip(one.wrong, other.wrong, other.accuracies, strict=False):
        # The number of test examples follows from the share of those that are wrong.
        splits.append((ours, theirs, round(len(theirs) / (1 - right)) if theirs else 0))
    known = bool(splits) and all(count for *_, count in splits)
    return known and over_images(splits).word == "ahead"
