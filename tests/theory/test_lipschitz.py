from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from vinets.theory.layers import average_pool_constant, max_pool_constant, read_layers

SHAPE = (2, 8, 8)
AVERAGES = [
    (nn.AvgPool2d(2), True),
    (nn.AdaptiveAvgPool2d(1), True),
    (nn.AdaptiveAvgPool2d(4), True),
    (nn.AvgPool2d(3, stride=1, padding=1), False),
    (nn.AvgPool2d(3, stride=2, ceil_mode=True), False),
    (nn.AdaptiveAvgPool2d(3), False),
]


@pytest.mark.parametrize(("pool", "exact"), AVERAGES, ids=str)
def test_average_pooling_is_bounded_by_its_dense_matrix(pool, exact):
    n = math.prod(SHAPE)
    columns = pool(torch.eye(n, dtype=torch.float64).reshape(n, *SHAPE)).reshape(n, -1)
    norm = torch.linalg.svdvals(columns)[0].item()
    constant = average_pool_constant(pool, SHAPE)
    assert constant >= norm * (1 - 1e-12)
    if exact:
        assert constant == pytest.approx(norm, rel=1e-12)


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d(3, stride=1),
        nn.MaxPool2d(3, stride=2, dilation=2),
        nn.MaxPool2d(8),
    ],
    ids=str,
)
def test_max_pooling_reaches_its_constant_and_no_more(pool):
    zero = torch.zeros(1, *SHAPE)
    n = math.prod(SHAPE)
    peaks = torch.eye(n).reshape(n, *SHAPE)  # one raised input moves every window that holds it
    moved = (pool(peaks) - pool(zero)).flatten(1).norm(dim=1).max().item()
    assert max_pool_constant(pool, SHAPE) == pytest.approx(moved)


class Functional(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.function = function

    def forward(self, x):
        return self.function(self.conv(x))


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (torch.relu, 1),
        (lambda x: x.tanh().abs().flatten(1), 1),
        (lambda x: x.reshape(x.size(0), -1), 1),
        (lambda x: nn.functional.avg_pool2d(x, 4), 1 / 4),
        (lambda x: x.mean((2, 3)), 1 / 8),
        (lambda x: torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1), 1 / 8),
    ],
)
def test_functions_count_like_modules(function, constant):
    (layer,) = read_layers(Functional(function), torch.zeros(1, 1, 8, 8))
    assert layer.lipschitz == pytest.approx(constant)


@pytest.mark.parametrize(
    "module", [nn.GELU(), nn.SiLU(), nn.ELU(2.0), nn.LeakyReLU(3.0), nn.ReLU6(), nn.Tanh()], ids=str
)
def test_constants_bound_the_slopes(module):
    (layer,) = read_layers(nn.Sequential(nn.Linear(1, 1), module), torch.zeros(1, 1))
    x = torch.linspace(-8, 8, 20001, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(module(x).sum(), x)
    steepest = slopes.abs().max().item()
    assert steepest <= layer.lipschitz <= 1.01 * steepest


def test_an_unknown_module_is_named():
    with pytest.raises(ValueError, match="LayerNorm at '1'"):
        read_layers(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), torch.zeros(1, 3))
