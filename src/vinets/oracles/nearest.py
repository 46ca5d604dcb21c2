r"""One problem at a time, exactly: the point nearest to 0 of a polytope.

:math:`\{u + Mc : \lVert c\rVert_1 \le r\}` is the polytope of :math:`u` and :math:`u \pm r m_i`.
Wolfe's algorithm goes from one affine minimiser over some of these vertices to the next, and ends
after finitely many. It works on the columns themselves, not on their Gram matrix, so that values
are right far below the rounding of squares; that is what tiny tolerances need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from vinets.algebra.orthogonal import ROUNDING

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Nearest:
    """Coefficients ``c`` (o,), the value ``|Mc + u|^2``, and one that no point can be below.

    ``vanishes``: the value is at most the target, or no more than rounding.
    """

    coefficients: Array
    value: float
    least: float
    vanishes: bool


def nearest(columns: Array, u: Array, radius: float, target: float) -> Nearest:
    r"""Minimise :math:`\lVert Mc + u\rVert^2` over the l1 ball, until the target is settled.

    Ends as soon as the value is at most ``target``, or no more than rounding; as soon as
    no point of the ball can reach either; or at the minimum. With :math:`y = Mc + u` every
    point of the polytope has a norm of at least :math:`\min_v \langle y, v\rangle / \lVert y\rVert`
    over its vertices :math:`v`, which is tight at the minimum.

    Parameters
    ----------
    columns : array of shape (d, o)
        The matrix ``M``.
    u : array of shape (d,)
    radius : float
        Of the ball, > 0.
    target : float
        >= 0

    References
    ----------
    Wolfe: Finding the nearest point in a polytope. Math. Programming 1976.

    Examples
    --------
    >>> nearest(np.eye(2), np.array([3.0, 1.0]), 2.0, 2.0).coefficients
    array([-2.,  0.])
    """
    o = columns.shape[1]
    sizes = np.sqrt(np.square(columns).sum(0))
    # vertex i is radius * columns[:, i], vertex o + i minus that, and the last one 0; u is added
    # where they are used, for it could be lost beside them
    vertices = np.concatenate([columns, -columns, np.zeros((len(u), 1))], axis=1) * radius
    lengths = np.append(np.tile(sizes, 2), 0.0) * radius
    scale = ROUNDING * EPS
    most = (scale * (np.linalg.norm(u) + lengths.max())) ** 2  # that rounding can be, anywhere
    active, weights = np.array([2 * o]), np.ones(1)
    c, y, value = np.zeros(o), u, float(u @ u)
    while True:
        along = y @ vertices
        bound = max(float(y @ u + along.min()), 0.0)
        least = (bound / value**0.5) ** 2 if value else 0.0  # in this order nothing overflows
        noise = (scale * (np.linalg.norm(u) + np.abs(c) @ sizes)) ** 2
        vanishes = bool(value <= max(target, noise))
        if vanishes or least > max(target, most) or len(active) == len(lengths):
            break
        # the steepest way down: by the bound alone long vertices would hide short ones
        steepness = (along - y @ (y - u)) / np.maximum(lengths, np.linalg.norm(y - u) or 1.0)
        steepness[active] = np.inf
        toward = int(steepness.argmin())
        active, weights = _minimise(vertices, u, np.append(active, toward), np.append(weights, 0.0))
        moved = _combined(active, weights, o, radius)
        rest = columns @ moved + u
        if not float(rest @ rest) < value:  # rounding allows no further progress
            break
        c, y, value = moved, rest, float(rest @ rest)
    return Nearest(c, value, least, vanishes)


def _minimise(
    vertices: Array, u: Array, active: NDArray[np.intp], weights: Array
) -> tuple[NDArray[np.intp], Array]:
    """Vertices and weights of the nearest point to 0 of a face, given those of another point."""
    while True:
        # seen from the shortest vertex, edges to others do not look alike beside a long one
        first = int(np.square(vertices[:, active]).sum(0).argmin())
        others = np.delete(active, first)
        edges = vertices[:, others] - vertices[:, active[first], None]
        lengths = np.sqrt(np.square(edges).sum(0))
        lengths[lengths == 0] = 1.0
        below = -(u + vertices[:, active[first]])
        solved = lstsq(edges / lengths, below, 4 * EPS, lapack_driver="gelsy", check_finite=False)
        rest = solved[0] / lengths
        wanted = np.insert(rest, first, 1 - rest.sum())
        outside = wanted < 0
        if not outside.any():
            return active, wanted
        # as far as the weights stay positive; the first that does not leaves
        steps = np.full(len(weights), np.inf)
        steps[outside] = weights[outside] / (weights[outside] - wanted[outside])
        leaving = int(steps.argmin())
        moved = (weights + min(1.0, steps[leaving]) * (wanted - weights)).clip(min=0.0)
        active, weights = np.delete(active, leaving), np.delete(moved, leaving)
        weights = weights / weights.sum()


def _combined(active: NDArray[np.intp], weights: Array, o: int, radius: float) -> Array:
    c = np.zeros(2 * o + 1)
    c[active] = weights
    c = c[:o] - c[o : 2 * o]
    return c * (radius / max(1.0, float(np.abs(c).sum())))
