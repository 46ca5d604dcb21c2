"""Plans of joint tuning run by name, into the stores that are committed, and once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import tuning
from vinets.models import digits_cnn, save_weights
from vinets.runs.store import Store
from vinets.runs.trial import Trial

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
    trials = [
        Trial(network="digits_cnn", cut="relu3", head="linear", seed=seed).change(**few)
        for seed in range(2)
    ]
    monkeypatch.setitem(tuning.PLANS, "early", lambda: trials)
    out = tmp_path / "out"
    words = ["run", "early", "--weights", str(tmp_path), "--out", str(out), "--device", "cpu"]
    assert tuning.main(words) == 0
    assert Store(out).missing(trials) == [] and "2 trials" in capsys.readouterr().out
    monkeypatch.setattr("vinets.runs.run.TASKS", {})  # nothing is repeated
    assert tuning.main(words) == 0
