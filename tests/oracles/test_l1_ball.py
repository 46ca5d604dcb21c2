"""Projection and linear minimisation, held against their definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.oracles.active_set import best_of_all
from vinets.oracles.l1_ball import _shrink, project, scale_into

numbers = st.floats(-100, 100, allow_subnormal=False)
batches = st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=5)
radii = st.floats(0.01, 500)


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


@given(batches, radii)
@settings(max_examples=60, deadline=None)
def test_projection_is_the_nearest_point(rows, radius):
    """x is the projection of c iff x is in the ball and <c - x, v - x> <= 0 for all vertices v."""
    c = tensor(rows)
    x = project(c, radius)
    assert (x.abs().sum(1) <= radius * (1 + 1e-12)).all()
    away = c - x
    largest = radius * away.abs().amax(1) - (away * x).sum(1)  # max over the vertices
    assert (largest <= 1e-9 * (1 + c.abs().sum(1)) ** 2).all()


@given(batches, radii)
@settings(max_examples=40, deadline=None)
def test_projection_is_idempotent_and_leaves_the_inside_alone(rows, radius):
    c = tensor(rows)
    x = project(c, radius)
    torch.testing.assert_close(project(x, radius), x, rtol=1e-12, atol=1e-12)
    inside = c.abs().sum(1) <= radius
    assert torch.equal(x[inside], c[inside])


def test_projection_equals_that_of_cvxpy():
    cvxpy = pytest.importorskip("cvxpy")
    c = torch.randn(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = cvxpy.Variable((4, 7))
    aim = cvxpy.Minimize(cvxpy.sum_squares(x - c.numpy()))
    ball = [cvxpy.norm1(x[n]) <= 1.5 for n in range(4)]
    cvxpy.Problem(aim, ball).solve(solver=cvxpy.CLARABEL)
    torch.testing.assert_close(project(c, 1.5), tensor(x.value), rtol=0, atol=1e-5)


def test_projection_keeps_to_the_mask():
    c = torch.full((2, 5), 3.0, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[2], [0]])
    x = project(c, 1.0, mask)
    assert x.tolist() == [[0.5, 0.5, 0, 0, 0], [0.0] * 5]
    assert torch.equal(project(c, 1.0, mask.to(c.dtype)), x)


def test_shrinking_ties_and_a_single_entry():
    assert _shrink(tensor([[2.0, -2.0, 2.0, 0.0]]), 3.0).tolist() == [[1.0, -1.0, 1.0, 0.0]]
    assert _shrink(tensor([[-7.0]]), 3.0).tolist() == [[-3.0]]


@given(batches)
@settings(max_examples=40, deadline=None)
def test_best_vertex_minimises_over_all_vertices(rows):
    gradient = tensor(rows)
    scores = torch.cat([gradient, -gradient], dim=1)
    vertex, score = best_of_all(gradient)
    assert torch.equal(-score[:, 0], scores.amin(1))
    assert torch.equal(scores.gather(1, vertex), -score)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaling_touches_only_what_is_outside(dtype):
    c = torch.tensor([[3.0, -1.0], [0.5, 0.25]], dtype=dtype)
    x = scale_into(c, 2.0)
    torch.testing.assert_close(x[0], torch.tensor([1.5, -0.5], dtype=dtype))
    assert torch.equal(x[1], c[1])
