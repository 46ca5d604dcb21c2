"""Roots of the secular equation, against LAPACK on every bordered matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import Bordered

from vinets.algebra import secular
from vinets.algebra.secular import (
    LeadingBlocks,
    Spectrum,
    further_eigenvectors,
    secular_eigenvectors,
    stacked_eigenvectors,
)


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
    lead, values = secular_eigenvectors(spectrum, *known, problem.psi)
    return [part.numpy() for part in (known[0], lead, values)]


@pytest.mark.parametrize("at_once", [5, 100])
@pytest.mark.parametrize("route", ["factor", "gram"])
@pytest.mark.parametrize("o", [1, 2, 7, 60])
@pytest.mark.parametrize("seed", range(2))
def test_eigenvectors_of_the_smallest_eigenvalues(route, o, seed, at_once, monkeypatch):
    monkeypatch.setattr(secular, "CANDIDATES_AT_ONCE", at_once)
    problem = one_prefix(seed, o, g=12)
    problem.check(*solve(problem, route))


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


def test_residuals_that_cancel_are_taken_as_zero_and_not_as_negative():
    lower = torch.tensor([[1.0, 0.0], [0.2, 0.8]], dtype=torch.float64)
    w = torch.tensor([[0.6, 0.3]], dtype=torch.float64)
    square = w.square().sum(1) * (1 - 1e-15)
    spectrum = Spectrum.of_factor(lower)
    _, value = secular_eigenvectors(spectrum, w, square, None, 0.1)
    assert 0 <= float(value) < 1e-14


@pytest.mark.parametrize("seed", range(4))
def test_many_prefixes_at_once(seed):
    problem = Bordered.random(seed, 9, 14, 0.4)
    tight, inside, square = map(torch.tensor, problem.shifted())
    blocks = LeadingBlocks.of(tight, problem.psi)
    prefix = torch.tensor(problem.prefix)
    found = stacked_eigenvectors(blocks, inside, square, prefix, problem.psi)
    problem.check(*(part.numpy() for part in found))


@pytest.mark.parametrize("at_once", [4, 100])
@pytest.mark.parametrize("q", [1, 6, 8])
@pytest.mark.parametrize("seed", range(3))
def test_a_smaller_block_serves_those_that_met_more(seed, q, at_once, monkeypatch):
    monkeypatch.setattr(secular, "CANDIDATES_AT_ONCE", at_once)
    problem = Bordered.random(seed, 9, 30, 0.4)
    some = problem.prefix > q
    problem = Bordered(
        problem.lower,
        problem.coordinates[some],
        problem.residual[some],
        problem.prefix[some],
        problem.psi,
    )
    tight, tail, square = map(torch.tensor, problem.shifted())
    blocks, prefix = LeadingBlocks.of(tight, problem.psi), torch.tensor(problem.prefix)
    spectrum = blocks.spectrum(q)
    lead, values = further_eigenvectors(blocks, spectrum, tail, square, prefix, problem.psi)
    problem.check(tail.numpy(), lead.numpy(), values.numpy())


def test_exact_combinations_of_further_terms_have_the_eigenvalue_zero():
    problem = Bordered.random(2, 7, 5, 0.4)
    problem.prefix[:] = 7
    problem.coordinates = np.random.default_rng(0).normal(size=(5, 7))
    problem.residual[:] = 0
    tight, tail, square = map(torch.tensor, problem.shifted())
    blocks = LeadingBlocks.of(tight, problem.psi)
    _, values = further_eigenvectors(
        blocks, blocks.spectrum(4), tail, square, torch.tensor(problem.prefix), problem.psi
    )
    np.testing.assert_allclose(values, 0, atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_no_block_has_an_eigenvalue_below_its_bound(seed):
    problem = Bordered.random(seed, 12, 1, 0.2)
    gram = problem.lower @ problem.lower.T
    psi = 0.999999 * np.linalg.eigvalsh(gram)[0]  # the closer, the better the last of the bounds
    blocks = LeadingBlocks.of(torch.tensor(np.linalg.cholesky(gram - psi * np.eye(12))), psi)
    smallest = [np.linalg.eigvalsh(gram[:k, :k])[0] for k in range(1, 13)]
    bound = blocks.bound.numpy()
    assert (psi < bound).all() and (bound <= np.array(smallest) * (1 + 1e-12)).all()
    assert bound[-1] - psi > 0.99 * (smallest[-1] - psi)


def test_steps_come_from_below_and_stop(monkeypatch):
    """The first step ends below the root, and every further one above the one before it."""
    problem = one_prefix(8, 12, 5)
    exact = solve(problem, "factor")[2]
    before = np.zeros(5)
    for steps in range(1, 5):
        monkeypatch.setattr(secular, "MAX_STEPS", steps)
        value = solve(problem, "factor")[2]
        assert (value >= before * (1 - 1e-12)).all() and (value <= exact * (1 + 1e-12)).all()
        before = value
    monkeypatch.undo()
    np.testing.assert_allclose(before, exact, rtol=1e-9)
