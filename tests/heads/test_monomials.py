from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.algebra.terms import TermSet
from vinets.heads.polynomial_layer import Monomials


@st.composite
def exponent_tables(draw) -> np.ndarray:
    """Distinct exponent vectors without the constant; hardly ever closed under division."""
    n = draw(st.integers(1, 4))
    rows = draw(
        st.sets(
            st.tuples(*[st.integers(0, 3)] * n).filter(lambda row: sum(row) > 0),
            min_size=1,
            max_size=12,
        )
    )
    return np.array(sorted(rows, key=lambda row: (sum(row), row)))


@settings(max_examples=60, deadline=None)
@given(exponent_tables(), st.sampled_from([(), (5,), (2, 3), (0,)]))
def test_terms_are_products_of_powers(table, shape):
    layer = Monomials(TermSet.from_exponents(table))
    z = np.random.default_rng(0).normal(size=(*shape, table.shape[1]))
    expected = np.stack([np.prod(z**row, axis=-1) for row in table], axis=-1)
    np.testing.assert_allclose(layer(torch.from_numpy(z)).numpy(), expected, atol=1e-12)


def test_a_high_power_alone_brings_its_own_parents():
    layer = Monomials(TermSet.from_exponents([[7, 0], [3, 5]]))
    z = torch.tensor([[1.5, -0.5]], dtype=torch.float64)
    expected = torch.tensor([[1.5**7, 1.5**3 * (-0.5) ** 5]], dtype=torch.float64)
    torch.testing.assert_close(layer(z), expected)
    assert layer.outputs is not None  # auxiliary rows, dropped again


def test_a_closed_set_costs_one_multiplication_a_term():
    layer = Monomials(TermSet.from_exponents([[1, 0], [0, 1], [2, 0], [1, 1], [2, 1]]))
    assert layer.multiplications == 3 and layer.outputs is None


def test_gradients_are_finite_at_zero():
    table = np.array([[1, 0], [2, 0], [2, 3]])
    z = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    Monomials(TermSet.from_exponents(table))(z).sum().backward()
    assert torch.equal(z.grad, torch.tensor([[1.0, 0.0]]).double().expand(4, 2))


def test_gradients_agree_with_differences():
    layer = Monomials(TermSet.from_exponents([[1, 0, 0], [1, 1, 0], [0, 2, 1], [3, 0, 2]]))
    z = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(layer, z.requires_grad_())


def test_saved_are_the_terms_and_nothing_that_follows_from_them():
    table = np.array([[1, 0], [0, 2], [2, 1]])
    layer = Monomials(TermSet.from_exponents(table))
    state = {f"a.{k}": t for k, t in layer.state_dict().items()}
    assert sum(t.numel() for t in state.values()) == 1 + 2 + 3
    again = Monomials.terms_of(state, "a.", 2)
    assert again.exponents().tolist() == table.tolist()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.tensor([[0, 5]]), "variable indices below 2"),
        (torch.tensor([[1, 0]]), "sorted"),
        (torch.tensor([[0.0, 1.0]]), "int64"),
    ],
)
def test_saved_terms_are_checked(tensor, message):
    state = {"terms_1": torch.tensor([[0]]), "terms_2": tensor}
    with pytest.raises(ValueError, match=message):
        Monomials.terms_of(state, "", 2)


def test_no_terms_and_the_constant_are_refused():
    with pytest.raises(ValueError, match="use a bias for 1"):
        Monomials(TermSet.from_exponents([[0, 0], [1, 0]]))
    with pytest.raises(ValueError, match="degree 1 and more"):
        Monomials(TermSet(2, (np.zeros((0, 0), dtype=np.int64),)))
    with pytest.raises(ValueError, match="no terms under 'x'"):
        Monomials.terms_of({}, "x", 2)
