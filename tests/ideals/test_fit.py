"""What a report prints is what it counts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from vinets.ideals.fit import DegreeReport, FitReport

REPORT = FitReport(
    seconds=0.125,
    n_points=30,
    n_variables=2,
    n_terms=3,
    n_generators=4,
    degrees=(DegreeReport(1, 2, 1, 1, 0.5), DegreeReport(2, 4, 1, 3, 0.25)),
    path="gram",
    device="cpu",
    precision="float64",
)


def test_one_line_a_degree_under_a_headline():
    head, title, *rows = str(REPORT).splitlines()
    assert head == "4 generators, 3 terms; 30 points in 2 variables; 0.125 s, cpu, gram path"
    assert title.split() == ["degree", "border", "accepted", "generators", "seconds"]
    assert [row.split() for row in rows] == [
        ["1", "2", "1", "1", "0.5"],
        ["2", "4", "1", "3", "0.25"],
    ]
    assert len({len(line) for line in (title, *rows)}) == 1  # columns stand under each other


def test_what_was_left_out_and_what_the_oracle_did_get_a_line_each():
    log = {"kept": 5, "rows": 7, "status": {"target": 5, "stalled": 2}}
    full = replace(REPORT, held_out=[0.1, 0.5, 0.25], oracle=log, steps=90, nonzeros=12)
    lines = str(full).splitlines()
    assert lines[-2] == "largest mean square on the points left out: 0.5"
    told = "oracle: 5 of 7 solutions kept, 5 target, 2 stalled; 90 steps, 12 non-zero coefficients"
    assert lines[-1] == told
    assert REPORT.closed_under_division and REPORT.oracle == {} and REPORT.held_out == []


def test_reports_cannot_be_changed_and_their_repr_stays_short():
    for report, name in ((REPORT, "seconds"), (REPORT.degrees[0], "border")):
        with pytest.raises(FrozenInstanceError):
            setattr(report, name, 1)
    assert "held_out" not in repr(replace(REPORT, held_out=[0.1] * 1000))
