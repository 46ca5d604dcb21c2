"""Networks side by side: a table, and remarks on who is smaller, and right more often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import stdev

from scipy.stats import binomtest

from vinets.pipeline.comparison import Comparison, NetworkResult
from vinets.report.formats import number
from vinets.report.values import Column, Row, Table, Value

SHORT_HEADINGS = {
    "backbone": "back.",
    "projection": "proj.",
    "monomials": "mono.",
    "coefficients": "coeffs",
    "linear": "lin.",
}
SIGNIFICANCE = 0.05  # a difference with a smaller probability is not put down to chance


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
    """Sentences on what one would not want: a network that is no smaller, or not the best head.

    Examples
    --------
    >>> uncut, large = (NetworkResult("it", {"all": size}, (0.9,)) for size in (9, 18))
    >>> remarks(Comparison("pool", (8, 4), uncut, (large,)))[0][:61]
    'it is not smaller, with 2.0 times the parameters of the uncut'
    """
    uncut, (ours, *others) = comparison.uncut, comparison.networks
    found = []
    if ours.parameters >= uncut.parameters:
        times = number(ours.parameters / uncut.parameters, ".1f")
        found.append(
            f"{ours.name} is not smaller, with {times} times the parameters of the uncut network: "
            "choose another cut (vinets cuts) or a smaller head, or let vinets compress choose."
        )
    for other in others:
        if (
            other.parameters <= ours.parameters
            and other.accuracy > ours.accuracy
            and (ours.wrong and other.wrong)
            and sign_test(ours, other) < SIGNIFICANCE
        ):
            gap = number(100 * (other.accuracy - ours.accuracy), ".2f")
            found.append(
                f"{other.name} is ahead of {ours.name} by {gap} points, with no more parameters."
            )
    return found


def _parts(networks: Iterable[NetworkResult]) -> list[str]:
    """Names of all parts, those of polynomials first and in their order."""
    found = dict.fromkeys(part for network in networks for part in network.parts)
    return [part for part in dict.fromkeys([*SHORT_HEADINGS, *found]) if part in found]


def sign_test(ours: NetworkResult, theirs: NetworkResult) -> float:
    """Return how probable a difference at least this large is if both were equally good.

    A sign test over the examples on which they differ (McNemar's exact test in case of one seed).

    Examples
    --------
    >>> ours = NetworkResult("VI-Net", {}, (0.9,), wrong=((3,),))
    >>> theirs = NetworkResult("MLP", {}, (0.7,), wrong=((3, 5, 8),))
    >>> sign_test(ours, theirs)
    0.5
    """
    balance: Counter[int] = Counter()
    for sign, network in ((1, theirs), (-1, ours)):
        for seed in network.wrong:
            for example in seed:
                balance[example] += sign
    # Over several seeds an example counts once, for whoever is right on it more often: answers of
    # networks to the same example are not independent.
    better = sum(count > 0 for count in balance.values())
    worse = sum(count < 0 for count in balance.values())
    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
