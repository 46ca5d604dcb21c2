"""Results are kept with what they belong to, and nothing else is mixed with them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from vinets.runs.setup import Identity
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import IdealFacts, Trial, TrialResult

TRIAL = Trial(network="net", cut="relu1", task="ideals")
FACTS = IdealFacts(9, 8, 7, 0.5, 6, 5, 0.1, {"0.0": 5}, {"0": 3})
RECORD = TrialRecord(TRIAL, TrialResult(0.5, (2, 4), ideals=FACTS), {"torch": "2"}, 1.5)
NOW = {"net": Identity("weights", "data")}


def test_what_was_written_is_read_also_by_others_and_the_last_of_two_lines_counts(tmp_path):
    store, other = Store(tmp_path), Store(tmp_path)
    assert store.missing([TRIAL, TRIAL]) == other.missing([TRIAL]) == [TRIAL]
    store.write(RECORD)
    assert store.missing([TRIAL]) == other.missing([TRIAL]) == []
    assert store.record(TRIAL) == RECORD and other.read(TRIAL) == RECORD.result
    assert [*store.records()] == [RECORD] and len(store) == 1
    (line,) = (tmp_path / "trials.jsonl").read_text().splitlines()
    values = json.loads(line)
    assert (values["name"], values["trial"]) == (TRIAL.name, TRIAL.changes)  # these only
    store.write(TrialRecord(TRIAL, RECORD.result, {}, 2.0))
    assert other.record(TRIAL).took == 2.0 and len(other) == 1


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_line_that_was_cut_short_is_no_result_and_the_trial_is_repeated(tmp_path, share):
    store, other = Store(tmp_path), TRIAL.change(seed=1)
    for trial in (TRIAL, other):
        store.write(TrialRecord(trial, RECORD.result, {}))
    lines = store.path.read_bytes().splitlines(keepends=True)
    store.path.write_bytes(lines[0] + lines[1][: int(share * len(lines[1]))])
    assert store.missing([TRIAL, other]) == [other]
    store.write(TrialRecord(other, RECORD.result, {}))
    again = Store(tmp_path)
    assert again.missing([TRIAL, other]) == [] and len(again) == 2
    assert again.read(other) == again.read(TRIAL) == RECORD.result


def test_broken_lines_leave_the_others(tmp_path):
    store = Store(tmp_path)
    lines = ["[]", "{}", "3", '{"name": []}', "[" * 100_000, "\0\ufffd", ""]
    tmp_path.joinpath("trials.jsonl").write_text("\n".join(lines))
    store.write(RECORD)
    assert store.read(TRIAL) == RECORD.result and len(store) == 1


@pytest.mark.parametrize("result", [None, [], {"ideals": 3}, {"cutt": 3}])
def test_a_line_that_holds_no_result_is_one_sentence(tmp_path, result):
    line = json.dumps({"name": TRIAL.name, "trial": TRIAL.changes, "result": result})
    tmp_path.joinpath("trials.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"does not hold the result of the trial.*Delete its line"):
        Store(tmp_path).read(TRIAL)


APPEND = """
import sys
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import Trial, TrialResult
store = Store(sys.argv[1])
for k in range(100):
    trial = Trial(network="n" * 3000, cut=sys.argv[2], task="ideals", seed=k)
    store.write(TrialRecord(trial, TrialResult(), {}))
"""


def test_two_processes_append_at_once(tmp_path):
    store, words = Store(tmp_path), [sys.executable, "-c", APPEND, str(tmp_path)]
    both = [subprocess.Popen([*words, cut]) for cut in ("a", "b")]
    assert [one.wait() for one in both] == [0, 0] and len(store) == 200
    # A line that is being written looks like one that was cut short: an empty one may follow it.
    lines = [json.loads(line) for line in store.path.read_text().split("\n") if line]
    assert len(lines) == 200


def test_results_of_an_earlier_version_are_refused_with_how_to_rewrite_them(tmp_path):
    (tmp_path / "trials").mkdir()
    Store(tmp_path)  # a folder of that name alone is no store
    (tmp_path / "trials" / "a.json").write_text("{}")
    with pytest.raises(ValueError, match=r"of version 0\.2.*python -m benchmarks\.convert .* or"):
        Store(tmp_path)


@pytest.mark.parametrize(
    ("now", "other", "named"),
    [
        (NOW["net"], Identity("others", "data"), "other weights"),
        (NOW["net"], Identity("weights", "others"), "other data"),
        (NOW["net"], Identity("others", "others"), "other weights and other data"),
        (Identity("w", "d", form="a"), Identity("w", "d", form="b"), "other shapes"),
    ],
)
def test_results_of_other_data_or_weights_are_refused(tmp_path, now, other, named):
    store = Store(tmp_path)
    for _ in range(2):
        store.claim([TRIAL], {"net": now})
    store.claim([TRIAL.change(psi=0.2)], {"another": other})  # beside it there is room
    with pytest.raises(ValueError, match=rf"holds results of net with {named}\. Choose"):
        store.claim([TRIAL], {"net": other})
    older = Store(tmp_path / "older")  # an earlier release did not write shapes down
    older.claim([TRIAL], NOW)
    older.claim([TRIAL], {"net": Identity("weights", "data", form="a")})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"psi": 0.2}, "psi"),
        ({"components": 4, "seed": 1}, "components, seed"),
        ({"cut": "relu2"}, "cut"),
    ],
)
def test_a_folder_is_saved_into_with_one_setting(tmp_path, change, named):
    store, trial = Store(tmp_path), TRIAL.change(task="train", save="here")
    store.claim([trial], NOW)
    store.claim([trial, trial.change(save="there", psi=0.3)], NOW)
    with pytest.raises(ValueError, match=rf"other settings: they differ in {named}\. Choose"):
        store.claim([trial.change(**change)], NOW)
    with pytest.raises(ValueError, match="Two trials save their networks in 'here'"):
        store.claim([trial, trial.change(**change)], NOW)
