from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from vinets.core.plain import as_plain
from vinets.measure import sizes, stored_indices, stored_numbers
from vinets.models import resnet18


class Layer(nn.Module):
    """A parameter, a float table, an index table and a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 4))
        self.register_buffer("table", torch.zeros(5))
        self.register_buffer("indices", torch.zeros(7, 2, dtype=torch.int32))
        self.register_buffer("mask", torch.zeros(6, dtype=torch.bool))
        self.register_buffer("cache", torch.zeros(10), persistent=False)


def test_floats_and_indices_are_counted_apart():
    assert stored_numbers(Layer()) == 12 + 5 + 10
    assert stored_indices(Layer()) == 14 + 6


def test_a_resnet_stores_its_state_dict():
    network = resnet18(10)
    state = network.state_dict().values()
    found = sizes(network)
    assert found.total == sum(t.numel() for t in state if t.is_floating_point())
    assert found.indices == sum(t.numel() for t in state if not t.is_floating_point())
    assert found.parameters == 11_173_962 == found.total - 2 * 4800  # running means, variances
    assert found.by_part == {"network": found.parameters}


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


def test_meta_tensors_are_told_apart():
    with torch.device("meta"):
        assert stored_numbers(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))) == 24


def test_parts_are_modules_or_counts():
    class Network(nn.Sequential):
        def parts(self):
            return {"base": self[0], "coefficients": 99}

    found = sizes(Network(nn.Linear(3, 2), nn.Linear(2, 1)))
    assert found.by_part == {"base": 8, "coefficients": 99} and found.total == 11
    assert json.loads(json.dumps(as_plain(found)))["by_part"]["base"] == 8


def test_a_child_called_parts_is_no_list_of_parts():
    network = nn.Module()
    network.parts = nn.ModuleList([nn.Linear(3, 2)])
    assert sizes(network).by_part == {"network": 8}


def test_lazy_parameters_are_refused():
    with pytest.raises(ValueError, match="Run one forward pass before counting"):
        stored_numbers(nn.LazyLinear(3))
