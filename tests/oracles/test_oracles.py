"""What every oracle promises, on every kind of problem, against an independent solver."""

from __future__ import annotations

import pytest
import torch

from vinets.oracles import (
    ORACLES,
    BlendedPairwise,
    LeastSquaresBatch,
    PairwiseFrankWolfe,
    Status,
    solve,
    solve_exact,
)

SOLVERS = {
    **{name: kind() for name, kind in ORACLES.items()},
    "pcg, plain": PairwiseFrankWolfe(corrections=0),
    "bpcg, plain": BlendedPairwise(corrections=0),
}
NAMES = [*SOLVERS, "exact"]
SURE = ["pcg", "bpcg", "agd", "exact"]  # those that converge on every case below


def run(name, problem, max_steps=2000, **options):
    if name == "exact":
        return solve_exact(problem, max_steps=max_steps, **options)
    return solve(problem, SOLVERS[name], max_steps=max_steps, **options)


@pytest.mark.parametrize("name", NAMES)
def test_optimal_feasible_and_certified(instance, name):
    p = instance.problem
    solution = run(name, p)
    converged = solution.status == Status.CONVERGED
    error = solution.value - instance.optimum
    if name in SURE:
        assert converged.all()
    assert (error[converged].abs() <= 1e-6).all()
    assert (solution.gap[converged] <= 1e-7).all()
    assert (solution.gap >= error - 1e-7).all()
    assert (solution.coefficients.abs().sum(1) <= p.radius * (1 + 1e-12)).all()
    assert (solution.coefficients[~p.mask] == 0).all()
    assert torch.equal(solution.value, p.value(solution.coefficients))
    gap = p.dual_gap(solution.coefficients, p.gradient(solution.coefficients))
    assert torch.equal(solution.gap, gap)


@pytest.mark.parametrize("name", NAMES)
def test_target_is_reached_or_proved_out_of_reach(instance, name):
    p, best = instance.problem, instance.optimum
    ahead = torch.arange(len(p)) % 2 == 0  # every second row gets a target it can reach
    target = torch.where(ahead, best + 0.3 * (p.constant - best) + 1e-5, best - 1e-3)
    solution = run(name, p, target=target, stop_when_hopeless=True)
    reached = solution.status == Status.TARGET
    refuted = solution.status == Status.INFEASIBLE_TARGET
    assert (solution.value[reached] <= target[reached]).all()
    assert (best[refuted] > target[refuted]).all()
    assert (solution.value - solution.gap)[refuted].gt(target[refuted]).all()
    assert not (reached & ~ahead).any()
    if name in SURE and name != "exact":  # "exact" settles rows in closed form first
        assert torch.equal(reached, ahead)
        assert torch.equal(refuted, ~ahead)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_is_too_few_and_no_exception(make_instance, name):
    p = make_instance(11, radius=0.5).problem
    solution = run(name, p, max_steps=1, tolerance=1e-12)
    assert (solution.status == Status.STEP_LIMIT).any()
    assert (solution.steps <= 1).all()
    assert (solution.value <= p.constant + 1e-12).all()


@pytest.mark.parametrize("name", NAMES)
def test_deterministic(make_instance, name):
    p = make_instance(12, classes=3, random_prefix=True, radius=0.7).problem
    first, second = run(name, p, max_steps=200), run(name, p, max_steps=200)
    assert torch.equal(first.coefficients, second.coefficients)
    assert torch.equal(first.status, second.status)


@pytest.mark.parametrize("name", SURE)
def test_a_batch_of_classes_equals_its_problems_one_by_one(make_instance, name):
    p = make_instance(13, classes=3, rows=6, random_prefix=True, radius=0.7).problem
    together = run(name, p, tolerance=1e-10)
    for n in range(len(p)):
        k = int(p.owner[n])
        alone = LeastSquaresBatch(
            p.gram[k : k + 1],
            p.linear[n : n + 1],
            p.constant[n : n + 1],
            p.prefix[n : n + 1],
            torch.zeros(1, dtype=torch.int64),
            p.radius,
        )
        single = run(name, alone, tolerance=1e-10)
        torch.testing.assert_close(
            single.coefficients[0], together.coefficients[n], rtol=0, atol=1e-4
        )
        torch.testing.assert_close(single.value[0], together.value[n], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_runs_to_what_it_can_resolve(make_instance, name):
    made = make_instance(14, radius=0.5, dtype=torch.float32)
    solution = run(name, made.problem, tolerance=1e-4)
    assert solution.coefficients.dtype == solution.value.dtype == torch.float32
    if name in SURE:
        assert (solution.status == Status.CONVERGED).all()
        torch.testing.assert_close(solution.value.double(), made.optimum, rtol=0, atol=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_solve(make_instance, name):
    p = make_instance(15, classes=2).problem
    empty = run(name, p.select(torch.zeros(0, dtype=torch.int64)))
    assert empty.coefficients.shape == (0, p.width)


@pytest.mark.parametrize("name", NAMES)
def test_zero_gram_matrix_and_zero_prefix(name):
    zero = torch.zeros(2, 3, dtype=torch.float64)
    p = LeastSquaresBatch(
        zero.new_zeros(1, 3, 3),
        zero,
        zero.new_ones(2),
        torch.tensor([3, 0]),
        torch.tensor([0, 0]),
        1.0,
    )
    solution = run(name, p)
    assert (solution.status == Status.CONVERGED).all()
    assert torch.equal(solution.coefficients, zero)


@pytest.mark.parametrize("name", ["cg", "pcg", "bpcg"])
def test_sparse_oracles_return_exact_zeros(make_instance, name):
    """Columns that take no part in the solution stay out of it, not nearly but exactly."""
    p = make_instance(16, rows=20, width=30, points=60, radius=5.0).problem
    useful = torch.tensor([3, 8, 21])
    truth = torch.zeros(20, 30, dtype=torch.float64)
    truth[:, useful] = torch.randn(
        20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    product = p.product(truth)
    exact = LeastSquaresBatch(
        p.gram, -product, (truth * product).sum(1) + 1e-3, p.prefix, p.owner, p.radius
    )
    solution = run(name, exact, target=2e-2)
    assert (solution.status == Status.TARGET).all()
    assert (solution.coefficients == 0).double().mean() > 0.6
    dense = solve_exact(exact).coefficients
    assert (solution.coefficients != 0).sum() < (dense != 0).sum()
