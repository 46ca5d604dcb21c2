from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from vinets.models import digits_cnn, save_weights
from vinets.pipeline.setup import SetupFiles
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial
from vinets.pipeline.trial_list import read_list, write_list
from vinets.pipeline.trials import run_trials
from vinets.run import main

VI = Trial(network="small", cut="relu3").change(
    components=8, keep=4, monomials=32, max_degree=2, per_class=20, epochs=1, train=40, test=10
)
TRIALS = [VI, replace(VI, head="linear"), replace(VI, task="ideals")]


@pytest.fixture(scope="module")
def networks(tmp_path_factory) -> dict[str, SetupFiles]:
    weights = tmp_path_factory.mktemp("run") / "weights.safetensors"
    torch.manual_seed(0)
    save_weights(digits_cnn(), weights)
    return {"small": SetupFiles("digits_cnn", str(weights), "digits")}


@pytest.fixture
def plan(networks, tmp_path):
    return write_list(tmp_path / "plan.json", networks, TRIALS)


def timeless(store: Store) -> list[object]:
    """What the trials gave, without what a clock says."""
    found = []
    for trial in TRIALS:
        result = store.read(trial)
        if result.training is not None:
            result = replace(result, training=replace(result.training, seconds=0.0))
        if result.ideals is not None:
            result = replace(result, ideals=replace(result.ideals, seconds=0.0))
        found.append(result)
    return found


def test_a_list_survives_its_file_and_holds_what_differs_from_defaults(plan, networks):
    found = read_list(plan)
    assert (found.networks, found.trials) == (networks, tuple(TRIALS))
    stored = json.loads(plan.read_text())["trials"]
    assert stored[0] == VI.changes and "recipe" in stored[0]
    assert stored[1].items() > stored[0].items()


def test_a_trial_that_is_listed_twice_is_one(networks, tmp_path):
    path = write_list(tmp_path / "plan.json", networks, [VI, VI])
    assert read_list(path).trials == (VI,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cutt": "relu3"}, "trials[1]: 'cutt' is not known here. Did you mean 'cut'?"),
        ({"recipe": {"epoch": 3}}, "trials[1]: recipe: 'epoch' is not known here."),
        ({"finding": {"psi": 1.5}}, "trials[1]: finding: The 'psi' parameter of Finding must be"),
        ({"seed": "zero"}, "trials[1]: seed must be a whole number. Got 'zero' instead."),
        ({"task": "cook"}, "trials[1]: The 'task' parameter of Trial must be one of"),
        ({"network": "other"}, "A trial is about the network 'other'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(plan, tmp_path, capsys, change, message):
    values = json.loads(plan.read_text())
    values["trials"][1] |= change
    plan.write_text(json.dumps(values))
    assert main([str(plan), "--out", str(tmp_path / "out"), "--device", "cpu"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("Error: ") and told.count("\n") == 1
    assert message in told
    assert not (tmp_path / "out" / "trials").exists()


def test_what_cannot_be_read_is_refused_in_one_sentence(networks, plan, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main([str(tmp_path / "nothing.json"), *out]) == 2
    (tmp_path / "torn.json").write_text("{")
    assert main([str(tmp_path / "torn.json"), *out]) == 2
    assert main([str(plan), "--out", str(tmp_path / "out"), "--device", "tpu"]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_the_results_are_those_of_the_library_and_are_not_repeated(
    plan, networks, tmp_path, monkeypatch, capsys
):
    ours, theirs = Store(tmp_path / "ours"), Store(tmp_path / "theirs")
    run_trials(TRIALS, networks, theirs, progress=None)
    words = [str(plan), "--out", str(ours.folder), "--device", "cpu"]
    assert main(words) == 0
    assert timeless(ours) == timeless(theirs)
    assert "3 trials" in capsys.readouterr().out
    # Stopped after two: what is there stays as it is, and the third is made again.
    kept = [ours.path(trial).read_text() for trial in TRIALS]
    ours.path(TRIALS[1]).unlink()
    assert main(words) == 0
    again = [ours.path(trial).read_text() for trial in TRIALS]
    assert (again[0], again[2]) == (kept[0], kept[2])
    assert timeless(ours) == timeless(theirs)
    monkeypatch.setattr("vinets.pipeline.trials.run_at_cut", lambda *_: pytest.fail("repeated"))
    assert main(words) == 0


def test_results_of_other_weights_are_refused(plan, networks, tmp_path, capsys):
    words = [str(plan), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main(words) == 0
    other = tmp_path / "other.safetensors"
    torch.manual_seed(1)
    save_weights(digits_cnn(), other)
    write_list(plan, {"small": replace(networks["small"], weights=str(other))}, TRIALS)
    assert main(words) == 2
    assert "with other weights" in capsys.readouterr().err


def test_no_package_of_the_command_line_is_needed():
    """Machines without typer and rich can carry out trials."""
    script = (
        "import sys; sys.modules['typer'] = sys.modules['rich'] = None;"
        "from vinets.run import main; main(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and "--jobs" in done.stdout
