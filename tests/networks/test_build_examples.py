from __future__ import annotations

import pytest
import torch

from vinets.models import digits_cnn
from vinets.networks.build import build

SMALL = {"components": 4, "keep": 4, "monomials": 32, "progress": None}


def test_networks_built_from_a_file_and_from_memory_are_equal(model, train):
    nets = []
    for limit in (1 << 30, 1 << 16):
        torch.manual_seed(0)
        options = SMALL | {"per_class": 16, "memory_limit": limit}
        nets.append(build(model, train, "relu2", **options)[0].state_dict())
    assert all(torch.equal(t, nets[1][k]) for k, t in nets[0].items())


def test_a_class_with_one_example_is_fitted_and_scored_on_it():
    images = torch.randn(21, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0] * 10 + [1] * 10 + [2])
    net, report = build(digits_cnn(), (images, labels), "relu3", **SMALL)
    assert report.examples == 21 and net(images).shape == (21, 3)
    assert (report.pictures.owners == 2).any()


def test_too_few_examples_are_said():
    images = torch.randn(1, 1, 8, 8)
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        build(digits_cnn(), (images, torch.tensor([0])), "relu3", **SMALL)


def test_few_examples_lower_the_number_of_components():
    images = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    options = SMALL | {"components": 50}
    net = build(digits_cnn(), (images, torch.arange(6) % 2), "relu3", **options)[0]
    assert len(net.head.projection.weight) == 5
