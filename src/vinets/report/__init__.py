"""Results as pages of HTML, as drawings inside them and as tables on the terminal."""

from vinets.report.demo_page import demo_html, print_outcome
from vinets.report.duels import Duel, duel, standings
from vinets.report.figures import draw_figure, save_figure
from vinets.report.reading import read_results
from vinets.report.results_page import results_page
from vinets.report.schema import Axis, Column, Experiment, Figure, Row, Rule, Series, Table
from vinets.report.svg import can_draw, drawing
from vinets.report.terminal import as_characters, print_table

__all__ = [
    "Axis",
    "Column",
    "Duel",
    "Experiment",
    "Figure",
    "Row",
    "Rule",
    "Series",
    "Table",
    "as_characters",
    "can_draw",
    "demo_html",
    "draw_figure",
    "drawing",
    "duel",
    "print_outcome",
    "print_table",
    "read_results",
    "results_page",
    "save_figure",
    "standings",
]
