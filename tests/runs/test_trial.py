"""What identifies a trial, and how settings are changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, make_dataclass, replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinets.core.plain import as_plain, changes, from_plain
from vinets.core.settings import LatentOptions, Pruning
from vinets.runs.trial import Trial, TrialResult

TRIALS = st.builds(
    lambda cut, psi, keep, epochs, seed: Trial(cut=cut).change(
        psi=psi, keep=keep, epochs=epochs, seed=seed
    ),
    st.sampled_from(["relu1", "layer2.1.bn2", 3]),
    st.floats(0, 0.99),
    st.none() | st.just("auto") | st.integers(1, 99) | st.floats(0.01, 1.0),
    st.integers(1, 50),
    st.integers(0, 5),
)


@given(TRIALS)
def test_a_trial_is_made_again_from_its_changes(trial):
    kept = json.loads(json.dumps(trial.changes))
    assert from_plain(Trial, kept) == trial
    assert from_plain(Trial, as_plain(trial)) == trial


@given(TRIALS, TRIALS)
def test_names_tell_trials_apart(one, other):
    assert (one.name == other.name) == (one == other)


def test_what_has_its_default_does_not_identify():
    assert Trial().changes == {}
    assert Trial(pruning=Pruning(keep=4)).changes == {"pruning": {"keep": 4}}
    assert Trial().change(keep="auto", psi=0.1) == Trial()


def test_a_new_field_orphans_nothing():
    """A class with one field more, whose default does what was done before, hashes the same."""
    wider = make_dataclass(
        "Wider", [("brand_new", int, field(default=7))], bases=(Pruning,), frozen=True
    )
    assert changes(wider(keep=4)) == changes(Pruning(keep=4))
    assert changes(wider(keep=4, brand_new=8)) == {"keep": 4, "brand_new": 8}


def test_what_changes_no_result_does_not_identify():
    same = Trial(collecting=LatentOptions(batch_size=8, memory_limit=1))
    assert same.name == Trial().name
    assert Trial(collecting=LatentOptions(per_class=8)).name != Trial().name


def test_changes_reach_the_setting_that_has_the_option():
    trial = Trial(cut="a").change(cut="b", epochs=3, components=9, views=2, train=5, repeats=1)
    assert (trial.cut, trial.recipe.epochs, trial.projecting.components) == ("b", 3, 9)
    assert (trial.caching.views, trial.sampling.train, trial.timing.repeats) == (2, 5, 1)
    kept = trial.change(recipe=replace(trial.recipe, momentum=0.5), epochs=4).recipe
    assert (kept.momentum, kept.epochs) == (0.5, 4)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epoch": 3}, TypeError, r"no option 'epoch'. Did you mean 'epochs'"),
        (
            {"epochs": -1},
            ValueError,
            r"'epochs' parameter of Trial must be an integer of at least 0",
        ),
        ({"psi": 1.5}, ValueError, r"'psi' parameter of Trial must be a number in \[0, 1\)"),
        ({"task": "sing"}, ValueError, r"'task' parameter of Trial"),
    ],
)
def test_other_changes_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        Trial().change(**change)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"pruning": {"keeep": 3}},
            r"file: pruning: 'keeep' is not known here.*'keep'",
        ),
        ({"pruning": {"keep": []}}, r"file: pruning: keep must be"),
        ({"seed": 1.5}, r"file: seed must be a whole number. Got 1.5"),
        ({"recipe": {"epochs": -1}}, r"file: recipe: The 'epochs' parameter of TrainingOptions"),
        ([], r"file must be an object"),
    ],
)
def test_broken_files_are_named_with_the_place(values, message):
    with pytest.raises(ValueError, match=message):
        from_plain(Trial, values, "file")


@pytest.mark.parametrize("section", ["trained", "found", "estimated", "timed"])
def test_a_section_that_is_not_there_is_one_sentence(section):
    with pytest.raises(ValueError, match="result of a trial in which no"):
        getattr(TrialResult(), section)


@dataclass(frozen=True)
class _Nested:
    REMOVED: ClassVar = ("old",)

    number: float | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    table: dict[int, float] | None = None


def test_values_survive_json_with_their_types():
    one = _Nested(float("inf"), (("a", 1),), {3: 0.5})
    back = from_plain(_Nested, json.loads(json.dumps(as_plain(one))))
    assert back == _Nested(None, (("a", 1),), {3: 0.5})


def test_fields_of_older_versions_are_passed_over_and_unknown_ones_are_not():
    assert from_plain(_Nested, {"number": 1.0, "old": {"whatever": []}}) == _Nested(1.0)
    with pytest.raises(ValueError, match="'older' is not known here"):
        from_plain(_Nested, {"older": 1})
