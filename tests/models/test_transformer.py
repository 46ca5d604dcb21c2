from __future__ import annotations

import json

import pytest
import torch

from vinets import cut_points
from vinets.latent.cut import truncate
from vinets.models import (
    TextTransformer,
    VisionTransformer,
    channel_options,
    create_model,
    rebuild,
    source_of,
)

IMAGES = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
WORDS = torch.randint(30, (3, 7), generator=torch.Generator().manual_seed(0))


def small_vit():
    return VisionTransformer(4, 1, 8, 2, width=12, depth=3, heads=2)


def small_text():
    return TextTransformer(4, 30, 7, width=12, depth=3, heads=2)


@pytest.mark.parametrize(
    ("make", "inputs", "tokens"), [(small_vit, IMAGES, 16), (small_text, WORDS, 7)]
)
def test_a_cut_behind_a_block_gives_tokens_and_drops_what_is_behind(make, inputs, tokens):
    torch.manual_seed(0)
    net = make().eval()
    points = {p.name: p for p in cut_points(net, inputs)}
    part = truncate(net, "blocks.0", inputs)
    assert points["blocks.0"].shape == (tokens, 12)
    kept = sum(p.numel() for p in part.parameters())
    each = sum(p.numel() for p in net.blocks[0].parameters())
    behind = sum(p.numel() for m in (net.norm, net.fc) for p in m.parameters())
    assert kept == sum(p.numel() for p in net.parameters()) - 2 * each - behind
    # the rest of the network on these tokens gives the logits
    with torch.no_grad():
        rest = net.fc(net.norm(net.blocks[2](net.blocks[1](part(inputs)))).mean(1))
        torch.testing.assert_close(rest, net(inputs))


@pytest.mark.parametrize(("make", "inputs"), [(small_vit, IMAGES), (small_text, WORDS)])
def test_it_is_made_again_from_its_record(make, inputs):
    net = make().eval()
    again = rebuild(json.loads(json.dumps(source_of(net)))).eval()
    again.load_state_dict(net.state_dict())
    with torch.no_grad():
        assert torch.equal(again(inputs), net(inputs))


def test_attention_sees_every_token_and_their_places():
    net = small_text().eval()
    first = WORDS[:1]
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
