from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets.theory.norms import (
    kernel_bound,
    largest_singular_value,
    row_norms,
    spectral_norm,
)

CONVOLUTIONS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3, "padding": 1, "stride": 2},
    {"kernel_size": (3, 2), "padding": (2, 0), "stride": (1, 2)},
    {"kernel_size": 3, "padding": 2, "dilation": 2},
    {"kernel_size": 3, "padding": 2, "dilation": 2, "stride": 2},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 2, "padding": "same"},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": 5, "padding": 2, "stride": 3, "groups": 2},
]
CIRCULAR = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3, "padding": 2, "dilation": 2, "groups": 2},
    {"kernel_size": (1, 4), "padding": "same"},
    {"kernel_size": 9, "padding": 4},  # wraps round and meets itself
    {"kernel_size": 3, "padding": 1, "stride": 2},
    {"kernel_size": 3, "padding": 0},
]
SHAPE = (4, 6, 7)


def make(options, mode="zeros", seed=0):
    torch.manual_seed(seed)
    return nn.Conv2d(4, 6, **options, padding_mode=mode)


def layers():
    yield from ((make(o), SHAPE) for o in CONVOLUTIONS)
    yield from ((make(o, "circular"), SHAPE) for o in CIRCULAR)
    torch.manual_seed(1)
    yield nn.Linear(20, 7), (20,)
    yield nn.Linear(5, 9), (3, 5)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(("layer", "shape"), list(layers()), ids=str)
def test_norms_are_those_of_the_dense_matrix(layer, shape, matrix_of):
    layer = layer.double()
    matrix = matrix_of(lambda x: layer(x[None]), shape)
    torch_norm = torch.linalg.svdvals(matrix)[0].item()
    found = spectral_norm(layer, shape)
    assert found.converged
    # Those that the Fourier transform diagonalises are exact to rounding.
    precision = 1e-3 if found.iterations or isinstance(layer, nn.Linear) else 1e-10
    assert found.value == pytest.approx(torch_norm, rel=precision)
    assert found.value <= torch_norm * (1 + 1e-10) and torch_norm <= found.upper * (1 + 1e-10)
    assert kernel_bound(layer) >= torch_norm * (1 - 1e-12)
    rows = matrix.norm(dim=1)
    torch.testing.assert_close(row_norms(layer, shape).flatten(), rows, rtol=1e-10, atol=0)


def test_without_its_factor_the_reshaped_kernel_is_no_bound():
    layer = nn.Conv2d(1, 1, 3, padding=1)
    nn.init.ones_(layer.weight)
    norm = spectral_norm(layer, (1, 32, 32)).value
    reshaped = torch.linalg.matrix_norm(layer.weight.detach().reshape(1, -1), 2).item()
    assert reshaped < norm < kernel_bound(layer)
    assert kernel_bound(layer) == pytest.approx(9)
    assert norm == pytest.approx((1 + 2 * torch.cos(torch.tensor(torch.pi / 33)).item()) ** 2, 1e-3)


def test_a_zero_layer_and_one_with_equal_singular_values():
    layer = nn.Linear(6, 6)
    nn.init.zeros_(layer.weight)
    assert spectral_norm(layer, (6,)).value == 0
    nn.init.orthogonal_(layer.weight)
    found = spectral_norm(layer, (6,))
    assert found.converged and found.value == pytest.approx(1)


def test_a_map_that_does_not_converge_says_so_and_keeps_its_bounds():
    n = 2000
    diagonal = 1 - torch.linspace(0, 1, n, dtype=torch.float64) ** 2 / 1e6
    found = largest_singular_value(lambda x: diagonal * x, (n,), tolerance=1e-12)
    assert not found.converged
    assert found.value <= 1 + 1e-12 <= found.upper


@pytest.mark.parametrize(
    ("layer", "shape", "match"),
    [
        (nn.Linear(3, 2), (4,), r"\(\.\.\., 3\)"),
        (nn.Conv2d(3, 2, 1), (3, 8), "without the batch"),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"), (3, 8, 8), "zeros or circular"),
        (nn.ReLU(), (3,), "nn.Linear or an nn.Conv2d"),
    ],
)
def test_bad_input_is_named(layer, shape, match):
    with pytest.raises(ValueError, match=match):
        spectral_norm(layer, shape)
