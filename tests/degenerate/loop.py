"""The textbook algorithms once more, plainly: one term, one small problem at a time.

Nothing here is shared with the package. The loop goes along the decisions of a fit and judges each
of them by itself, so that one that rounding leaves open does not hide those behind it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
from reference import Term

EPS = float(np.finfo(np.float64).eps)
WIDE = np.longdouble
SURE = 4096.0  # roundings within which a decision is left open
ZERO = 0.5 * EPS  # of what is added up: no residual at all, which vanishes at every tolerance


@dataclass
class Judged:
    """What the loop says of one fit."""

    decisions: int = 0
    open: int = 0  # within rounding of the tolerance
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate vanishes; None where rounding leaves it open."""

    vanishes: bool | None
    value: float  # mean square of the best combination
    slack: float  # rounding of that mean square


def round_to(values: np.ndarray, precision: str) -> np.ndarray:
    """Values as they are stored in a precision, in float64."""
    if precision == "float64":
        return values
    if precision == "bfloat16":
        import torch

        return torch.from_numpy(values).to(torch.bfloat16).double().numpy()
    return values.astype(precision).astype(np.float64)


class Columns:
    """Accepted terms as columns over sqrt(m), with an orthonormal basis in long double."""

    def __init__(self, constant: np.ndarray) -> None:
        self.table = constant[:, None]
        self.basis: list[np.ndarray] = []
        self.values: dict[Term, np.ndarray] = {(): constant}
        self._extend(constant)

    def add(self, term: Term, values: np.ndarray) -> None:
        self.table = np.column_stack([self.table, values])
        self.values[term] = values
        self._extend(values)

    def _extend(self, values: np.ndarray) -> None:
        left = self.residual(values)
        norm = np.sqrt(left @ left)
        if norm > 1e-17 * np.sqrt(values @ values):  # a term that depends on others adds nothing
            self.basis.append(left / norm)

    def residual(self, values: np.ndarray) -> np.ndarray:
        """What least squares leaves of a column; projected out thrice, for the first errs."""
        left = values.astype(WIDE)
        for _ in range(3):
            for q in self.basis:
                left = left - q * (q @ left)
        return left

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        norms = np.maximum(np.linalg.norm(self.table, axis=0), 1e-300)
        return np.linalg.lstsq(self.table / norms, values, rcond=1e-15)[0] / norms

    def size(self, values: np.ndarray, c: np.ndarray) -> float:
        """Norms that are added up in the combination: rounding is a fraction of it."""
        norms = np.linalg.norm(self.table, axis=0)
        return float(np.linalg.norm(values) + np.abs(c) @ norms)


def by_leading(columns: Columns, u: np.ndarray, psi: float, gram: bool, eps: float) -> Verdict:
    """Least squares with leading coefficient 1."""
    left = columns.residual(u)
    rho = float(np.sqrt(left @ left))
    size = columns.size(u, columns.coefficients(u))
    verdict = _compare(rho, psi, size, gram, eps)
    zero = not gram and rho <= ZERO * size
    return Verdict(True, rho**2, verdict.slack) if zero else verdict


def by_unit(columns: Columns, u: np.ndarray, psi: float, gram: bool, eps: float) -> Verdict:
    """The smallest singular value of all columns: coefficients of norm 1."""
    full = np.column_stack([columns.table, u])
    sizes = np.linalg.svd(full, compute_uv=False)
    sigma = float(sizes[-1]) if full.shape[1] <= full.shape[0] else 0.0
    verdict = _compare(sigma, psi, float(sizes[0]) * full.shape[1] ** 0.5, gram, eps)
    left = columns.residual(u)
    zero = float(np.sqrt(left @ left)) <= ZERO * columns.size(u, columns.coefficients(u))
    if zero and not gram:
        return Verdict(True, verdict.value, verdict.slack)  # whatever the size of the columns
    if psi == 0 or verdict.vanishes is None:
        return verdict
    # Near a tolerance that the accepted terms themselves just pass, the decision hangs on how far
    # they do: it is a Schur complement over the Gram matrix less the tolerance.
    table = columns.table
    shifted = table.T @ table - psi * np.eye(table.shape[1])
    try:
        c = np.linalg.solve(shifted, table.T @ u)
    except np.linalg.LinAlgError:
        return Verdict(None, verdict.value, verdict.slack)
    gap = abs(float(u @ u - psi - (table.T @ u) @ c))
    floor = SURE * (eps if gram else EPS) * columns.size(u, c) ** 2
    return Verdict(verdict.vanishes if gap > floor else None, verdict.value, verdict.slack)


def in_ball(
    columns: Columns, u: np.ndarray, psi: float, radius: float, gram: bool, eps: float
) -> Verdict:
    """Least squares over an l1 ball; by a convex solver where the ball may bind."""
    free = by_leading(columns, u, psi, gram, eps)
    if free.vanishes is False:
        return free
    c = columns.coefficients(u)
    inside = np.abs(c).sum()
    if inside <= radius * (1 - 1e-9) and np.linalg.matrix_rank(columns.table) == len(c):
        return free
    value, least = _convex(columns.table, u, radius)
    # through Gram matrices, squares are rounded; on the points, what is squared
    size = columns.size(u, np.minimum(np.abs(c), radius))
    within = psi - SURE * eps * size**2 if gram else max(psi**0.5 - SURE * EPS * size, 0.0) ** 2
    if value < within:
        vanishes: bool | None = True
    else:
        vanishes = False if least > psi + free.slack else None
    return Verdict(vanishes, value, value - least)


def _convex(table: np.ndarray, u: np.ndarray, radius: float) -> tuple[float, float]:
    """A mean square that is reached in the ball, and one below which nothing in it can get.

    The solver is trusted with neither: its point is moved into the ball, and the duality gap at
    that point is computed in long double.
    """
    import cvxpy

    norms = np.maximum(np.linalg.norm(table, axis=0), 1e-300)
    top = max(float(np.linalg.norm(u)), 1e-300)
    d = cvxpy.Variable(table.shape[1])  # coefficients of columns of norm 1, for u of norm 1
    objective = cvxpy.Minimize(cvxpy.sum_squares(table / norms @ d + u / top))
    weights = top / norms / radius
    problem = cvxpy.Problem(objective, [cvxpy.norm1(cvxpy.multiply(weights, d)) <= 1])
    c = np.zeros(len(norms), dtype=WIDE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it may be inaccurate
            problem.solve(solver=cvxpy.CLARABEL)
        if d.value is not None and np.isfinite(d.value).all():
            c = d.value.astype(WIDE) * top / norms
    except (cvxpy.SolverError, ValueError):
        pass
    c *= min(WIDE(1), radius / max(np.abs(c).sum(), WIDE(1e-300)))
    left = table.astype(WIDE) @ c + u
    slope = 2 * table.astype(WIDE).T @ left
    gap = slope @ c + radius * np.abs(slope).max()
    return float(left @ left), float(left @ left - gap)


def _compare(rho: float, psi: float, size: float, gram: bool, eps: float) -> Verdict:
    """A norm against the root of the tolerance, given what is added up to it."""
    if not np.isfinite([rho, size]).all():
        return Verdict(None, rho, float("inf"))
    slack = SURE * EPS * size
    value, root = rho**2, psi**0.5
    loose = SURE * eps * size**2 if gram else (2 * max(rho, root) + slack) * slack
    if gram:
        sure = abs(value - psi) > loose
    elif root > slack:
        sure = abs(rho - root) > slack
    else:
        sure = rho > root + slack
    return Verdict(value <= psi if sure else None, value, loose)


def terms_up_to(n: int, degree: int) -> Iterator[Term]:
    """All terms, as tuples of variables."""
    for d in range(degree + 1):
        yield from combinations_with_replacement(range(n), d)
