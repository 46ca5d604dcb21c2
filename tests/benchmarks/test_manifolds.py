"""Manifolds that estimates of dimensions are checked on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.manifolds import sphere_points, swiss_roll, torus_points

MANIFOLDS = [sphere_points, torus_points, swiss_roll]


def test_points_satisfy_the_equations():
    sphere, torus, roll = (f(200, 3) for f in MANIFOLDS)
    assert np.allclose((sphere**2).sum(axis=1), 1)
    assert np.allclose(torus[:, :3] ** 2 + torus[:, 3:] ** 2, 1)
    radius, angle = np.hypot(*roll[:, :2].T), np.arctan2(*roll[:, 1::-1].T)
    assert np.allclose(np.cos(radius - angle), 1)
    assert ((roll[:, 2:] >= 0) & (roll[:, 2:] <= 21)).all()


def test_the_roll_is_even_along_its_length():
    radius = np.hypot(*swiss_roll(20_000)[:, :2].T)
    knots = np.linspace(1.5 * np.pi, 4.5 * np.pi, 20_001)
    steps = np.hypot(np.diff(knots * np.cos(knots)), np.diff(knots * np.sin(knots)))
    share = np.interp(radius, knots, np.append(0, steps.cumsum()) / steps.sum())
    assert stats.kstest(share, "uniform").pvalue > 0.01


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_embeddings_keep_distances_and_seeds_decide(manifold):
    low, high = manifold(50, 3, seed=4), manifold(50, 3, ambient=20, seed=4)
    assert high.shape == (50, 20)
    assert np.allclose(low @ low.T, high @ high.T)
    assert np.array_equal(low, manifold(50, 3, seed=4))
    assert not np.array_equal(low, manifold(50, 3, seed=5))
