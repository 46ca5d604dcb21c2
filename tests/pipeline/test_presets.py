"""What presets stand for."""

import pytest

from vinets.models import PRESETS
from vinets.pipeline.presets import start_of
from vinets.settings import BEST, TrialSettings


def test_without_a_preset_the_settings_are_the_papers():
    assert start_of(None).settings == TrialSettings()
    assert start_of(None).settings.tuning.tune == "head"


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
    assert (start.backbone, start.cut, start.settings) == (architecture, wanted.cut, BEST)


def test_the_best_leaves_the_cut_open():
    start = start_of("best", "digits_cnn")
    assert (start.backbone, start.cut) == (None, None)
    assert start.settings.tuning.tune == "all" and start.settings.recipe.distill == 0.7


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [
        ("best-huge", "resnet18", "There are best, best-tiny, best-small"),
        ("best-tiny", "digits_cnn", "is for a resnet18 or resnet34.*--preset best with --cut"),
        ("best-tiny", None, "is for a resnet18 or resnet34"),
        ("bests", None, "must be the name of a preset"),
    ],
)
def test_other_names_are_refused(name, architecture, message):
    with pytest.raises(ValueError, match=message):
        start_of(name, architecture)
