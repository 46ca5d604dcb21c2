from __future__ import annotations

import json

import pytest
from pages import ReadPage, loads_nothing

from vinets.report import html
from vinets.report.values import (
    Axis,
    Beside,
    Bullets,
    Code,
    Column,
    Drawing,
    Facts,
    Figure,
    Folded,
    Page,
    ReferenceLine,
    Row,
    Section,
    Series,
    Table,
    facts_table,
)

NASTY = "</script><script>alert('1 & 2')</script>"


def read(*blocks, **parts) -> ReadPage:
    return ReadPage(html(Page("Title", (), (Section("Part", blocks, **parts),))))


BLOCKS = {
    "text": NASTY,
    "bullets": Bullets((NASTY,)),
    "facts": Facts(((NASTY, NASTY, NASTY),)),
    "table": Table(
        "t", NASTY, (Column(NASTY), Column("b")), (Row({NASTY: NASTY, "b": NASTY}, marked=True),)
    ),
    "settings": facts_table("t", NASTY, [(NASTY, NASTY)]),
    "code": Code(NASTY, NASTY),
    "folded": Folded(NASTY, (NASTY,)),
    "beside": Beside((NASTY, NASTY)),
    "figure": Figure(
        "f",
        NASTY,
        Axis(NASTY),
        Axis(NASTY),
        (Series(NASTY, (1,), (2,), (NASTY,)),),
        levels=(ReferenceLine(NASTY, 1),),
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_text_comes_out_as_it_went_in_and_never_as_markup(name):
    found = read(BLOCKS[name])
    assert NASTY in found.texts
    scripts = 2 if name == "figure" else 0
    assert found.tags.count("script") == scripts
    page = ReadPage(html(Page(NASTY, (NASTY,), (Section(NASTY, (), "x", NASTY),), NASTY)))
    assert sum(NASTY in text for text in page.texts) == 8 and "script" not in page.tags


def test_labels_are_escaped_inside_attributes():
    assert NASTY in read(Code("x", NASTY)).values("aria-label")
    assert NASTY in read(BLOCKS["table"]).values("aria-label")


def test_a_page_brings_its_style_and_loads_nothing():
    text = html(Page("Title", (), (), "end"))
    assert "prefers-color-scheme: dark" in text
    assert loads_nothing(text) and "<script" not in text
    assert loads_nothing(html(Page("Title", (BLOCKS["figure"],), ())))


def test_sections_with_a_name_are_in_the_contents():
    named = Section("One", (BLOCKS["figure"],), "one", "Table 1")
    found = ReadPage(html(Page("Title", (), (named, Section("Two", ())))))
    assert found.values("href") == ["#one"]
    assert found.values("id") == ["one", "one:f"]
    assert "nav" not in read("no names").tags


def test_rows_are_marked_and_stand_under_their_sections():
    rows = (Row({"a": "x"}, section="S"), Row({"a": "y"}, section="S", marked=True))
    found = read(Table("t", "T", (Column("a"), Column("b")), rows))
    assert found.rows == [["a", "b"], ["S"], ["x", ""], ["y", ""]]
    assert found.values("class").count("marked") == 1


def test_a_verdict_is_more_than_a_word():
    columns = ["claim", Column("holds", better="yes")]
    rows = [["a", "yes"], ["b", False], ["c", "in 2 of 3"], ["d", "less"]]
    found = read(Table.from_rows("t", "T", columns, rows))
    kinds = [kind for kind in found.values("class") if kind and kind.startswith("verdict")]
    assert kinds == ["verdict yes", "verdict no", "verdict partly", "verdict "]


def test_cells_carry_their_headings_for_narrow_screens():
    columns = ["name", *(Column(f"c{i}", f"column {i}", ",") for i in range(4))]
    found = read(Table.from_rows("t", "T", columns, [["x", 1, 2, 3, 4]]))
    assert found.values("data-label") == [f"column {i}" for i in range(4)]
    assert "stack" in found.values("class")


def test_a_figure_with_names_shows_them_in_place_of_numbers():
    series = Series("VI-Net", (0, 1), (90.0, 80.0), marks=(1,))
    x = Axis("cut", names=("early", "late"))
    found = read(Figure("f", "F", x, Axis("accuracy", format=".1f"), (series,)))
    assert found.rows == [["cut", "VI-Net"], ["early", "90.0"], ["late", "80.0"]]
    (data,) = found.figures
    assert [p["marked"] for p in data["series"][0]["points"]] == [False, True]
    assert data["x"]["names"] == ["early", "late"]


def test_a_drawing_is_svg_or_the_page_says_why_there_is_none(monkeypatch):
    pytest.importorskip("matplotlib")
    block = Drawing("d", 'a "line"', "Caption.", lambda ax: ax.plot([1, 2]))
    found = read(block)
    assert 'a "line"' in found.values("aria-label") and "Caption." in found.texts
    monkeypatch.setitem(html.__globals__, "can_draw", lambda: False)
    found = read(Beside((block,)))
    assert "svg" not in found.tags and any("vinets[plots]" in text for text in found.texts)


def test_what_is_no_block_is_refused():
    with pytest.raises(TypeError, match="int is no block of a page"):
        html(Page("Title", (7,), ()))


def test_the_data_of_a_figure_survive_as_json():
    series = (Series("a", (1, 2), (3, None), std=(0.5, None)),)
    (data,) = read(Figure("f", "F", Axis("x"), Axis("y"), series)).figures
    points = data["series"][0]["points"]
    assert [(p["x"], p["y"], p["std"]) for p in points] == [(1, 3, 0.5), (2, None, None)]
    assert json.dumps(data, allow_nan=False)
