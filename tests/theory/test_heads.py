"""Norms of heads against dense matrices, and against how far the heads really move."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from vinets import baselines, build, collect
from vinets.core.settings import TrainingOptions
from vinets.data import digits
from vinets.heads import Head, PolynomialHead, PooledHead, VanishingOptions
from vinets.models import digits_cnn
from vinets.networks.network import VINet
from vinets.theory.bounds import encode_polynomials, kappa
from vinets.theory.complexity import cut_complexity, head_norms, spectral_complexity
from vinets.training import fine_tune

# Components of unit variance lie outside of [-1, 1] where tanh comes before them.
pytestmark = pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")
GLOBAL = {"components": 6, "keep": 4, "monomials": 30}
VARIANTS = {
    "tanh-pca": {**GLOBAL, "order": "tanh-pca"},
    "pca-tanh": {**GLOBAL, "order": "pca-tanh"},
    "unpruned": {"components": 4, "keep": None, "monomials": None},
    "path": {**GLOBAL, "linear_path": 3, "order": "tanh-pca"},
    "whole path": {**GLOBAL, "linear_path": 1000, "order": "pca-tanh"},
    "local": {"head": "local", "keep": 2},
    "local, components": {"head": "local", "components": 3, "keep": 2},
    "local, path": {"head": "local", "keep": 2, "linear_path": 4},
}


@pytest.fixture(scope="module")
def latents():
    torch.manual_seed(0)
    return collect(digits_cnn(), digits().train, "relu3", per_class=30, progress=None)


@pytest.fixture(scope="module", params=VARIANTS)
def trained(request, latents) -> VINet:
    net, _ = build(latents, progress=None, **VARIANTS[request.param])
    recipe = TrainingOptions(epochs=2, batch_size=64, learning_rate=0.05, validation=0.1)
    fine_tune(net, digits().train, recipe=recipe, progress=None)
    return net


def dense(apply, inputs: int) -> Tensor:
    """The matrix of an affine map, column by column, without its offset."""
    zero = apply(torch.zeros(1, inputs, dtype=torch.float64))
    return (apply(torch.eye(inputs, dtype=torch.float64)) - zero).mT


def plain_matrices(head: Head, shape: tuple[int, int]) -> list[Tensor]:
    """Every matrix of a global head without a path, from its modules as they are."""
    head = head.folded().double()
    size = shape[0] * shape[1]
    gain = torch.diag(1 / head.rescale.std.flatten())
    weight = dense(head.projection, size)
    front = [gain, weight] if head.order == "tanh-pca" else [gain @ weight]
    encoded = encode_polynomials(head.polynomials)
    return [*front, encoded.sums.to_dense(), encoded.coefficients, head.linear.weight.detach()]


@pytest.mark.parametrize("variant", ["tanh-pca", "pca-tanh", "unpruned"])
def test_norms_are_those_of_the_dense_matrices(variant, latents):
    net, _ = build(latents, progress=None, **VARIANTS[variant])
    found = head_norms(net.head, latents.shape).layers
    for layer, matrix in zip(found, plain_matrices(net.head, latents.shape), strict=True):
        assert layer.spectral == pytest.approx(np.linalg.norm(matrix.numpy(), 2), rel=1e-6)
        assert layer.two_one == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-9)


def test_a_path_is_stacked_beside_the_polynomials(latents):
    net, _ = build(latents, progress=None, **VARIANTS["path"])
    with torch.no_grad():
        net.head.path.out.weight.mul_(3.0)
    head = net.head.folded().double()
    size = latents.shape[0] * latents.shape[1]
    path = dense(lambda z: head.path(z.reshape(-1, *latents.shape)), size).detach()
    gain, weight, sums, coefficients, final = plain_matrices(net.head, latents.shape)
    one = torch.eye(10, dtype=torch.float64)
    stacked = [
        torch.cat([gain, path]),
        *(torch.block_diag(matrix, one) for matrix in (weight, sums, coefficients)),
        torch.cat([final, one], dim=1),
    ]
    for layer, matrix in zip(head_norms(net.head, latents.shape).layers, stacked, strict=True):
        assert layer.spectral == pytest.approx(np.linalg.norm(matrix.numpy(), 2), rel=1e-6)
        assert layer.two_one == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-6)


def test_local_matrices_act_at_every_position(latents):
    net, _ = build(latents, progress=None, **VARIANTS["local, components"])
    head = net.head.folded().double()
    positions = latents.shape[1]
    encoded = encode_polynomials(head.polynomials)
    one = torch.eye(positions, dtype=torch.float64)
    channels = torch.eye(latents.shape[0], dtype=torch.float64)
    count = len(head.linear.weight[0])

    def summed(y: Tensor) -> Tensor:
        return head.linear(head.spatial(y.reshape(-1, positions, count)))

    matrices = [
        torch.diag((1 / head.rescale.std).expand(latents.shape).flatten()),
        torch.kron(one, torch.cat([channels, head.projection.weight.detach()])),
        torch.kron(one, encoded.sums.to_dense()),
        torch.kron(one, encoded.coefficients),
        dense(summed, positions * count).detach(),
    ]
    for layer, matrix in zip(head_norms(net.head, latents.shape).layers, matrices, strict=True):
        assert layer.spectral == pytest.approx(np.linalg.norm(matrix.numpy(), 2), rel=1e-6)
        assert layer.two_one == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-6)


def test_no_trained_network_moves_further_than_its_norms_allow(trained, latents):
    found = cut_complexity(trained)
    limit = math.prod(layer.lipschitz * layer.spectral for layer in found.head.guaranteed())
    generator = torch.Generator().manual_seed(1)
    head = copy.deepcopy(trained.head).double().eval()
    a = next(latents.store.chunks(200))[0].double()
    for size in (1e-4, 1e-2, 1.0):
        b = a + size * torch.randn(a.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            moved = (head(a) - head(b)).norm(dim=1)
        assert (moved <= limit * (a - b).flatten(1).norm(dim=1)).all()


def test_every_bound_holds_on_trained_networks(trained):
    bounds = cut_complexity(trained).head.bounds
    assert len(bounds.bounds) == 7
    assert bounds.holds, str(bounds)


def test_kappa_is_the_ratio_of_the_complexities(trained):
    torch.manual_seed(0)
    uncut = spectral_complexity(digits_cnn(), torch.zeros(1, 1, 8, 8))
    whole = spectral_complexity(trained)
    kept = len(cut_complexity(trained).backbone.layers)
    assert uncut.layers[:kept] == whole.layers[:kept]
    ratio = kappa(uncut.layers[:kept], uncut.layers[kept:], whole.layers[kept:])
    assert ratio == pytest.approx(whole.R / uncut.R, rel=1e-9)


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


def test_baselines_have_a_complexity_too(latents):
    options = VanishingOptions(**GLOBAL)
    for name, baseline in baselines(latents, options=options).items():
        found = cut_complexity(baseline)
        assert 0 < found.whole.R < math.inf, name
        assert (found.head.bounds is None) != isinstance(baseline.head, PolynomialHead)


def test_a_pooled_head_is_its_dense_matrix():
    head = PooledHead(3, 2).eval()
    matrix = dense(lambda z: head.double()(z.reshape(-1, 3, 4)), 12).detach()
    (layer,) = head_norms(head, (3, 4)).layers
    assert layer.spectral == pytest.approx(np.linalg.norm(matrix.numpy(), 2), rel=1e-6)
    assert layer.two_one == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-6)


def test_pooling_of_the_reader_counts(latents):
    torch.manual_seed(0)
    model = digits_cnn()
    train = digits().train
    plain = collect(model, train, "relu3", per_class=20, progress=None)
    pooled = collect(model, train, "relu3", per_class=20, read="pool", pool=1, progress=None)
    nets = [build(given, components=4, keep=2, progress=None)[0] for given in (plain, pooled)]
    constants = [cut_complexity(net).backbone.layers[-1].lipschitz for net in nets]
    assert constants[1] == pytest.approx(constants[0] / math.sqrt(plain.shape[1]))


def test_unknown_inputs_are_one_sentence():
    with pytest.raises(ValueError, match="needs an example"):
        spectral_complexity(torch.nn.Linear(2, 2))
