from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets.latent.cut import truncate
from vinets.models import resnet18
from vinets.models.networks import BasicBlock
from vinets.theory.complexity import layer_norms
from vinets.theory.layers import average_pool_constant, max_pool_constant, read_layers
from vinets.theory.norms import linear_map


def shaken(network, seed=0):
    """Random batch normalisation, some gains negative, in float64 and eval mode."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_var.copy_(torch.rand(len(module.running_var), generator=generator) + 0.2)
            module.weight.data.copy_(torch.randn(len(module.weight), generator=generator))
    return network.double().eval()


def test_batch_normalisation_elsewhere_is_a_layer_of_its_own(matrix_of):
    torch.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.ReLU(), nn.BatchNorm2d(3))
    net = shaken(nn.Sequential(*net, nn.Flatten(), nn.Linear(12, 4), nn.BatchNorm1d(4)))
    layers = read_layers(net, torch.zeros(1, 2, 4, 4, dtype=torch.float64))
    assert [layer.name for layer in layers] == ["0", "1", "3", "5"]
    net[2] = nn.Identity()  # then the whole network is linear, and the product of its layers
    matrices = [
        matrix_of(linear_map(one.operator, one.input_shape), one.input_shape) for one in layers
    ]
    whole = matrix_of(lambda x: net(x[None]), (2, 4, 4))
    torch.testing.assert_close(torch.linalg.multi_dot(matrices[::-1]), whole)


def unrolled(layers, x, matrix_of):
    """Stacked dense matrices of a block's layers, and the block's value by them."""
    state, matrices = x, []
    for layer in layers:
        shape, s = layer.input_shape, layer.shortcut
        w = matrix_of(linear_map(layer.operator, shape), shape)
        same = torch.eye(layer.carried or w.shape[0], dtype=w.dtype)
        if layer.role == "fork":
            w = torch.cat([w, same if s is None else matrix_of(linear_map(s, shape), shape)])
        elif layer.role == "carry":
            w = torch.block_diag(w, same)
        else:
            w = torch.cat([w, same], 1)
        matrices.append(w)
        state = w @ state
        split = len(state) - layer.carried
        state = torch.cat([state[:split].relu(), state[split:]])
    return matrices, state


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 2, 1, bias=False), nn.Conv2d(2, 2, 3, padding=1, bias=False)
        self.c, self.bn = nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm2d(3)
        self.b.weight.data *= 0.1  # a norm below that of the shortcut beside it

    def forward(self, x):
        out = self.bn(self.c(self.b(self.a(x).relu()).relu()))
        return (x + out).relu()


@pytest.mark.parametrize(
    "make", [lambda: BasicBlock(3, 3, 1), lambda: BasicBlock(3, 4, 2), Bottleneck]
)
def test_the_stacked_layers_compute_the_block_and_have_the_norms_of_their_matrices(make, matrix_of):
    torch.manual_seed(0)
    block = shaken(make())
    x = torch.randn(1, 3, 4, 4, dtype=torch.float64)
    layers = read_layers(block, x)
    matrices, value = unrolled(layers, x.flatten(), matrix_of)
    torch.testing.assert_close(value, block(x).flatten())
    for layer, dense in zip(layers, matrices, strict=True):
        norms = layer_norms(layer)
        assert norms.spectral == pytest.approx(torch.linalg.svdvals(dense)[0].item(), rel=1e-3)
        assert norms.two_one == pytest.approx(dense.norm(dim=1).sum().item(), rel=1e-10)
        assert norms.kernel_bound >= norms.spectral * (1 - 1e-9)


def test_roles_of_a_residual_network_and_of_its_cut():
    net = resnet18(10).train()
    images = torch.zeros(1, 3, 32, 32)
    layers = read_layers(net, images)
    assert net.training
    assert [layer.role for layer in layers] == ["plain", *["fork", "join"] * 8, "plain"]
    assert layers[0].lipschitz == 2 and layers[-2].lipschitz == 0.5
    assert sum(layer.shortcut is not None for layer in layers) == 3
    cut = read_layers(truncate(net, "layer3.1.bn1"), images)
    assert [layer.name for layer in cut] == [layer.name for layer in layers[:12]]
    assert cut[-1].role == "plain"


class Written(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(3, 3) for _ in range(3))
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda m, x: x + m.a(x), "two or more layers"),
        (lambda m, x: x + m.b(m.a(x)).relu(), "start and end"),
        (lambda m, x: x + m.b(m.a(x.relu())), "start and end"),
        (lambda m, x: m.c(x).tanh() + m.b(m.a(x).relu()), "must be the identity"),
        (lambda m, x: x + m.c(m.a(x) + m.b(m.c(m.a(x)))), "no other sum"),
        (lambda m, x: m.a(x) + 1, "come from one tensor"),
        (lambda m, x: torch.add(x, m.b(m.a(x)), alpha=2), "come from one tensor"),
        (lambda m, x: m.a(x) * m.b(x), "Got mul"),
        (lambda m, x: (m.a(x), m.b(x)), "one tensor as its output"),
        (lambda m, x: x.relu(), "Got none"),
        (lambda m, x: m.a(x) if x.sum() > 0 else m.b(x), "does not trace"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(function, match):
    with pytest.raises(ValueError, match=match):
        read_layers(Written(function), torch.zeros(1, 3))


@pytest.mark.parametrize(
    ("module", "match"),
    [
        (nn.BatchNorm1d(3, track_running_stats=False), "running statistics"),
        (nn.LayerNorm(3), "LayerNorm at '1'"),
    ],
)
def test_modules_without_a_rule_are_named(module, match):
    with pytest.raises(ValueError, match=match):
        read_layers(nn.Sequential(nn.Linear(3, 3), module), torch.zeros(2, 3))


# --- Lipschitz constants ----------------------------------------------------------------------

SHAPE = (2, 8, 8)
EXACT = [nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d(4)]
OVERLAPPING = [
    nn.AvgPool2d(3, stride=1, padding=1),
    nn.AvgPool2d(3, stride=2, ceil_mode=True),
    nn.AdaptiveAvgPool2d(3),
]


@pytest.mark.parametrize("pool", [*EXACT, *OVERLAPPING], ids=str)
def test_average_pooling_is_bounded_by_its_dense_matrix(pool, matrix_of):
    norm = torch.linalg.svdvals(matrix_of(pool, SHAPE))[0].item()
    constant = average_pool_constant(pool, SHAPE)
    assert constant >= norm * (1 - 1e-12)
    if pool in EXACT:
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
def test_max_pooling_reaches_its_constant_and_no_more(pool, matrix_of):
    # One raised input moves every window that holds it: a column by inputs.
    moved = matrix_of(pool, SHAPE).norm(dim=0).max().item()
    assert max_pool_constant(pool, SHAPE) == pytest.approx(moved)


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (lambda m, x: torch.relu(m.conv(x)), 1),
        (lambda m, x: m.conv(x).tanh().abs().flatten(1), 1),
        (lambda m, x: m.conv(x).reshape(x.size(0), -1), 1),
        (lambda m, x: F.avg_pool2d(m.conv(x), 4), 1 / 4),
        (lambda m, x: m.conv(x).mean((2, 3)), 1 / 8),
        (lambda m, x: torch.flatten(F.adaptive_avg_pool2d(m.conv(x), 1), 1), 1 / 8),
    ],
)
def test_functions_count_like_modules(function, constant):
    (layer,) = read_layers(Written(function), torch.zeros(1, 1, 8, 8))
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
