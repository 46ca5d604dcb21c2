"""Points on manifolds of known dimension, to check what an estimate of the dimension is worth.

All functions draw ``m`` points with a seed. A manifold needs some number of features; into more of
them, ``ambient``, it goes by a random linear map that keeps distances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def sphere_points(m: int, dimension: int, ambient: int | None = None, seed: int = 0) -> Points:
    """Draw uniform points of the unit sphere: curved, no edge, ``dimension + 1`` features."""
    # Normal vectors have no preferred direction, so that their directions are uniform.
    directions = np.random.default_rng(seed).normal(size=(m, dimension + 1))
    return _embed(directions / np.linalg.norm(directions, axis=1, keepdims=True), ambient, seed)


def torus_points(m: int, dimension: int, ambient: int | None = None, seed: int = 0) -> Points:
    """Draw uniform points of a flat torus, a product of circles: ``2 * dimension`` features."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=(m, dimension))
    return _embed(np.concatenate([np.cos(angles), np.sin(angles)], axis=1), ambient, seed)


def swiss_roll(m: int, dimension: int = 2, ambient: int | None = None, seed: int = 0) -> Points:
    """Draw uniform points of a rolled-up sheet: a spiral times a cube, ``dimension + 1`` features.

    The spiral is (t cos t, t sin t) for t from 3 pi / 2 to 9 pi / 2, the cube has sides of length
    21. In two dimensions this is the usual Swiss roll, but drawn evenly along the spiral.
    """
    random = np.random.default_rng(seed)
    # The length of the spiral has no inverse in closed form: it is read off between many knots.
    knots = np.linspace(1.5 * np.pi, 4.5 * np.pi, 2001)
    length = (knots * np.hypot(1, knots) + np.arcsinh(knots)) / 2
    t = np.interp(random.uniform(length[0], length[-1], size=m), length, knots)
    heights = random.uniform(0, 21, size=(m, dimension - 1))
    return _embed(np.column_stack([t * np.cos(t), t * np.sin(t), heights]), ambient, seed)


def _embed(points: Points, ambient: int | None, seed: int) -> Points:
    if ambient is None:
        return points
    # A stream of its own: the subspace is independent of the points drawn with the same seed.
    random = np.random.default_rng([seed, 1])
    basis, _ = np.linalg.qr(random.normal(size=(ambient, points.shape[1])))
    embedded: Points = points @ basis.T
    return embedded
