"""Plans that multiply a parent by a variable, against powers and automatic derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.algebra.evaluation import EvaluationPlan, factor_terms
from vinets.algebra.terms import TermSet

tables = st.integers(1, 4).flatmap(
    lambda n: st.lists(
        st.tuples(*[st.integers(0, 3)] * n), min_size=1, max_size=8, unique=True
    ).map(lambda rows: sorted(rows, key=lambda r: (sum(r), r)))
)


def points_for(n, seed=0):
    points = torch.from_numpy(np.random.default_rng(seed).uniform(-2, 2, size=(5, n)))
    points[0] = 0.0
    return points


@settings(deadline=None, max_examples=50)
@given(tables)
def test_values_are_products_of_powers(table):
    points = points_for(len(table[0]))
    values = EvaluationPlan.of(TermSet.from_exponents(table)).evaluate(points)
    wanted = np.prod(points.numpy()[:, None] ** np.array(table), axis=2)
    np.testing.assert_allclose(values, wanted, rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(tables)
def test_derivatives_are_those_of_the_powers(table):
    """d/dx_v of x^a is a_v x^(a - e_v), also at 0."""
    plan, points = EvaluationPlan.of(TermSet.from_exponents(table)), points_for(len(table[0]))
    values, slopes = plan.jacobian(points)
    torch.testing.assert_close(values, plan.evaluate(points))
    exponents = np.array(table)
    for v in range(exponents.shape[1]):
        lower = np.maximum(exponents - np.eye(exponents.shape[1], dtype=int)[v], 0)
        wanted = exponents[:, v] * np.prod(points.numpy()[:, None] ** lower, axis=2)
        np.testing.assert_allclose(slopes[..., v], wanted, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(tables)
def test_every_step_is_a_known_parent_times_a_variable(table):
    terms = TermSet.from_exponents(table)
    n = terms.n_variables
    for rows, below in zip(terms.blocks[1:], terms.blocks, strict=False):
        parent, variable, missing = factor_terms(rows, below, n)
        known = np.concatenate([below, missing])
        made = np.sort(np.concatenate([known[parent], variable[:, None]], axis=1), axis=1)
        assert made.tolist() == rows.tolist()
        have = set(map(tuple, below.tolist()))
        assert not have & set(map(tuple, missing.tolist()))
        assert len(set(map(tuple, missing.tolist()))) == len(missing)
        for row, at in zip(rows.tolist(), parent, strict=True):
            divisors = {tuple(row[:j] + row[j + 1 :]) for j in range(len(row))}
            assert (at < len(below)) == bool(divisors & have)  # nothing is added without need


def test_a_set_closed_under_division_takes_one_product_a_term():
    terms = TermSet.from_exponents([[0, 0], [1, 0], [0, 1], [2, 0], [1, 1]])
    plan = EvaluationPlan.of(terms)
    assert plan.outputs is None
    assert [len(parent) for parent, _ in plan.steps] == [2, 2]
    levels = plan.levels(torch.tensor([[2.0, 3.0]]))
    assert [level.flatten().tolist() for level in levels] == [[1], [2, 3], [4, 6]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_values_keep_the_dtype_and_have_gradients(dtype):
    plan = EvaluationPlan.of(TermSet.from_exponents([[1, 2]]))
    points = torch.tensor([[0.5, 0.0], [1.0, 2.0]], dtype=dtype, requires_grad=True)
    values = plan.evaluate(points)
    assert values.dtype == dtype and values.tolist() == [[0.0], [4.0]]
    values.sum().backward()
    assert points.grad.tolist() == [[0.0, 0.0], [4.0, 4.0]]


def test_no_terms_and_the_constant_alone():
    points = torch.ones(4, 3)
    assert EvaluationPlan.of(TermSet(3, ())).evaluate(points).shape == (4, 0)
    one = TermSet(3, (np.zeros((1, 0), dtype=np.int64),))
    assert EvaluationPlan.of(one).evaluate(points).tolist() == [[1.0]] * 4
    values, slopes = EvaluationPlan.of(one).jacobian(points)
    assert values.shape == (4, 1) and slopes.shape == (4, 1, 3) and not slopes.any()
