"""Points on manifolds of known dimension, to check what an estimate of the dimension is worth.

All functions draw ``m`` points with a seed. A manifold needs some number of features; into more of
them, ``ambient``, it goes by :func:`linear_embedding`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vinets.checks import optional_positive_int, parameter_error
from vinets.data.labels import positive_int

Points = NDArray[np.float64]


def sphere_points(m: int, dimension: int, ambient: int | None = None, seed: int = 0) -> Points:
    """Uniform points of the unit sphere: curved, no edge, ``dimension + 1`` features or more.

    Examples
    --------
    >>> points = sphere_points(100, dimension=2, ambient=8)
    >>> points.shape, np.allclose((points**2).sum(axis=1), 1)
    ((100, 8), True)
    """
    random = _drawing("sphere_points", m, dimension, seed)
    # Normal vectors have no preferred direction, so that their directions are uniform.
    directions = random.normal(size=(m, dimension + 1))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return _embedded("sphere_points", directions, ambient, seed)


def torus_points(m: int, dimension: int, ambient: int | None = None, seed: int = 0) -> Points:
    """Uniform points of a flat torus, a product of unit circles: ``2 * dimension`` features.

    Examples
    --------
    >>> torus_points(100, dimension=3).shape
    (100, 6)
    """
    random = _drawing("torus_points", m, dimension, seed)
    angles = random.uniform(0, 2 * np.pi, size=(m, dimension))
    circles = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return _embedded("torus_points", circles, ambient, seed)


def swiss_roll(m: int, dimension: int = 2, ambient: int | None = None, seed: int = 0) -> Points:
    r"""Uniform points of a rolled-up sheet: a spiral times a cube, ``dimension + 1`` features.

    The spiral is :math:`(t\cos t, t\sin t)` for :math:`t` from :math:`3\pi/2` to
    :math:`9\pi/2`, the cube has sides of length 21. In two dimensions this is the usual Swiss
    roll, but drawn evenly along the spiral.
    """
    random = _drawing("swiss_roll", m, dimension, seed)
    # The length of the spiral has no inverse in closed form: it is read off between many knots.
    knots = np.linspace(1.5 * np.pi, 4.5 * np.pi, 2001)
    length = (knots * np.hypot(1, knots) + np.arcsinh(knots)) / 2  # of the spiral up to a knot
    t = np.interp(random.uniform(length[0], length[-1], size=m), length, knots)
    heights = random.uniform(0, 21, size=(m, dimension - 1))
    rolled = np.column_stack([t * np.cos(t), t * np.sin(t), heights])
    return _embedded("swiss_roll", rolled, ambient, seed)


def linear_embedding(points: Points, ambient: int, seed: int = 0) -> Points:
    """Put points (m, n) on a random linear subspace of ``ambient`` features; distances stay.

    Examples
    --------
    >>> flat = linear_embedding(np.eye(3), ambient=10)
    >>> np.allclose(flat @ flat.T, np.eye(3))
    True
    """
    if points.ndim != 2:
        raise parameter_error("linear_embedding", "points", "of shape (m, n)", points.shape)
    return _embedded("linear_embedding", points, ambient, seed)


def _drawing(owner: str, m: int, dimension: int, seed: int) -> np.random.Generator:
    positive_int(owner, "m", m)
    positive_int(owner, "dimension", dimension)
    return np.random.default_rng(seed)


def _embedded(owner: str, points: Points, ambient: int | None, seed: int) -> Points:
    needed = points.shape[1]
    wanted = optional_positive_int(owner, "ambient", ambient)
    if wanted is None:
        return points
    if wanted < needed:
        raise parameter_error(owner, "ambient", f"at least {needed}, or None", ambient)
    # A stream of its own: the subspace is independent of the points drawn with the same seed.
    random = np.random.default_rng([seed, 1])
    basis, _ = np.linalg.qr(random.normal(size=(wanted, needed)))
    embedded: Points = points @ basis.T
    return embedded
