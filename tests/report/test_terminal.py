from __future__ import annotations

import io

import pytest
from rich.console import Console

from vinets.report import values
from vinets.report.numbers import difference, number
from vinets.report.terminal import _show, markdown, print_page, print_table
from vinets.report.values import Axis, Column, Figure, Page, Row, Section, Series, Table

COLUMNS = (Column("network"), Column("n", "long name", ","), Column("total", format=",.1f"))
ROWS = (
    Row({"network": "uncut network", "n": 1, "total": 103466.0}),
    Row({"network": "VI-Net [b]", "n": 22, "total": 3.25}, marked=True),
)
TABLE = Table("t", "Caption", COLUMNS, ROWS)


def on_a_terminal(block, width: int) -> list[str]:
    """Lines that a terminal of this width gets."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None, markup=False)
    _show(block, console)
    return file.getvalue().splitlines()


def test_a_pipe_gets_whole_rows(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "12")
    print_table(TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert "Caption" in lines
    for cells in (["uncut network", "1", "103,466.0"], ["VI-Net [b]", "22", "3.2"]):
        assert any(all(cell in line for cell in cells) for line in lines)


@pytest.mark.parametrize("width", [80, 26, 24, 15])
def test_no_number_is_broken_and_nothing_is_cut_off(width):
    lines = on_a_terminal(TABLE, width)
    assert max(map(len, lines)) <= width
    for whole in ("103,466.0", "22", "3.2"):
        assert any(whole in line for line in lines)
    together = " ".join(" ".join(lines).split())
    assert "VI-Net" in together and "…" not in together


def test_headings_give_way_to_what_stands_below_them():
    def lines(column: Column, width: int) -> list[str]:
        return on_a_terminal(Table.from_rows("t", "T", ["a", column], [["b", 5]]), width)

    wide = Column("x", "a long heading of many words", ",")
    assert max(map(len, lines(wide, 80))) < len(wide.label)
    short = Column("x", "coefficients", ",", short="coeffs")
    assert "coefficients" in " ".join(lines(short, 80))
    narrow = " ".join(lines(short, 10))
    assert "coeffs" in narrow and "coefficients" not in narrow


def test_headings_sections_and_the_papers_values_are_there():
    lines = on_a_terminal(Table("t", "T", TABLE.columns, ()), 80)
    assert any("network" in line and "total" in line for line in lines)
    row = Row({"a": "x", "n": 1200}, {"n": 1300}, "A section")
    lines = on_a_terminal(Table("t", "T", (Column("a"), Column("n", format=",")), (row,)), 80)
    assert any("A section" in line for line in lines)
    assert any("1,200 (1,300)" in line for line in lines)


def test_a_page_is_printed_but_for_its_pictures(capsys):
    figure = Figure("f", "A figure", Axis("x"), Axis("y"), (Series("s", (1,), (2,)),))
    blocks = (
        values.Beside((figure, values.Code("a  [b]\nc"))),
        values.Details("More", (TABLE,)),
        values.Bullets(("first", "second")),
    )
    lead = ("word " * 100, values.Facts((("Cut", "pool", "of 4"),)))
    page = Page("The title", lead, (Section("A part", blocks),), "Footer")
    print_page(page, "Figures are elsewhere.")
    lines = capsys.readouterr().out.splitlines()
    for line in ("The title", "A part", "a  [b]", "c", "Caption", "- second", "Cut: pool (of 4)"):
        assert line in lines
    assert ("word " * 100).strip() in [line.strip() for line in lines]  # a pipe breaks no line
    assert lines[-1] == "Figures are elsewhere." and "A figure" not in lines
    print_page(Page("T", lead, ()), "Figures are elsewhere.")
    assert "elsewhere" not in capsys.readouterr().out
    lines = on_a_terminal("word " * 100, 200)  # a terminal does
    assert max(map(len, lines)) <= 100 and len(lines) > 5


def test_every_value_has_its_cell_and_the_papers_stand_in_brackets():
    columns = (Column("model"), Column("n", "parameters", ",", "n_std"), Column("note"))
    rows = (
        Row({"model": "A", "n": 1200, "n_std": 30}, {"n": 1300}, "First"),
        Row({"model": "B", "n": None, "note": "|O| and ||W||"}, section="First", marked=True),
        Row({"model": "C", "n": 3, "note": True}, section="Second"),
    )
    assert markdown(Table("t", "T", columns, rows)).splitlines() == [
        "| model | parameters | note |",
        "|---|---:|---|",
        "| **First** | | |",
        "| A | 1,200 ± 30 (1,300) |  |",
        "| **B** | – | \\|O\\| and ‖W‖ |",
        "| **Second** | | |",
        "| C | 3 | yes |",
    ]


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (float("inf"), ".2f", "–"),
        (10**400, ".2f", "–"),
        ("10.5M", ",", "10.5M"),
        (3.0, ",d", "3"),
        (0.123, "+.1%", "+12.3%"),
        (-1.5, "10^.1f", "10^−1.5"),
        (1234.56, ",.1f×", "1,234.6×"),
        ([1], ".1f", "[1]"),
    ],
)
def test_odd_values_are_shown_as_they_can_be(value, spec, text):
    assert number(value, spec) == text
    assert difference(value, None, spec) == difference(None, value, spec) == ""
