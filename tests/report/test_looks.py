"""The page of the paper on every screen, and that ``looks`` notices what it is there to notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from looks import faults

from vinets.report.html import html
from vinets.report.values import Column, Notice, Page, Row, Section, Table

pytestmark = pytest.mark.pages
PAPER = Path(__file__).parents[2] / "benchmarks" / "results" / "paper" / "report.html"


def test_the_page_of_the_paper_suits_every_screen():
    assert faults(PAPER, rules=False) == []  # rules are tried on a shorter page with the same parts


@pytest.fixture(scope="module")
def page() -> str:
    columns = (Column("network"), *(Column(f"n{i}", f"number {i}", ",") for i in range(4)))
    rows = (Row({column.name: 10**6 for column in columns} | {"network": "VI-Net"}, marked=True),)
    table = Table("sizes", "Sizes", columns, rows)
    return html(Page("Sizes", (Notice("Only a test."),), (Section("All", (table,)),)))


def told(page: str, tmp_path: Path) -> str:
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    return "\n".join(faults(path))


def test_a_plain_page_has_no_faults(page, tmp_path):
    assert told(page, tmp_path) == ""


FAULTS = {
    '<div style="width: 1500px">wide</div>': "1400 px, light: the page is 1",
    '<p style="color: #999">pale</p>': "390 px, light: axe color-contrast",
    '<p style="width: 3em; overflow: hidden; white-space: nowrap">too long</p>': 'cut off: p "too',
    '<svg width="60" height="20"><text x="40" y="15">Accuracy</text></svg>': "cut off: text",
    '<svg><text y="15" style="fill: #666">grey</text></svg>': "1400 px, dark: contrast",
    '<figure id="f"><svg><text y="9">3</text><text x="2" y="9">4</text></svg></figure>': "on each",
    "<img src='data:,'>": "axe image-alt",
    f"<div class='scroll'><table><tr><td>{'x' * 500}</td></tr></table></div>": "a table hides",
}


def test_faults_are_noticed(page, tmp_path):
    found = told(page.replace("</main>", f"{''.join(FAULTS)}</main>"), tmp_path)
    assert [fault for fault in FAULTS.values() if fault not in found] == []
