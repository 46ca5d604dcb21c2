from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from vinets.models import digits_cnn
from vinets.models.networks import BasicBlock
from vinets.theory.complexity import spectral_complexity
from vinets.theory.norms import Complexity, LayerNorms


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 7), nn.LeakyReLU(2.0), nn.Linear(7, 3)
    )


def small_residual_network():
    torch.manual_seed(0)
    stem = [nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [BasicBlock(3, 3, 1), BasicBlock(3, 4, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def test_r_is_the_definition_with_numpy():
    net = perceptron()
    product, total = 2.0, 0.0  # 2 is the slope of the leaky unit
    for index in (0, 2, 4):
        w = net[index].weight.detach().numpy().astype(float)
        spectral = np.linalg.norm(w, 2)
        product *= spectral
        total += (sum(np.linalg.norm(row) for row in w) / spectral) ** (2 / 3)
    found = spectral_complexity(net, torch.zeros(1, 6))
    assert pytest.approx(product * total**1.5, rel=1e-6) == found.R
    assert found.log10_R == pytest.approx(math.log10(found.R))
    assert sum(found.shares) == pytest.approx(1)
    assert found.converged


@pytest.mark.parametrize(
    ("net", "shape"),
    [(small_residual_network(), (2, 8, 8)), (digits_cnn(), (1, 8, 8)), (perceptron(), (6,))],
)
def test_the_product_bounds_the_jacobian(net, shape):
    """So it does for every point; the bound would break if a constant were too small."""
    net = net.double().eval()
    found = spectral_complexity(net, torch.zeros(1, *shape, dtype=torch.float64))
    points = torch.randn(5, *shape, dtype=torch.float64)
    for x in points:
        jacobian = torch.func.jacrev(lambda x: net(x[None])[0])(x).flatten(1)
        norm = torch.linalg.svdvals(jacobian)[0].item()
        assert 0 < norm <= 10**found.log10_product


def test_r_grows_with_a_layer_and_shares_do_not_change():
    net = perceptron()
    before = spectral_complexity(net, torch.zeros(1, 6))
    net[2].weight.data *= 3
    after = spectral_complexity(net, torch.zeros(1, 6))
    assert pytest.approx(3 * before.R, rel=1e-5) == after.R
    assert after.shares == pytest.approx(before.shares, rel=1e-5)


def test_biases_and_signs_do_not_count():
    net = perceptron()
    before = spectral_complexity(net, torch.zeros(1, 6)).R
    net[0].bias.data += 5
    net[4].weight.data *= -1
    assert pytest.approx(before, rel=1e-6) == spectral_complexity(net, torch.zeros(1, 6)).R


def test_layers_of_zeros_and_huge_layers():
    zero = Complexity((LayerNorms("a", 0.0, 0.0), LayerNorms("b", 2.0, 3.0)))
    assert zero.R == 0 and zero.log10_R == -math.inf
    huge = Complexity((LayerNorms("a", 1e200, 1e200),) * 2)
    assert math.inf == huge.R
    assert huge.log10_R == pytest.approx(400 + 1.5 * math.log10(2))
    assert huge.to_dict()["R"] is None


def test_the_record_holds_every_layer():
    found = spectral_complexity(small_residual_network(), torch.zeros(1, 2, 8, 8))
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["role"] for row in record["layers"]] == [
        *("plain", "fork", "join", "fork", "join", "plain")
    ]
    assert record["R"] == found.R and record["residual_rule"] == "stacked"
    for row, layer in zip(record["layers"], found.layers, strict=True):
        assert row["name"] == layer.name and row["share"] > 0
        assert layer.spectral <= layer.upper <= layer.kernel_bound * (1 + 1e-9)
