from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets.oracles import LeastSquaresBatch, nearest, solve_exact


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    d, o = random.integers(2, 12, 2)
    return random.normal(size=(d, o)), random.normal(size=d)


def optimum(columns: np.ndarray, u: np.ndarray, radius: float) -> float:
    """By another solver, through the Gram matrix."""
    gram, linear, constant = (
        torch.from_numpy(np.asarray(x)) for x in ([columns.T @ columns], [columns.T @ u], [u @ u])
    )
    prefix, owner = torch.tensor([columns.shape[1]]), torch.tensor([0])
    batch = LeastSquaresBatch(gram, linear, constant, prefix, owner, radius)
    return float(solve_exact(batch, tolerance=1e-13).value)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("radius", [0.1, 0.5, 2.0])
def test_targets_on_both_sides_of_the_optimum_are_settled(seed, radius):
    columns, u = problem(seed)
    best = optimum(columns, u, radius)
    if best < 1e-9:
        assert nearest(columns, u, radius, 1e-9).vanishes  # the ball holds an exact solution
        return
    above = nearest(columns, u, radius, best * (1 + 1e-9))
    below = nearest(columns, u, radius, best * (1 - 1e-9))
    assert above.vanishes and above.value <= best * (1 + 1e-9)
    assert not below.vanishes and below.least > best * (1 - 1e-9)
    for found in (above, below):
        c = found.coefficients
        assert np.abs(c).sum() <= radius * (1 + 1e-12)
        assert found.value == pytest.approx(np.square(columns @ c + u).sum(), rel=1e-12)
        assert found.least <= best * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(20))
def test_what_vanishes_exactly_is_known_where_squares_are_rounding(seed, scale):
    """Columns of very different sizes: their Gram matrix has a condition of 1e16 and more."""
    random = np.random.default_rng(seed)
    columns = random.normal(size=(12, 6)) * 10.0 ** random.uniform(-4, 4, 6)
    c = random.normal(size=6)
    u, norm = -(columns @ c) * scale, float(np.abs(c).sum()) * scale
    assert nearest(columns, u, norm * (1 + 1e-9), 0.0).vanishes
    assert nearest(columns, u, norm * 1000, 0.0).vanishes
    missed = nearest(columns, u, norm * 0.999, 0.0)
    assert not missed.vanishes and missed.least <= missed.value


def test_columns_that_depend_on_each_other_and_zeros_do_no_harm():
    columns = np.repeat(np.eye(3), 3, axis=1)
    columns[:, 4] = 0.0
    u = np.array([1.0, -1.0, 0.5])
    assert nearest(columns, u, 2.5, 0.0).vanishes
    assert nearest(columns, u, 2.4, 0.0).least > 0
    assert nearest(columns, 0 * u, 1.0, 0.0).vanishes
    assert not nearest(0 * columns, u, 1.0, 0.0).vanishes
    with np.errstate(over="raise"):
        assert not nearest(columns, 1e150 * u, 1.0, 0.0).vanishes
