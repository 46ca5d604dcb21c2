from __future__ import annotations

import builtins

import pytest
import torch

from vinets.report.terminal import as_characters, plain_table, print_table

COLUMNS = ["", "long-\nname", "total"]
ROWS = [["uncut", "1", "103,466"], ["VI-Net [b]", "22", "3"]]


@pytest.mark.parametrize("rich", [True, False])
def test_every_cell_is_printed_whole(rich, monkeypatch, capsys):
    if rich:
        pytest.importorskip("rich")
    else:
        plain_import = builtins.__import__

        def refuse(name, *args, **kwargs):
            if name.startswith("rich"):
                raise ImportError(name)
            return plain_import(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setenv("COLUMNS", "12")  # a terminal too narrow for the table
    print_table("Title", COLUMNS, ROWS, marked=[1])
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "Title" in lines
    for row in ROWS:
        assert any(all(cell in line for cell in row) for line in lines)


def test_plain_columns_are_aligned_and_headings_end_on_one_line():
    lines = plain_table(COLUMNS, ROWS).splitlines()
    assert [line.split() for line in lines[:2]] == [["long-"], ["name", "total"]]
    rows = lines[3:]
    assert {line.index(end) + len(end) for line, end in zip(rows, ["1 ", "22 "], strict=True)} == {
        len("VI-Net [b]  long- ")
    }
    assert len({len(line) for line in rows}) == 1


def test_characters_grow_with_the_grey_level():
    text = as_characters(torch.arange(10.0).view(2, 5))
    assert text == "  ..::--==\n++**##%%@@"
    assert as_characters(torch.zeros(1, 3)) == " " * 6
