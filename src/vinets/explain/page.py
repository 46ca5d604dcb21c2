"""The page that tells why a network of polynomials gave its answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vinets.core.palette import GREY, INK, color_of
from vinets.explain.explain import DecidingPolynomial, Explanation
from vinets.report.formats import number
from vinets.report.values import (
    Beside,
    Block,
    Code,
    Column,
    Drawing,
    Facts,
    Page,
    Row,
    Section,
    Table,
    Value,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDES = ("answer", "next", "others")
LOGITS = "+.3f"
MAP = (4.4, 3.4)  # inches
WIDTH = 6.0  # what is wider scrolls on a narrow screen


def explain_page(found: Explanation, title: str, command: str = "") -> Page:
    """Answer, map, polynomials, their variables, nearest examples."""
    share = found.probabilities
    same = sum(one.label == found.answer for one in found.neighbours)
    facts = Facts(
        (
            ("answer", found.answer, f"{number(share[found.answer], '.2%')} likely"),
            ("next class", found.next, f"{number(share[found.next], '.2%')} likely"),
            ("margin", number(found.margin, ".2f"), "logit of the answer less that of the next"),
            (
                "nearest examples",
                f"{same} of {len(found.neighbours)}",
                f"are of class {found.answer}",
            ),
        )
    )
    sections = [
        Section("Where", _where(found)),
        Section(f"What decided for {found.answer} and not {found.next}", _what(found)),
        Section("The variables in these polynomials", (_variables(), components_table(found))),
        Section("The nearest training examples", _nearest(found)),
    ]
    if command:
        sections.append(Section("How to repeat it", (Code(command),)))
    return Page(title, (facts,), tuple(sections))


def sum_table(found: Explanation) -> Table:
    """The margin as a sum."""
    listed = sum(one.contribution for one in found.generators)
    rows: list[tuple[Value, ...]] = [
        (f"middle of {found.answer} and {found.next}", found.middle),
        (f"the {len(found.generators)} polynomials below", listed),
        (f"the other {found.count - len(found.generators):,} polynomials", found.others),
    ]
    rows += [("linear path", found.path)] * bool(found.path)
    rows.append(("margin", found.margin))
    caption = "The margin as a sum, in logits"
    return Table.from_rows("sum", caption, ["part", Column("logits", format=LOGITS)], rows)


def generators_table(found: Explanation) -> Table:
    """The polynomials that decided."""
    columns = (
        Column("name", "polynomial"),
        Column("contribution", "adds to the margin", LOGITS, short="adds"),
        Column("value", "value here", ".3g", short="here"),
        Column("answer", f"median on {found.answer}", ".3g"),
        Column("next", f"median on {found.next}", ".3g"),
        Column("others", "on other classes", ".3g", short="others"),
        Column("smallest", "smallest on"),
        Column("terms", "main terms"),
    )
    rows = []
    for one in found.generators:
        medians = {name: one.spreads[name].quantiles[2] for name in SIDES if name in one.spreads}
        facts = {"name": f"p{one.index}", "contribution": one.contribution, "value": one.value}
        facts |= {"smallest": one.smallest_on, "terms": one.polynomial}
        rows.append(Row(facts | medians))
    return Table("generators", "The polynomials that decided", columns, tuple(rows))


def components_table(found: Explanation) -> Table:
    """What the variables are."""
    columns = (
        Column("name", "variable"),
        Column("here", "deviations from the mean", "+.2f", short="deviations"),
        Column("classes", "highest / lowest on"),
    )
    rows = tuple(
        Row(
            {
                "name": one.name,
                "here": (one.value - one.mean) / one.std if one.std else None,
                "classes": f"{one.highest_on} / {one.lowest_on}",
            }
        )
        for one in found.components
    )
    return Table("components", "Averaged over the positions of the map", columns, rows)


def neighbours_table(found: Explanation) -> Table:
    """The nearest training examples."""
    columns = [Column("example", format=","), Column("class"), Column("distance", format=".4g")]
    rows = [(one.index, one.label, one.distance) for one in found.neighbours]
    return Table.from_rows("neighbours", "Nearest training examples", columns, rows)


# --- sections ---------------------------------------------------------------------------------


def _where(found: Explanation) -> tuple[Block, ...]:
    picture: list[Block] = []
    if found.picture is not None:
        picture.append(Drawing("image", "The image.", "The image.", partial(_image, found), MAP))
    through: list[Block] = []
    if found.pixels is not None and found.picture is not None:
        squares = _squares(found.pixels)
        caption = (
            f"Integrated gradients of the margin, from the mean pixel, in {len(squares)} by "
            f"{len(squares[0])} squares: these follow the image through the backbone."
        )
        alt = "Heat map of the integrated gradients of the margin."
        through.append(Drawing("pixels", alt, caption, partial(_map, squares, found), MAP))
    if found.map is None:
        text = (
            "The polynomials of this network see the whole map at once, so that no part of the "
            "margin belongs to one position. Local heads and products have a map."
        )
        return (text, Beside((*picture, *through)))
    sides = f"{len(found.map)} by {len(found.map[0])}"
    heat = Drawing(
        "map",
        f"Heat map of what every position adds to the margin, {sides} positions.",
        f"What each of {sides} positions adds to the margin: red for {found.answer}, blue for "
        f"{found.next}.",
        partial(_map, found.map, found),
        MAP,
    )
    text = (
        f"Positions are those of the latents. {_seen(found)}All of them together are the "
        "margin less that of the middle of the two classes, "
        f"{number(found.margin - found.middle, LOGITS)} logits"
        + (f", with {number(found.outside, LOGITS)} of tokens outside." if found.outside else ".")
    )
    ours = [
        Drawing(
            f"map-{one.index}",
            f"Heat map of polynomial {one.index}.",
            f"Polynomial p{one.index} alone, {number(one.contribution, LOGITS)} logits.",
            partial(_map, one.map, found),
            MAP,
        )
        for one in found.generators[: 1 if through else 2]
        if one.map is not None
    ]
    return (text, Beside((*picture, heat)), Beside((*through, *ours)))


def _seen(found: Explanation) -> str:
    """How much of the image a position sees; where that is all of it, a warning."""
    if found.sees is None or found.picture is None:
        return ""
    whole = found.picture.shape[:2]
    told = "A position in the middle sees {} by {} of {} by {} pixels".format(*found.sees, *whole)
    if found.sees[0] >= whole[0] and found.sees[1] >= whole[1]:
        return f"{told}, all of them: hold the map against the integrated gradients. "
    return f"{told}, and not just the square that it is drawn on. "


def _what(found: Explanation) -> tuple[Block, ...]:
    text = (
        "The margin is a sum over the polynomials. Each is compared with its mean over training "
        f"examples of {found.answer} and {found.next}, the middle of the two classes: so a "
        "polynomial that vanishes here but not on the other class counts, too. Main terms are "
        "those that vary most over the training examples."
    )
    strips = Drawing(
        "spreads",
        "Values of every polynomial on three groups of training examples, and on the image; the "
        "table holds medians.",
        f"Each polynomial on training examples of {found.answer} (red), {found.next} (blue) and "
        "all other classes (grey): 5 to 95 %, 25 to 75 % and median. The black line is the image. "
        "Every polynomial has its own scale.",
        partial(_spreads, found.generators),
        (WIDTH, 0.9 + 0.5 * len(found.generators)),
    )
    return (text, sum_table(found), generators_table(found), strips)


def _variables() -> str:
    return (
        "c is a channel of the latents, in deviations from its mean where it stands in a product "
        "of forms; z is a principal component. They have no meaning of their own: the table tells "
        "the classes on which each is highest and lowest."
    )


def _nearest(found: Explanation) -> tuple[Block, ...]:
    text = (
        f"By the distance between latents, among {number(found.examples, ',')} training examples. "
        "They did not take part in the decision."
    )
    if not found.neighbours or any(one.picture is None for one in found.neighbours):
        return (text, neighbours_table(found))
    row = Drawing(
        "nearest",
        "The nearest training examples: " + ", ".join(one.label for one in found.neighbours) + ".",
        "The nearest first, with their classes.",
        partial(_row_of_images, found),
        (WIDTH, 1.4),
    )
    return (text, row, neighbours_table(found))


# --- drawings ---------------------------------------------------------------------------------


def _shown(picture: np.ndarray) -> np.ndarray:
    """Pixels as three channels."""
    return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture


def _squares(pixels: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Sums over squares, of which there are at most 16 on a side."""
    height, width = pixels.shape
    side = max(1, -(-max(height, width) // 16))
    padded = np.pad(pixels, ((0, -height % side), (0, -width % side)))
    rows, columns = (n // side for n in padded.shape)
    sums = padded.reshape(rows, side, columns, side).sum((1, 3))
    return tuple(tuple(row) for row in sums.tolist())


def _image(found: Explanation, ax: Axes) -> None:
    assert found.picture is not None
    ax.imshow(_shown(found.picture), interpolation="nearest")
    ax.set_axis_off()


def _map(rows: tuple[tuple[float, ...], ...], found: Explanation, ax: Axes) -> None:
    """Contributions over the image, which is pale: on black, all colours are dark."""
    values = np.array(rows)
    height, width = values.shape if found.picture is None else found.picture.shape[:2]
    around = (-0.5, width - 0.5, height - 0.5, -0.5)
    if found.picture is not None:
        grey = 0.45 + 0.55 * np.repeat(found.picture.mean(2, keepdims=True), 3, axis=2)
        ax.imshow(grey, extent=around, interpolation="nearest")
    most = np.abs(values).max() or 1.0
    drawn = ax.imshow(
        values, "RdBu_r", vmin=-most, vmax=most, extent=around, alpha=0.65, interpolation="nearest"
    )
    ax.set_axis_off()
    ax.figure.colorbar(drawn, ax=ax, pad=0.03).set_label("logits")


def _spreads(generators: tuple[DecidingPolynomial, ...], ax: Axes) -> None:
    colors = dict(zip(SIDES, (color_of(0), color_of(1), GREY), strict=True))
    for place, one in enumerate(generators):
        every = [q for spread in one.spreads.values() for q in spread.quantiles] + [one.value]
        low, width = min(every), (max(every) - min(every)) or 1.0
        for side, name in enumerate(SIDES):
            if name not in one.spreads:
                continue
            a, b, m, c, d = ((q - low) / width for q in one.spreads[name].quantiles)
            y = place + 0.25 * (side - 1)
            ax.plot([a, d], [y, y], color=colors[name], linewidth=1.2)
            ax.plot([b, c], [y, y], color=colors[name], linewidth=5, solid_capstyle="butt")
            ax.plot([m], [y], marker="|", color=INK, markersize=7)
        at = (one.value - low) / width
        ax.plot([at, at], [place - 0.42, place + 0.42], color=INK, linewidth=1.8)
    ax.set_yticks(range(len(generators)), [f"p{one.index}" for one in generators])
    ax.set_xticks([0, 1], ["lowest", "highest"])
    ax.tick_params(length=0)
    ax.invert_yaxis()


def _row_of_images(found: Explanation, ax: Axes) -> None:
    start, tallest = 0.0, 0
    for one in found.neighbours:
        assert one.picture is not None
        height, width = one.picture.shape[:2]
        ax.imshow(
            _shown(one.picture), extent=(start, start + width, height, 0), interpolation="nearest"
        )
        ax.text(start + width / 2, -0.06 * height, one.label, ha="center", va="bottom", fontsize=9)
        start, tallest = start + 1.15 * width, max(tallest, height)
    ax.set(xlim=(0, start), ylim=(tallest, -0.3 * tallest))
    ax.set_axis_off()
