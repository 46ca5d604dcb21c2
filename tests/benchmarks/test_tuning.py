"""Plans of joint tuning run by name, into the stores that are committed; tables show them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import tuning
from benchmarks.tuning_tables import early_table, variant_table
from vinets.models import digits_cnn, save_weights
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import TrainingFacts, Trial, TrialResult

COMPLETE = ("choices", "digits", "early", "rates", "variants")


@pytest.mark.parametrize("name", COMPLETE)
def test_a_plan_finds_its_committed_results(name, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    ran = []
    monkeypatch.setattr(tuning, "run_trials", lambda *given, **_: ran.append(given))
    assert tuning.main(["run", name, "--device", "cpu"]) == 0
    ((trials, networks, store),) = ran
    assert trials and store.missing(trials) == []
    assert {trial.network for trial in trials} <= networks.keys()


def test_a_plan_is_carried_out_once(tmp_path, monkeypatch, capsys):
    torch.manual_seed(0)
    save_weights(digits_cnn(), tmp_path / "digits_cnn_digits.safetensors")
    few = {"epochs": 1, "train": 20, "test": 5, "per_class": 5}
    trial = Trial(network="digits_cnn", cut="relu3", head="linear").change(**few)
    trials = [trial, trial.change(seed=1)]
    monkeypatch.setitem(tuning.PLANS, "early", lambda: trials)
    out = tmp_path / "out"
    words = ["run", "early", "--weights", str(tmp_path), "--out", str(out), "--device", "cpu"]
    assert tuning.main(words) == 0
    assert Store(out).missing(trials) == [] and "2 trials" in capsys.readouterr().out
    monkeypatch.setattr("vinets.runs.store.TASKS", {})  # nothing is repeated
    assert tuning.main(words) == 0


CUT = ("resnet18", "layer1.1.bn2")
ACCURACY = {"linear": 0.8, "products": 0.9}


def write(folder, trials, shift=0.0):
    for trial in trials:
        accuracy = ACCURACY[trial.head] + trial.seed / 100 + shift
        facts = TrainingFacts(accuracy, 0.93, 0.9, 0.1, {"backbone": 9, "head": 3}, 12.0)
        Store(folder).write(TrialRecord(trial, TrialResult(training=facts), {"torch": "T"}))


def planned():
    heads = [trial for trial in tuning.early() if (trial.network, trial.cut) == CUT]
    return [trial for trial in heads if trial.head in ACCURACY]


def rows(folder, key="head", table=early_table):
    return {row.values[key]: row for row in table(folder)[0].rows}


def test_a_head_is_shown_at_the_rate_that_is_planned(tmp_path, monkeypatch):
    monkeypatch.delitem(tuning.RATES, (CUT[0], "linear"))
    write(tmp_path, planned())
    monkeypatch.setitem(tuning.RATES, (CUT[0], "linear"), 0.03)
    write(tmp_path, planned(), shift=0.05)
    assert set(rows(tmp_path)) == {"linear, flat", "product head"}
    linear = rows(tmp_path)["linear, flat"].values
    assert linear["rate"] == 0.03 and linear["accuracy"] == pytest.approx(86)
    monkeypatch.delitem(tuning.RATES, (CUT[0], "linear"))
    linear = rows(tmp_path)["linear, flat"].values
    assert linear["rate"] == 0.1 and linear["accuracy"] == pytest.approx(81)


def test_leads_and_their_deviations_are_those_of_the_seeds(tmp_path):
    write(tmp_path, planned())
    linear, product = (rows(tmp_path)[head].values for head in ("linear, flat", "product head"))
    assert linear["behind"] == pytest.approx(10)
    assert linear["joint"] == pytest.approx(2**0.5)  # each deviates by 1
    assert product["delta"] == pytest.approx(91 - 93) and "behind" not in product


def test_variants_stand_beside_the_papers(tmp_path):
    write(tmp_path, [t for t in tuning.variants() if t.network == "resnet18"])
    found = rows(tmp_path, "network", variant_table)
    assert len(found) == 4 and found["VI-Net18-Tiny"].paper["delta"] == pytest.approx(88.62 - 92.89)
    assert found["VI-Net18-Tiny"].values["accuracy"] == pytest.approx(91)
