"""Smallest eigenvectors of bordered Gram matrices, against LAPACK on each."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Bordered

from vinets.algebra import eigen, krylov

ROUTES = ["singular values", "stacked", "shared prefixes", "further terms", "Krylov spaces"]


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
        elif route == "Krylov spaces":  # which run on a GPU
            found = by_krylov_spaces(problem)
        else:
            found = eigen.smallest_eigenvectors(
                *map(torch.tensor, (tight, inside, square, prefix)), psi
            )
    problem.check(*(part.numpy() for part in found))


def by_krylov_spaces(problem):
    tensors = [torch.tensor(x)[None] for x in (*problem.shifted(), problem.prefix)]
    every = torch.ones(tensors[-1].shape, dtype=torch.bool)
    return [part[0] for part in krylov.batched_eigenvectors(*tensors, every, problem.psi)]


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


def test_equal_eigenvalues_fall_back_to_lapack():
    lower = torch.eye(3, dtype=torch.float64)[None]
    w = torch.full((1, 2, 3), 1e-9, dtype=torch.float64)
    residual = torch.full((1, 2), 1 - 1e-12, dtype=torch.float64)
    prefix = torch.tensor([[3, 2]])
    mask = torch.arange(3) < prefix[..., None]
    problem = krylov._BorderedMatrices(lower, w * mask, w.square().sum(-1) + residual, mask)
    vectors = krylov._dense(problem, (torch.tensor([0, 0]), torch.tensor([0, 1])))
    assert vectors.shape == (2, 4)
    assert float(vectors[1, 2].abs()) < 1e-12  # beyond the prefix
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2, dtype=torch.float64))


def bordered_batch(seed, o=12, g=6):
    """The batch that the GPU's scheme works on: one set, with a shift below all eigenvalues."""
    problem = Bordered.random(seed, o, g, 0.3)
    gram = problem.lower @ problem.lower.T
    mask = torch.arange(o) < torch.tensor(problem.prefix)[:, None]
    border = torch.tensor(problem.coordinates @ problem.lower.T) * mask
    square = torch.tensor((problem.coordinates**2).sum(1) + problem.residual)
    batch = krylov._BorderedMatrices(
        torch.tensor(gram)[None], border[None], square[None], mask[None]
    )
    return problem, batch


@pytest.mark.parametrize("seed", range(4))
def test_the_shifted_inverse_is_that_of_every_bordered_matrix(seed):
    problem, batch = bordered_batch(seed)
    shift = -0.3 * problem.psi  # below every eigenvalue, so that all factors exist
    factor = torch.linalg.cholesky(batch.gram - shift * torch.eye(12, dtype=torch.float64))
    vectors = torch.randn(1, 6, 13, dtype=torch.float64)
    vectors[..., :-1] *= batch.mask
    found = krylov._shifted_inverse(batch, vectors, shift, factor)
    ends = krylov._shifted_inverse(batch, None, shift, factor)
    images = batch.apply(vectors)
    for j, k in enumerate(problem.prefix.tolist()):
        inside = [*range(k), 12]
        full = problem.matrix(j)
        np.testing.assert_allclose(images[0, j, inside], full @ vectors[0, j, inside].numpy())
        for one, start in ((found, vectors[0, j, inside].numpy()), (ends, np.eye(k + 1)[k])):
            wanted = np.linalg.solve(full - shift * np.eye(k + 1), start)
            wanted *= float(one[0, j, 12]) / wanted[k]
            np.testing.assert_allclose(one[0, j, inside], wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_lapack_is_not_asked_where_eigenvalues_are_apart(seed, monkeypatch):
    """Two rounds are enough, be the prefix larger than the Krylov space or not."""
    monkeypatch.setattr(krylov, "_dense", None)  # calling it would fail
    monkeypatch.setattr(krylov, "MAX_ROUNDS", 2)
    problem = Bordered.random(seed, 40, 9, 0.3)
    problem.check(*(part.numpy() for part in by_krylov_spaces(problem)))


@pytest.mark.parametrize("seed", range(4))
def test_several_sets_at_once_are_solved_like_each_alone(seed):
    problems = [Bordered.random(10 * seed + k, 20, 5, 0.3) for k in range(3)]
    psi = min(p.psi for p in problems)
    for p in problems:
        p.residual, p.psi = p.residual * psi / p.psi, psi
    tensors = [
        torch.stack([torch.tensor((*p.shifted(), p.prefix)[i]) for p in problems]) for i in range(4)
    ]
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[1, 4] = False  # padding, of which nothing is promised
    found = krylov.batched_eigenvectors(*tensors, valid, psi)
    for k, p in enumerate(problems):
        p.prefix = p.prefix[: int(valid[k].sum())]
        p.check(*(part[k].numpy() for part in found))
