"""Colours and markers of all pictures, and how matplotlib draws them.

Pages of HTML take the same colours from ``report/style.css``, where each has a twin for dark
screens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OURS = "#c1440e"  # heads of polynomials
# Series of our networks begin with one of these names.
OUR_NAMES = ("VI-Net", "product head", "network behind the cut")
# Other series take these colours, in this order.
COLORS = ["#1f6f9f", "#4d7a1e", "#7b4fb0", "#8a6500", "#0e7c7c", "#b03a83", "#6f5546", "#4a5568"]
GREY = "#566375"  # the uncut network, levels
INK = "#1b2a41"  # text and points
MARKERS = "sD^vPXp"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dde2e8",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "vinets",  # equal pictures, equal files
}


def looks(names: Iterable[str]) -> list[int]:
    """Number the looks of series: 0 for our network, 1, 2, ... for the others.

    Only the first of :data:`OUR_NAMES` stands out. Where a figure compares several, the
    others need colours of their own.

    Examples
    --------
    >>> looks(["linear head", "VI-Net", "VI-Net, OAVI", "MLP"])
    [1, 0, 2, 3]
    """
    found: list[int] = []
    for name in names:
        is_ours = name.startswith(OUR_NAMES) and 0 not in found
        found.append(0 if is_ours else sum(look > 0 for look in found) + 1)
    return found


def color_of(look: int) -> str:
    """Return the colour of a look; beyond the last, they take turns."""
    return OURS if look == 0 else COLORS[(look - 1) % len(COLORS)]


def marker_of(look: int) -> str:
    """Return the marker of a look, as matplotlib names it."""
    return "o" if look == 0 else MARKERS[(look - 1) % len(MARKERS)]
