"""Cuts, parameters and shares of the networks."""

from __future__ import annotations

import pytest
import torch

from vinets.core.settings import RECIPES
from vinets.latent.cut import cut_points, paper_convolutions, share_removed, truncate
from vinets.models import create_model
from vinets.paper.backbones import BACKBONES, PAPER, RESNET18, RESNET34, UNCUT, VARIANTS
from vinets.paper.plan import Plan
from vinets.runs.setup import COUNTED

EXAMPLE = torch.zeros(1, 3, 32, 32)


def paper_share(model, cut):
    return share_removed(model, truncate(model, cut, EXAMPLE), paper_convolutions)


@pytest.mark.parametrize("backbone", BACKBONES.values(), ids=lambda b: b.name)
def test_every_cut_is_one_of_the_network_and_earlier_cuts_remove_more(backbone):
    model = create_model(RECIPES[backbone.recipe].model, backbone.classes)
    example = torch.zeros(1, 1, 8, 8) if backbone.splits else EXAMPLE
    places = {point.name for point in cut_points(model, example, every=True)}
    assert places >= {*backbone.cuts, *backbone.layers, *backbone.variants.values()}
    assert places >= {*backbone.undecided}
    sizes = {name.rpartition("-")[2]: cut for name, cut in backbone.variants.items()}
    assert sizes.items() >= backbone.tried.items()
    assert not backbone.studied or backbone.studied in backbone.variants
    assert len(backbone.cuts) >= 5
    counted = COUNTED[Plan(backbones=(backbone.name,)).start.counting]
    parts = [truncate(model, cut, example) for cut in backbone.cuts]
    shares = [share_removed(model, part, counted) for part in parts]
    assert shares == sorted({*shares}, reverse=True)  # no two are equal


@pytest.mark.parametrize(
    ("backbone", "within"), [(RESNET18, 2.2), (RESNET34, 1.7)], ids=lambda v: getattr(v, "name", v)
)
def test_shares_removed_agree_with_the_printed_ones(backbone, within):
    model = create_model(backbone.name, backbone.classes)
    gaps: dict[float, float] = {}
    for cut, paper in backbone.rows.items():  # of two cuts for one number, the nearer one
        printed = paper["removed"]
        gap = abs(100 * paper_share(model, cut) - printed)
        gaps[printed] = min(gap, gaps.get(printed, 100.0))
    assert max(gaps.values()) < within


def test_the_paper_has_a_number_for_every_row():
    for backbone in map(BACKBONES.get, PAPER):
        assert len({tuple(row.values()) for row in backbone.rows.values()}) == 5
        for name in backbone.variants:
            theirs = VARIANTS[name]
            assert theirs["speed"] > 0
            assert theirs["total"] == pytest.approx(theirs["base"] + theirs["head"], abs=0.011)
        uncut = UNCUT[backbone.name]
        assert uncut["accuracy"] > 70 and uncut["speed"] > 0


def test_settings_and_choices_are_known_options():
    """Every change that a network makes to a trial is one that trials take."""
    for backbone in BACKBONES.values():
        plan = Plan(backbones=(backbone.name,))
        for changes in (backbone.variant, *backbone.readings.values(), *backbone.choices.values()):
            assert plan.trial(backbone, backbone.cuts[0], **changes).network
