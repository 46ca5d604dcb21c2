"""Reads a page of HTML: is it well formed, what do its tables and texts hold?"""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "hr", "link"}


class ReadPage(HTMLParser):
    """Elements close in order; cells of tables row by row, texts, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append(data)
        if "tr" in self.open and self.rows[-1]:
            self.rows[-1][-1] += f" {data}" if self.open[-1] in ("abbr", "small") else data

    def values(self, name: str) -> list[str | None]:
        """All values of an attribute."""
        return [value for key, value in self.attributes if key == name]


def loads_nothing(text: str) -> bool:
    """Whether the page is one file that asks for no other and runs nothing."""
    return not re.search(r"https?:|@import|<link|<iframe|<script|url\((?!#)|src=", text)
