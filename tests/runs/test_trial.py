"""What identifies a trial, and how settings are changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, make_dataclass, replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinets.core.plain import as_plain, changes, from_plain
from vinets.core.settings import LatentOptions, TrainingOptions
from vinets.heads import HEADS, ProductsOptions, VanishingOptions
from vinets.networks.build import rival_options
from vinets.runs.trial import Trial, TrialResult, trial_from

TRIALS = st.builds(
    lambda cut, psi, keep, epochs, seed: Trial(cut=cut).change(
        psi=psi, keep=keep, epochs=epochs, seed=seed
    ),
    st.sampled_from(["relu1", "layer2.1.bn2", 3]),
    st.floats(0, 0.99),
    st.none() | st.integers(1, 99) | st.floats(0.01, 1.0),
    st.integers(1, 50),
    st.integers(0, 5),
)


def made_again(trial):
    return trial_from(json.loads(json.dumps(trial.changes)))


@given(TRIALS, TRIALS)
def test_trials_are_made_again_from_their_changes_and_told_apart_by_name(one, other):
    assert made_again(one) == one
    assert (one.name == other.name) == (one == other)


@pytest.mark.parametrize("head", HEADS)
def test_a_trial_of_any_head_is_made_again_from_its_changes(head):
    trial = Trial.of(head, cut="relu1", epochs=3)
    likes = [(kind, rival_options(kind, head, trial.options)) for kind in HEADS[head].rivals]
    for one in (trial, *(replace(trial, head=kind, options=options) for kind, options in likes)):
        assert made_again(one) == one


def test_what_has_its_default_or_changes_no_result_does_not_identify():
    assert Trial().changes == {}
    assert Trial(options=VanishingOptions(keep=4)).changes == {"options": {"keep": 4}}
    assert Trial().change(keep=128, psi=0.1) == Trial()
    assert Trial(latents=LatentOptions(batch_size=8, memory_limit=1)).name == Trial().name
    assert Trial(latents=LatentOptions(per_class=8)).name != Trial().name


def test_a_new_field_orphans_nothing():
    """A class with one field more, whose default does what was done before, hashes the same."""
    wider = make_dataclass(
        "Wider", [("brand_new", int, field(default=7))], bases=(ProductsOptions,), frozen=True
    )
    assert changes(wider(factors=4)) == changes(ProductsOptions(factors=4))
    assert changes(wider(factors=4, brand_new=8)) == {"factors": 4, "brand_new": 8}


def test_a_trial_of_a_head_has_what_suits_the_head():
    trial = Trial.of("products", factors=3, epochs=2)
    assert trial.options == ProductsOptions(factors=3)
    brought = dict(HEADS["products"].training_defaults) | {"epochs": 2}
    assert trial.recipe == TrainingOptions(**brought)
    assert trial.latents == LatentOptions(**HEADS["products"].latent_defaults(trial.options))
    assert Trial.of("vanishing", per_class=9).latents == LatentOptions(per_class=9, reuse=True)


def test_another_head_starts_from_its_own_defaults():
    trial = Trial().change(keep=4, epochs=3).change(head="products", factors=3)
    assert (trial.options, trial.recipe.epochs) == (ProductsOptions(factors=3), 3)
    with pytest.raises(TypeError, match="no option 'factors'"):
        Trial().change(factors=3)


def test_changes_reach_the_setting_that_has_the_option():
    trial = Trial(cut="a").change(cut="b", epochs=3, components=9, views=2, train=5, repeats=1)
    assert (trial.cut, trial.recipe.epochs, trial.options.components) == ("b", 3, 9)
    assert (trial.recipe.views, trial.sampling.train, trial.timing.repeats) == (2, 5, 1)
    kept = trial.change(recipe=replace(trial.recipe, momentum=0.5), epochs=4).recipe
    assert (kept.momentum, kept.epochs) == (0.5, 4)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epoch": 3}, TypeError, r"no option 'epoch'. Did you mean 'epochs'"),
        ({"epochs": -1}, ValueError, r"'epochs' parameter of Trial must be a positive integer"),
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
        ({"latents": {"per_clas": 3}}, r"latents: 'per_clas' is not known here.*'per_class'"),
        ({"latents": {"per_class": []}}, r"latents: per_class must be"),
        ({"seed": 1.5}, r"seed must be a whole number. Got 1.5"),
        ({"recipe": {"epochs": -1}}, r"recipe: The 'epochs' parameter of TrainingOptions"),
    ],
)
def test_broken_files_are_named_with_the_place(values, message):
    with pytest.raises(ValueError, match=f"file: {message}"):
        from_plain(Trial, values, "file")
    with pytest.raises(ValueError, match="file must be an object"):
        from_plain(Trial, [], "file")


def test_a_section_that_is_not_there_is_one_sentence():
    for section in ("trained", "found", "estimated", "timed", "complexity"):
        with pytest.raises(ValueError, match="result of a trial in which no"):
            getattr(TrialResult(), section)


@dataclass(frozen=True)
class _Nested:
    REMOVED: ClassVar = ("old",)

    number: float | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    table: dict[int, float] | None = None


def test_values_survive_json_with_their_types_and_fields_of_older_versions_are_passed_over():
    one = _Nested(float("inf"), (("a", 1),), {3: 0.5})
    back = from_plain(_Nested, json.loads(json.dumps(as_plain(one))))
    assert back == _Nested(None, (("a", 1),), {3: 0.5})
    assert from_plain(_Nested, {"number": 1.0, "old": {"whatever": []}}) == _Nested(1.0)
    with pytest.raises(ValueError, match="'older' is not known here"):
        from_plain(_Nested, {"older": 1})


@pytest.mark.parametrize("place", ["../elsewhere", "/tmp/elsewhere", "a/../../b"])
def test_networks_lie_inside_the_folder_of_the_results(place):
    with pytest.raises(ValueError, match="a folder inside that of the results"):
        trial_from({"save": place})
    with pytest.raises(ValueError, match="a folder inside that of the results"):
        trial_from({"task": "speed", "compared": [["net", place]]})
