"""The textbook algorithms, one term at a time on LAPACK: what the engine must agree with.

Nothing here is shared with the package. Terms are tuples of variable indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

Term = tuple[int, ...]


@dataclass
class Plain:
    """Order ideal and generators (leading term, coefficients over O then itself, value)."""

    order_ideal: list[Term] = field(default_factory=list)
    generators: list[tuple[Term, np.ndarray, float]] = field(default_factory=list)

    @property
    def leading(self) -> list[Term]:
        return [term for term, _, _ in self.generators]


Solve = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]


def smallest_eigenvector(A: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Unit-norm rule: eigenvector of the smallest eigenvalue of [A u]^T [A u] / m."""
    full = np.column_stack([A, u])
    values, vectors = scipy.linalg.eigh(full.T @ full / len(u), subset_by_index=[0, 0])
    return vectors[:, 0], float(values[0])


def least_squares(A: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Leading-coefficient rule: least squares with the leading coefficient fixed to 1."""
    c = scipy.linalg.lstsq(A, -u, lapack_driver="gelsd")[0]
    return np.append(c, 1.0), float(np.mean((A @ c + u) ** 2))


def in_l1_ball(radius: float) -> Solve:
    """Least squares over the l1 ball, by an independent convex solver."""
    import cvxpy

    def solve(A: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
        c = cvxpy.Variable(A.shape[1])
        objective = cvxpy.Minimize(cvxpy.sum_squares(A @ c + u) / len(u))
        problem = cvxpy.Problem(objective, [cvxpy.norm1(c) <= radius])
        problem.solve(solver=cvxpy.CLARABEL)
        return np.append(c.value, 1.0), float(problem.value)

    return solve


def candidates_of(
    level: list[Term], known: set[Term], n: int, degree: int, border: str
) -> list[Term]:
    """Border terms of a degree, in term order, by their definition."""
    terms = {tuple(sorted((*t, i))) for t in level for i in range(n)}
    if border == "groebner":
        terms = {u for u in terms if all(u[:j] + u[j + 1 :] in known for j in range(degree))}
    return sorted(terms, key=lambda t: t[::-1])


def plain_loop(
    Z: np.ndarray, psi: float, solve: Solve, max_degree: int, border: str = "groebner"
) -> Plain:
    """Decide the border term by term, exactly as the algorithms are written down."""
    m, n = Z.shape
    found = Plain([()])
    columns, level, known = [np.ones(m)], [()], {()}
    for degree in range(1, max_degree + 1):
        candidates, level = candidates_of(level, known, n, degree, border), []
        for u in candidates:
            values = np.prod(Z[:, list(u)], axis=1)
            coefficients, value = solve(np.column_stack(columns), values)
            if value <= psi:
                found.generators.append((u, coefficients, value))
            else:
                found.order_ideal.append(u)
                known.add(u)
                level.append(u)
                columns.append(values)
    return found


def gram_loop(Z: np.ndarray, psi: float, unit: bool, max_degree: int) -> Plain:
    """The plain loop with the Gram matrix kept and bordered: a baseline that does not waste work.

    Still one LAPACK call per border term: ``eigh`` of the bordered matrix, or a Cholesky solve.
    """
    m, n = Z.shape
    found = Plain([()])
    rows, gram, level, known = np.ones((1, m)), np.ones((1, 1)), [()], {()}
    for degree in range(1, max_degree + 1):
        candidates, level = candidates_of(level, known, n, degree, "groebner"), []
        for u in candidates:
            values = np.prod(Z[:, list(u)], axis=1)
            b, beta = rows @ values / m, values @ values / m
            full = np.block([[gram, b[:, None]], [b[None], np.array([[beta]])]])
            if unit:
                eigen, vectors = scipy.linalg.eigh(full, subset_by_index=[0, 0])
                coefficients, value = vectors[:, 0], float(eigen[0])
            else:
                c = -scipy.linalg.solve(gram, b, assume_a="pos")
                coefficients, value = np.append(c, 1.0), float(beta + b @ c)
            if value <= psi:
                found.generators.append((u, coefficients, value))
            else:
                found.order_ideal.append(u)
                known.add(u)
                level.append(u)
                rows, gram = np.vstack([rows, values]), full
    return found
