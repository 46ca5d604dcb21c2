"""Smallest eigenvectors of bordered Gram matrices, against LAPACK on each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vinets.algebra.eigen as eigen


def instance(seed: int, o: int, g: int, spread: float):
    """A Gram matrix and borders whose smallest eigenvalues lie between 0 and psi."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(o, 3 * o + 3)) * np.geomspace(1, spread, o)[:, None]
    gram = rows @ rows.T / rows.shape[1]
    prefix = random.integers(1, o + 1, size=g)
    psi = 0.999 * np.linalg.eigvalsh(gram)[0]
    lower = np.linalg.cholesky(gram)
    coordinates = random.normal(size=(g, o)) * (np.arange(o) < prefix[:, None])
    residual = psi * random.uniform(0, 1, size=g)  # a unit test vector has at most this value
    tensors = (lower, coordinates, residual, prefix)
    return *(torch.from_numpy(np.asarray(t))[None] for t in tensors), float(psi)


def bordered(lower, w, residual, k):
    top = np.concatenate([lower[:k, :k], w[None, :k]])
    full = np.column_stack([top, np.append(np.zeros(k), residual**0.5)])
    return full @ full.T


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    o=st.integers(1, 12),
    g=st.integers(1, 9),
    spread=st.floats(0.05, 1),
    route=st.sampled_from(["by prefix", "brackets", "mixed"]),
)
def test_every_route_finds_the_smallest_eigenvector(seed, o, g, spread, route):
    lower, w, residual, prefix, psi = instance(seed, o, g, spread)
    valid = torch.ones_like(prefix, dtype=torch.bool)
    with pytest.MonkeyPatch.context() as patch:
        if route == "brackets":  # what runs on a GPU
            patch.setattr(eigen, "_shared_prefixes", lambda *_: [])
        if route == "mixed":
            patch.setattr(eigen, "SMALL", 0)
        vectors, values = eigen.smallest_eigenvectors(
            lower, w, residual, prefix, valid, psi, by_prefix=route == "by prefix"
        )
    for j in range(g):
        k = int(prefix[0, j])
        full = bordered(lower[0].numpy(), w[0, j].numpy(), float(residual[0, j]), k)
        spectrum = np.linalg.eigvalsh(full)
        x = np.append(vectors[0, j, :k].numpy(), float(vectors[0, j, -1]))
        assert float(values[0, j]) == pytest.approx(spectrum[0], rel=1e-6, abs=1e-13)
        assert np.linalg.norm(x) == pytest.approx(1)
        assert x[-1] > 0
        assert not bool(vectors[0, j, k:-1].any())
        assert np.linalg.norm(full @ x - spectrum[0] * x) < 1e-8 * spectrum[-1]


def test_equal_eigenvalues_fall_back_to_lapack():
    lower = torch.eye(3, dtype=torch.float64)[None]
    w = torch.full((1, 2, 3), 1e-9, dtype=torch.float64)
    residual = torch.full((1, 2), 1 - 1e-12, dtype=torch.float64)
    prefix = torch.tensor([[3, 2]])
    mask = torch.arange(3) < prefix[..., None]
    problem = eigen._Bordered(lower, w * mask, w.square().sum(-1) + residual, mask)
    vectors = eigen._dense(problem, (torch.tensor([0, 0]), torch.tensor([0, 1])))
    assert vectors.shape == (2, 4)
    assert float(vectors[1, 2].abs()) < 1e-12  # beyond the prefix
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2, dtype=torch.float64))
