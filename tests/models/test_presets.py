from __future__ import annotations

import dataclasses

import pytest
import torch

from vinets import cut_points, truncate
from vinets.models import PRESETS, create_model, preset

# Millions of parameters before the cut and in total, as the paper prints them.
PAPER = {
    "VI-Net18-Tiny": (0.68, 1.86),
    "VI-Net18-Small": (2.18, 2.84),
    "VI-Net18-Medium": (3.96, 4.35),
    "VI-Net18-Large": (8.81, 9.20),
    "VI-Net34-Tiny": (2.85, 3.52),
    "VI-Net34-Small": (5.21, 5.88),
    "VI-Net34-Medium": (14.20, 14.60),
    "VI-Net34-Large": (18.92, 19.32),
}
IMAGE = torch.zeros(1, 3, 32, 32)


@pytest.mark.parametrize("backbone", ["resnet18", "resnet34"])
def test_the_cuts_leave_the_parameters_that_the_presets_state(backbone):
    model = create_model(backbone)
    points = {p.name: p for p in cut_points(model, IMAGE)}
    chosen = [p for p in PRESETS.values() if p.backbone == backbone]
    assert len(chosen) == 4
    for p in chosen:
        part = truncate(model, p.cut)
        assert sum(w.numel() for w in part.parameters()) == p.base_parameters
        assert points[p.cut].parameters == p.base_parameters
    kept = [p.base_parameters for p in chosen]
    assert kept == sorted(kept)


def test_the_presets_are_those_of_the_paper():
    assert list(PRESETS) == list(PAPER)
    for name, p in PRESETS.items():
        assert p.name == name
        assert round(p.base_parameters / 1e6, 2) == PAPER[name][0] < PAPER[name][1]


def test_names_are_found_in_any_case_and_presets_cannot_be_changed():
    assert preset("vi-net34-LARGE") is PRESETS["VI-Net34-Large"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("VI-Net18-Tiny").cut = "fc"


@pytest.mark.parametrize("name", ["VI-Net18-Smal", "vinet18small", "", None, 18])
def test_an_unknown_name_is_answered_with_the_nearest(name):
    with pytest.raises(ValueError, match=r"must be the name of a preset.*nearest are.*VI-Net18"):
        preset(name)
