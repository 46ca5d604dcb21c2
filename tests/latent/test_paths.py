"""Places that all paths from the inputs to the logits pass, whatever a network is made of."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets.latent.cut import StoppedNetwork, cut_points, say_left_out, truncate
from vinets.latent.paths import main_tensor
from vinets.networks.build import build

IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class PaddedConv(nn.Conv2d):
    """A layer of another package, with a module of its own inside."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.pad = nn.ZeroPad2d(1)

    def forward(self, x):
        return super().forward(self.pad(x))


class Residual(nn.Module):
    """A block whose sum changes its first part in place, and whose activation is shared."""

    def __init__(self, channels, act):
        super().__init__()
        self.conv1, self.conv2 = (PaddedConv(channels, channels, 3) for _ in range(2))
        self.act = act
        self.gate = nn.Linear(channels, channels)

    def forward(self, x):
        y = self.conv2(self.act(self.conv1(x)))
        y *= self.gate(y.mean((2, 3))).sigmoid()[:, :, None, None]
        y += x
        return self.act(y)


class Residuals(nn.Module):
    def __init__(self, blocks=6):
        super().__init__()
        act = nn.ReLU(inplace=True)
        self.stem = PaddedConv(3, 8, 3)
        self.blocks = nn.ModuleList([Residual(8, act) for _ in range(blocks)])
        self.drop, self.fc = nn.Dropout(), nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(self.drop(x.mean((2, 3))))


class Tokens(nn.Module):
    """A transformer without residual tricks: class token, positions, functional attention."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.cls, self.place = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.zeros(17, 8))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16) for _ in range(5))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.place
        for layer in self.layers:
            x = layer(x)
        return {"logits": self.fc(x[:, 0])}


class Branches(nn.Module):
    """Two branches that meet at once, one of them computed by a condition on the data."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.left, self.right = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.join, self.unused = nn.Conv2d(8, 6, 1), nn.Conv2d(6, 6, 1)
        self.scale = nn.Parameter(torch.ones(1))
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = self.stem(x)
        left = self.left(x) if x.sum() > -1e9 else x
        x = self.join(torch.cat([left, self.right(x)], 1))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1)) * self.scale


class Series(nn.Module):
    """A recurrent network that reads the last state, and takes a mask."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(9, 6), nn.LSTM(6, 7, batch_first=True)
        self.fc = nn.Linear(7, 3)

    def forward(self, words, attention_mask):
        x = self.embed(words) * attention_mask[:, :, None]
        return self.fc(self.lstm(x)[0][:, -1] * attention_mask[:, :1])


class Padded(nn.Module):
    """A stack of torch's own encoder, with a mask of padding made of the words themselves."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.embed = nn.Embedding(9, 8, padding_idx=0)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, words):
        x = self.encoder(self.embed(words), src_key_padding_mask=words == 0)
        return self.fc(x[:, 0])


ENCODER = "encoder.layers.0", "encoder.layers.1"  # the last one returns what the encoder does
LINES = torch.arange(1, 9).reshape(2, 4)
VOLUMES = nn.Sequential(nn.Conv3d(1, 4, 3), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 3))
WORDS = {"words": torch.arange(8).reshape(2, 4), "attention_mask": torch.ones(2, 4)}
NETWORKS = {
    "residuals": (Residuals(), IMAGES, ["stem", *(f"blocks.{i}" for i in range(6)), "drop", "fc"]),
    "tokens": (Tokens(), IMAGES, ["patch", *(f"layers.{i}" for i in range(5)), "fc"]),
    "branches": (Branches(), IMAGES, ["stem", "join", "fc"]),
    "series": (Series(), WORDS, ["embed", "lstm", "fc"]),
    "padded": (
        Padded(),
        LINES,
        ["embed", *(f"encoder.layers.{i}" for i in (0, 1)), "encoder", "fc"],
    ),
    "volumes": (VOLUMES, torch.randn(2, 1, 4, 5, 6), ["0", "1", "2", "3"]),
    "pool": (nn.Sequential(nn.Flatten(), nn.Identity(), nn.Linear(768, 5)), IMAGES, ["0", "2"]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_cuts_lie_where_all_paths_pass_and_keep_what_they_say(name):
    network, example, expected = NETWORKS[name]
    network.eval()
    points = cut_points(network, example)
    ends = [point for point in points if not point.inside]
    # what a pooled vector passes through unchanged is called after what made it, where that is one
    assert [p.name for p in ends if p.name != "drop"] == [n for n in expected if n != "drop"]
    assert [p.index for p in points] == list(range(len(points)))
    parameters = [p.parameters for p in points]
    assert parameters == sorted(parameters) and points[-1].macs == max(p.macs for p in points)
    for point in points:
        part = truncate(network, point.name, example)
        assert sum(p.numel() for p in part.parameters()) == point.parameters, point
        run = (lambda n: n(**example)) if isinstance(example, dict) else (lambda n: n(example))
        with torch.no_grad():
            ours, whole = run(part), run(StoppedNetwork(network, point.name))
        assert torch.equal(main_tensor(ours), main_tensor(whole))
        assert tuple(main_tensor(ours).shape[1:]) == point.shape


def test_what_lies_on_one_of_several_paths_is_marked():
    network, example, _ = NETWORKS["branches"]
    points = {p.name: p for p in cut_points(network, example, every=True)}
    assert not points["left"].main and not points["right"].main and points["join"].main
    # a network that is stopped keeps what runs before, and what is never called is not there
    stem, branch = 4 * 27 + 4, 4 * 4 + 4
    assert points["left"].parameters == stem + branch
    assert points["right"].parameters == stem + 2 * branch
    for point in (points["left"], points["right"]):
        part = truncate(network, point.name, example)
        assert isinstance(part, StoppedNetwork)
        assert sum(p.numel() for p in part.parameters()) == point.parameters
    assert network.scale is not None and isinstance(network.fc, nn.Linear)  # which is not changed
    assert "unused" not in points and points["left"].index is None
    assert say_left_out(network, "left", example).endswith("left out. They all pass stem and join.")
    assert say_left_out(network, "join", example) == ""


def test_a_change_of_a_view_is_a_change_of_what_it_shows():
    class View(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.fc = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            x = self.first(x)
            x[:, :2].add_(self.second(x)[:, :2])
            return self.fc(x)

    points = {p.name: p for p in cut_points(View(), torch.randn(3, 4), every=True)}
    assert points["first"].main and not points["second"].main
    assert points["fc"].parameters == 50


def test_what_runs_inside_a_layer_of_torch_is_no_cut():
    with pytest.raises(ValueError, match=r"outside of encoder\.layers\.1, a layer of torch"):
        truncate(Padded(), "encoder.layers.1.norm1", LINES)
    scripted = torch.jit.script(nn.Linear(3, 2))
    with pytest.raises(ValueError, match=r"by torch\.jit cannot be cut.*ONNX file"):
        cut_points(scripted, torch.zeros(1, 3))


def test_a_network_is_built_on_volumes_and_inside_an_encoder():
    examples = [
        (VOLUMES, "0", torch.randn(6, 1, 4, 5, 6)),
        (Padded(), "encoder.layers.0", LINES.repeat(3, 1)),
    ]
    for network, cut, inputs in examples:
        labels = torch.arange(6) % 3
        net, _ = build(
            network, (inputs, labels), cut, head="products", parameters=300, progress=None
        )
        with torch.no_grad():
            assert torch.allclose(net.eval()(inputs), net.folded()(inputs), atol=1e-5)
