"""The three projection-free solvers side by side."""

from __future__ import annotations

import torch

from vinets.oracles import BlendedPairwise, FrankWolfe, PairwiseFrankWolfe, Status, solve


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


def test_conditional_gradients_keep_their_state_true_and_never_raise_the_value(instance):
    p, solver = instance.problem, FrankWolfe()
    start = torch.zeros_like(p.linear)
    start[:, 0] = p.radius * (p.prefix > 0)
    state, value = solver.init(p, start), p.value(start)
    for _ in range(30):
        state = solver.step(p, state)
        now = p.value(state.point)
        assert (now <= value + 4 * p.rounding(state.point) + 1e-15).all()
        value = now
    fresh = solver.init(p, state.point)
    for name in ("slope", "quadratic", "linear"):
        torch.testing.assert_close(getattr(state, name), getattr(fresh, name), rtol=1e-9, atol=1e-9)
