"""Least squares over prefixes, and the exact solution over the ball."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch

from vinets.oracles import AcceleratedGradient, Status, least_squares, solve, solve_exact
from vinets.oracles.closed_form import cholesky


@pytest.mark.parametrize("given_factor", [False, True])
def test_equals_the_solution_of_each_leading_subsystem(make_instance, given_factor):
    p = make_instance(50, classes=3, rows=12, random_prefix=True).problem
    factor = torch.linalg.cholesky(p.gram) if given_factor else None
    c = least_squares(p, factor)
    for n in range(len(p)):
        k, width = int(p.owner[n]), int(p.prefix[n])
        wanted = torch.linalg.solve(p.gram[k, :width, :width], -p.linear[n, :width])
        torch.testing.assert_close(c[n, :width], wanted, rtol=1e-8, atol=1e-8)
        assert (c[n, width:] == 0).all()


def test_a_singular_gram_matrix_still_gets_its_gradient_to_zero(make_instance):
    p = make_instance(51, rank=3, classes=2, random_prefix=True).problem
    assert (p.gradient(least_squares(p)).abs() <= 1e-9).all()


def test_padding_with_zero_rows_changes_nothing(make_instance):
    p = make_instance(52, width=5).problem
    wider = replace(
        p,
        gram=torch.nn.functional.pad(p.gram, (0, 2, 0, 2)),
        linear=torch.nn.functional.pad(p.linear, (0, 2)),
    )
    torch.testing.assert_close(least_squares(wider)[:, :5], least_squares(p))
    torch.testing.assert_close(cholesky(wider.gram)[:, :5, :5], cholesky(p.gram))


def test_exact_is_the_closed_form_inside_the_ball_only(make_instance):
    p = make_instance(53, rows=30).problem
    closed = least_squares(p)
    p = replace(p, radius=float(closed.abs().sum(1).median()))
    inside = closed.abs().sum(1) <= p.radius
    solution = solve_exact(p)
    assert (solution.status == Status.CONVERGED).all()
    assert torch.equal(solution.coefficients[inside], closed[inside])
    assert torch.equal(solution.steps == 0, inside)
    norm = solution.coefficients[~inside].abs().sum(1)
    torch.testing.assert_close(norm, torch.full_like(norm, p.radius))


def test_exact_with_another_solver(instance):
    solution = solve_exact(instance.problem, solver=AcceleratedGradient())
    assert (solution.status == Status.CONVERGED).all()
    torch.testing.assert_close(solution.value, instance.optimum, rtol=0, atol=1e-6)


def test_exact_where_the_minimiser_lies_far_outside_a_large_ball(make_instance):
    """Columns that nearly agree: condition number 1e8, least squares of norm far beyond 999."""
    g = torch.Generator().manual_seed(0)
    A = torch.randn(64, 6, generator=g, dtype=torch.float64)
    M = torch.cat([A, A + 1e-4 * torch.randn(64, 6, generator=g, dtype=torch.float64)], 1) / 8
    U = torch.randn(64, 10, generator=g, dtype=torch.float64) / 8
    p = replace(
        make_instance(0, rows=10, width=12).problem,
        gram=(M.mT @ M)[None],
        linear=(M.mT @ U).mT,
        constant=U.square().sum(0),
        radius=999.0,
    )
    assert (least_squares(p).abs().sum(1) > 999).any()
    assert (solve_exact(p).status == Status.CONVERGED).all()


def test_errors_name_the_argument(make_instance):
    with pytest.raises(ValueError, match="'factor'"):
        least_squares(make_instance(54).problem, torch.eye(8, dtype=torch.float64))


def test_options_that_solve_has_too_have_its_defaults():
    ours, theirs = (inspect.signature(f).parameters for f in (solve_exact, solve))
    shared = (ours.keys() & theirs.keys()) - {"problem", "solver"}
    assert shared >= {"target", "tolerance", "max_steps", "check_every", "stop_when_hopeless"}
    assert all(ours[name].default == theirs[name].default for name in shared)
