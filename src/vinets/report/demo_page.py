"""What the page of the demo says; every judgement in it follows from the numbers."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from vinets.report.charts import draw_accuracy, draw_parts, draw_training
from vinets.report.duels import LEVEL, Duel, duel, standings
from vinets.report.page import (
    Markup,
    beside,
    code,
    facts,
    figure,
    listing,
    page,
    paragraph,
    section,
    table,
)
from vinets.report.results import COLUMNS, result_cells, signed
from vinets.report.svg import can_draw, drawing
from vinets.report.theory_charts import draw_layers
from vinets.report.theory_page import LAYERS_CAPTION, MEANING, layers_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["demo_html", "duels_of", "print_outcome", "summary"]

TITLE = "VI-Nets on handwritten digits"
NARROW, WIDE = (5.6, 3.8), (10.4, 4.2)  # inches
SEEN = "The network that was cut has seen these images, the heads have not."
NO_FIGURES = (
    'The figures are missing because matplotlib is not installed: pip install "vinets[plots]".'
)


def demo_html(
    results: Mapping[str, Any], drawings: Mapping[str, Callable[[Axes], Any]] | None = None
) -> str:
    """The page as HTML.

    Parameters
    ----------
    results : dict
        What ``results.json`` holds.
    drawings : dict or None, default=None
        ``points``, ``generators`` and ``scores``: pictures of the saved network, each a function
        that draws on the axes it is given. Without matplotlib the page has no figures at all.
    """
    sections = [
        _accuracies(results),
        _duels(results),
        _inside(results, drawings or {}),
        _parameters(results),
        _complexity(results["theory"]),
        _one_image(results),
        _repeat(results),
    ]
    lead = [paragraph(summary(results)), _tiles(results), listing(standings(duels_of(results)))]
    if not can_draw():
        lead.append(paragraph(NO_FIGURES))
    versions = results["machine"]
    known = ("vinets", "python", "torch", "numpy")
    footer = ", ".join(f"{name} {versions[name]}" for name in known)
    return page(TITLE, lead, sections, f"{footer}. Seed {results['seed']}.")


def summary(results: Mapping[str, Any]) -> str:
    """What happened, in a few sentences."""
    uncut, saved, tests = results["uncut"], _saved(results), results["data"]["test"]
    gap = 100 * (saved["accuracy"] - uncut["accuracy"])
    often = "as often as" if abs(gap) < 0.005 else f"{'more' if gap > 0 else 'less'} often than"
    share = saved["parameters"] / uncut["parameters"]
    size = f"{1 - share:.0%} fewer" if share < 1 else f"{share - 1:.0%} more"
    speed = saved["images_per_second"] / _cut(results, saved["cut"])["uncut"]["images_per_second"]
    seeds = results["seeds"]
    return (
        f"A small convolutional network was trained on {results['data']['train']:,} images of "
        f"handwritten digits and cut at {len(results['cuts'])} places. Behind each cut stand "
        "polynomials that nearly vanish on one class each (the VI-Net) or another head, all "
        f"trained alike on the same latents. On {tests:,} test images the uncut network is right "
        f"in {uncut['accuracy']:.2%} of cases. The VI-Net that was best on held-out training "
        f"images, cut at {saved['cut']}, is right in {saved['accuracy']:.2%}, {often} the uncut "
        f"one. It stores {size} numbers and takes {speed:.2f} times as many images per second."
        + (f" Accuracies are means over {seeds} seeds." if seeds > 1 else "")
    )


def print_outcome(results: Mapping[str, Any]) -> None:
    """The same in short on the terminal: summary, standings and one image."""
    width = min(100, shutil.get_terminal_size().columns)
    for text in (summary(results), *standings(duels_of(results))):
        print(f"\n{textwrap.fill(text, width)}")
    example = results["example"]
    top = sorted(example["probabilities"].items(), key=lambda pair: -pair[1])[:3]
    print(f"\n{example['picture']}\n")
    print(f"Test image {example['index']} is a {example['label']}. The saved VI-Net, loaded again:")
    print("  " + ", ".join(f"{name} with {p:.1%}" for name, p in top))
    print(f"\n{results['seconds']:.0f} seconds in all.")


def duels_of(results: Mapping[str, Any]) -> list[Duel]:
    """The VI-Net against every baseline behind every cut."""
    found = []
    for cut in results["cuts"]:
        ours, *baselines = _rows(results, cut["cut"])
        found += [duel(ours, baseline) for baseline in baselines]
    return found


def _tiles(results: Mapping[str, Any]) -> Markup:
    uncut, saved = results["uncut"], _saved(results)
    beside_it = _cut(results, saved["cut"])["uncut"]["images_per_second"]
    gap = signed(100 * (saved["accuracy"] - uncut["accuracy"]))
    return facts(
        [
            ("Test accuracy", f"{saved['accuracy']:.2%}", f"{gap} points to the uncut network"),
            (
                "Stored numbers",
                f"{saved['parameters']:,}",
                f"{saved['parameters'] / uncut['parameters']:.0%} of the uncut network",
            ),
            (
                "Images per second",
                f"{saved['images_per_second']:,.0f}",
                f"{saved['images_per_second'] / beside_it:.2f} × the uncut network",
            ),
            ("Cut", saved["cut"], f"of {len(results['cuts'])} that were tried"),
        ]
    )


def _accuracies(results: Mapping[str, Any]) -> Markup:
    tables = []
    for cut in results["cuts"]:
        caption = f"Cut at {cut['cut']}: {cut['channels']} channels at {cut['positions']} positions"
        uncut = results["uncut"] | cut["uncut"]
        cells = result_cells(_rows(results, cut["cut"]), uncut)
        tables.append(table(caption, COLUMNS, cells, marked=(1,)))
    text = (
        "Accuracy on the test images, the difference Δ to the uncut network in percentage points, "
        "numbers stored by each part, images per second in batches of "
        f"{results['batch']} (all networks of a table take turns on the same machine), and seconds "
        "to build and train the head, without the latents that all heads share."
    )
    chart = _picture(
        "accuracy",
        f"Test accuracy of every head against the cut, from {results['cuts'][0]['cut']} to "
        f"{results['cuts'][-1]['cut']}; the tables below hold the numbers.",
        "Accuracy against the cut. The dashed line is the uncut network.",
        lambda ax: draw_accuracy(ax, results["rows"], results["uncut"]["accuracy"]),
        size=WIDE,
    )
    return section("Accuracy, size and speed", paragraph(text), *chart, *tables)


def _duels(results: Mapping[str, Any]) -> Markup:
    duels = duels_of(results)
    cuts = [cut["cut"] for cut in results["cuts"]]
    found = {(d.baseline, d.cut): str(d) for d in duels}
    baselines = dict.fromkeys(d.baseline for d in duels)
    rows = [[baseline, *(found.get((baseline, cut), "") for cut in cuts)] for baseline in baselines]
    text = (
        f"Errors of the VI-Net and of the baseline on the same {results['data']['test']:,} images, "
        "and the probability p of a difference this large if both were equally good (exact sign "
        f"test over the images on which they differ). It wins or loses if p is below {LEVEL}, else "
        f"the matter is open. About {LEVEL * len(duels):.1g} of {len(duels)} such tests would fall "
        "below this by chance alone."
    )
    caption = "Errors of the VI-Net to those of the baseline"
    return section("Against each baseline", paragraph(text), table(caption, ["", *cuts], rows))


def _inside(results: Mapping[str, Any], drawings: Mapping[str, Callable[[Axes], Any]]) -> Markup:
    cut = _cut(results, results["saved"]["cut"])
    histories = results["histories"][cut["cut"]]
    captions = {
        "points": (
            "Scatter plot of the latents of training images by digit.",
            "First two principal components of the latents, coloured by digit.",
        ),
        "scores": (
            "Histogram of pruning scores of all generators and of those kept.",
            "Pruning scores; the generators of each class with the highest are kept. A high score "
            "means large on the points of every other class.",
        ),
        "generators": (
            "Heat map of the mean size of every kept generator on every class.",
            "Mean size of every kept generator (column) on the points of every digit (row) before "
            "training, relative to its largest: dark is small, and belongs on the diagonal.",
        ),
    }
    wide = {"generators": WIDE}
    pictures = {
        name: _picture(name, *captions[name], drawings[name], size=wide.get(name, NARROW))
        for name in captions
        if name in drawings
    }
    curves = [
        picture
        for field, label, note in (
            ("loss", "training loss", ""),
            ("validation_loss", "loss on the held-out part", SEEN),
        )
        for picture in _picture(
            field,
            f"Curves of the {label} by epoch for every head.",
            f"Training of the heads: {label}. The marker shows the weights that were kept. {note}",
            partial(draw_training, histories=histories, field=field, label=label),
        )
    ]
    return section(
        f"Inside the VI-Net cut at {cut['cut']}",
        code(cut["report"]),
        beside(*pictures.get("points", ()), *pictures.get("scores", ())),
        *pictures.get("generators", ()),
        beside(*curves),
    )


def _parameters(results: Mapping[str, Any]) -> Markup:
    rows = results["rows"]
    chart = _picture(
        "parts",
        "Stacked bars of the numbers stored by each part of every network; the tables of results "
        "hold the numbers.",
        "Numbers stored by backbone, projection, monomials, coefficients and linear layers. All "
        "layers of the heads that have no polynomials count as linear.",
        lambda ax: draw_parts(ax, rows, results["uncut"]["parameters"]),
        size=(WIDE[0], 1.2 + 0.24 * len(rows)),
    )
    text = "The networks are counted as they run: batch normalisation is folded into the heads."
    return section("Where the parameters are", paragraph(text), *chart)


def _complexity(theory: Mapping[str, Any]) -> Markup:
    uncut, cuts = theory["uncut"], theory["cuts"]
    networks = {f"VI-Net cut at {cut}": found for cut, found in cuts.items()}
    chart = _picture(
        "complexity",
        layers_text(uncut, networks),
        LAYERS_CAPTION,
        lambda ax: draw_layers(ax, uncut, networks),
        size=WIDE,
    )
    rows = [["uncut network", _power(uncut["log10_R"]), "", "", "", ""]]
    for name, found in networks.items():
        bounds = found["bounds"]
        rows.append(
            [
                name,
                _power(found["log10_R"]),
                _power(found["log10_kappa"]),
                _power(found["log10_R_guaranteed"]),
                "yes" if bounds["holds"] else "NO",
                f"{max(bound['tightness'] for bound in bounds['bounds']):.2g}",
            ]
        )
    columns = ["", "R", "κ", "R for all inputs", "bounds hold", "tightest bound"]
    larger = sum((found["log10_kappa"] or 0) > 0 for found in cuts.values())
    text = (
        f"R is larger than that of the uncut network for {larger} of {len(cuts)} VI-Nets. "
        "κ is R of the VI-Net over R of the uncut network. The theorem behind R assumes variables "
        "in [−1, 1]; where a head may leave this range, R for all inputs is larger. The bounds "
        "are those of the theorem on the norms of the polynomials, the tightest given as value "
        "over bound."
    )
    caption = "Spectral complexity of the networks of the first seed"
    return section(
        "Spectral complexity",
        paragraph(MEANING),
        *chart,
        paragraph(text),
        table(caption, columns, rows),
    )


def _power(log10: float | None) -> str:
    return "" if log10 is None else f"10^{log10:.2f}"


def _one_image(results: Mapping[str, Any]) -> Markup:
    example = results["example"]
    order = sorted(example["probabilities"], key=example["probabilities"].get, reverse=True)
    rows = [[f"digit {name}", f"{example['probabilities'][name]:.2%}"] for name in order[:5]]
    right = "rightly" if example["prediction"] == example["label"] else "wrongly"
    text = (
        f"The VI-Net was saved, loaded again and asked about test image {example['index']}, a "
        f"{example['label']}. It says {example['prediction']}, {right}."
    )
    picture = code(example["picture"], f"A handwritten {example['label']} of 8 by 8 pixels")
    answers = table("Most probable classes", ["", "probability"], rows)
    return section("One image", paragraph(text), beside(picture, answers))


def _repeat(results: Mapping[str, Any]) -> Markup:
    text = "The same command gives the same networks on the same versions; only times differ."
    machine = [
        [name, str(value)] for name, value in results["machine"].items() if value is not None
    ]
    cuts = {cut["cut"]: cut["settings"] for cut in results["cuts"]}
    names = dict.fromkeys(name for settings in cuts.values() for name in settings)
    settings = [[name, *(str(cuts[cut].get(name, "")) for cut in cuts)] for name in names]
    return section(
        "How to repeat it",
        paragraph(text),
        code(results["command"]),
        beside(
            table("Settings by cut", ["", *cuts], settings),
            table("Versions and machine", ["", "value"], machine),
        ),
    )


def _picture(
    name: str,
    alt: str,
    caption: str,
    draw: Callable[[Axes], Any],
    size: tuple[float, float] = NARROW,
) -> list[Markup]:
    """The figure, or nothing where matplotlib is missing."""
    if not can_draw():
        return []
    return [figure(drawing(name, alt, draw, size=size), caption, wide=size != NARROW)]


def _rows(results: Mapping[str, Any], cut: str) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if row["cut"] == cut]


def _cut(results: Mapping[str, Any], name: str) -> dict[str, Any]:
    return next(cut for cut in results["cuts"] if cut["cut"] == name)


def _saved(results: Mapping[str, Any]) -> dict[str, Any]:
    return _rows(results, results["saved"]["cut"])[0]
