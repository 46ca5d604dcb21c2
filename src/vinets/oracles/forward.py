r"""Points of a few entries: the entry that lowers the value most joins, one after the other.

With the Gram matrix scaled to a diagonal of 1, let :math:`v_1, \dots, v_k` be :math:`G`-orthonormal
vectors over the entries taken so far, :math:`q_j = G v_j`. The minimiser over these, and its slope:

.. math:: c = -\sum_j w_j v_j, \qquad r = b + Gc = b - \sum_j w_j q_j,

what is left of the term :math:`i` outside of the others is :math:`d_i = 1 - \sum_j q_{ji}^2`, and
taking it would lower the value by :math:`r_i^2 / d_i`. For the best of them

.. math:: (q, v) = \Bigl((G_{\cdot i}, e_i) - \sum_j q_{ji}\,(q_j, v_j)\Bigr) / \sqrt{d_i},
          \qquad w = r_i / \sqrt{d_i},

so that a row of ``(q, v)`` is computed at once, and :math:`(r, c)` from it. Steps are many and
small: they are taken in NumPy, wherever the problems lie.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .problem import LeastSquaresBatch

Array: TypeAlias = NDArray[Any]

NARROW = 64  # terms, all of which may be taken; of more than these
ENTRIES = 12  # only so many
NUMBERS = 1 << 20  # in the vectors of a batch of rows


def add_entries(problem: LeastSquaresBatch, target: Tensor) -> tuple[Tensor, Tensor]:
    """Points (N, o) of few entries, and which rows (N,) reach their ``target`` (N,); others are 0.

    A point is minimal over the entries that it has, the ball ignored. A row is given up as soon as
    its steps would not suffice if all lowered the value as much as the next one.

    References
    ----------
    Chen, Billings, Luo: Orthogonal least squares methods and their application to non-linear
    system identification. Int. J. Control 1989.
    """
    diagonal = problem.gram.diagonal(dim1=1, dim2=2)
    scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()
    slope = problem.linear * scale[problem.owner] * problem.indicator
    missing = problem.constant - target
    found, reached = torch.zeros_like(slope), missing <= 0
    most = problem.width if problem.width <= NARROW else ENTRIES
    hopeful = (~reached & (missing <= most * slope.square().amax(1))).nonzero()[:, 0]
    if not len(hopeful):
        return found, reached
    gram = (problem.gram * scale[:, :, None] * scale[:, None, :]).view(-1, problem.width)
    for rows in hopeful.split(max(1, NUMBERS // (ENTRIES * problem.width))):
        first = problem.owner[rows] * problem.width
        work = gram, first, slope[rows], problem.mask[rows], missing[rows]
        points, reaches = _grow(most, *(x.numpy(force=True) for x in work))
        found[rows] = torch.from_numpy(points).to(found)
        reached[rows] = torch.from_numpy(reaches).to(reached)
    return found * scale[problem.owner], reached


def _grow(
    most: int, gram: Array, first: Array, slope: Array, inside: Array, missing: Array
) -> tuple[Array, Array]:
    """Points of at ``most`` so many entries, and which make up for what is ``missing`` (n,).

    ``first`` (n,) tells where the Gram matrix of a row begins in ``gram``, all under each other.
    """
    n, o = slope.shape
    points, reaches = np.zeros_like(slope), np.zeros(n, dtype=bool)
    dependent = float(np.finfo(slope.dtype).eps) ** 0.5  # less than this of a term is rounding
    rows, state = np.arange(n), slope  # of rows under way: r, c
    outside = np.where(inside, slope.dtype.type(1), np.inf)  # d
    support = np.zeros((n, 0), dtype=np.int64)
    taken = np.zeros((n, 0, o), dtype=slope.dtype)  # q, v
    for step in range(most):
        gains = np.square(state[:, :o])
        gains /= outside
        at = gains.argmax(1)
        gain, left = _pick(gains, at), _pick(outside, at)
        goes = (missing > 0) & (missing <= (most - step) * gain) & (left > dependent)
        if not goes.all():
            kept = goes.nonzero()[0]
            if not len(kept):
                break
            work = rows, first, missing, at, gain, left, state, outside, support, taken
            rows, first, missing, at, gain, left, state, outside, support, taken = (
                x.take(kept, 0) for x in work
            )
        missing = missing - gain
        support = np.concatenate([support, at[:, None]], 1)
        vectors = _widened(gram.take(first + at, 0), o + step + 1)
        vectors[:, -1] = 1.0
        if step:
            along = taken[np.arange(len(at)), :, at]
            vectors[:, :-1] -= np.einsum("nk,nkw->nw", along, taken)
        root = np.sqrt(left)
        vectors /= root[:, None]
        slid = _pick(state, at) / root
        state = _widened(state, o + step + 1)
        state -= vectors * slid[:, None]
        outside -= np.square(vectors[:, :o])
        np.maximum(outside, dependent, out=outside)
        longer = np.zeros((len(at), step + 1, o + step + 1), dtype=slope.dtype)
        longer[:, :step, :-1], longer[:, step] = taken, vectors
        taken = longer
        ended = (missing <= 0).nonzero()[0]
        if len(ended):
            c = state[ended, o:]
            _leave_one_out(c, taken[ended, :, o:], -missing[ended])
            points[rows[ended, None], support[ended]] = c
            reaches[rows[ended]] = True
    return points, reaches


def _leave_one_out(c: Array, basis: Array, room: Array) -> None:
    """Leave the cheapest entry out of points (n, k) whose values may rise by that, in place.

    The inverses of their Gram matrices are ``basis^T basis``.
    """
    if c.shape[1] < 3:  # the best entry was not enough alone
        return
    diagonal = np.einsum("nji,nji->ni", basis, basis)
    cost = c * c / diagonal
    at = cost.argmin(1)
    spare = (_pick(cost, at) <= room).nonzero()[0]
    at = at[spare]
    column = np.einsum("nji,nj->ni", basis[spare], basis[spare, :, at])
    c[spare] -= column * (c[spare, at] / diagonal[spare, at])[:, None]
    c[spare, at] = 0.0


def _pick(table: Array, at: Array) -> Array:
    """Entry ``at[n]`` of row ``n`` of a contiguous table."""
    return table.ravel().take(at + np.arange(0, table.size, table.shape[1]))


def _widened(table: Array, width: int) -> Array:
    """Columns of zeros behind those of a table."""
    wide = np.zeros((len(table), width), dtype=table.dtype)
    wide[:, : table.shape[1]] = table
    return wide
