"""The verdicts, on the results in the repository and on results that say otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vinets.experiments import claims
from vinets.experiments.backbones import RESNET34
from vinets.experiments.plan import Plan
from vinets.experiments.reproduce import EXPERIMENTS
from vinets.experiments.runs import FULL, Store
from vinets.report import schema

PAPER = Path(__file__).parents[2] / "benchmarks" / "results" / "paper"
PARTS = ("text", "tables", "figures", "notes")


@pytest.fixture(scope="module")
def store():
    return Store(PAPER, FULL)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_results_in_the_repository_follow_from_its_runs(store, name):
    made = EXPERIMENTS[name].result(Plan(), store)
    expected = schema.Experiment(name, name, **made).to_dict()
    written = json.loads((PAPER / f"{name}.json").read_text())
    assert {part: written[part] for part in PARTS} == {part: expected[part] for part in PARTS}


def test_no_run_in_the_repository_is_without_use(store):
    used = {store.path(run) for each in EXPERIMENTS.values() for run in each.runs(Plan())}
    assert used == set((PAPER / "runs").iterdir())


@pytest.mark.parametrize(
    ("check", "figure", "name"),
    [
        (claims._above_random, "truncation-cifar100", "VI-Net"),
        (claims._above_mlp, "truncation-cifar100", "VI-Net"),
        (claims._half, "truncation-cifar100", "VI-Net"),
        (claims._moderate, "pruning-cifar100-abm", "50% pruned"),
        (claims._above_linear, "rivals-cifar100", "VI-Net"),
    ],
)
def test_verdicts_follow_the_figures(store, monkeypatch, check, figure, name):
    """Twenty points more or less decide every verdict."""
    original = claims.Results.figure

    def moved(by):
        def changed(self, experiment, wanted):
            found = original(self, experiment, wanted)
            if wanted == figure:
                found[name] = {x: y + by for x, y in found[name].items()}
            return found

        return changed

    monkeypatch.setattr(claims.Results, "rows", _without_seeds)
    monkeypatch.setattr(claims.Results, "figure", moved(+20))
    assert check(claims.Results(Plan(), store), RESNET34)[1] == "yes"
    monkeypatch.setattr(claims.Results, "figure", moved(-20))
    assert check(claims.Results(Plan(), store), RESNET34)[1] == "no"


_rows = claims.Results.rows


def _without_seeds(self, experiment, section):
    return [] if experiment.name == "fig-rivals" else _rows(self, experiment, section)
