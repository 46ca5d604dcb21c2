from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets import cut_points, truncate
from vinets.models import (
    TextTransformer,
    VisionTransformer,
    channel_options,
    create_model,
    digits_cnn,
    rebuild,
    source_of,
)

IMAGE = torch.zeros(2, 3, 32, 32)
GREY = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
WORDS = torch.randint(30, (3, 7), generator=torch.Generator().manual_seed(0))


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("layers", "millions"), [(20, 0.27), (32, 0.47), (44, 0.66), (56, 0.86)])
def test_the_networks_for_cifar_have_their_published_layers_and_parameters(layers, millions):
    model = create_model(f"resnet{layers}", 10)
    assert round(count(model) / 1e6, 2) == millions
    # shortcuts do not count: their convolutions lie beside two others
    weighted = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert sum("downsample" not in name for name in weighted) == layers
    assert model(IMAGE).shape == (2, 10)


def test_their_maps_halve_from_stage_to_stage():
    model = create_model("resnet20", 10)
    shapes = [tuple(truncate(model, f"layer{i}")(IMAGE).shape[1:]) for i in (1, 2, 3)]
    assert shapes == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]
    assert "layer2.1.bn2" in {point.name for point in cut_points(model, IMAGE, every=True)}


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
def test_the_width_is_the_share_of_the_channels_in_every_layer(name):
    whole, half = create_model(name, 10), create_model(name, 10, width=0.5)
    pairs = zip(whole.modules(), half.modules(), strict=True)
    channels = [(a.out_channels, b.out_channels) for a, b in pairs if isinstance(a, nn.Conv2d)]
    assert channels and all(a == 2 * b for a, b in channels)
    assert half(IMAGE).shape == (2, 10)
    assert count(create_model(name, 10, width=1.0)) == count(whole)
    # records from before there were narrow networks
    options = {"blocks": whole.arguments["blocks"], "num_classes": 10, "maxpool": True}
    model = rebuild({"library": "vinets", "name": "resnet", "options": options})
    assert count(model) == count(whole)


def test_there_are_places_to_cut_at_several_depths_and_most_parameters_lie_behind_the_middle():
    net = digits_cnn()
    points = {p.name: p for p in cut_points(net, torch.zeros(1, 1, 8, 8))}
    assert 100_000 <= count(net) <= 200_000
    assert points["relu2"].parameters < 0.12 * count(net)
    assert points["relu2"].shape == (32, 8, 8) and points["relu4"].shape == (128, 4, 4)
    assert {p.removed for p in points.values()} == {0.75, 0.5, 0.25, 0.0}


def test_other_images_and_classes():
    net = digits_cnn(3, channels=2)
    for size in (2, 9, 28):
        assert net(torch.zeros(4, 2, size, size + 1)).shape == (4, 3)


SMALL = {"width": 12, "depth": 3, "heads": 2}
VIT, TEXT = VisionTransformer(4, 1, 8, 2, **SMALL), TextTransformer(4, 30, 7, **SMALL)


@pytest.mark.parametrize(("net", "inputs", "tokens"), [(VIT, GREY, 16), (TEXT, WORDS, 7)])
def test_a_cut_behind_a_block_gives_tokens_and_drops_what_is_behind(net, inputs, tokens):
    net.eval()
    points = {p.name: p for p in cut_points(net, inputs)}
    part = truncate(net, "blocks.0", inputs)
    assert points["blocks.0"].shape == (tokens, 12)
    behind = sum(map(count, (*net.blocks[1:], net.norm, net.fc)))
    assert count(part) == count(net) - behind
    # the rest of the network on these tokens gives the logits
    with torch.no_grad():
        rest = net.fc(net.norm(net.blocks[2](net.blocks[1](part(inputs)))).mean(1))
        torch.testing.assert_close(rest, net(inputs))


def test_attention_sees_every_token_and_their_places():
    net, first = TEXT.eval(), WORDS[:1]
    other = first.clone()
    other[0, -1] = (other[0, -1] + 1) % 30
    tokens = truncate(net, "blocks.0", first)
    with torch.no_grad():
        assert not torch.allclose(tokens(first)[0, 0], tokens(other)[0, 0])
        assert not torch.allclose(net(first), net(first.flip(1)))


def test_options_are_checked_and_images_may_be_grey():
    assert channel_options("vit", 1) == {"channels": 1}
    assert channel_options("resnet18", 1) == {"inputs": 1}
    grey = create_model("resnet18", 3, **channel_options("resnet18", 1))
    assert grey(torch.zeros(2, 1, 28, 28)).shape == (2, 3)
    assert source_of(grey) is not None
    for options, message in (
        ({"patch": 5}, "divisor of the side"),
        ({"width": 10, "heads": 3}, "multiple of the heads"),
        ({"depth": 10**9}, "from 1 to 100"),
    ):
        with pytest.raises(ValueError, match=message):
            create_model("vit", 10, **options)
