"""The results in the repository follow from its trials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vinets.core.plain import as_plain
from vinets.paper.plan import EXPERIMENTS, Plan
from vinets.runs.setup import Identity
from vinets.runs.store import Store

PAPER = Path(__file__).parents[2] / "benchmarks" / "results" / "paper"
# They train on CIFAR with settings of their own, which no GPU has run yet.
UNCOMMITTED = ("fig-kept", "table-oracles")
COMMITTED = {name: one for name, one in EXPERIMENTS.items() if name not in UNCOMMITTED}


@pytest.fixture(scope="module")
def store():
    return Store(PAPER)


@pytest.mark.parametrize("name", [n for n, one in COMMITTED.items() if one.planned(Plan())])
def test_the_results_in_the_repository_follow_from_its_trials(store, name):
    made = as_plain(EXPERIMENTS[name].findings(Plan(), store))
    written = json.loads((PAPER / f"{name}.json").read_text())
    assert {part: written[part] for part in made} == made


def test_every_trial_in_the_repository_loads_and_is_used(store):
    lines = [json.loads(line) for line in store.path.read_text().splitlines()]
    names = [record.trial.name for record in store.records()]
    assert len(names) == 616 and names == [line["name"] for line in lines]
    used = {trial.name for each in COMMITTED.values() for trial in each.trials(Plan())}
    assert used == set(names)


def test_the_results_belong_to_some_weights_and_data(store):
    trials = EXPERIMENTS["table-efficiency"].trials(Plan())
    with pytest.raises(ValueError, match=r"resnet18 with other weights and other data\. Choose"):
        store.claim(trials, {"resnet18": Identity("mine", "mine")})


@pytest.mark.parametrize(("folder", "name"), [("oracles", "table-oracles"), ("kept", "fig-kept")])
def test_what_is_kept_in_other_folders_is_planned_and_has_no_result_here(folder, name):
    names = {record.trial.name for record in Store(PAPER.parent / folder).records()}
    assert names and names <= {trial.name for trial in EXPERIMENTS[name].trials(Plan())}
    assert name in UNCOMMITTED and not (PAPER / f"{name}.json").exists()
