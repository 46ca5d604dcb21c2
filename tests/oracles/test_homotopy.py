"""The exact minimiser over the l1 ball, against a convex solver and by its own certificate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from vinets.oracles import minimise_in_ball


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Columns, ``u``, and a radius that binds.

    In turns: normal columns, more of them than rows or not; powers of one variable, which nearly
    depend on each other; columns that occur twice, up to their sign and size.
    """
    random = np.random.default_rng(seed)
    d, o = random.integers(2, 30, 2)
    columns = random.normal(size=(d, o))
    if seed % 3 == 1:
        columns = np.vander(random.uniform(-1, 1, d), min(o, 8), increasing=True)
    elif seed % 3 == 2:
        columns = np.hstack([columns, columns * random.choice([-1.0, 1.0, 2.0], o)])
    u = random.normal(size=d)
    shortest = np.linalg.lstsq(columns, -u, rcond=None)[0]
    return columns, u, float(np.abs(shortest).sum() * random.uniform(0.02, 0.7))


def gap_and_value(columns: np.ndarray, u: np.ndarray, radius: float, c: np.ndarray):
    rest = columns @ c + u
    slope = columns.T @ rest
    return 2 * (float(slope @ c) + radius * float(np.abs(slope).max())), float(rest @ rest)


@pytest.mark.parametrize("seed", range(60))
def test_equals_a_convex_solver_where_the_ball_binds(seed):
    cvxpy = pytest.importorskip("cvxpy")
    columns, u, radius = problem(seed)
    c, value, vanishes = minimise_in_ball(columns, u, radius, np.inf)
    x = cvxpy.Variable(columns.shape[1])
    aim = cvxpy.Minimize(cvxpy.sum_squares(columns @ x + u))
    tight = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas")}
    wanted = cvxpy.Problem(aim, [cvxpy.norm1(x) <= radius]).solve(solver=cvxpy.CLARABEL, **tight)
    assert vanishes and value == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    assert np.abs(c).sum() <= radius * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(200))
def test_the_dual_gap_is_zero_and_targets_on_both_sides_are_settled(seed):
    columns, u, radius = problem(seed)
    c, best, _ = minimise_in_ball(columns, u, radius, np.inf)
    gap, value = gap_and_value(columns, u, radius, c)
    assert best == pytest.approx(value, rel=1e-12) and gap <= 1e-9 * float(u @ u)
    if best < 1e-9:  # the ball holds a solution: many columns, and a short one among the solutions
        assert minimise_in_ball(columns, u, radius, 1e-9)[2]
        return
    above, value, vanishes = minimise_in_ball(columns, u, radius, best * (1 + 1e-9))
    assert vanishes and value <= best * (1 + 1e-9) and np.array_equal(above, c)
    below, value, vanishes = minimise_in_ball(columns, u, radius, best * (1 - 1e-6))
    assert not vanishes and value > best * (1 - 1e-6)
    assert np.abs(below).sum() <= radius * (1 + 1e-12)


def test_a_hopeless_target_ends_the_path_early():
    columns, u, radius = problem(0)
    best = minimise_in_ball(columns, u, radius, np.inf)[1]
    c, value, vanishes = minimise_in_ball(columns, u, radius, 0.01 * best)
    assert not vanishes and value > best and np.abs(c).sum() < radius


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(20))
def test_what_vanishes_exactly_is_known_where_squares_are_rounding(seed, scale):
    """Columns of very different sizes: their Gram matrix has a condition of 1e16 and more."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(12, 6)) * 10.0 ** random.uniform(-4, 4, 6)
    c = random.normal(size=6)
    u, norm = -(columns @ c) * scale, float(np.abs(c).sum()) * scale
    assert minimise_in_ball(columns, u, norm * (1 + 1e-9), 0.0)[2]
    assert minimise_in_ball(columns, u, norm * 1000, 0.0)[2]
    assert not minimise_in_ball(columns, u, norm * 0.999, 0.0)[2]


@pytest.mark.parametrize("seed", range(20))
def test_of_many_solutions_the_shortest_decides(seed):
    """Least squares finds another one, of more entries and a larger l1 norm."""
    random = np.random.default_rng(seed)
    columns, u = random.normal(size=(12, 30)), random.normal(size=12)
    both = np.hstack([columns, -columns])
    norm = float(linprog(np.ones(60), A_eq=both, b_eq=-u).fun)
    assert np.abs(np.linalg.lstsq(columns, -u, rcond=None)[0]).sum() > norm * 1.1
    c, value, vanishes = minimise_in_ball(columns, u, norm * (1 + 1e-9), 0.0)
    assert vanishes and value < 1e-25 and np.count_nonzero(c) <= 12
    assert not minimise_in_ball(columns, u, norm * (1 - 1e-6), 0.0)[2]


def test_columns_that_depend_on_each_other_and_zeros_do_no_harm():
    columns = np.repeat(np.eye(3), 3, axis=1)
    columns[:, 4] = 0.0
    u = np.array([1.0, -1.0, 0.5])
    assert minimise_in_ball(columns, u, 2.5, 0.0)[2]
    assert not minimise_in_ball(columns, u, 2.4, 0.0)[2]
    assert minimise_in_ball(columns, 0 * u, 1.0, 0.0)[2]
    assert not minimise_in_ball(0 * columns, u, 1.0, 0.0)[2]
    assert minimise_in_ball(0 * columns, 0 * u, 1.0, 0.0)[2]
    with np.errstate(over="raise"):
        assert not minimise_in_ball(columns, 1e150 * u, 1.0, 0.0)[2]
