"""Cuts, parameters and shares of the paper's networks."""

from __future__ import annotations

import pytest
import torch

from vinets.experiments.backbones import BACKBONES, RESNET18, RESNET34
from vinets.experiments.paper import GENERATORS, UNCUT, VARIANTS
from vinets.latent.cut import cut_points, paper_convolutions, share_removed, truncate
from vinets.models import create_model

EXAMPLE = torch.zeros(1, 3, 32, 32)


def paper_share(model, cut):
    return share_removed(model, truncate(model, cut, EXAMPLE), paper_convolutions)


@pytest.mark.parametrize("backbone", BACKBONES.values(), ids=lambda b: b.name)
def test_every_cut_is_one_of_the_network_and_earlier_cuts_remove_more(backbone):
    model = create_model(backbone.name, backbone.classes)
    places = {point.name for point in cut_points(model, EXAMPLE)}
    assert places >= {*backbone.cuts, *backbone.layers, *backbone.variants.values()}
    assert len(backbone.cuts) >= 8
    shares = [paper_share(model, cut) for cut in backbone.cuts]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    ("backbone", "within"), [(RESNET18, 2.2), (RESNET34, 1.7)], ids=lambda v: getattr(v, "name", v)
)
def test_shares_removed_agree_with_the_printed_ones(backbone, within):
    model = create_model(backbone.name, backbone.classes)
    gaps: dict[float, float] = {}
    for cut, printed in backbone.rows:  # of two cuts for one number, the nearer one
        gap = abs(100 * paper_share(model, cut) - printed)
        gaps[printed] = min(gap, gaps.get(printed, 100.0))
    assert max(gaps.values()) < within


def test_the_paper_has_a_number_for_every_row():
    for backbone in BACKBONES.values():
        assert set(GENERATORS[backbone.name]) == {printed for _, printed in backbone.rows}
        for name in backbone.variants:
            theirs = VARIANTS[name]
            assert theirs["speed"] > 0
            assert theirs["total"] == pytest.approx(theirs["base"] + theirs["head"], abs=0.011)
        uncut = UNCUT[backbone.name]
        assert uncut["accuracy"] > 70 and uncut["speed"] > 0
