"""Results are kept with what they belong to, and nothing else is mixed with them."""

from __future__ import annotations

import json

import pytest

from vinets.runs.setup import Identity
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import IdealFacts, Trial, TrialResult

TRIAL = Trial(network="net", cut="relu1", task="ideals")
FACTS = IdealFacts(9, 8, 7, 0.5, 6, 5, 0.1, {"0.0": 5}, {"0": 3})
RECORD = TrialRecord(TRIAL, TrialResult(0.5, (2, 4), ideals=FACTS), {"torch": "2"}, 1.5)
NOW = {"net": Identity("weights", "data")}


def test_what_was_written_is_read(tmp_path):
    store = Store(tmp_path)
    assert store.missing([TRIAL, TRIAL]) == [TRIAL]
    store.write(RECORD)
    assert store.missing([TRIAL]) == []
    assert store.record(TRIAL) == RECORD and store.read(TRIAL) == RECORD.result
    assert [p.name for p in (tmp_path / "trials").iterdir()] == [f"{TRIAL.name}.json"]


def test_a_file_has_the_changes_only(tmp_path):
    Store(tmp_path).write(RECORD)
    (path,) = (tmp_path / "trials").iterdir()
    assert json.loads(path.read_text())["trial"] == TRIAL.changes


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"trial": {"cutt": 3}}', "[" * 100_000])
def test_a_broken_file_is_one_sentence(tmp_path, text):
    store = Store(tmp_path)
    store.write(RECORD)
    store.path(TRIAL).write_text(text)
    with pytest.raises(ValueError, match=r"does not hold the result of a trial.*Delete it"):
        store.read(TRIAL)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Identity("others", "data"), "other weights"),
        (Identity("weights", "others"), "other data"),
        (Identity("others", "others"), "other weights and other data"),
    ],
)
def test_results_of_other_data_or_weights_are_refused(tmp_path, other, named):
    store = Store(tmp_path)
    store.claim([TRIAL], NOW)
    store.claim([TRIAL], NOW)
    store.claim([TRIAL], {"another": other})  # beside it there is room
    with pytest.raises(ValueError, match=rf"holds results of net with {named}\. Choose"):
        store.claim([TRIAL], {"net": other})


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


def test_what_is_not_saved_may_differ(tmp_path):
    store = Store(tmp_path)
    store.claim([TRIAL], NOW)
    store.claim([TRIAL.change(psi=0.2)], NOW)


def test_shapes_count_where_they_were_written_down(tmp_path):
    store, now = Store(tmp_path), Identity("weights", "data", form="a")
    store.claim([TRIAL], NOW)  # as an earlier release did
    store.claim([TRIAL], {"net": now})
    with pytest.raises(ValueError, match="net with other shapes"):
        store.claim([TRIAL], {"net": Identity("weights", "data", form="b")})


def test_two_trials_do_not_save_into_one_folder(tmp_path):
    both = [Trial(network="net", cut=cut, save="there") for cut in ("relu1", "relu2")]
    with pytest.raises(ValueError, match="Two trials save their networks in 'there'"):
        Store(tmp_path).claim(both, NOW)
