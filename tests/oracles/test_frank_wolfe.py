"""The three projection-free solvers side by side, and corrections of their points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.oracles import (
    BlendedPairwise,
    FrankWolfe,
    LeastSquaresBatch,
    PairwiseFrankWolfe,
    Status,
    solve,
)
from vinets.oracles.frank_wolfe import correct
from vinets.oracles.problem import scale_into_ball


def ill_conditioned(make_instance, radius):
    return make_instance(70, rows=20, width=25, points=30, radius=radius).problem


def test_corrections_save_steps_inside_the_ball_and_on_its_boundary(make_instance):
    for radius in (3.0, 999.0):
        p = ill_conditioned(make_instance, radius)
        for kind in (PairwiseFrankWolfe, BlendedPairwise):
            options = {"tolerance": 1e-6, "max_steps": 300}
            with_them = solve(p, kind(), **options)
            without = solve(p, kind(corrections=0), **options)
            assert (with_them.status == Status.CONVERGED).all()
            assert with_them.summary().total_steps < without.summary().total_steps / 2


def test_blended_steps_open_fewer_vertices_than_pairwise_ones(make_instance):
    p = ill_conditioned(make_instance, 999.0)
    best = solve(p, PairwiseFrankWolfe()).value
    target = best + 0.1 * (p.constant - best)
    support = {
        kind: int((solve(p, kind(corrections=0), target=target).coefficients != 0).sum())
        for kind in (BlendedPairwise, PairwiseFrankWolfe)
    }
    assert support[BlendedPairwise] < support[PairwiseFrankWolfe]


def test_blended_steps_stay_among_active_vertices_at_a_tie():
    """With G = I, r = 1 and half of the mass at either vertex, both moves promise 4."""
    c, slope = torch.tensor([[0.5, 0.5]]), torch.tensor([[3.0, -1.0]])
    one = torch.ones(1, dtype=torch.int64)
    p = LeastSquaresBatch(torch.eye(2)[None], slope - c, torch.ones(1), 2 * one, 0 * one, 1.0)
    solver = BlendedPairwise(corrections=0)
    move = solver.choose(p, solver.init(p, c))
    assert (move.descent.item(), move.toward.item(), move.away.item()) == (4, 1, 0)
    assert not move.whole.any()


def test_plain_steps_are_convex_combinations_with_the_best_vertex(make_instance):
    """One conditional gradient step from 0 minimises f on the segment to the best vertex."""
    p = make_instance(71, radius=0.3).problem
    solution = solve(p, FrankWolfe(), max_steps=1)
    index = p.linear.abs().argmax(1)
    rows = torch.arange(len(p))
    b, g = p.linear[rows, index], p.gram[0, index, index]
    wanted = torch.zeros_like(p.linear)
    wanted[rows, index] = (-b / g).clamp(-p.radius, p.radius)
    torch.testing.assert_close(solution.coefficients, wanted, rtol=1e-12, atol=1e-13)


def sparse_points(problem, seed, share=0.5, spread=1.0):
    g = torch.Generator().manual_seed(seed)
    c = torch.randn(problem.linear.shape, generator=g, dtype=torch.float64) * spread
    c = c * (torch.rand(c.shape, generator=g) < share) * problem.mask
    return scale_into_ball(c, problem.radius)


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.01, 1.0, 100.0]))
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("rounds", [1, 16])
def test_never_worse_never_denser_never_outside(instance, rounds, seed, spread):
    p = instance.problem
    c = sparse_points(p, seed, spread=spread)
    x = correct(p, c, rounds)
    assert (p.value(x) <= p.value(c) + 4 * p.rounding(c)).all()
    assert (x[c == 0] == 0).all()
    assert (x.abs().sum(1) <= p.radius * (1 + 1e-12)).all()


def test_inside_the_ball_it_is_least_squares_on_the_support(make_instance):
    p = make_instance(40, radius=100.0).problem
    c = sparse_points(p, 0)
    x = correct(p, c, 2 * p.width)
    gradient = p.gradient(x)
    assert (gradient[c != 0].abs() <= 1e-10).all()


def test_towards_a_minimiser_outside_of_the_ball_it_goes_some_of_the_way(make_instance):
    p = make_instance(43, rows=20, radius=0.3).problem
    c = 0.5 * sparse_points(p, 0, share=0.8)
    free = correct(replace(p, radius=1e6), c, 2 * p.width)
    rows = (free.abs().sum(1) > p.radius).nonzero()[:, 0]
    x = correct(p, c, 2 * p.width)[rows]
    assert len(rows) and (p.select(rows).value(x) < p.select(rows).value(c[rows])).all()
    assert (x.abs().sum(1) <= p.radius * (1 + 1e-12)).all()
    way, whole = x - c[rows], free[rows] - c[rows]
    torch.testing.assert_close(way, whole * (way.norm(dim=1) / whole.norm(dim=1))[:, None])


def test_on_the_boundary_it_keeps_to_the_face_and_drops_exactly(make_instance):
    p = make_instance(41, rows=40, radius=0.5).problem
    c = sparse_points(p, 0, share=0.8, spread=10.0)
    rows = (c.abs().sum(1) > 0.4999).nonzero()[:, 0]
    p, c = p.select(rows), c[rows]
    x = c
    for _ in range(p.width):
        x = correct(p, x, 2 * p.width)
    torch.testing.assert_close(x.abs().sum(1), torch.full((len(p),), 0.5, dtype=torch.float64))
    assert (x * c >= 0).all()  # no sign has changed
    assert ((x == 0) & (c != 0)).any()  # some entries have hit zero exactly
    # on the final face the gradient is a multiple of the signs: optimal there
    gradient, sign = p.gradient(x), torch.sign(x)
    level = (gradient * sign).sum(1) / sign.abs().sum(1)
    assert ((gradient - level[:, None] * sign)[x != 0].abs() <= 1e-9).all()


def test_directions_the_matrix_annihilates_are_left_alone(make_instance):
    """Twice the same column: the minimiser is not unique, and the step to one stays small."""
    p = make_instance(42, width=4, radius=1e6).problem
    twin = torch.tensor([0, 1, 2, 3, 0, 1])
    p = replace(p, gram=p.gram[:, twin][:, :, twin], linear=p.linear[:, twin])
    p = replace(p, prefix=torch.full((len(p),), 6))
    x = correct(p, torch.full_like(p.linear, 0.1), 50)
    assert x.abs().max() < 10
    assert (p.gradient(x).abs() <= 1e-9).all()


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-3])
def test_conjugate_gradients_go_on_to_what_rounding_allows(spread):
    """A rotated spectrum from 1 down to spread: the gradient ends at its rounding, not before."""
    g = torch.Generator().manual_seed(1)
    Q = torch.linalg.qr(torch.randn(10, 10, generator=g, dtype=torch.float64))[0]
    gram = (Q * torch.logspace(0, float(np.log10(spread)), 10, dtype=torch.float64)) @ Q.mT
    b = torch.randn(4, 10, generator=g, dtype=torch.float64)
    zeros = torch.zeros(4, dtype=torch.int64)
    constant = torch.full((4,), 1e9, dtype=torch.float64)
    p = LeastSquaresBatch((gram + gram.mT)[None] / 2, b, constant, zeros + 10, zeros, 1e8)
    x = correct(p, torch.full_like(b, 1e-3), 200)
    assert (p.gradient(x).abs().amax(1) <= 1e-11).all()
