"""What the page of the demo says; every judgement in it follows from the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vinets.pipeline.comparison import Comparison
from vinets.pipeline.report import Pictures
from vinets.plotting import plot_generators, plot_points, plot_scores
from vinets.report.comparisons import (
    LEVEL,
    accuracy_figure,
    comparison_table,
    draw_parts,
    duels_of,
    standings,
    training_figures,
)
from vinets.report.formats import number
from vinets.report.theory_page import MEANING, layers_figure, power
from vinets.report.values import (
    Beside,
    Block,
    Bullets,
    Code,
    Column,
    Drawing,
    Facts,
    Notice,
    Page,
    Row,
    Section,
    Table,
    Value,
    facts_table,
)
from vinets.theory.complexity import Complexity
from vinets.theory.networks import CutComplexity

TITLE = "VI-Nets on handwritten digits"
QUICK = (
    "A quick run, to see that everything works: {cuts} cuts, and {epochs} epochs of training for "
    "each head. Its numbers say nothing about what the networks can do, and nothing is judged."
)
WIDE = 6.4  # inches; wider ones cannot be read on narrow screens


@dataclass(frozen=True)
class ExampleResult:
    """What the saved VI-Net says of one test image, which ``picture`` shows as characters."""

    index: int
    label: str
    prediction: str
    probabilities: Mapping[str, float]
    picture: str


@dataclass(frozen=True)
class ComplexityFacts:
    """Spectral complexity of the uncut network and of the VI-Net behind every cut."""

    uncut: Complexity
    cuts: Mapping[str, CutComplexity]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo found.

    Comparisons are one a cut, the earliest first; ``saved`` is the cut of the VI-Net that was
    saved, and ``settings`` are those behind all cuts. ``batch`` is the number of images a pass
    where speed was measured, ``train`` and ``test`` how many images there are. The theory is about
    the networks of the first seed. ``pictures`` and ``plane``, the first two principal components
    (m, 2) of the latents, are those of the saved VI-Net.
    """

    command: str
    machine: Mapping[str, object]
    seed: int
    seeds: int
    batch: int
    data: str
    train: int
    test: int
    comparisons: tuple[Comparison, ...]
    theory: ComplexityFacts
    saved: str
    example: ExampleResult
    settings: Mapping[str, object]
    seconds: float
    quick: bool = False
    pictures: Pictures | None = field(default=None, metadata={"plain": False})
    plane: NDArray[np.float64] | None = field(default=None, metadata={"plain": False})

    @property
    def best(self) -> Comparison:
        """At the cut of the saved VI-Net."""
        return next(one for one in self.comparisons if one.cut == self.saved)

    @property
    def speedup(self) -> float | None:
        """Images per second of the saved VI-Net to those of the uncut network."""
        ours, uncut = self.best.networks[0].speed, self.best.uncut.speed
        return None if ours is None or uncut is None else ours.mean / uncut.mean


def demo_page(result: DemoResult) -> Page:
    """The page of the demo."""
    best, comparisons = result.best, result.comparisons
    measured = (
        "Accuracy on the test images, the difference Δ to the uncut network in percentage points, "
        "parameters of each part, images per second in batches of "
        f"{result.batch} (all networks of a table take turns on the same machine), and seconds "
        "to build and train the head, without the latents that all heads share."
    )
    tables = map(comparison_table, comparisons)
    inside = (Code(str(best.build)), *_pictures(result), Beside(training_figures(best)))
    same = "The same command gives the same networks on the same versions; only times differ."
    settings = facts_table("settings", "Settings behind every cut", result.settings.items())
    machine = facts_table("machine", "Versions and machine", result.machine.items())
    sections = (
        Section("Accuracy, size and speed", (measured, accuracy_figure(comparisons), *tables)),
        *(() if result.quick else (_duels(result),)),
        Section(f"Inside the VI-Net cut at {result.saved}", inside),
        _parameters(result),
        _complexity(result),
        _one_image(result),
        Section("How to repeat it", (same, Code(result.command), Beside((settings, machine)))),
    )
    known = ("vinets", "python", "torch", "numpy")
    versions = ", ".join(f"{name} {result.machine[name]}" for name in known)
    return Page(TITLE, _lead(result), sections, f"{versions}. Seed {result.seed}.")


def outcome_page(result: DemoResult) -> Page:
    """The demo in short, for a terminal that has its tables already: outcome and one image."""
    took = f"{number(result.seconds, '.0f')} seconds in all."
    image = _one_image(result)
    return Page(TITLE, _lead(result), (Section(image.title, (*image.blocks, took)),))


def _lead(result: DemoResult) -> tuple[Block, ...]:
    uncut, saved, ratio = result.best.uncut, result.best.networks[0], result.speedup
    gap = number(100 * (saved.accuracy - uncut.accuracy), "+.2f")
    share = number(saved.parameters / uncut.parameters, ".0%")
    facts = [
        ("Test accuracy", number(saved.accuracy, ".2%"), f"{gap} points to the uncut network"),
        ("Parameters", number(saved.parameters, ","), f"{share} of the uncut network"),
    ]
    if saved.speed is not None and ratio is not None:
        remark = f"{number(ratio, '.2f')} × the uncut network"
        facts.append(("Images per second", number(saved.speed.mean, ",.0f"), remark))
    facts.append(("Cut", result.saved, f"of {len(result.comparisons)} that were tried"))
    if result.quick:
        epochs = result.settings["recipe.epochs"]
        notice = Notice(QUICK.format(cuts=len(result.comparisons), epochs=epochs))
        return (notice, summary(result), Facts(tuple(facts)))
    duels = Bullets(tuple(standings(duels_of(result.comparisons))))
    return (summary(result), Facts(tuple(facts)), duels)


def summary(result: DemoResult) -> str:
    """What happened, in a few sentences."""
    uncut, saved = result.best.uncut, result.best.networks[0]
    gap = 100 * (saved.accuracy - uncut.accuracy)
    # Below what two digits show, the two numbers in the sentence are the same.
    often = "as often as" if abs(gap) < 0.005 else f"{'more' if gap > 0 else 'less'} often than"
    share = saved.parameters / uncut.parameters
    size = f"{1 - share:.0%} fewer" if share < 1 else f"{share - 1:.0%} more"
    ratio = result.speedup
    speed = "" if ratio is None else f" and takes {ratio:.2f} times as many images per second"
    return (
        f"A small convolutional network was trained on {number(result.train, ',')} images of "
        f"handwritten digits and cut at {len(result.comparisons)} places. Behind each cut stand "
        "polynomials that nearly vanish on one class each (the VI-Net) or another head, all "
        f"trained alike on the same latents. On {number(result.test, ',')} test images the uncut "
        f"network is right in {uncut.accuracy:.2%} of cases. The VI-Net that was best on held-out "
        f"training images, cut at {result.saved}, is right in {saved.accuracy:.2%}, {often} the "
        f"uncut one. It stores {size} parameters{speed}."
        + (f" Accuracies are means over {result.seeds} seeds." if result.seeds > 1 else "")
    )


def _duels(result: DemoResult) -> Section:
    duels = duels_of(result.comparisons)
    found = {(one.baseline, one.cut): str(one) for one in duels}
    cuts = [one.cut for one in result.comparisons]
    text = (
        f"Errors of the VI-Net and of the baseline on the same {number(result.test, ',')} images, "
        "and the probability p of a difference this large if both were equally good (exact sign "
        f"test over the images on which they differ). It wins or loses if p is below {LEVEL}, else "
        f"the matter is open. About {LEVEL * len(duels):.1g} of {len(duels)} such tests would fall "
        "below this by chance alone."
    )
    baselines = dict.fromkeys(one.baseline for one in duels)
    # A baseline that a cut does not have leaves its cell empty.
    rows = [(name, *(found.get((name, cut), "") for cut in cuts)) for name in baselines]
    caption = "Errors of the VI-Net to those of the baseline"
    table = Table.from_rows("duels", caption, ["baseline", *cuts], rows)
    return Section("Against each baseline", (text, table))


def _pictures(result: DemoResult) -> tuple[Block, ...]:
    """Drawings of the saved VI-Net, where its points were kept."""
    shown, plane, classes = result.pictures, result.plane, list(result.example.probabilities)
    if shown is None or plane is None:
        return ()
    points = Drawing(
        "points",
        "Scatter plot of the latents of training images by digit.",
        "First two principal components of the latents, coloured by digit.",
        partial(plot_points, plane, shown.labels, classes),
    )
    scores = Drawing(
        "scores",
        "Histogram of pruning scores of all generators and of those kept.",
        "Pruning scores; the generators of each class with the highest are kept. A high score "
        "means large on the points of every other class.",
        partial(plot_scores, shown.scores, shown.kept),
    )
    generators = Drawing(
        "generators",
        "Heat map of the mean size of every kept generator on every class.",
        "Mean size of every kept generator (column) on the points of every digit (row) before "
        "training, relative to its largest: dark is small, and belongs on the diagonal.",
        partial(plot_generators, shown.means, shown.owners, classes),
        (WIDE, 3.2),
    )
    return (Beside((points, scores)), generators)


def _parameters(result: DemoResult) -> Section:
    bars = 1 + sum(len(one.networks) for one in result.comparisons)
    text = "The networks are counted as they run: batch normalisation is folded into the heads."
    chart = Drawing(
        "parts",
        "Stacked bars of the parameters of each part of every network; the tables of results "
        "hold the numbers.",
        "Parameters of backbone, projection, monomials, coefficients and linear layers. All "
        "layers of the heads that have no polynomials count as linear.",
        partial(draw_parts, comparisons=result.comparisons),
        (WIDE, 1.2 + 0.22 * bars),
    )
    return Section("Where the parameters are", (text, chart))


def _complexity(result: DemoResult) -> Section:
    uncut, cuts = result.theory.uncut, result.theory.cuts
    rows = [Row({"network": "uncut network", "R": power(uncut.log10_R)})]
    larger = 0
    for cut, found in cuts.items():
        log, bounds = found.whole.log10_R - uncut.log10_R, found.head.bounds
        larger += math.isfinite(log) and log > 0
        values: dict[str, Value] = {
            "network": f"VI-Net cut at {cut}",
            "R": power(found.whole.log10_R),
            "kappa": log,
            "guaranteed": power(found.guaranteed.log10_R),
        }
        if bounds is not None:
            values |= {"hold": bounds.holds, "tightest": max(b.tightness for b in bounds.bounds)}
        rows.append(Row(values))
    columns = (
        Column("network"),
        Column("R", format=""),
        Column("kappa", "κ", "10^.2f"),
        Column("guaranteed", "R for all inputs", ""),
        Column("hold", "bounds hold", better="yes"),
        Column("tightest", "tightest bound", ".2g"),
    )
    text = (
        f"R is larger than that of the uncut network for {larger} of {len(cuts)} VI-Nets. "
        "κ is R of the VI-Net over R of the uncut network. The theorem behind R assumes variables "
        "in [−1, 1]; where a head may leave this range, R for all inputs is larger. The bounds "
        "are those of the theorem on the norms of the polynomials, the tightest given as value "
        "over bound."
    )
    caption = "Spectral complexity of the networks of the first seed"
    table = Table("complexity", caption, columns, tuple(rows))
    figure = layers_figure(uncut, {f"cut at {cut}": found.whole for cut, found in cuts.items()})
    return Section("Spectral complexity", (MEANING, figure, text, table))


def _one_image(result: DemoResult) -> Section:
    example = result.example
    order = sorted(example.probabilities.items(), key=lambda pair: -pair[1])
    right = "rightly" if example.prediction == example.label else "wrongly"
    text = (
        f"The VI-Net was saved, loaded again and asked about test image {example.index}, a "
        f"{example.label}. It says {example.prediction}, {right}."
    )
    columns = ("class", Column("probability", format=".2%"))
    rows = [(f"digit {name}", probability) for name, probability in order[:5]]
    answers = Table.from_rows("answers", "Most probable classes", columns, rows)
    picture = Code(example.picture, f"A handwritten {example.label} of 8 by 8 pixels")
    return Section("One image", (text, Beside((picture, answers))))
