"""The results in the repository follow from its runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vinets.experiments.plan import Plan
from vinets.experiments.reproduce import EXPERIMENTS
from vinets.experiments.runs import FULL, Store
from vinets.plain import as_plain
from vinets.report import ExperimentResult

PAPER = Path(__file__).parents[2] / "benchmarks" / "results" / "paper"
PARTS = ("text", "tables", "figures", "notes")


@pytest.fixture(scope="module")
def store():
    return Store(PAPER, FULL)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_results_in_the_repository_follow_from_its_runs(store, name):
    made = EXPERIMENTS[name].result(Plan(), store)
    expected = as_plain(ExperimentResult(name, name, **made))
    written = json.loads((PAPER / f"{name}.json").read_text())
    assert {part: written[part] for part in PARTS} == {part: expected[part] for part in PARTS}


def test_no_run_in_the_repository_is_without_use(store):
    used = {store.path(run) for each in EXPERIMENTS.values() for run in each.runs(Plan())}
    assert used == set((PAPER / "runs").iterdir())
