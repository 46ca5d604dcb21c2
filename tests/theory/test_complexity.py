"""Norms of networks against dense matrices, and against how far networks really move."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vinets import build, collect
from vinets.data import digits
from vinets.heads import Head
from vinets.models import digits_cnn
from vinets.models.networks import BasicBlock
from vinets.theory.bounds import encode_polynomials
from vinets.theory.complexity import cut_complexity, head_norms, spectral_complexity
from vinets.theory.norms import Complexity, LayerNorms

# Components of unit variance lie outside of [-1, 1] where tanh comes before them.
pytestmark = pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")
GLOBAL = {"components": 6, "keep": 4, "monomials": 30}
VARIANTS = {
    "tanh-pca": {**GLOBAL, "order": "tanh-pca"},
    "pca-tanh": {**GLOBAL, "order": "pca-tanh"},
    "unpruned": {"components": 4, "keep": None, "monomials": None},
    "path": {**GLOBAL, "linear_path": 3, "order": "tanh-pca"},
    "local, components": {"head": "local", "components": 3, "keep": 2},
}


# --- plain networks ---------------------------------------------------------------------------


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
    assert all(layer.converged for layer in found.layers)


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


def test_layers_of_zeros_and_huge_layers():
    zero = Complexity((LayerNorms("a", 0.0, 0.0), LayerNorms("b", 2.0, 3.0)))
    assert zero.R == 0 and zero.log10_R == -math.inf
    huge = Complexity((LayerNorms("a", 1e200, 1e200),) * 2)
    assert math.inf == huge.R
    assert huge.log10_R == pytest.approx(400 + 1.5 * math.log10(2))
    assert huge.to_dict()["R"] is None


# --- heads behind a cut -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def latents():
    torch.manual_seed(0)
    return collect(digits_cnn(), digits().train, "relu3", per_class=30, progress=None)


@pytest.fixture
def plain_matrices(matrix_of, latents):
    """Find every matrix of a global head without a path, from its modules as they are."""

    def matrices(head: Head) -> list[Tensor]:
        head = head.folded().double()
        gain = torch.diag(1 / head.rescale.std.flatten())
        weight = matrix_of(lambda x: head.projection(x[None]), (math.prod(latents.shape),))
        front = [gain, weight] if head.order == "tanh-pca" else [gain @ weight]
        encoded = encode_polynomials(head.polynomials)
        final = head.linear.weight.detach()
        return [*front, encoded.sums.to_dense(), encoded.coefficients, final]

    return matrices


def agree(head: Head, shape: tuple[int, int], matrices: list[Tensor]) -> None:
    """Hold the norms of a head against those of its dense matrices."""
    for layer, matrix in zip(head_norms(head, shape).layers, matrices, strict=True):
        assert layer.spectral == pytest.approx(np.linalg.norm(matrix.numpy(), 2), rel=1e-6)
        assert layer.two_one == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-9)


@pytest.mark.parametrize("variant", ["tanh-pca", "pca-tanh", "unpruned"])
def test_norms_are_those_of_the_dense_matrices(variant, latents, plain_matrices):
    net, _ = build(latents, progress=None, **VARIANTS[variant])
    agree(net.head, latents.shape, plain_matrices(net.head))


def test_a_path_is_stacked_beside_the_polynomials(latents, plain_matrices, matrix_of):
    net, _ = build(latents, progress=None, **VARIANTS["path"])
    with torch.no_grad():
        net.head.path.out.weight.mul_(3.0)
    head = net.head.folded().double()
    path = matrix_of(lambda z: head.path(z[None]), latents.shape)
    gain, weight, sums, coefficients, final = plain_matrices(net.head)
    one = torch.eye(10, dtype=torch.float64)
    stacked = [
        torch.cat([gain, path]),
        *(torch.block_diag(matrix, one) for matrix in (weight, sums, coefficients)),
        torch.cat([final, one], dim=1),
    ]
    agree(net.head, latents.shape, stacked)


def test_local_matrices_act_at_every_position(latents, matrix_of):
    net, _ = build(latents, progress=None, **VARIANTS["local, components"])
    head = net.head.folded().double()
    positions = latents.shape[1]
    encoded = encode_polynomials(head.polynomials)
    one = torch.eye(positions, dtype=torch.float64)
    channels = torch.eye(latents.shape[0], dtype=torch.float64)
    count = len(head.linear.weight[0])

    def summed(y: Tensor) -> Tensor:
        return head.linear(head.spatial(y[None]))

    matrices = [
        torch.diag((1 / head.rescale.std).expand(latents.shape).flatten()),
        torch.kron(one, torch.cat([channels, head.projection.weight.detach()])),
        torch.kron(one, encoded.sums.to_dense()),
        torch.kron(one, encoded.coefficients),
        matrix_of(summed, (positions, count)),
    ]
    agree(net.head, latents.shape, matrices)


def test_variables_beyond_one_cost_their_power(latents):
    wide, _ = build(latents, progress=None, **VARIANTS["tanh-pca"])
    tame, _ = build(latents, progress=None, **VARIANTS["pca-tanh"])
    for net in (wide, tame):
        found = cut_complexity(net)
        z = net.head.variables(50 * torch.randn(500, *latents.shape))
        assert float(z.abs().max()) <= found.head.variables_bound * (1 + 1e-6)
        growth = found.head.variables_bound ** (found.head.bounds.size.degree - 1)
        assert pytest.approx(found.whole.R * max(1.0, growth)) == found.guaranteed.R
    assert cut_complexity(tame).head.variables_bound == 1


def test_pooling_of_the_reader_counts(latents):
    torch.manual_seed(0)
    model = digits_cnn()
    train = digits().train
    plain = collect(model, train, "relu3", per_class=20, progress=None)
    pooled = collect(model, train, "relu3", per_class=20, read="pool", pool=1, progress=None)
    nets = [build(each, components=4, keep=2, progress=None)[0] for each in (plain, pooled)]
    constants = [cut_complexity(net).backbone.layers[-1].lipschitz for net in nets]
    assert constants[1] == pytest.approx(constants[0] / math.sqrt(plain.shape[1]))


def test_unknown_inputs_are_one_sentence():
    with pytest.raises(ValueError, match="needs an example"):
        spectral_complexity(torch.nn.Linear(2, 2))
