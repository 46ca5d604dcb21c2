"""What presets stand for."""

import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from vinets.core.settings import BEST, Shaping, TrialSettings
from vinets.models import PRESETS
from vinets.paper.paper import VARIANTS
from vinets.runs.presets import HEAD_PARAMETERS, settings_with, start_of
from vinets.runs.store import Store

ROOT = Path(__file__).parents[2]


GIVEN = {group.name: {} for group in fields(TrialSettings)}


def test_without_a_preset_it_is_the_papers_unless_products_are_asked_for():
    assert start_of("best") == start_of(None, placement="products")
    assert start_of("best").settings == BEST and BEST.tuning.tune == "all"
    for placement in (None, "global", "local"):
        assert start_of(None, placement=placement) == start_of("paper", placement=placement)


def test_the_paper_leaves_network_and_cut_open():
    start = start_of("Paper", "digits_cnn")
    assert (start.backbone, start.cut) == (None, None)
    assert start.settings.tuning.tune == "head" and start.settings.placing.placement == "global"


@pytest.mark.parametrize("name", ["paper", *PRESETS])
def test_there_is_one_paper_pipeline(name):
    """Sizes and training differ between networks; variables, rule and score do not."""
    for network in (None, "digits_cnn", "resnet18"):
        made = start_of(name, network).settings
        assert (made.projecting.order, made.projecting.scale) == ("pca-tanh", "unit")
        assert (made.finding.algorithm, made.finding.normalization) == ("abm", "leading")
        assert (made.pruning.score, made.recipe.validation) == ("separation", 0.0)


def test_cifar_has_the_papers_numbers():
    for name in PRESETS:
        made = start_of(name).settings
        assert (made.projecting.components, made.finding.psi, made.finding.max_degree) == (
            128,
            0.1,
            5,
        )
        assert (made.pruning.keep, made.pruning.monomials) == (128, 512)


@pytest.mark.parametrize("name", PRESETS)
def test_the_papers_presets_freeze_the_backbone(name):
    start = start_of(name)
    assert (start.backbone, start.cut) == (PRESETS[name].backbone, PRESETS[name].cut)
    assert start.settings.tuning.tune == "head" and start.settings.placing.placement == "global"
    assert start.settings.pruning.keep == 128
    assert start_of(name, placement="local").settings == TrialSettings()


@pytest.mark.parametrize("architecture", ["resnet18", "resnet34"])
@pytest.mark.parametrize("size", ["tiny", "small", "medium", "large"])
def test_sizes_of_the_best_are_behind_the_papers_cuts(architecture, size):
    start = start_of(f"best-{size}", architecture)
    wanted = PRESETS[f"VI-Net{architecture[-2:]}-{size.capitalize()}"]
    assert (start.backbone, start.cut) == (architecture, wanted.cut)
    budget = start.settings.shaping.head_parameters
    if (architecture, size) != ("resnet18", "tiny"):
        assert replace(start.settings, shaping=BEST.shaping) == BEST
        assert budget == HEAD_PARAMETERS
    assert wanted.base_parameters + budget <= 1e6 * VARIANTS[wanted.name]["total"]


def test_the_sizes_of_the_best_are_what_was_measured():
    sys.path.insert(0, str(ROOT))
    from benchmarks.tuning import variant

    store = Store(ROOT / "benchmarks" / "results" / "tuning" / "test")
    for preset in PRESETS.values():
        start = start_of(f"best-{preset.name.split('-')[-1]}", preset.backbone)
        recipe = replace(start.settings.recipe, precision="bfloat16")  # what auto is on a GPU
        # the same for maps
        collecting = replace(start.settings.collecting, read="auto")
        mine = replace(start.settings, recipe=recipe, collecting=collecting)
        for seed in range(3):
            trial = variant(preset, seed)
            assert {name: getattr(trial, name) for name in vars(mine)} == vars(mine)
            facts = store.read(trial).trained
            assert facts.parameters_head <= start.settings.shaping.head_parameters
            assert facts.parameters <= 1e6 * VARIANTS[preset.name]["total"]


def given(**groups):
    return GIVEN | groups


def test_options_change_the_settings_of_a_preset():
    made = settings_with(BEST, given(recipe={"epochs": 3}, shaping={"factors": 3}))
    assert made == replace(BEST, recipe=replace(BEST.recipe, epochs=3), shaping=Shaping(factors=3))


LOCAL, IDEAL = {"placement": "local"}, {"start": "ideal"}


@pytest.mark.parametrize("groups", [{"placing": LOCAL}, {"shaping": IDEAL}])
def test_where_polynomials_are_found_they_are_found_on_enough(groups):
    assert settings_with(BEST, given(**groups)).collecting.per_class == 512
    groups["collecting"] = {"per_class": 20}
    assert settings_with(BEST, given(**groups)).collecting.per_class == 20


def test_the_size_of_products_is_not_that_of_other_polynomials():
    small = start_of("best-small", "resnet18").settings
    assert settings_with(small, given(placing=LOCAL)).shaping.head_parameters is None
    assert settings_with(small, given()).shaping.head_parameters == HEAD_PARAMETERS


FOUND = {"projecting": "order", "pruning": "monomials", "finding": "psi", "placing": "linear_path"}
FOUND |= {"collecting": "reuse"}
VALUES = {"order": "pca-tanh", "monomials": 9, "psi": 0.2, "linear_path": 8, "reuse": True}


@pytest.mark.parametrize("group", FOUND)
def test_options_of_polynomials_that_are_found_are_refused_for_products(group):
    name = FOUND[group]
    options = given(**{group: {name: VALUES[name]}})
    with pytest.raises(ValueError, match=rf"^--{name.replace('_', '-')} is .*--preset paper\.$"):
        settings_with(BEST, options)
    assert getattr(getattr(settings_with(TrialSettings(), options), group), name) == VALUES[name]


@pytest.mark.parametrize(
    ("start", "groups", "message"),
    [
        ("paper", {"shaping": {"factors": 3}}, "--factors is .*--placement products"),
        ("best", {"vanishing": {"trained": "classifier"}}, "--train is .*--preset paper"),
        ("paper", {"tuning": {"norms": "frozen"}}, "--norms is .*--tune all"),
        ("best", {"caching": {"dtype": "float16"}}, "--cache is .*--tune head"),
        ("best", {"shaping": IDEAL, "pruning": {"monomials": 9}}, "--monomials is .*paper"),
        (
            "paper",
            {"placing": {"placement": "products"}, "finding": {"psi": 0.2}},
            "--psi is .*another --placement",
        ),
    ],
)
def test_other_options_without_effect_are_refused(start, groups, message):
    with pytest.raises(ValueError, match=message):
        settings_with(start_of(start).settings, given(**groups))


@pytest.mark.parametrize(
    ("start", "groups"),
    [
        ("best", {"shaping": IDEAL, "finding": {"psi": 0.2}, "pruning": {"keep": 4}}),
        ("best", {"tuning": {"tune": "head"}, "caching": {"views": 2}}),
        ("best", {"placing": LOCAL, "finding": {"psi": 0.2}}),
        ("paper", {"tuning": {"tune": "last:2", "norms": "frozen"}}),
        ("paper", {"shaping": {"head_parameters": 900}}),  # of baselines
    ],
)
def test_options_that_have_an_effect_are_taken(start, groups):
    made = settings_with(start_of(start).settings, given(**groups))
    for group, changes in groups.items():
        assert changes.items() <= vars(getattr(made, group)).items()


def test_the_best_leaves_the_cut_open():
    start = start_of("best", "digits_cnn")
    assert (start.backbone, start.cut) == (None, None)
    assert start.settings.tuning.tune == "all" and start.settings.recipe.distill == 0.7


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [
        ("best-huge", "resnet18", "There are best, best-tiny, best-small.*paper, VI-Net18-Tiny"),
        ("best-tiny", "digits_cnn", "is for a resnet18 or resnet34.*--preset best with --cut"),
        ("best-tiny", None, "is for a resnet18 or resnet34"),
        ("bests", None, "There is no preset 'bests'"),
    ],
)
def test_other_names_are_refused(name, architecture, message):
    with pytest.raises(ValueError, match=message):
        start_of(name, architecture)
