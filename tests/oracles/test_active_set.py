"""The weights stay a convex combination, and the quantities carried along stay true to them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.oracles import (
    BlendedPairwise,
    FrankWolfe,
    LeastSquaresBatch,
    PairwiseFrankWolfe,
    active_set,
)
from vinets.oracles.problem import project_to_ball

PLAIN = [PairwiseFrankWolfe(corrections=0), BlendedPairwise(corrections=0)]


def test_a_point_survives_its_representation(instance):
    p = instance.problem
    g = torch.Generator().manual_seed(0)
    c = project_to_ball(torch.randn(p.linear.shape, generator=g).double(), p.radius, p.mask)
    c[:, ::3] = 0.0
    state = active_set.from_point(p, c)
    back = active_set.point(p, state.weights)
    torch.testing.assert_close(back, c, rtol=1e-12, atol=1e-12 * p.radius)
    assert (back[~p.mask] == 0).all()
    torch.testing.assert_close(state.weights.sum(1), torch.ones(len(p), dtype=torch.float64))


@pytest.mark.parametrize("solver", [*PLAIN, FrankWolfe()], ids=lambda s: type(s).__name__)
def test_steps_keep_the_state_consistent_and_never_raise_the_value(instance, solver):
    p = instance.problem
    start = torch.zeros_like(p.linear)
    if isinstance(solver, FrankWolfe):
        start[:, 0] = p.radius * (p.prefix > 0)
    state, value = solver.init(p, start), p.value(start)
    for _ in range(30):
        state = solver.step(p, state)
        c = solver.coefficients(p, state)
        assert (p.value(c) <= value + 4 * p.rounding(c) + 1e-15).all()
        value = p.value(c)
    if isinstance(solver, FrankWolfe):
        fresh = solver.init(p, c)
    else:
        assert (state.weights >= 0).all()
        assert torch.equal(state.barrier == 0, state.weights > 0)
        fresh = active_set.rebuild(p, state.weights.clone())
        torch.testing.assert_close(state.weights, fresh.weights, rtol=1e-9, atol=1e-9)
    for name in ("slope", "quadratic", "linear"):
        torch.testing.assert_close(getattr(state, name), getattr(fresh, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("solver", PLAIN, ids=lambda s: type(s).__name__)
def test_a_vertex_that_is_left_leaves_with_weight_zero(make_instance, solver):
    """With the ball tight and the start at a poor vertex, that vertex has to go entirely."""
    p = make_instance(30, radius=0.05, rows=12).problem
    worst = p.linear.abs().argmin(1)
    start = torch.zeros_like(p.linear)
    start[torch.arange(12), worst] = p.radius * torch.sign(p.linear.gather(1, worst[:, None]))[:, 0]
    state = solver.init(p, start)
    for _ in range(20):
        state = solver.step(p, state)
    c = solver.coefficients(p, state)
    assert (c.gather(1, worst[:, None]) == 0).double().mean() > 0.8


def test_the_best_active_vertex_equals_a_search_over_all_vertices(instance):
    p = instance.problem
    solver = BlendedPairwise(corrections=0)
    state = solver.init(p, torch.zeros_like(p.linear))
    for _ in range(7):
        state = solver.step(p, state)
    scores = torch.cat([state.slope, -state.slope], dim=1)
    for direction in (1.0, -1.0):
        vertex, score = active_set.best_active(state, direction)
        wanted = torch.where(state.weights > 0, direction * scores, -torch.inf).amax(1)
        assert torch.equal(score[:, 0], wanted)
        assert torch.equal(direction * scores.gather(1, vertex), score)
        assert (state.weights.gather(1, vertex) > 0).all()
    vertex, score = active_set.best_of_all(state.slope)
    assert torch.equal(-scores.gather(1, vertex), score)
    assert torch.equal(-score[:, 0], scores.amin(1))


def test_weights_of_a_point_on_the_boundary_are_none_below_zero():
    """Rounding may leave a point a little outside of the ball: then there is no mass to spare."""
    g = torch.Generator().manual_seed(3)
    c = torch.randn(400, 7, generator=g, dtype=torch.float64)
    radius = 0.3
    c = c * (radius / c.abs().sum(1, keepdim=True)) * (1 + 1e-14)
    zeros = torch.zeros(400, dtype=torch.int64)
    gram = torch.eye(7, dtype=torch.float64)[None]
    c[:, 0] = 0.0  # what is the most promising by far has no weight that could hide a negative one
    linear = torch.zeros_like(c)
    linear[:, 0] = 5.0
    c = c * (radius / c.abs().sum(1, keepdim=True)) * (1 + 1e-14)
    p = LeastSquaresBatch(gram, linear, torch.full((400,), 9.0).double(), zeros + 7, zeros, radius)
    state = active_set.from_point(p, c)
    assert (state.weights >= 0).all()
    torch.testing.assert_close(active_set.point(p, state.weights), c, rtol=0, atol=1e-14)


rows_of_four = st.lists(st.floats(-100, 100, allow_subnormal=False), min_size=4, max_size=4)


@given(st.lists(rows_of_four, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_best_vertex_minimises_over_all_vertices(rows):
    gradient = torch.tensor(rows, dtype=torch.float64)
    scores = torch.cat([gradient, -gradient], dim=1)
    vertex, score = active_set.best_of_all(gradient)
    assert torch.equal(-score[:, 0], scores.amin(1))
    assert torch.equal(scores.gather(1, vertex), -score)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_largest_entry_is_one_a_row_on_every_device(device):
    rows = torch.tensor([[1.0, -3.0, 3.0], [0.0, 0.0, -1.0]], device=device)
    index = active_set.largest_entry(rows)
    assert index.shape == (2, 1) and index.dtype == torch.int64
    if device == "cpu":
        assert index.tolist() == [[1], [2]]
