"""Networks side by side: a table, charts over cuts and epochs, and who is right more often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING

from scipy.stats import binomtest

from vinets.palette import COLORS, GREY, OUR_NAMES, OURS
from vinets.pipeline.comparison import Comparison, NetworkResult
from vinets.report.figures import legend_above
from vinets.report.formats import number
from vinets.report.values import Axis, Column, Figure, ReferenceLine, Row, Series, Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PARTS = {  # short heading and colour
    "backbone": ("back.", GREY),
    "projection": ("proj.", COLORS[0]),
    "monomials": ("mono.", COLORS[2]),
    "coefficients": ("coeffs", OURS),
    "linear": ("lin.", COLORS[1]),
}
OTHER = ("", COLORS[3])
LEVEL = 0.05  # of significance
SEEN = "The network that was cut has seen the held-out images, the heads have not."
LOSSES = {"loss": "training loss", "validation_loss": "loss on the held-out part"}


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
        *(Column(n, format=",", short=PARTS.get(n, OTHER)[0]) for n in _parts(networks)),
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
        known = bool(ours.wrong and other.wrong) and other.parameters <= ours.parameters
        if known and duel("", ours, other).outcome == "loses":
            gap = number(100 * (other.accuracy - ours.accuracy), ".2f")
            found.append(
                f"{other.name} is ahead of {ours.name} by {gap} points, with no more parameters."
            )
    return found


def _parts(networks: Iterable[NetworkResult]) -> list[str]:
    """Names of all parts, those of polynomials first and in their order."""
    found = dict.fromkeys(part for network in networks for part in network.parts)
    return [part for part in dict.fromkeys([*PARTS, *found]) if part in found]


def accuracy_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Accuracy against the cut, a line for every head; a level for the uncut network."""
    found: dict[str, dict[int, float]] = {}
    for place, comparison in enumerate(comparisons):
        for network in comparison.networks:
            found.setdefault(network.name, {})[place] = 100 * network.accuracy
    uncut = comparisons[0].uncut
    return Figure(
        "accuracy",
        "Accuracy against the cut",
        Axis("cut, earliest first", names=tuple(comparison.cut for comparison in comparisons)),
        Axis("test accuracy, %", format=".2f"),
        tuple(Series(name, tuple(mine), tuple(mine.values())) for name, mine in found.items()),
        levels=(ReferenceLine(uncut.name, 100 * uncut.accuracy),),
    )


def training_figures(comparison: Comparison) -> tuple[Figure, ...]:
    """Losses at every epoch, a line for every head, a mark at the epoch whose weights were kept.

    A loss that no head has, for nothing was trained or held out, has no figure.
    """
    figures = []
    for field, label in LOSSES.items():
        series = []
        for network in comparison.networks:
            history = network.history
            if history is None or any(getattr(epoch, field) is None for epoch in history.epochs):
                continue
            x = tuple(epoch.epoch for epoch in history.epochs)
            y = tuple(getattr(epoch, field) for epoch in history.epochs)
            labels = tuple("kept" if epoch == history.best else "" for epoch in x)
            # Epochs count from 1, positions from 0.
            series.append(Series(network.name, x, y, labels, marks=(history.best - 1,)))
        axes = Axis("epoch", format=""), Axis(label, log=True, format=".3g")
        caption = "The mark shows the weights that were kept."
        if field == "validation_loss":
            caption += f" {SEEN}"
        title = f"Training of the heads: {label}"
        if series:
            figures.append(Figure(field, title, *axes, tuple(series), caption=caption))
    return tuple(figures)


def draw_parts(ax: Axes, comparisons: Sequence[Comparison]) -> None:
    """Parameters by part, a bar for every network; the uncut network on top."""
    uncut = comparisons[0].uncut
    bars = {uncut.name: uncut} | {
        f"{comparison.cut}: {network.name}": network
        for comparison in comparisons
        for network in comparison.networks
    }
    starts = [0] * len(bars)
    for part in _parts(bars.values()):
        widths = [network.parts.get(part, 0) for network in bars.values()]
        _, color = PARTS.get(part, OTHER)
        ax.barh(list(bars), widths, left=starts, color=color, label=part, height=0.75)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    for name, label in zip(bars, ax.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if any(our in name for our in OUR_NAMES) else "normal")
    ax.invert_yaxis()
    ax.margins(y=0.01)
    ax.xaxis.set_major_formatter(lambda value, _: number(value, ",.0f"))
    ax.set(xlabel="parameters")
    legend_above(ax)


# --- duels ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """The first head and a baseline behind the same cut: wrong answers, the mean over the seeds.

    ``p`` is the probability of a difference at least this large if both were equally good: a sign
    test over the examples on which they differ (McNemar's exact test in case of one seed).
    """

    cut: str
    baseline: str
    ours: float
    theirs: float
    p: float

    @property
    def outcome(self) -> str:
        """``"wins"`` or ``"loses"`` if p is below 0.05, else ``"open"``."""
        if self.p >= LEVEL:
            return "open"
        return "wins" if self.ours < self.theirs else "loses"

    def __str__(self) -> str:
        p = f"p = {number(self.p, '.2g')}" if self.p >= 0.001 else "p < 0.001"
        return f"{self.outcome}, {self.ours:g} to {self.theirs:g} ({p})"


def duel(cut: str, ours: NetworkResult, theirs: NetworkResult) -> Duel:
    """Compare two networks behind a cut by the examples that each seed answers wrongly.

    Examples
    --------
    >>> ours = NetworkResult("VI-Net", {}, (0.9,), wrong=((3,),))
    >>> theirs = NetworkResult("MLP", {}, (0.7,), wrong=((3, 5, 8),))
    >>> result = duel("pool", ours, theirs)
    >>> result.ours, result.theirs, result.p, result.outcome
    (1.0, 3.0, 0.5, 'open')
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
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    mine, others = (sum(map(len, one.wrong)) / len(one.wrong) for one in (ours, theirs))
    return Duel(cut, theirs.name, mine, others, float(p))


def duels_of(comparisons: Iterable[Comparison]) -> list[Duel]:
    """The first head against every baseline behind every cut."""
    return [
        duel(comparison.cut, comparison.networks[0], baseline)
        for comparison in comparisons
        for baseline in comparison.networks[1:]
    ]


def standings(duels: Sequence[Duel]) -> list[str]:
    """One sentence for every baseline, over all cuts."""
    sentences = []
    for baseline in dict.fromkeys(d.baseline for d in duels):
        mine = [d for d in duels if d.baseline == baseline]
        fewer = sum(d.ours < d.theirs for d in mine)
        more = sum(d.ours > d.theirs for d in mine)
        equal = len(mine) - fewer - more
        counts = [f"fewer errors behind {fewer} of {len(mine)} cuts", f"more behind {more}"]
        counts += [f"as many behind {equal}"] if equal else []
        clear = [
            f"It {verb} clearly at {_listed(cuts)}."
            for verb in ("wins", "loses")
            if (cuts := [d.cut for d in mine if d.outcome == verb])
        ]
        text = " ".join(clear) or "No difference is clear."
        sentences.append(f"{baseline}: the VI-Net makes {_listed(counts)}. {text}")
    return sentences


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
