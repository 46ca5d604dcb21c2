from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets.algebra.shared import term_moments
from vinets.algebra.terms import TermSet
from vinets.heads.polynomial_layer import PolynomialLayer

TERMS = TermSet.from_exponents([[1, 0], [0, 1], [2, 0], [1, 1], [1, 3]])


@pytest.fixture
def layer(shared, points) -> PolynomialLayer:
    return PolynomialLayer.from_polynomials(shared, term_moments(shared.terms, points)).double()


def plain(layer: PolynomialLayer, z: torch.Tensor) -> torch.Tensor:
    """The formula of the docstring, term by term."""
    columns = []
    for s, powers in enumerate(layer.monomials.terms.exponents().tolist()):
        m = torch.ones(len(z), dtype=z.dtype)
        for i, power in enumerate(powers):
            m = m * z[:, i] ** power
        columns.append((m - layer.shift[s]) / layer.scale[s])
    return (torch.stack(columns, 1) @ layer.coefficients.T + layer.bias).abs()


def test_the_layer_is_its_formula(layer, points):
    torch.testing.assert_close(layer(points), plain(layer, points))


def test_it_starts_as_the_absolute_generators_up_to_a_positive_factor_each(layer, shared, points):
    ours, theirs = layer(points), shared.evaluate(points).abs()
    factor = (ours * theirs).sum(0) / theirs.square().sum(0)
    assert (factor > 0).all()
    torch.testing.assert_close(ours, factor * theirs, atol=1e-5, rtol=1e-5)  # float32 at first
    torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(shared)).double())


def test_monomials_are_standardised_on_the_points(layer, points):
    m = (layer.monomials(points) - layer.shift) / layer.scale
    torch.testing.assert_close(m.mean(0), torch.zeros_like(layer.shift), atol=1e-5, rtol=0)
    spread = m.std(0, correction=0)
    torch.testing.assert_close(spread, torch.ones_like(spread), atol=1e-5, rtol=0)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_folding_keeps_the_outputs_and_drops_the_statistics(
    shared, points, normalized, dtype, tolerance
):
    moments = term_moments(shared.terms, points)
    layer = PolynomialLayer.from_polynomials(shared, moments, normalized=normalized).to(dtype)
    if layer.norm is not None:
        layer(points.to(dtype))  # one batch through the running statistics
    layer.eval()
    folded = layer.folded()
    assert folded.weight.dtype == dtype and not folded.training
    z = points.to(dtype)
    torch.testing.assert_close(folded(z), layer(z), atol=tolerance, rtol=tolerance)
    stored = len(shared.terms) * (len(shared) + 2) + len(shared) * (5 if normalized else 1)
    assert layer.parts()["coefficients"] == stored
    assert folded.parts()["coefficients"] == len(shared) * (len(shared.terms) + 1)


def test_folding_does_not_change_the_layer(layer, points):
    before = layer(points)
    folded = layer.folded()
    with torch.no_grad():
        folded.weight.zero_()
    assert torch.equal(layer(points), before)
    again = layer.folded().folded()
    torch.testing.assert_close(again(points), before)


def test_masked_coefficients_stay_zero_in_training_and_in_the_folded_layer(shared, points):
    moments = term_moments(shared.terms, points)
    layer = PolynomialLayer.from_polynomials(shared, moments, sparse=True)
    zero = shared.coefficients == 0
    assert zero.any() and not zero.all()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    before = layer.coefficients.detach().clone()
    for _ in range(5):
        optimizer.zero_grad()
        layer(points.float()).square().sum().backward()
        optimizer.step()
    assert not torch.equal(layer.coefficients, before)
    assert (layer.coefficients[zero] == 0).all()
    assert (layer.folded().weight[zero] == 0).all()


def test_gradients_reach_coefficients_and_points_and_are_finite_at_zero():
    layer = PolynomialLayer(TERMS, 4)
    z = torch.zeros(3, 2, requires_grad=True)
    layer(z).sum().backward()
    for tensor in (z, layer.weight, layer.bias):
        assert torch.isfinite(tensor.grad).all()
    z = torch.ones(3, 2, requires_grad=True)
    layer(z).sum().backward()
    assert (z.grad != 0).any() and (layer.weight.grad != 0).all()


@pytest.mark.parametrize("activation", ["abs", "relu", "none"])
def test_activations(activation):
    layer = PolynomialLayer(TERMS, 6, activation=activation)
    z = torch.randn(8, 2)
    values = layer.values(z)
    expected = {"abs": values.abs(), "relu": values.clamp_min(0), "none": values}[activation]
    assert torch.equal(layer(z), expected) and (values < 0).any()
    assert torch.equal(layer.folded()(z) < 0, expected < 0)


def test_bfloat16_is_close_to_float32(shared, points):
    layer = PolynomialLayer.from_polynomials(shared, term_moments(shared.terms, points)).eval()
    z = points.float()
    exact = layer(z)
    with torch.autocast("cpu", torch.bfloat16):
        rough = layer(z.bfloat16())
    assert rough.dtype == torch.bfloat16
    assert (rough - exact).abs().max() < 0.05 * exact.max()


@pytest.mark.parametrize("normalized", [False, True])
def test_any_leading_shape(normalized):
    layer = PolynomialLayer(TERMS, 4, normalized=normalized).eval()
    z = torch.randn(2, 3, 5, 2)
    torch.testing.assert_close(layer(z), layer(z.flatten(0, 2)).view(2, 3, 5, 4))


@pytest.mark.parametrize("count", [4, 10])
def test_values_are_batch_normalised_whichever_way(count):
    """From the moments of few monomials, or value by value where these are many."""
    layer = PolynomialLayer(TERMS, count, normalized=True).double()
    norm, (weight, bias) = nn.BatchNorm1d(count).double(), (layer.weight, layer.bias)
    with torch.no_grad():
        for p in (norm.weight, norm.bias, bias):
            p.copy_(torch.randn(count))
    layer.norm.load_state_dict(norm.state_dict())
    z = torch.rand(30, 4, 2, dtype=torch.float64, requires_grad=True)
    assert (layer.affine(layer.scaled(z)) is None) == (count == 4)
    layer.norm.load_state_dict(norm.state_dict())  # asking moved the statistics
    rows = F.linear(layer.scaled(z), weight, bias).flatten(0, 1)
    expected, found = norm(rows).view(30, 4, count), layer.values(z)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(layer.norm.state_dict(), norm.state_dict())
    way = torch.randn_like(found)
    ours = torch.autograd.grad((found * way).sum(), [z, weight, bias, *layer.norm.parameters()])
    theirs = torch.autograd.grad((expected * way).sum(), [z, weight, bias, *norm.parameters()])
    torch.testing.assert_close(ours, theirs)


def test_statistics_of_a_single_value_stay_finite():
    layer = PolynomialLayer(TERMS, 10, normalized=True)
    assert layer.affine(layer.scaled(torch.rand(1, 1, 2))) is not None
    assert all(torch.isfinite(t).all() for t in layer.norm.state_dict().values())


def test_it_compiles_without_graph_breaks(layer, points):
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(points), layer(points))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"'activation' parameter of PolynomialLayer.*'tanh'"):
        PolynomialLayer(TERMS, 4, activation="tanh")
    with pytest.raises(ValueError, match="a folded layer has no statistics"):
        PolynomialLayer(TERMS, 4).folded().set_moments(torch.zeros(5), torch.ones(5))
