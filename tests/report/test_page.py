from __future__ import annotations

from html.parser import HTMLParser

import pytest

from vinets.report.page import (
    Markup,
    beside,
    code,
    facts,
    figure,
    listing,
    page,
    paragraph,
    section,
    table,
)

NASTY = '<script>alert("1 & 2")</script>'
VOID = {"meta", "br", "img", "hr", "link"}


class Reader(HTMLParser):
    """Checks that elements close in order, and collects text and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.attributes: list[str | None] = []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [value for _, value in attrs]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


BLOCKS = {
    "paragraph": lambda text: paragraph(text),
    "listing": lambda text: listing([text]),
    "facts": lambda text: facts([(text, text, text)]),
    "table": lambda text: table(text, [text, text], [[text, text]], marked=[0]),
    "figure": lambda text: figure(Markup("<svg></svg>"), text, wide=True),
    "code": lambda text: code(text, text),
    "section": lambda text: section(text, paragraph("inside")),
    "beside": lambda text: beside(paragraph(text), paragraph(text)),
    "page": lambda text: page(text, [paragraph(text)], [section(text)], text),
}


@pytest.mark.parametrize("block", BLOCKS)
def test_text_comes_out_as_it_went_in_and_never_as_markup(block):
    found = read(BLOCKS[block](NASTY))
    assert NASTY in found.text
    assert "script" not in found.tags


def test_a_label_is_escaped_inside_its_attribute():
    assert NASTY in read(code("x", NASTY)).attributes
    assert NASTY in read(table(NASTY, ["a"], [])).attributes


def test_a_page_brings_its_style_and_loads_nothing():
    found = page("Title", [], [], "end")
    assert "prefers-color-scheme: dark" in found
    for loading in ("http:", "https:", "url(", "@import", "<link", "<script", "src="):
        assert loading not in found


def test_a_table_has_a_row_for_every_row_and_refuses_ragged_ones():
    found = read(table("t", ["", "a"], [["x", "1"], ["y", "2"]], marked=[1]))
    assert found.tags.count("tr") == 3 and found.tags.count("td") == 2
    assert found.attributes.count("marked") == 1
    with pytest.raises(ValueError, match=r"Row 1 of the table 't' must have 2 cells\. Got 1"):
        table("t", ["", "a"], [["x", "1"], ["y"]])
