"""What a search measures on a GPU."""

import pytest
import torch
from torch import nn

from vinets.core.progress import progress_of
from vinets.search.costs import in_turns

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Asks(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_passes_are_recorded_unless_one_of_the_networks_cannot_be():
    x, quick = torch.randn(4, 16), {"repeats": 3, "seconds": 0.01}
    networks = {"plain": nn.Linear(16, 16), "deep": nn.Sequential(nn.Linear(16, 16), nn.ReLU())}

    def recorded(networks):
        found = in_turns(networks, x, 4, "cuda", progress_of(None), quick)
        assert all(one.latency_ms > 0 for one in found.values())
        return {one.recorded for one in found.values()}

    assert recorded(networks) == {True}
    assert recorded(networks | {"asks": Asks()}) == {False}
    assert recorded(networks) == {True}  # nothing is left of the failure
