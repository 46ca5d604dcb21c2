"""Smallest eigenvectors of bordered Gram matrices, against LAPACK on each."""

from __future__ import annotations

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Bordered

import vinets.algebra.eigen as eigen

ROUTES = ["singular values", "stacked", "shared prefixes", "further terms"]


@pytest.mark.parametrize("route", ROUTES)
@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    o=st.integers(1, 60),
    g=st.integers(1, 9),
    spread=st.floats(0.05, 1),
)
def test_every_route_finds_the_smallest_eigenvector(route, seed, o, g, spread):
    problem = Bordered.random(seed, o, g, spread)
    residual, prefix, psi = problem.residual, problem.prefix, problem.psi
    tight, inside, square = problem.shifted()
    with pytest.MonkeyPatch.context() as patch:
        if route in ("shared prefixes", "further terms"):
            patch.setattr(eigen, "MAX_STACKED_SIZE", 0)
        if route == "shared prefixes":
            patch.setattr(eigen, "MAX_FURTHER_TERMS", 0)
        if route == "singular values":
            found = eigen.smallest_eigenvectors(
                *map(torch.tensor, (problem.lower, problem.coordinates, residual, prefix)),
                psi,
                residual=torch.tensor(residual),
            )
        else:
            found = eigen.smallest_eigenvectors(
                *map(torch.tensor, (tight, inside, square, prefix)), psi
            )
    problem.check(*(part.numpy() for part in found))


def test_tiny_eigenvalues_keep_their_digits():
    """At 1e-20 a Gram matrix knows nothing any more; singular values do."""
    lower = torch.tensor([[1.0, 0.0], [0.5, 1e-8]], dtype=torch.float64)
    w = torch.tensor([[0.3, 0.4]], dtype=torch.float64)
    residual = torch.tensor([1e-22], dtype=torch.float64)
    *_, value = eigen.smallest_eigenvectors(
        lower, w.clone(), residual, torch.tensor([2]), 1e-20, residual=residual
    )
    entries = [[1, 0, 0], ["1/2", "1/100000000", 0], ["3/10", "4/10", "1/100000000000"]]
    full = sympy.Matrix(entries)
    polynomial = sympy.Poly((full * full.T).charpoly().as_expr(), full.T.charpoly().gen)
    exact = min(sympy.re(r) for r in polynomial.nroots(n=40, maxsteps=200))
    assert float(value) == pytest.approx(float(exact), rel=1e-6)


def test_blocks_are_decomposed_for_many_candidates_or_for_many_further_terms(monkeypatch):
    monkeypatch.setattr(eigen, "MAX_FURTHER_TERMS", 3)
    monkeypatch.setattr(eigen, "CANDIDATES_PER_SIZE", 2)
    prefix = torch.tensor([4] * 2 + [5] * 7 + [7] * 1 + [8] * 1 + [9] * 16 + [12] * 1)
    groups = eigen._groups(prefix)
    assert groups[:2] == [(4, slice(0, 2)), (5, slice(2, 9))]
    assert eigen._plan(groups) == [
        (4, slice(0, 2), slice(2, 10)),  # 5 and 7: seven is fewer than twice four
        (8, slice(10, 11), slice(0, 0)),  # 8 is four terms more than 4
        (9, slice(11, 27), slice(27, 28)),  # sixteen pay for a block of eight
    ]


def test_no_candidates_no_eigenvectors():
    lower, nothing = torch.eye(3, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    prefix = torch.zeros(0, dtype=torch.int64)
    found = eigen.smallest_eigenvectors(lower, nothing.view(0, 3), nothing, prefix, 0.1)
    assert [part.shape for part in found] == [(0, 3), (0,), (0,)]
