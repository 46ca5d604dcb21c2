from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets.latent.cut import cut_points
from vinets.measure import flops
from vinets.models import resnet18


class Products(nn.Module):
    """All products of neighbouring variables: one multiplication each."""

    def __init__(self, variables):
        super().__init__()
        self.multiplications = variables - 1

    def forward(self, z):
        return z[..., 1:] * z[..., :-1]


@pytest.mark.parametrize("batch", [1, 4])
def test_layers_have_the_counts_of_the_formulas(batch):
    def images(*shape):
        return torch.zeros(batch, *shape)

    assert flops(nn.Linear(7, 5), images(7)) == 2 * 7 * 5
    assert flops(nn.Linear(7, 5), images(3, 7)) == 3 * 2 * 7 * 5
    # 8 x 8 with stride 2 and padding 1 gives 4 x 4
    conv = nn.Conv2d(3, 10, 3, stride=2, padding=1)
    assert flops(conv, images(3, 8, 8)) == 2 * (4 * 4 * 10) * (3 * 3 * 3)
    grouped = nn.Conv2d(6, 6, 3, groups=6)
    assert flops(grouped, images(6, 8, 8)) == 2 * (6 * 6 * 6) * (3 * 3)
    assert flops(nn.Sequential(nn.ReLU(), nn.BatchNorm1d(7)), images(7)) == 0


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_counts_whatever_kernel_torch_would_use(batch):
    tokens, width, hidden = 5, 16, 32
    layer = nn.TransformerEncoderLayer(width, 4, hidden, batch_first=True)
    projections = 4 * 2 * tokens * width * width
    attention = 2 * 2 * tokens * tokens * width
    perceptron = 2 * 2 * tokens * width * hidden
    expected = projections + attention + perceptron
    assert flops(layer, torch.zeros(batch, tokens, width)) == expected
    assert torch.backends.mha.get_fastpath_enabled()


def test_products_with_a_vector_count():
    class Score(nn.Module):
        def __init__(self):
            super().__init__()
            self.direction = nn.Parameter(torch.ones(6))

        def forward(self, x):
            return x @ self.direction

    assert flops(Score(), torch.zeros(4, 6)) == 12
    assert flops(Score(), torch.zeros(4, 3, 6)) == 36


def test_a_resnet_needs_two_operations_per_multiply_add():
    network, image = resnet18(10), torch.zeros(1, 3, 32, 32)
    assert flops(network, image) == 2 * cut_points(network, image)[-1].macs


@pytest.mark.parametrize("batch", [1, 4])
def test_stated_multiplications_count_once_per_position(batch):
    network = nn.Sequential(Products(9), nn.Linear(8, 2))
    assert flops(network, torch.zeros(batch, 9)) == 8 + 2 * 8 * 2
    assert flops(network, torch.zeros(batch, 5, 9)) == 5 * (8 + 2 * 8 * 2)
    twice = Products(9)
    network = nn.Sequential(twice, nn.ConstantPad1d((0, 1), 0.0), twice)
    assert flops(network, torch.zeros(batch, 9)) == 2 * 8


def test_inputs_may_have_names():
    class Named(nn.Linear):
        def forward(self, pixels, scale):
            return super().forward(pixels) * scale

    batch = {"pixels": torch.zeros(4, 3), "scale": torch.zeros(4, 1)}
    assert flops(Named(3, 2), batch) == 12


def test_the_network_is_left_as_it_was():
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), Products(3)).train()
    network[0].eval()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    flops(network, torch.randn(4, 3))
    assert [m.training for m in network.modules()] == [True, False, True, True]
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())


@pytest.mark.parametrize(
    "example", [torch.zeros(0, 3), torch.tensor(1.0), {}, {"x": 3}, "image", [torch.zeros(1, 3)]]
)
def test_what_is_no_batch_is_refused(example):
    with pytest.raises(
        ValueError, match="'example' parameter of flops must be a tensor, or a dict"
    ):
        flops(nn.Linear(3, 2), example)


def test_stated_multiplications_need_one_tensor():
    class Pair(Products):
        def forward(self, z):
            return z, z

    with pytest.raises(ValueError, match="must return one tensor"):
        flops(Pair(3), torch.zeros(2, 3))
