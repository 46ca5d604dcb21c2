from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets import cut_points, truncate
from vinets.models import create_model, rebuild

IMAGE = torch.zeros(2, 3, 32, 32)


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "layers", "millions"),
    [
        ("resnet20", 20, 0.27),
        ("resnet32", 32, 0.47),
        ("resnet44", 44, 0.66),
        ("resnet56", 56, 0.86),
    ],
)
def test_the_networks_for_cifar_have_their_published_layers_and_parameters(name, layers, millions):
    model = create_model(name, 10)
    assert round(count(model) / 1e6, 2) == millions
    # shortcuts do not count: their convolutions lie beside two others
    weighted = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert sum("downsample" not in name for name in weighted) == layers
    assert model(IMAGE).shape == (2, 10)


def test_their_maps_halve_from_stage_to_stage():
    model = create_model("resnet20", 10)
    shapes = [tuple(truncate(model, f"layer{i}")(IMAGE).shape[1:]) for i in (1, 2, 3)]
    assert shapes == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]
    assert "layer2.1.bn2" in {point.name for point in cut_points(model, IMAGE)}


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
def test_the_width_is_the_share_of_the_channels_in_every_layer(name):
    whole, half = create_model(name, 10), create_model(name, 10, width=0.5)
    pairs = zip(whole.modules(), half.modules(), strict=True)
    channels = [(a.out_channels, b.out_channels) for a, b in pairs if isinstance(a, nn.Conv2d)]
    assert channels and all(a == 2 * b for a, b in channels)
    assert half(IMAGE).shape == (2, 10)
    assert count(create_model(name, 10, width=1.0)) == count(whole)


def test_records_from_before_there_were_narrow_networks_make_the_same_network():
    options = {"blocks": [2, 2, 2, 2], "num_classes": 10, "maxpool": True}
    model = rebuild({"library": "vinets", "name": "resnet", "options": options})
    assert count(model) == count(create_model("resnet18", 10))
