"""Results as pages of HTML, as drawings inside them and as tables on the terminal."""

from vinets.report.demo_page import demo_html, print_outcome
from vinets.report.duels import Duel, duel, standings
from vinets.report.svg import can_draw, drawing
from vinets.report.terminal import as_characters, print_table

__all__ = [
    "Duel",
    "as_characters",
    "can_draw",
    "demo_html",
    "drawing",
    "duel",
    "print_outcome",
    "print_table",
    "standings",
]
