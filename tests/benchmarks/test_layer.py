"""The share of a layer is its share of the time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.layer import time_share


def test_the_share_is_the_median_over_the_passes_behind_the_warm_up(monkeypatch):
    now = [0.0]

    class Work(nn.Module):
        def __init__(self, seconds, slower=0.0):
            super().__init__()
            self.seconds, self.slower = seconds, slower

        def forward(self, x):
            now[0] += self.seconds
            self.seconds += self.slower
            return x

    monkeypatch.setattr("benchmarks.layer.time.perf_counter", lambda: now[0])
    x = torch.zeros(1, 1)
    network = nn.Sequential(Work(1.0), Work(3.0), nn.Sequential(Work(4.0)))
    network.append(network[0])  # called twice
    for part, reference, share in [
        (network[0], network[1], 2 / 3),
        (network[1], network, 3 / 9),
        (network[2], network[2][0], 1),
    ]:
        assert time_share(network, x, part, reference) == pytest.approx(share)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    network = nn.Sequential(Work(1.0, slower=1.0), Work(1.0))
    assert time_share(network, x, network[0], network[1], repeats=3, warmup=2) == 4  # 3, 4, 5
