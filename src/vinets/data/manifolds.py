"""Points on manifolds of known dimension, to check what an estimate of the dimension is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vinets.checks import optional_positive_int, parameter_error

__all__ = ["linear_embedding", "sphere_points", "swiss_roll", "torus_points"]

Points = NDArray[np.float64]


def sphere_points(m: int, dimension: int, ambient: int | None = None, seed: int = 0) -> Points:
    """Uniform points of the unit sphere of a dimension: a curved manifold without an edge.

    Parameters
    ----------
    m : int
        How many points.
    dimension : int
        Of the sphere: 2 is the surface of a ball.
    ambient : int, optional
        Features of a point. The sphere needs ``dimension + 1``, which is the default; into more
        of them it goes by :func:`linear_embedding`.
    seed : int
        Of the draw and of the embedding.

    Returns
    -------
    array of shape (m, ambient)

    Examples
    --------
    >>> points = sphere_points(100, dimension=2, ambient=8)
    >>> points.shape, np.allclose((points**2).sum(axis=1), 1)
    ((100, 8), True)
    """
    _check_counts("sphere_points", m, dimension)
    directions = np.random.default_rng(seed).normal(size=(m, dimension + 1))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return _embedded("sphere_points", directions, ambient, seed)


def torus_points(m: int, dimension: int, ambient: int | None = None, seed: int = 0) -> Points:
    """Uniform points of a flat torus: the product of ``dimension`` unit circles.

    Parameters
    ----------
    m, dimension, ambient, seed
        As for :func:`sphere_points`. The torus needs ``2 * dimension`` features.

    Returns
    -------
    array of shape (m, ambient)

    Examples
    --------
    >>> torus_points(100, dimension=3).shape
    (100, 6)
    """
    _check_counts("torus_points", m, dimension)
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=(m, dimension))
    circles = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return _embedded("torus_points", circles, ambient, seed)


def swiss_roll(m: int, dimension: int = 2, ambient: int | None = None, seed: int = 0) -> Points:
    r"""Uniform points of a rolled-up sheet: a spiral times a cube, a manifold with edges.

    The spiral is :math:`(t\cos t, t\sin t)` for :math:`t` from :math:`3\pi/2` to
    :math:`9\pi/2`, the cube has sides of length 21. In two dimensions this is the usual Swiss
    roll, but drawn evenly along the spiral.

    Parameters
    ----------
    m, dimension, ambient, seed
        As for :func:`sphere_points`. The roll needs ``dimension + 1`` features.

    Returns
    -------
    array of shape (m, ambient)

    Examples
    --------
    >>> swiss_roll(100).shape
    (100, 3)
    """
    _check_counts("swiss_roll", m, dimension)
    random = np.random.default_rng(seed)
    knots = np.linspace(1.5 * np.pi, 4.5 * np.pi, 2001)
    length = _spiral_length(knots)
    t = np.interp(random.uniform(length[0], length[-1], size=m), length, knots)
    heights = random.uniform(0, 21, size=(m, dimension - 1))
    rolled = np.column_stack([t * np.cos(t), t * np.sin(t), heights])
    return _embedded("swiss_roll", rolled, ambient, seed)


def linear_embedding(points: Points, ambient: int, seed: int = 0) -> Points:
    """Put points (m, n) on a random linear subspace of ``ambient`` features; distances stay.

    Parameters
    ----------
    points : array of shape (m, n)
        The points.
    ambient : int
        Features afterwards, at least n.
    seed : int
        Of the subspace.

    Returns
    -------
    array of shape (m, ambient)
        ``points @ Q`` with orthonormal rows of ``Q``.

    Examples
    --------
    >>> flat = linear_embedding(np.eye(3), ambient=10)
    >>> np.allclose(flat @ flat.T, np.eye(3))
    True
    """
    if points.ndim != 2:
        raise parameter_error("linear_embedding", "points", "of shape (m, n)", points.shape)
    return _embedded("linear_embedding", points, ambient, seed)


def _spiral_length(t: Points) -> Points:
    """Length of the spiral ``(t cos t, t sin t)`` from 0 to each ``t``, in closed form."""
    length: Points = (t * np.hypot(1, t) + np.arcsinh(t)) / 2
    return length


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


def _check_counts(owner: str, m: int, dimension: int) -> None:
    for name, value in (("m", m), ("dimension", dimension)):
        if optional_positive_int(owner, name, value) is None:
            raise parameter_error(owner, name, "a positive integer", value)
