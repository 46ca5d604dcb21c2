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


def decide_in_turn(
    constant: np.ndarray, candidates: np.ndarray, psi: float, unit: bool
) -> tuple[list[bool], np.ndarray]:
    """Which rows of ``candidates`` (b, m) join those before them, and all that did, as rows.

    Values are divided by sqrt(m) already. One LAPACK call a candidate: the smallest singular value
    of everything accepted and the candidate, or what least squares leaves of it.
    """
    rows, accepted = constant[None], []
    for u in candidates:
        if unit:
            value = scipy.linalg.svdvals(np.vstack([rows, u]))[-1] ** 2
        else:
            c = scipy.linalg.lstsq(rows.T, u, lapack_driver="gelsd")[0]
            value = np.sum((u - c @ rows) ** 2)
        accepted.append(bool(value > psi))
        if accepted[-1]:
            rows = np.vstack([rows, u])
    return accepted, rows


@dataclass
class Bordered:
    """Gram matrices G with a candidate beside a prefix of them, whose smallest eigenvalue <= psi.

    ``lower`` is a factor of G; ``coordinates`` (g, o) are those of the candidates in it, zero
    beyond the prefix; ``residual`` (g,) what least squares leaves of them.
    """

    lower: np.ndarray
    coordinates: np.ndarray
    residual: np.ndarray
    prefix: np.ndarray
    psi: float

    @classmethod
    def random(cls, seed: int, o: int, g: int, spread: float) -> Bordered:
        random = np.random.default_rng(seed)
        rows = random.normal(size=(o, 3 * o + 3)) * np.geomspace(1, spread, o)[:, None]
        gram = rows @ rows.T / rows.shape[1]
        prefix = np.sort(random.integers(1, o + 1, size=g))
        psi = 0.999 * np.linalg.eigvalsh(gram)[0]
        coordinates = random.normal(size=(g, o)) * (np.arange(o) < prefix[:, None])
        residual = psi * random.uniform(0, 1, size=g)  # a unit vector has at most this value
        return cls(np.linalg.cholesky(gram), coordinates, residual, prefix, float(psi))

    def shifted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As the Gram path has it: a factor of G - psi I, coordinates in that, squared norms."""
        tight = np.linalg.cholesky(self.lower @ self.lower.T - self.psi * np.eye(len(self.lower)))
        inside = np.linalg.solve(tight, self.lower @ self.coordinates.T).T
        inside = inside * (np.arange(len(tight)) < self.prefix[:, None])
        return tight, inside, (self.coordinates**2).sum(1) + self.residual

    def matrix(self, j: int) -> np.ndarray:
        """The bordered matrix of candidate ``j``."""
        k = int(self.prefix[j])
        top = np.concatenate([self.lower[:k, :k], self.coordinates[j][None, :k]])
        full = np.column_stack([top, np.append(np.zeros(k), self.residual[j] ** 0.5)])
        return full @ full.T

    def check(self, tail: np.ndarray, lead: np.ndarray, values: np.ndarray) -> None:
        """Assert that those are unit eigenvectors of the smallest eigenvalues, by LAPACK."""
        for j, k in enumerate(self.prefix.tolist()):
            full = self.matrix(j)
            spectrum = np.linalg.eigvalsh(full)
            x = np.append(tail[j, :k], lead[j])
            np.testing.assert_allclose(values[j], spectrum[0], rtol=1e-6, atol=1e-12 * spectrum[-1])
            np.testing.assert_allclose(np.linalg.norm(x), 1)
            assert x[-1] > 0
            assert not tail[j, k:].any()
            assert np.linalg.norm(full @ x - spectrum[0] * x) < 1e-8 * spectrum[-1]
