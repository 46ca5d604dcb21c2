from __future__ import annotations

from vinets.report import Column, Row, Table, markdown


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
