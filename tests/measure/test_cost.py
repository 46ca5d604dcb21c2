from __future__ import annotations

import gc
import weakref
from itertools import pairwise

import pytest
import torch
from torch import nn

from vinets.latent.cut import cut_points
from vinets.measure import flops, sizes, stored_indices, stored_numbers
from vinets.measure.cost import LiveTensors, peak_bytes
from vinets.models import resnet18

# --- size ----------------------------------------------------------------------------------


def test_floats_and_indices_are_counted_apart():
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.zeros(3, 4))
    layer.register_buffer("table", torch.zeros(5))
    layer.register_buffer("indices", torch.zeros(7, 2, dtype=torch.int32))
    layer.register_buffer("mask", torch.zeros(6, dtype=torch.bool))
    layer.register_buffer("cache", torch.zeros(10), persistent=False)
    assert stored_numbers(layer) == 12 + 5 + 10 and stored_indices(layer) == 14 + 6


def test_a_resnet_stores_its_state_dict_and_two_operations_are_a_multiply_add():
    network, image = resnet18(10), torch.zeros(1, 3, 32, 32)
    state, counts = network.state_dict().values(), sizes(network)
    assert counts.total == sum(t.numel() for t in state if t.is_floating_point())
    assert counts.indices == sum(t.numel() for t in state if not t.is_floating_point())
    assert counts.parameters == 11_173_962 == counts.total - 2 * 4800  # running means, variances
    assert counts.by_part == {"network": counts.parameters}
    assert flops(network, image) == 2 * cut_points(network, image)[-1].macs


def test_shared_tensors_count_once_and_views_of_different_places_apart():
    a, b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    assert stored_numbers(nn.ModuleList([a, b])) == 32
    b.weight = a.weight
    assert stored_numbers(nn.ModuleList([a, b])) == 16
    b.weight = nn.Parameter(a.weight.detach())  # another tensor, the same memory
    assert stored_numbers(nn.ModuleList([a, b])) == 16
    both = torch.zeros(8, 4)
    a.weight, b.weight = nn.Parameter(both[:4]), nn.Parameter(both[4:])
    assert stored_numbers(nn.ModuleList([a, b])) == 32


def test_parts_are_modules_or_counts():
    class Network(nn.Sequential):
        def parts(self):
            return {"base": self[0], "coefficients": 99}

    found = sizes(Network(nn.Linear(3, 2), nn.Linear(2, 1)))
    assert found.by_part == {"base": 8, "coefficients": 99} and found.total == 11
    child = nn.Module()
    child.parts = nn.ModuleList([nn.Linear(3, 2)])  # no list of parts
    assert sizes(child).by_part == {"network": 8}


def test_lazy_parameters_are_refused():
    with pytest.raises(ValueError, match="Run one forward pass before counting"):
        stored_numbers(nn.LazyLinear(3))


# --- operations ----------------------------------------------------------------------------


class Products(nn.Module):
    """All products of neighbouring variables: one multiplication each."""

    def __init__(self, variables):
        super().__init__()
        self.multiplications = variables - 1

    def forward(self, z):
        return z[..., 1:] * z[..., :-1]


class Score(nn.Module):
    """Products with a vector."""

    def forward(self, x):
        return x @ torch.ones(6)


PADDED = nn.ConstantPad1d((0, 1), 0.0)
TWICE = Products(9)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("network", "shape", "count"),
    [
        (nn.Linear(7, 5), (7,), 2 * 7 * 5),
        (nn.Linear(7, 5), (3, 7), 3 * 2 * 7 * 5),
        # 8 x 8 with stride 2 and padding 1 gives 4 x 4
        (nn.Conv2d(3, 10, 3, stride=2, padding=1), (3, 8, 8), 2 * (4 * 4 * 10) * (3 * 3 * 3)),
        (nn.Conv2d(6, 6, 3, groups=6), (6, 8, 8), 2 * (6 * 6 * 6) * (3 * 3)),
        (nn.Sequential(nn.ReLU(), nn.BatchNorm1d(7)), (7,), 0),
        (Score(), (6,), 12),
        (Score(), (3, 6), 36),
        # stated multiplications, once per position
        (nn.Sequential(Products(9), nn.Linear(8, 2)), (9,), 8 + 2 * 8 * 2),
        (nn.Sequential(Products(9), nn.Linear(8, 2)), (5, 9), 5 * (8 + 2 * 8 * 2)),
        (nn.Sequential(TWICE, PADDED, TWICE), (9,), 2 * 8),
    ],
)
def test_layers_have_the_counts_of_the_formulas(network, shape, count, batch):
    assert flops(network, torch.zeros(batch, *shape)) == count


def test_recurrent_layers_count_whatever_kernel_torch_would_use():
    inputs, width, steps = 8, 16, 10
    for kind, gates in ((nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)):
        count = 2 * steps * gates * width * (inputs + width)
        with torch.no_grad():
            assert (
                flops(kind(inputs, width, batch_first=True), torch.zeros(2, steps, inputs)) == count
            )
    assert torch.backends.mkldnn.is_available() == torch._C._get_mkldnn_enabled()


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_counts_whatever_kernel_torch_would_use(batch):
    tokens, width, hidden = 5, 16, 32
    layer = nn.TransformerEncoderLayer(width, 4, hidden, batch_first=True)
    projections, attention = 4 * 2 * tokens * width * width, 2 * 2 * tokens * tokens * width
    expected = projections + attention + 2 * 2 * tokens * width * hidden
    assert flops(layer, torch.zeros(batch, tokens, width)) == expected
    assert torch.backends.mha.get_fastpath_enabled()


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
    with pytest.raises(ValueError, match="'example' parameter of flops must be a tensor, or a "):
        flops(nn.Linear(3, 2), example)


def test_stated_multiplications_need_one_tensor():
    class Pair(Products):
        def forward(self, z):
            return z, z

    with pytest.raises(ValueError, match="must return one tensor"):
        flops(Pair(3), torch.zeros(2, 3))


# --- memory --------------------------------------------------------------------------------


CPU = torch.device("cpu")


@pytest.mark.parametrize("widths", [(10, 400, 20, 300, 30), (5, 6, 7), (50, 3)])
def test_a_chain_holds_two_activations_beside_weights_and_input(widths):
    """Each step holds its input and its output: widths a, b, c take max(a + b, b + c) at most."""
    layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(widths)]
    weights, x = [layer.weight for layer in layers], torch.zeros(16, widths[0])

    def run(x):
        for layer in layers:
            x = layer(x)

    with torch.no_grad():
        peak = peak_bytes(lambda: run(x), [*weights, x], CPU)
    first, *rest = widths
    steps = [a + b for a, b in pairwise(rest)] or rest
    assert peak == 4 * (sum(w.numel() for w in weights) + 16 * (first + max(steps)))


def test_views_and_in_place_operations_take_nothing():
    x = torch.zeros(64, 64)
    assert peak_bytes(lambda: x.t()[:3].reshape(-1).view(3, -1), [x], CPU) == 4 * (64 * 64 + 3 * 64)
    assert peak_bytes(lambda: x.add_(1).view(-1)[5:].mul_(2), [x], CPU) == 4 * 64 * 64


def test_memory_that_only_autograd_holds_still_counts():
    x = torch.zeros(256, requires_grad=True)

    def forward():
        total = x.exp().sum()  # the backward pass needs the exponentials
        return total + torch.zeros(512).sum()

    x_and_exp, zeros, scalars = 2 * 1024, 2048, 64
    assert x_and_exp + zeros <= peak_bytes(forward, [x], CPU) <= x_and_exp + zeros + scalars


def test_shared_memory_counts_once_and_following_ends_with_the_follower():
    x = torch.zeros(100)
    follower = LiveTensors([x, x[3:], x.view(10, 10)])
    assert follower.bytes == 400
    gone = weakref.ref(follower)
    del follower
    gc.collect()
    assert gone() is None
