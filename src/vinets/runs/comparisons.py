"""Networks side by side: a table, and remarks on who is smaller, and right more often."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import stdev

from vinets.measure.level import over_images
from vinets.report.formats import number
from vinets.report.values import Column, Row, Table, Value
from vinets.runs.comparison import Comparison, NetworkResult

SHORT_HEADINGS = {
    "backbone": "back.",
    "projection": "proj.",
    "monomials": "mono.",
    "coefficients": "coeffs",
    "linear": "lin.",
}


def comparison_table(comparison: Comparison) -> Table:
    """The uncut network and the heads behind a cut; what was not measured has no column.

    Accuracies are in percent, differences Δ to the uncut network in percentage points.
    """
    uncut = comparison.uncut
    networks = (uncut, *comparison.networks)
    columns = [
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std", "higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        *(Column(n, format=",", short=SHORT_HEADINGS.get(n, "")) for n in _parts(networks)),
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
    """Sentences on how polynomials vanish, and on what one would not want.

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
    """Whether a network is ahead of another, by the rule of :mod:`vinets.measure.level`."""
    splits = []
    for ours, theirs, right in zip(one.wrong, other.wrong, other.accuracies, strict=False):
        # how many test examples there are follows from the share of those that are wrong
        splits.append((ours, theirs, round(len(theirs) / (1 - right)) if theirs else 0))
    known = bool(splits) and all(count for *_, count in splits)
    return known and over_images(splits).word == "ahead"


def _parts(networks: Iterable[NetworkResult]) -> list[str]:
    """Names of all parts, those of polynomials first and in their order."""
    found = dict.fromkeys(part for network in networks for part in network.parts)
    return [part for part in dict.fromkeys([*SHORT_HEADINGS, *found]) if part in found]
