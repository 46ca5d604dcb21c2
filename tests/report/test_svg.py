from __future__ import annotations

import builtins
import re
from xml.etree import ElementTree

import pytest

from vinets.report.svg import INK, can_draw, drawing

pytest.importorskip("matplotlib")


def draw(ax):
    ax.plot([0, 1], [0, 1], "o-", label="line")
    ax.imshow([[0, 1], [1, 0]])
    ax.set(xlabel="across")
    ax.legend()


def test_a_drawing_is_one_element_that_says_what_it_shows():
    element = ElementTree.fromstring(drawing("a", 'a "line" & more', draw))
    assert element.tag == "svg"  # no name space
    assert element.get("role") == "img" and element.get("aria-label") == 'a "line" & more'
    assert any(text.text == "across" for text in element.iter("text"))


def test_a_drawing_loads_nothing_and_takes_the_colour_of_the_page():
    text = drawing("a", "alt", draw)
    assert not re.search(r"https?:|xmlns", text)
    targets = re.findall(r'href="([^"]{0,12})', text)
    assert targets and all(t.startswith(("#a-", "data:image/")) for t in targets)
    assert "currentColor" in text and INK not in text


def test_names_in_two_drawings_of_a_page_differ_and_references_hold():
    names = {}
    for name in ("a", "b"):
        text = drawing(name, "alt", draw)
        found = re.findall(r'\bid="([^"]*)"', text)
        assert len(found) == len(set(found))
        names[name] = set(found)
        used = set(re.findall(r'(?:url\(|href=")#([\w-]+)', text))
        assert used and used <= names[name]
    assert not names["a"] & names["b"]


def test_equal_drawings_are_equal_texts():
    assert drawing("a", "alt", draw) == drawing("a", "alt", draw)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    assert can_draw()
    plain_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"vinets\[plots\]"):
        drawing("a", "alt", draw)
