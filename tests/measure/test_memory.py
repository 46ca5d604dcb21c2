from __future__ import annotations

import gc
import weakref
from itertools import pairwise

import torch
from torch import nn

from vinets.measure.cost import LiveTensors, peak_bytes

CPU = torch.device("cpu")


class Chain(nn.Module):
    """Each step holds its input and its output: widths a, b, c take max(a + b, b + c) at most."""

    def __init__(self, *widths):
        super().__init__()
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def chain_peak(widths, batch):
    weights = sum(a * b for a, b in pairwise(widths))
    first, *rest = widths
    steps = [sum(rest[i : i + 2]) for i in range(len(rest) - 1)] or rest
    return 4 * (weights + batch * (first + max(steps)))


def test_a_chain_holds_two_activations_beside_weights_and_input():
    for widths in [(10, 400, 20, 300, 30), (5, 6, 7), (50, 3)]:
        network, x = Chain(*widths), torch.zeros(16, widths[0])
        with torch.no_grad():
            peak = peak_bytes(lambda n=network, x=x: n(x), [*network.parameters(), x], CPU)
        assert peak == chain_peak(widths, 16)


def test_what_is_kept_adds_up():
    x = torch.zeros(256)

    def keep():
        kept = [x + i for i in range(5)]
        return torch.stack(kept)

    assert peak_bytes(keep, [x], CPU) == 1024 * (1 + 5 + 5)


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


def test_shared_memory_counts_once():
    x = torch.zeros(100)
    assert LiveTensors([x, x[3:], x.view(10, 10)]).bytes == 400


def test_following_ends_with_the_follower():
    x = torch.zeros(100)
    follower = LiveTensors([x])
    gone = weakref.ref(follower)
    del follower
    gc.collect()
    assert gone() is None
