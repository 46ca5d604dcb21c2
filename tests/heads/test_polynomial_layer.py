import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from vinets.algebra.common_terms import term_moments
from vinets.algebra.terms import TermSet
from vinets.heads.polynomial_layer import Monomials, PolynomialLayer

TERMS = TermSet.from_exponents([[1, 0], [0, 1], [2, 0], [1, 1], [1, 3]])


@pytest.fixture
def layer(shared, points) -> PolynomialLayer:
    return PolynomialLayer.from_polynomials(shared, term_moments(shared.terms, points)).double()


def plain(layer: PolynomialLayer, z: torch.Tensor) -> torch.Tensor:
    """The formula of the docstring, term by term."""
    powers = torch.from_numpy(layer.monomials.terms.exponents())
    m = ((z[:, None] ** powers).prod(2) - layer.shift) / layer.scale
    return (m @ layer.coefficients.T + layer.bias).abs()


def test_it_starts_as_the_absolute_generators_up_to_a_positive_factor_each(layer, shared, points):
    ours, theirs = layer(points), shared.evaluate(points).abs()
    torch.testing.assert_close(ours, plain(layer, points))
    factor = (ours * theirs).sum(0) / theirs.square().sum(0)
    assert (factor > 0).all()
    torch.testing.assert_close(ours, factor * theirs, atol=1e-5, rtol=1e-5)  # float32 at first
    torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(len(shared)).double())


@pytest.mark.parametrize("activation", ["abs", "relu"])
def test_activations(activation):
    layer = PolynomialLayer(TERMS, 6, activation=activation)
    z = torch.randn(8, 2)
    values = layer.values(z)
    expected = values.abs() if activation == "abs" else values.clamp_min(0)
    assert torch.equal(layer(z), expected) and (values < 0).any()
    assert torch.equal(layer.folded()(z) > 0, expected > 0)


@pytest.mark.parametrize("count", [4, 10])
def test_values_are_batch_normalised_whichever_way(count):
    """From the moments of few monomials, or value by value where these are many."""
    layer = PolynomialLayer(TERMS, count, normalized=True).double()
    norm, (weight, bias) = nn.BatchNorm1d(count).double(), (layer.weight, layer.bias)
    with torch.no_grad():
        for p in (norm.weight, norm.bias, bias):
            p.copy_(torch.randn(count))
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


# --- monomials --------------------------------------------------------------------------------


@st.composite
def exponent_tables(draw) -> np.ndarray:
    """Distinct exponent vectors without the constant; hardly ever closed under division."""
    n = draw(st.integers(1, 4))
    row = st.tuples(*[st.integers(0, 3)] * n).filter(any)
    rows = draw(st.sets(row, min_size=1, max_size=12))
    return np.array(sorted(rows, key=lambda row: (sum(row), row)))


@settings(max_examples=60, deadline=None)
@given(exponent_tables(), st.sampled_from([(), (5,), (2, 3), (0,)]))
def test_terms_are_products_of_powers(table, shape):
    layer = Monomials(TermSet.from_exponents(table))
    z = np.random.default_rng(0).normal(size=(*shape, table.shape[1]))
    expected = np.stack([np.prod(z**row, axis=-1) for row in table], axis=-1)
    np.testing.assert_allclose(layer(torch.from_numpy(z)).numpy(), expected, atol=1e-12)


def test_a_closed_set_costs_one_multiplication_a_term_and_another_brings_parents():
    layer = Monomials(TermSet.from_exponents([[1, 0], [0, 1], [2, 0], [1, 1], [2, 1]]))
    assert layer.multiplications == 3 and layer.outputs is None
    # auxiliary rows, dropped again
    assert Monomials(TermSet.from_exponents([[7, 0], [3, 5]])).outputs is not None


def test_saved_are_the_terms_and_nothing_that_follows_from_them():
    table = np.array([[1, 0], [0, 2], [2, 1]])
    layer = Monomials(TermSet.from_exponents(table))
    state = {f"a.{k}": t for k, t in layer.state_dict().items()}
    assert sum(t.numel() for t in state.values()) == 1 + 2 + 3
    again = Monomials.terms_of(state, "a.", 2)
    assert again.exponents().tolist() == table.tolist()


@pytest.mark.parametrize("rows", [[[0, 5]], [[0.0, 1.0]]])
def test_saved_terms_are_checked(rows):
    state = {"terms_1": torch.tensor([[0]]), "terms_2": torch.tensor(rows)}
    with pytest.raises(ValueError, match=r"t\.2 must"):
        Monomials.terms_of(state, "", 2)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"'activation' parameter of PolynomialLayer.*'tanh'"):
        PolynomialLayer(TERMS, 4, activation="tanh")
    with pytest.raises(ValueError, match="use a bias for 1"):
        Monomials(TermSet.from_exponents([[0, 0], [1, 0]]))
    with pytest.raises(ValueError, match="degree 1 and more"):
        Monomials(TermSet(2, (np.zeros((0, 0), dtype=np.int64),)))
    with pytest.raises(ValueError, match="no terms under 'x'"):
        Monomials.terms_of({}, "x", 2)
