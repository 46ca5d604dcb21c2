r"""Points of a few entries: the entry that lowers the value most joins, one after the other.

With the Gram matrix scaled to a diagonal of 1, let :math:`v_1, \dots, v_k` be :math:`G`-orthonormal
vectors over the entries taken so far, :math:`q_j = G v_j`. The minimiser over these, and its slope:

.. math:: c = -\sum_j w_j v_j, \qquad r = b + Gc = b - \sum_j w_j q_j,

what is left of the term :math:`i` outside of the others is :math:`d_i = 1 - \sum_j q_{ji}^2`, and
taking it would lower the value by :math:`r_i^2 / d_i`. For the best of them

.. math:: (q, v) = \Bigl((G_{\cdot i}, e_i) - \sum_j q_{ji}\,(q_j, v_j)\Bigr) / \sqrt{d_i},
          \qquad w = r_i / \sqrt{d_i},

so that ``(q, v)`` is computed as one row, and so is ``(r, c)``. Steps are many and small: they are
taken in NumPy, wherever the problems lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.gram import widened

from .problem import LeastSquaresBatch

Array: TypeAlias = NDArray[Any]

MAX_NARROW_TERMS = 64  # problems of at most so many terms may take them all
MAX_WIDE_ENTRIES = 12  # entries that problems of more terms may take
FIRST_ENTRIES = 4  # entries that there is room for at first; most points have no more
SPARE_SIZES = range(4, 9)  # numbers of entries one of which is often more than it takes
# Squares of what is left of a term outside of the others, up to which that is rounding.
DEPENDENT_SQUARE = {
    np.dtype(np.float32): float(np.finfo(np.float32).eps) ** 0.5,
    np.dtype(np.float64): float(np.finfo(np.float64).eps) ** 0.5,
}
MAX_BATCH_NUMBERS = 1 << 20  # numbers in the vectors of a batch of rows


def add_entries(problem: LeastSquaresBatch, target: Tensor) -> tuple[Tensor, Tensor]:
    """Find points (N, o) of few entries, and which rows (N,) reach their ``target`` (N,).

    A point is minimal over the entries that it has, the ball ignored; rows that miss are 0. A row
    is given up as soon as its steps would not suffice if all lowered the value as much as the next.

    References
    ----------
    Chen, Billings, Luo: Orthogonal least squares methods and their application to non-linear
    system identification. Int. J. Control 1989.
    """
    parts = problem.gram, problem.linear, problem.constant - target, problem.mask, problem.owner
    gram, slope, missing, inside, owner = (x.numpy(force=True) for x in parts)
    o = problem.width
    most = o if o <= MAX_NARROW_TERMS else MAX_WIDE_ENTRIES
    diagonal = gram.diagonal(0, 1, 2)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, diagonal.dtype.type(1)))
    scales = scale if len(scale) == 1 else scale.take(owner, 0)
    slope = slope * scales
    slope *= inside
    table = (gram * scale[:, :, None] * scale[:, None, :]).reshape(-1, o)
    points, reached = np.zeros_like(slope), missing <= 0
    open_, batch = (missing > 0).nonzero()[0], max(1, MAX_BATCH_NUMBERS // (MAX_WIDE_ENTRIES * o))
    for place in (open_[i : i + batch] for i in range(0, len(open_), batch)):
        mine, room = inside.take(place, 0), min(FIRST_ENTRIES, most)
        rows = _Rows(
            place,
            owner.take(place, 0) * o,
            missing.take(place, 0),
            np.where(mine, slope.dtype.type(1), slope.dtype.type(np.inf)),
            widened(slope.take(place, 0), o + room),
            np.zeros((len(place), room), dtype=np.int64),
            np.empty((room, len(place), o + room), dtype=slope.dtype),
        )
        _grow(table, rows, most, points, reached)
    points *= scales
    return torch.from_numpy(points).to(problem.linear), torch.from_numpy(reached).to(target.device)


@dataclass
class _Rows:
    """Rows under way, and room for a few more steps."""

    place: Array  # (n,) among all rows
    first: Array  # (n,) where the Gram matrix begins in the table of all of them
    missing: Array  # (n,) how far the value has yet to fall
    outside: Array  # (n, o): d
    state: Array  # (n, o + room): r, c
    support: Array  # (n, room)
    taken: Array  # (room, n, o + room): q, v of the steps so far

    def keep(self, kept: Array, steps: int) -> None:
        """Forget all but the ``kept`` rows, after so many steps."""
        flat = self.place, self.first, self.missing, self.outside, self.state, self.support
        self.place, self.first, self.missing, self.outside, self.state, self.support = (
            x.take(kept, 0) for x in flat
        )
        room, _, width = self.taken.shape
        taken = np.empty((room, len(kept), width), dtype=self.taken.dtype)
        taken[:steps] = self.taken[:steps].take(kept, 1)  # behind these there is nothing yet
        self.taken = taken

    def take(self, at: Array, table: Array, step: int) -> None:
        """Take the entries ``at`` (n,), whose rows of the Gram matrices are in the table."""
        o = self.outside.shape[1]
        vectors = self.taken[step]
        # straight into place, which "clip" allows for, and no index is out of range
        table.take(self.first + at, 0, out=vectors, mode="clip")
        vectors[:, o + step] = 1.0
        if step:
            along = self.taken[:step, np.arange(len(at)), at]
            vectors -= np.einsum("kn,knw->nw", along, self.taken[:step])
        root = np.sqrt(_pick(self.outside, at))[:, None]
        vectors /= root
        self.state -= vectors * (_pick(self.state, at)[:, None] / root)
        self.outside -= np.square(vectors[:, :o])
        self.outside[self.outside <= DEPENDENT_SQUARE[vectors.dtype]] = np.inf  # never to be taken
        self.support[:, step] = at

    def make_room(self, most: int) -> None:
        """Make room for twice as many steps, or for ``most``; there was none left."""
        before, n, width = self.taken.shape
        room = min(2 * before, most)
        taken = np.empty((room, n, width + room - before), dtype=self.taken.dtype)
        taken[:before, :, :width], taken[:before, :, width:] = self.taken, 0.0
        self.state = widened(self.state, taken.shape[2])
        self.support, self.taken = widened(self.support, room), taken


def _grow(table: Array, rows: _Rows, most: int, points: Array, reached: Array) -> None:
    """Take up to ``most`` entries into every row; ``points`` and ``reached`` hear who succeeded."""
    o = rows.outside.shape[1]
    table = widened(table, rows.state.shape[1])
    open_ = len(rows.missing)
    for step in range(most):
        gains = np.square(rows.state[:, :o])
        gains /= rows.outside
        at = gains.argmax(1)
        gain = _pick(gains, at)
        rows.missing -= gain
        if not step:  # many rows end with one entry, and need no vectors for that
            ended = (rows.missing <= 0).nonzero()[0]
            place, last = rows.place.take(ended), at.take(ended)
            points[place, last] = -rows.state[ended, last]
            reached[place] = True
        if not step or most < o:
            going = rows.missing <= (most - step - 1) * gain
            if not step:
                going &= rows.missing > 0
            kept = going.nonzero()[0]
            if len(kept) < len(at):
                rows.keep(kept, step)
                at, open_ = at.take(kept), len(kept)
        if step == len(rows.taken):
            rows.make_room(most)
            table = widened(table, rows.state.shape[1])
        rows.take(at, table, step)
        ended = (rows.missing <= 0).nonzero()[0]
        if len(ended):
            size, place = step + 1, rows.place.take(ended)
            c = rows.state[ended, o : o + size]
            if size in SPARE_SIZES:
                basis = rows.taken[:size, ended, o : o + size]
                _leave_one_out(c, basis, -rows.missing.take(ended))
            points[place[:, None], rows.support[ended, :size]] = c
            reached[place], rows.missing[ended] = True, np.inf
            open_ -= len(ended)
        if not open_:
            return
        if 2 * open_ < len(at):  # a few that are done cost less than to forget them
            rows.keep((rows.missing < np.inf).nonzero()[0], step + 1)


def _leave_one_out(c: Array, basis: Array, room: Array) -> None:
    """Leave the cheapest entry out of points (n, k) whose values may rise by that, in place.

    The inverses of their Gram matrices are ``basis^T basis``, (k, n, k).
    """
    diagonal = np.einsum("jni,jni->ni", basis, basis)
    cost = c * c
    cost /= diagonal
    at = cost.argmin(1)
    spare = (_pick(cost, at) <= room).nonzero()[0]
    if not len(spare):
        return
    at, basis = at[spare], basis[:, spare]
    column = np.einsum("jni,jn->ni", basis, basis[:, np.arange(len(at)), at])
    c[spare] -= column * (c[spare, at] / diagonal[spare, at])[:, None]
    c[spare, at] = 0.0


def _pick(table: Array, at: Array) -> Array:
    """Return entry ``at[n]`` of row ``n`` of a contiguous table."""
    return table.ravel().take(at + np.arange(0, table.size, table.shape[1]))
