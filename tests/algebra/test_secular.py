"""Roots of the secular equation, against LAPACK on every bordered matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import Bordered

from vinets.algebra import secular
from vinets.algebra.secular import Spectrum, secular_eigenvectors, stacked_eigenvectors


def one_prefix(seed, o, g, spread=0.3):
    problem = Bordered.random(seed, o, g, spread)
    problem.prefix[:] = o
    problem.coordinates = np.random.default_rng(seed + 1).normal(size=(g, o))
    return problem


def solve(problem, route):
    o = len(problem.lower)
    if route == "factor":
        spectrum = Spectrum.of_factor(torch.tensor(problem.lower))
        square = (problem.coordinates**2).sum(1) + problem.residual
        data = (problem.coordinates, square, problem.residual)
    else:
        tight, inside, square = problem.shifted()
        gram = problem.lower @ problem.lower.T
        spectrum = Spectrum.of_gram(torch.tensor(gram), torch.tensor(tight))
        data = (inside, square, None)
    known = [None if x is None else torch.tensor(x) for x in data]
    assert spectrum.values.shape == (o,) and (spectrum.values.diff() >= 0).all()
    return [part.numpy() for part in secular_eigenvectors(spectrum, *known, problem.psi)]


@pytest.mark.parametrize("route", ["factor", "gram"])
@pytest.mark.parametrize("o", [1, 2, 7, 48, 49, 60])  # more than 2 * 24 poles are thinned first
@pytest.mark.parametrize("seed", range(2))
def test_eigenvectors_of_the_smallest_eigenvalues(route, o, seed):
    problem = one_prefix(seed, o, g=12)
    problem.check(*solve(problem, route))


@pytest.mark.parametrize("count", [1023, 1025, 2049])
def test_pieces_that_fit_into_the_cache_are_put_together(count):
    problem = one_prefix(3, 3, count)
    tail, lead, values = solve(problem, "factor")
    some = [0, 1, 1022, count - 1]
    problem.check(*solve(problem, "factor"))
    alone = Bordered(
        problem.lower,
        problem.coordinates[some],
        problem.residual[some],
        problem.prefix[some],
        problem.psi,
    )
    for whole, part in zip((tail, lead, values), solve(alone, "factor"), strict=True):
        np.testing.assert_allclose(whole[some], part, rtol=1e-9)


@pytest.mark.parametrize("psi", [0.0, 1e-12, None])
def test_an_exact_combination_has_the_eigenvalue_zero(psi):
    problem = one_prefix(5, 6, 4)
    problem.residual[:] = 0
    problem.psi = problem.psi if psi is None else psi
    tail, lead, values = solve(problem, "factor")
    np.testing.assert_allclose(values, 0, atol=1e-15)
    products = problem.lower @ problem.coordinates.T  # (o, g)
    for j in range(4):
        c = -np.linalg.solve(problem.lower @ problem.lower.T, products[:, j])
        np.testing.assert_allclose(tail[j] / lead[j], c, rtol=1e-7)
        np.testing.assert_allclose(np.sum(tail[j] ** 2) + lead[j] ** 2, 1)


def test_tiny_eigenvalues_are_relatively_accurate():
    """Scaled by 1e-10 in size the problem is the same one, with eigenvalues times 1e-20."""
    problem = one_prefix(6, 20, 8)
    _, lead, values = solve(problem, "factor")
    tiny = Bordered(
        problem.lower * 1e-10,
        problem.coordinates * 1e-10,
        problem.residual * 1e-20,
        problem.prefix,
        problem.psi * 1e-20,
    )
    _, small_lead, small = solve(tiny, "factor")
    np.testing.assert_allclose(small, values * 1e-20, rtol=1e-9)
    np.testing.assert_allclose(small_lead, lead, rtol=1e-9)


def test_residuals_that_cancel_are_taken_as_zero_and_not_as_negative():
    lower = torch.tensor([[1.0, 0.0], [0.2, 0.8]], dtype=torch.float64)
    w = torch.tensor([[0.6, 0.3]], dtype=torch.float64)
    square = w.square().sum(1) * (1 - 1e-15)
    spectrum = Spectrum.of_factor(lower)
    _, _, value = secular_eigenvectors(spectrum, w, square, None, 0.1)
    assert 0 <= float(value) < 1e-14


@pytest.mark.parametrize("seed", range(4))
def test_many_prefixes_at_once(seed):
    problem = Bordered.random(seed, 9, 14, 0.4)
    tight, inside, square = map(torch.tensor, problem.shifted())
    gram = torch.tensor(problem.lower @ problem.lower.T)
    found = stacked_eigenvectors(
        gram, tight, inside, square, torch.tensor(problem.prefix), problem.psi
    )
    problem.check(*(part.numpy() for part in found))


def test_newton_comes_from_the_right_and_stops(monkeypatch):
    """The first bound is above the root, every further step below the one before it."""
    problem = one_prefix(8, 12, 5)
    exact = solve(problem, "factor")[2]
    before = np.full(5, problem.psi)
    for steps in range(1, 5):
        monkeypatch.setattr(secular, "MAX_STEPS", steps)
        value = solve(problem, "factor")[2]
        assert (value <= before * (1 + 1e-12)).all() and (value >= exact * (1 - 1e-9)).all()
        before = value
    monkeypatch.undo()
    np.testing.assert_allclose(before, exact, rtol=1e-6)
