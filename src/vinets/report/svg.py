"""Drawings of matplotlib as SVG inside a page, with its text and lines in the page's own colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vinets.report.page import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["can_draw", "drawing"]

INK = "#010203"  # stands for the colour of the text around the drawing
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "vinets",  # equal drawings, equal names
    "savefig.dpi": 150,  # of what is drawn as pixels
}


def can_draw() -> bool:
    """Whether matplotlib, the extra ``plots``, is installed."""
    return find_spec("matplotlib") is not None


def drawing(
    name: str, alt: str, draw: Callable[[Axes], Any], *, size: tuple[float, float] = (5.6, 3.8)
) -> Markup:
    """Draw on new axes and return the SVG element.

    Parameters
    ----------
    name : str
        Unique in the page; identifiers inside the drawing begin with it.
    alt : str
        What the drawing shows, for those who cannot see it.
    draw : callable
        Draws on the axes that it is given.
    size : (float, float), default=(5.6, 3.8)
        Width and height in inches.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures of a report need matplotlib, which is not installed. Install the extra "
            "'plots': pip install \"vinets[plots]\"."
        ) from error
    file = io.StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, format="svg")
    return _inlined(file.getvalue(), name, alt)


def _inlined(text: str, name: str, alt: str) -> Markup:
    """The SVG element of a file, without name spaces and metadata, which HTML does not need."""
    body = text[text.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", body)
    body = body.replace("xlink:href=", "href=").replace(INK, "currentColor")
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    return Markup(body.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1))
