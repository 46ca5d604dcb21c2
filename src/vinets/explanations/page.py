"""Show why a network of polynomials gave its answer, as a page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vinets.explanations.explain import Contribution, Explanation
from vinets.report import values as blocks
from vinets.report.figures import GREY, INK, color_of
from vinets.report.numbers import number
from vinets.report.values import Block, Column, Drawing, Page, Row, Section, Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDES = ("answer", "next", "others")
LOGITS = "+.3f"
MAP_INCHES = (4.4, 3.4)
MAX_SQUARES = 16  # on a side of the map of integrated gradients
VARIABLES = (
    "c is a channel of the latents, in deviations from its mean where it stands in a product of "
    "forms; z is a principal component. They have no meaning of their own: the table tells the "
    "classes on which each is highest and lowest."
)


def explain_page(reasons: Explanation, title: str, command: str) -> Page:
    """Return the page of an explanation; the command says how to repeat it."""
    share = reasons.probabilities
    same = sum(one.label == reasons.answer for one in reasons.neighbours)
    nearest = f"{same} of {len(reasons.neighbours)}"
    facts = blocks.Facts(
        (
            ("answer", reasons.answer, f"{number(share[reasons.answer], '.2%')} likely"),
            ("next class", reasons.next, f"{number(share[reasons.next], '.2%')} likely"),
            ("margin", number(reasons.margin, LOGITS), "logit of the answer less that of the next"),
            ("nearest examples", nearest, f"are of class {reasons.answer}"),
        )
    )
    columns = [
        Column("name", "variable"),
        Column("here", "deviations from the mean", "+.2f", short="deviations"),
        Column("classes", "highest / lowest on"),
    ]
    rows = []
    for one in reasons.components:
        deviations = (one.value - one.mean) / one.std if one.std else None
        rows.append((one.name, deviations, f"{one.highest_on} / {one.lowest_on}"))
    caption = "Averaged over the positions of the map"
    components = Table.from_rows("components", caption, columns, rows)
    sections = (
        Section("Where", _where(reasons)),
        Section(f"What decided for {reasons.answer} and not {reasons.next}", _what(reasons)),
        Section("The variables in these polynomials", (VARIABLES, components)),
        Section("The nearest training examples", _nearest(reasons)),
        Section("How to repeat it", (blocks.Code(command),)),
    )
    return Page(title, (facts,), sections)


# --- sections ---------------------------------------------------------------------------------


def _where(reasons: Explanation) -> tuple[Block, ...]:
    """Return the image, what every position adds to the margin, and the gradients."""
    image: list[Block] = []
    gradients: list[Block] = []

    def heat_map(id: str, alt: str, caption: str, values: np.ndarray) -> Drawing:
        return Drawing(id, alt, caption, partial(_draw_map, values, reasons), MAP_INCHES)

    if reasons.picture is not None:
        draw = partial(_draw_images, [(reasons.picture, "")])
        image.append(Drawing("image", "The image.", "The image.", draw, MAP_INCHES))
    if reasons.pixels is not None and reasons.picture is not None:
        side = max(1, -(-max(reasons.pixels.shape) // MAX_SQUARES))
        padded = np.pad(reasons.pixels, [(0, -n % side) for n in reasons.pixels.shape])
        rows, columns = (n // side for n in padded.shape)
        squares = padded.reshape(rows, side, columns, side).sum((1, 3))
        caption = (
            f"Integrated gradients of the margin, from the mean pixel, in {rows} by {columns} "
            "squares: these follow the image through the backbone."
        )
        alt = "Heat map of the integrated gradients of the margin."
        gradients.append(heat_map("pixels", alt, caption, squares))
    if reasons.map is None:
        text = (
            "The polynomials of this network see the whole map at once, so that no part of the "
            "margin belongs to one position. Local heads and products have a map."
        )
        return (text, blocks.Beside((*image, *gradients)))
    text = "Positions are those of the latents. "
    if reasons.sees is not None and reasons.picture is not None:
        (height, width), (high, wide) = reasons.picture.shape[:2], reasons.sees
        text += f"A position in the middle sees {high} by {wide} of {height} by {width} pixels, "
        if high >= height and wide >= width:
            text += "all of them: hold the map against the integrated gradients. "
        else:
            text += "and not just the square that it is drawn on. "
    text += "All of them together are the margin less that of the middle of the two classes, "
    text += f"{number(reasons.margin - reasons.middle, LOGITS)} logits"
    if reasons.outside:
        text += f", with {number(reasons.outside, LOGITS)} of tokens outside"
    positions = f"{len(reasons.map)} by {len(reasons.map[0])} positions"
    caption = (
        f"What each of {positions} adds to the margin: red for {reasons.answer}, blue for "
        f"{reasons.next}."
    )
    alt = f"Heat map of what every position adds to the margin, {positions}."
    whole = heat_map("map", alt, caption, np.array(reasons.map))
    single = [
        heat_map(
            f"map-{one.index}",
            f"Heat map of polynomial {one.index}.",
            f"Polynomial p{one.index} alone, {number(one.contribution, LOGITS)} logits.",
            np.array(one.map),
        )
        for one in reasons.generators[: 1 if gradients else 2]
    ]
    return (f"{text}.", blocks.Beside((*image, whole)), blocks.Beside((*gradients, *single)))


def _what(reasons: Explanation) -> tuple[Block, ...]:
    """Return the margin as a sum, and the polynomials that count most in it."""
    text = (
        "The margin is a sum over the polynomials. Each is compared with its mean over training "
        f"examples of {reasons.answer} and {reasons.next}, the middle of the two classes: so a "
        "polynomial that vanishes here but not on the other class counts, too. Main terms are "
        "those that vary most over the training examples."
    )
    shown = reasons.generators
    parts: list[tuple[Value, ...]] = [
        (f"middle of {reasons.answer} and {reasons.next}", reasons.middle),
        (f"the {len(shown)} polynomials below", sum(one.contribution for one in shown)),
        (f"the other {reasons.count - len(shown):,} polynomials", reasons.others),
        *[("linear path", reasons.path)] * bool(reasons.path),
        ("margin", reasons.margin),
    ]
    total = Table.from_rows(
        "sum", "The margin as a sum, in logits", ["part", Column("logits", format=LOGITS)], parts
    )
    columns = (
        Column("name", "polynomial"),
        Column("contribution", "adds to the margin", LOGITS, short="adds"),
        Column("value", "value here", ".3g", short="here"),
        Column("answer", f"median on {reasons.answer}", ".3g"),
        Column("next", f"median on {reasons.next}", ".3g"),
        Column("others", "on other classes", ".3g", short="others"),
        Column("smallest_on", "smallest on"),
        Column("polynomial", "main terms"),
    )
    rows = []
    for one in shown:
        medians = {name: spread.quantiles[2] for name, spread in one.spreads.items()}
        rows.append(Row(vars(one) | {"name": f"p{one.index}"} | medians))
    caption = "The polynomials that count most"
    strips = Drawing(
        "spreads",
        "Values of every polynomial on three groups of training examples, and on the image; the "
        "table holds medians.",
        f"Each polynomial on training examples of {reasons.answer} (red), {reasons.next} (blue) "
        "and all other classes (grey): 5 to 95 %, 25 to 75 % and median. The long line is the "
        "image. Every polynomial has its own scale.",
        partial(_draw_spreads, shown),
        (4.4, 0.9 + 0.5 * len(shown)),
    )
    return (text, total, Table("generators", caption, columns, tuple(rows)), strips)


def _nearest(reasons: Explanation) -> tuple[Block, ...]:
    """Return the nearest training examples, with their pictures where they have some."""
    text = (
        f"By the distance between latents, among {number(reasons.examples, ',')} training "
        "examples. They did not take part in the decision."
    )
    columns = [Column("example", format=","), Column("class"), Column("distance", format=".4g")]
    rows = [(one.index, one.label, one.distance) for one in reasons.neighbours]
    table = Table.from_rows("neighbours", "Nearest training examples", columns, rows)
    pictures = [(one.picture, one.label) for one in reasons.neighbours if one.picture is not None]
    if not pictures:
        return (text, table)
    alt = f"The nearest training examples: {', '.join(label for _, label in pictures)}."
    draw = partial(_draw_images, pictures)
    return (text, Drawing("nearest", alt, "The nearest first.", draw, (4.4, 1.2)), table)


# --- drawings ---------------------------------------------------------------------------------


def _draw_images(pictures: list[tuple[np.ndarray, str]], ax: Axes) -> None:
    """Draw images in a row, each with its name above."""
    left, tallest = 0.0, 0
    for picture, name in pictures:
        height, width = picture.shape[:2]
        colors = np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture
        place = (left, left + width, height, 0)
        ax.imshow(colors, extent=place, interpolation="nearest")
        ax.text(left + width / 2, -0.06 * height, name, ha="center", va="bottom", fontsize=9)
        left, tallest = left + 1.15 * width, max(tallest, height)
    top = -0.3 * tallest if any(name for _, name in pictures) else 0
    ax.set(xlim=(0, left - 0.15 * width), ylim=(tallest, top))
    ax.set_axis_off()


def _draw_map(values: np.ndarray, reasons: Explanation, ax: Axes) -> None:
    """Draw contributions over the image, which is pale: on black, all colours are dark."""
    height, width = values.shape if reasons.picture is None else reasons.picture.shape[:2]
    around = (-0.5, width - 0.5, height - 0.5, -0.5)
    if reasons.picture is not None:
        grey = 0.45 + 0.55 * np.repeat(reasons.picture.mean(2, keepdims=True), 3, axis=2)
        ax.imshow(grey, extent=around, interpolation="nearest")
    most = np.abs(values).max() or 1.0
    drawn = ax.imshow(
        values, "RdBu_r", vmin=-most, vmax=most, extent=around, alpha=0.65, interpolation="nearest"
    )
    ax.set_axis_off()
    ax.figure.colorbar(drawn, ax=ax, pad=0.03).set_label("logits")


def _draw_spreads(generators: tuple[Contribution, ...], ax: Axes) -> None:
    """Draw quantiles of every polynomial on three groups of examples, and its value here."""
    colors = dict(zip(SIDES, (color_of(0), color_of(1), GREY), strict=True))
    for place, one in enumerate(generators):
        every = [q for spread in one.spreads.values() for q in spread.quantiles] + [one.value]
        low, width = min(every), (max(every) - min(every)) or 1.0
        for name, spread in one.spreads.items():
            a, b, m, c, d = ((q - low) / width for q in spread.quantiles)
            y = place + 0.25 * (SIDES.index(name) - 1)
            ax.plot([a, d], [y, y], color=colors[name], linewidth=1.2)
            ax.plot([b, c], [y, y], color=colors[name], linewidth=5, solid_capstyle="butt")
            ax.plot([m], [y], marker="|", color=INK, markersize=7)
        at = (one.value - low) / width
        ax.plot([at, at], [place - 0.42, place + 0.42], color=INK, linewidth=1.8)
    ax.set_yticks(range(len(generators)), [f"p{one.index}" for one in generators])
    ax.set_xticks([0, 1], ["lowest", "highest"])
    ax.tick_params(length=0)
    ax.invert_yaxis()
