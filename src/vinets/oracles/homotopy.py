r"""Least squares over the l1 ball, exactly, one problem at a time.

The minimiser of :math:`\tfrac12\lVert Mc + u\rVert^2 + \lambda\lVert c\rVert_1` is piecewise linear
in :math:`\lambda`. Over the columns :math:`A` that take part, with signs :math:`s` and
:math:`M_A = QR`,

.. math:: c_A = -R^{-1}Q^\top u - \lambda R^{-1}R^{-\top}s, \qquad
          M^\top(Mc + u) = M^\top(u - QQ^\top u) - \lambda M^\top Q R^{-\top}s,

until a column joins (its correlation reaches :math:`\lambda`), a coefficient becomes 0 and leaves,
or the l1 norm, which grows as :math:`\lambda` falls, reaches the radius: there the point is the
minimiser over the ball. Every segment is computed afresh from the columns themselves, so that no
error adds up and the condition number is not squared.

The correlations of a residual near rounding are noise, and no path follows them. Where the
tolerance asks for no less, :math:`u` lies in the span of the columns or nothing vanishes, and the
question is which of all solutions of :math:`Mc = -u` is the shortest: a linear program.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq, qr, qr_delete, solve_triangular
from scipy.optimize import linprog

from vinets.algebra.orthogonal import ROUNDING

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
SEGMENTS_PER_COLUMN = 20  # a path has about as many segments as columns; more are rounding


def minimise_in_ball(
    columns: Array, u: Array, radius: float, target: float
) -> tuple[Array, float, bool]:
    r"""Minimise :math:`\lVert Mc + u\rVert^2` over the l1 ball; tell whether the target is reached.

    ``columns`` (d, o) are those of ``M``, ``u`` has shape (d,), and a value of at most ``target``,
    or no more than rounding, counts as vanishing. Returns coefficients (o,), the value there, and
    whether that vanishes. If so, the coefficients are the minimiser; otherwise a point of the ball
    that was reached when it was certain that no point vanishes.

    References
    ----------
    Osborne, Presnell, Turlach: A new approach to variable selection in least squares problems. IMA
    J. Numer. Anal. 2000 (the path).
    Chen, Donoho, Saunders: Atomic decomposition by basis pursuit. SIAM J. Sci. Comput. 1998 (the
    linear program).

    Examples
    --------
    >>> minimise_in_ball(np.eye(2), np.array([3.0, 1.0]), 2.0, 2.0)[0]
    array([-2.,  0.])
    """
    sizes = np.sqrt(np.square(columns).sum(0))
    size = float(np.linalg.norm(u))
    most = (ROUNDING * EPS * (size + radius * sizes.max())) ** 2  # rounding anywhere in the ball
    c = _shortest_solution(columns, u, most) if target <= most else None
    if c is None:
        c = _follow_path(columns, u, radius, max(target, most))
    c *= radius / max(radius, float(np.abs(c).sum()))
    rest = columns @ c + u
    value = float(rest @ rest)
    noise = (ROUNDING * EPS * (size + float(np.abs(c) @ sizes))) ** 2
    return c, value, value <= max(target, noise)


def _follow_path(columns: Array, u: Array, radius: float, goal: float) -> Array:
    r"""Find the minimiser over the ball, or a point where surely no value is below ``goal``.

    With :math:`y = Mc + u`, every point of the ball has a residual of at least
    :math:`(y^\top u - r \lVert M^\top y\rVert_\infty) / \lVert y\rVert`.
    """
    d, o = columns.shape
    sizes = np.sqrt(np.square(columns).sum(0))
    floor = 8 * EPS * float(sizes.max() * np.linalg.norm(u))  # correlations below it are rounding
    slope = columns.T @ u
    joining: int | None = int(np.abs(slope).argmax())
    level, sign = float(np.abs(slope).max()), -np.sign(slope)
    active: list[int] = []
    barred = np.zeros(o, dtype=bool)  # active, or dependent on columns that are
    signs, basis, upper = np.zeros(0), np.zeros((d, 0)), np.zeros((0, 0))
    c, moved = np.zeros(o), np.zeros(0)
    for _ in range(SEGMENTS_PER_COLUMN * o if level > floor else 0):
        if joining is not None:
            barred[joining] = True
            along, fresh = _project_out(columns[:, joining], basis)
            norm = float(np.linalg.norm(fresh))
            if norm > ROUNDING * EPS * sizes[joining]:
                basis = np.column_stack([basis, fresh / norm])
                upper = np.pad(upper, (0, 1))
                upper[:-1, -1], upper[-1, -1] = along, norm
                active.append(joining)
                signs = np.append(signs, sign[joining])
        along, perpendicular = _project_out(u, basis)
        back = solve_triangular(upper, signs, trans=1, check_finite=False)
        start, fall = solve_triangular(
            upper, np.column_stack([-along, back]), check_finite=False
        ).T  # the coefficients are start - level * fall
        fixed, falling = columns.T @ perpendicular, columns.T @ (basis @ back)
        # The next column joins at the level that its correlation, fixed - level * falling, reaches.
        rate = 1 + np.where(fixed > 0, falling, -falling)
        joins = np.divide(np.abs(fixed), rate, out=np.zeros(o), where=(rate > 0) & ~barred)
        joining = int(joins.argmax())
        join = min(float(joins[joining]), level) if joins[joining] > floor else 0.0
        # The level at which the next coefficient becomes 0.
        leaves = np.divide(start, fall, out=np.zeros(len(active)), where=signs * fall < 0)
        leaving = int(leaves.argmax())
        leave = min(float(leaves[leaving]), level)
        border = float((signs @ start - radius) / (signs @ fall))
        level = max(join, leave, border, 0.0)
        moved = start - level * fall
        y = perpendicular - level * (basis @ back)
        reach = float(y @ u) - radius * float(np.abs(fixed - level * falling).max())
        if level in (border, 0.0) or (reach > 0 and reach * reach > goal * float(y @ y)):
            break
        sign = -np.sign(fixed)
        if leave >= join:
            barred[active.pop(leaving)] = False
            signs, joining = np.delete(signs, leaving), None
            basis, upper = qr_delete(basis, upper, leaving, which="col", check_finite=False)
            basis, upper = basis[:, : len(active)], upper[: len(active)]
            moved = np.delete(moved, leaving)
            if not active:  # rounding alone has emptied it
                break
    c[active] = moved
    return c


def _shortest_solution(columns: Array, u: Array, most: float) -> Array | None:
    """Find the solution of ``Mc = -u`` with the smallest l1 norm, or None if there is none.

    With :math:`M_1` a largest independent part of the columns, :math:`M_2 = M_1 B` the others and
    :math:`u = -M_1 a`, all solutions are :math:`c = (a - Bz, z)`.
    """
    sizes = np.sqrt(np.square(columns).sum(0))
    sizes[sizes == 0] = 1.0
    columns = columns / sizes  # so that what depends on others does not depend on units
    basis, upper, order = qr(columns, mode="economic", pivoting=True, check_finite=False)
    rank = int((np.abs(upper.diagonal()) > ROUNDING * EPS).sum())
    along, rest = _project_out(u, basis[:, :rank])
    if float(rest @ rest) > most:
        return None
    support = order[:rank]
    if 0 < rank < len(order):
        right = np.column_stack([-along, upper[:rank, rank:]])
        a, *others = solve_triangular(upper[:rank, :rank], right, check_finite=False).T
        whole = np.column_stack([np.eye(rank), *others])  # (I, B)
        halves = np.hstack([whole, -whole])  # a coefficient is the difference of two >= 0
        price = np.tile(1 / sizes[order], 2)
        found = linprog(price, A_eq=halves, b_eq=a, method="highs-ds").x
        if found is not None:
            support = order[(found[: len(order)] != 0) | (found[len(order) :] != 0)]
    c = np.zeros(len(order))
    # the program tells which columns take part; their coefficients come from these themselves
    c[support] = lstsq(columns[:, support], -u, EPS, lapack_driver="gelsy", check_finite=False)[0]
    return c / sizes


def _project_out(vector: Array, basis: Array) -> tuple[Array, Array]:
    """Return coordinates along orthonormal columns, and the rest; twice, against rounding."""
    along = basis.T @ vector
    rest = vector - basis @ along
    again = basis.T @ rest
    return along + again, rest - basis @ again
