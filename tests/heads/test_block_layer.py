import pytest
import torch

from vinets import ABM, OAVI, VCA, fit_class_ideals
from vinets.algebra.common_terms import SharedPolynomials, term_moments
from vinets.data.synthetic import latent_like_classes
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.ideals.pruning import as_polynomials

POINTS, LABELS = latent_like_classes(3, m=50, n=4, rank=2, seed=5)
Z = torch.from_numpy(POINTS)


@pytest.fixture(params=[ABM(0.02, max_degree=3), OAVI(0.02, max_degree=2), VCA(0.05, max_degree=2)])
def sets(request):
    ideals = fit_class_ideals(Z, LABELS, request.param)
    return [as_polynomials(one.generators_) for _, one in ideals]


@pytest.fixture
def layer(sets):
    return BlockPolynomialLayer.from_polynomials(sets, Z)


def test_it_equals_the_shared_layer_and_the_generators_up_to_a_positive_factor_each(sets, layer):
    ours = layer.double()(Z)
    shared = SharedPolynomials.of(sets)
    dense = PolynomialLayer.from_polynomials(shared, term_moments(shared.terms, Z)).double()
    torch.testing.assert_close(ours, dense(Z), atol=1e-5, rtol=1e-4)
    theirs = torch.cat([p.evaluate(Z) for p in sets], 1).abs()
    factor = (ours * theirs).sum(0) / theirs.square().sum(0)
    assert (factor > 0).all()
    torch.testing.assert_close(ours, factor * theirs, atol=1e-5, rtol=1e-4)


def test_files_hold_the_blocks_and_not_their_padding(layer):
    state = layer.state_dict()
    assert [state[f"blocks.{k}"].shape for k in range(3)] == [b.shape for b in layer.blocks]
    floats = sum(t.numel() for t in state.values() if t.is_floating_point())
    assert floats == layer.parts()["coefficients"]
    columns = [layer.get_buffer(f"columns_{k}") for k in range(3)]
    other = BlockPolynomialLayer(layer.monomials.terms, columns, layer.leading, layer.counts)
    other.load_state_dict(state)
    assert torch.equal(other(Z.float()), layer(Z.float()))
    state["blocks.1"] = state["blocks.1"][:-1]
    with pytest.raises(RuntimeError, match="weight"):
        layer.load_state_dict(state)


def test_padding_stays_zero_in_training(layer):
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(Z.float()).square().mean().backward()
        optimizer.step()
    inside = torch.zeros_like(layer.weight, dtype=torch.bool)
    for k, (count, size) in enumerate(zip(layer.counts, layer.sizes, strict=True)):
        inside[k, :count, :size] = True
    assert (layer.weight[~inside] == 0).all() and (layer.weight[inside] != 0).any()
