"""Show results as tables, figures and pages: on the terminal, in Markdown and in HTML."""

from vinets.report.figures import can_draw, save_figure
from vinets.report.html import html
from vinets.report.terminal import markdown, print_page, print_table
from vinets.report.values import (
    Axis,
    Column,
    ExperimentResult,
    Figure,
    ReferenceLine,
    Row,
    Series,
    Table,
)

__all__ = [
    "Axis",
    "Column",
    "ExperimentResult",
    "Figure",
    "ReferenceLine",
    "Row",
    "Series",
    "Table",
]
__all__ += ["can_draw", "html", "markdown", "print_page", "print_table", "save_figure"]
