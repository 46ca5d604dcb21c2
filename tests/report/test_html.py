from __future__ import annotations

import pytest
from pages import ReadPage, loads_nothing

from vinets.report import html, values
from vinets.report.values import Axis, Column, Drawing, Figure, Page, Row, Section, Series, Table

NASTY = "</script><script>alert('1 & 2')</script>"


def read(*blocks, **parts) -> ReadPage:
    return ReadPage(html(Page("Title", (), (Section("Part", blocks, **parts),))))


ROW = Row({NASTY: NASTY, "b": NASTY}, marked=True)
LINE = Series(NASTY, (1,), (2,), (NASTY,))
BLOCKS = {
    "text": NASTY,
    "bullets": values.Bullets((NASTY,)),
    "facts": values.Facts(((NASTY, NASTY, NASTY),)),
    "table": Table("t", NASTY, (Column(NASTY), Column("b")), (ROW,)),
    "settings": values.facts_table("t", NASTY, [(NASTY, NASTY)]),
    "code": values.Code(NASTY),
    "folded": values.Details(NASTY, (NASTY,)),
    "beside": values.Beside((NASTY, NASTY)),
    "figure": Figure(
        "f", NASTY, Axis(NASTY), Axis(NASTY), (LINE,), levels=(values.ReferenceLine(NASTY, 1),)
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_text_comes_out_as_it_went_in_and_never_as_markup(name):
    found = read(BLOCKS[name])
    assert NASTY in found.texts and "script" not in found.tags
    if name in ("table", "figure"):
        assert NASTY in found.values("aria-label")


def test_a_page_escapes_its_own_texts():
    page = ReadPage(html(Page(NASTY, (NASTY,), (Section(NASTY, (), "x", NASTY),), NASTY)))
    assert sum(NASTY in text for text in page.texts) == 8 and "script" not in page.tags


def test_a_page_brings_its_style_and_loads_nothing():
    figure = Figure("f", "F", Axis("x"), Axis("y"), (Series("s", (1, 2), (3, 4)),))
    text = html(Page("Title", (BLOCKS["bullets"], figure), (), "end"))
    assert text.startswith("<!doctype html>") and "prefers-color-scheme: dark" in text
    assert loads_nothing(text)


def test_sections_with_a_name_are_in_the_contents():
    named = Section("One", (BLOCKS["figure"],), "one", "Table 1")
    found = ReadPage(html(Page("Title", (), (named, Section("Two", ())))))
    links = [link for link in found.values("href") if not link.startswith("#one:")]
    assert links[:2] == ["#one", "#:contents"]
    names = found.values("id")
    assert names[:3] == [":contents", "one", "one:f"] and len(names) == len(set(names))
    assert "nav" not in read("no names").tags


def test_tables_have_ours_the_papers_and_the_difference_and_say_what_is_better():
    columns = (
        Column("model"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std", "higher"),
        Column("seconds", "", ",.1f", better="lower"),
        Column("size", "parameters", ","),
    )
    tiny = {"model": "Tiny", "accuracy": 88.404, "accuracy_std": 0.1, "seconds": 2, "size": 1234}
    large = {"model": "Large", "accuracy": 93.02, "seconds": None}
    rows = (
        Row(tiny, {"accuracy": 88.62, "seconds": 1002.0}, "CIFAR-10"),
        Row(large, {"accuracy": 93.02}, "CIFAR-10", marked=True),
        Row({"model": "Other", "accuracy": 71.0, "size": 5}, {}, "CIFAR-100"),
    )
    found = read(Table("sizes", "Sizes & speed", columns, rows))
    assert found.rows == [
        ["model", "accuracy %", "seconds", "parameters"],
        ["CIFAR-10"],
        ["Tiny", "88.40 ± 0.10 88.62  −0.22", "2.0 1,002.0  −1,000.0", "1,234"],
        ["Large", "93.02 93.02  0.00", "–", ""],
        ["CIFAR-100"],
        ["Other", "71.00", "", "5"],
    ]
    kinds = [kind for kind in found.values("class") if kind in ("loss", "gain", "marked")]
    assert kinds == ["loss", "gain", "marked"]


def test_a_verdict_is_more_than_a_word():
    columns = ["claim", Column("holds", better="yes")]
    rows = [["a", "yes"], ["b", False], ["c", "in 2 of 3"], ["d", "less"]]
    found = read(Table.from_rows("t", "T", columns, rows))
    kinds = [kind for kind in found.values("class") if kind and kind.startswith("verdict")]
    assert kinds == ["verdict yes", "verdict no", "verdict partly", "verdict"]


def test_cells_carry_their_headings_for_narrow_screens():
    columns = ["name", *(Column(f"c{i}", f"column {i}", ",") for i in range(4))]
    found = read(Table.from_rows("t", "T", columns, [["x", 1, 2, 3, 4]]))
    assert found.values("data-label") == [f"column {i}" for i in range(4)]
    assert "stack" in found.values("class")


def test_pictures_are_svg_and_the_data_of_a_figure_folded_below():
    pytest.importorskip("matplotlib")
    series = Series("VI-Net", (0, 1), (90.0, 80.0), marks=(1,))
    x = Axis("cut", names=("early", "late"))
    figure = Figure("f", "F", x, Axis("accuracy", format=".1f"), (series,), caption="Below.")
    drawing = Drawing("d", 'a "line"', "Caption.", lambda ax: ax.plot([1, 2]))
    found = read(figure, drawing)
    assert 'a "line"' in found.values("aria-label") and "Caption." in found.texts
    assert found.rows == [["cut", "VI-Net"], ["early", "90.0"], ["late", "80.0"]]
    assert found.tags.count("svg") == 2 and {"late", "VI-Net", "Below."} <= set(found.texts)
    assert "open" not in dict(found.attributes)


def test_without_matplotlib_the_data_are_open_and_the_page_says_why(monkeypatch):
    monkeypatch.setitem(html.__globals__, "can_draw", lambda: False)
    drawing = Drawing("d", "alt", "Caption.", lambda ax: None)
    figure = Figure("f", "F", Axis("x"), Axis("y"), (Series("s", (1,), (2,)),))
    found = read(values.Beside((drawing,)), figure)
    assert "svg" not in found.tags and "open" in dict(found.attributes)
    assert sum("vinets[plots]" in text for text in found.texts) == 1
    assert found.rows == [["x", "s"], ["1", "2"]]


def test_what_is_no_block_is_refused():
    with pytest.raises(TypeError, match="int is no block of a page"):
        html(Page("Title", (7,), ()))
