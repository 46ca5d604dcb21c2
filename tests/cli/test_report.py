from __future__ import annotations

import json
from pathlib import Path

import pytest

from vinets.core.plain import as_plain
from vinets.report import Column, ExperimentResult, Row, Table


@pytest.fixture
def results(tmp_path) -> Path:
    table = Table("t", "Sizes", (Column("model"),), (Row({"model": "VI-Net"}),))
    found = ExperimentResult("table-sizes", "Sizes of networks", tables=(table,))
    (tmp_path / "table-sizes.json").write_text(json.dumps(as_plain(found)))
    return tmp_path


def test_it_writes_the_page_into_the_folder_and_prints_its_path(call, results):
    done = call("report", results)
    assert (done.code, done.out, done.err) == (0, f"{results / 'report.html'}\n", "")
    text = (results / "report.html").read_text("utf-8")
    assert "Sizes of networks" in text and text.startswith("<!doctype html>")
    call("report", results)  # its own page is no result


def test_title_and_file_can_be_chosen(call, results):
    page = results / "new" / "page.html"
    done = call("report", results, "--out", page, "--title", "A & B", "--json")
    assert done.json() == {"page": str(page), "experiments": ["table-sizes"]}
    assert "<h1>A &amp; B</h1>" in page.read_text("utf-8")
    assert not (results / "report.html").exists()


def test_text_that_no_encoding_can_hold_is_written_all_the_same(call, results):
    (results / "x.json").write_text('{"experiment": "x", "title": "a \\ud800 b"}')
    call("report", results)
    assert "a ? b" in (results / "report.html").read_text("utf-8")
