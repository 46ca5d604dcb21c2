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


Decide = Callable[[np.ndarray], tuple[np.ndarray, float] | None]


def go_through(Z: np.ndarray, max_degree: int, decide: Decide, border: str = "groebner") -> Plain:
    """Go through the border; a term that ``decide`` gives nothing for joins the order ideal."""
    found = Plain([()])
    level, known = [()], {()}
    for degree in range(1, max_degree + 1):
        candidates, level = candidates_of(level, known, Z.shape[1], degree, border), []
        for u in candidates:
            generator = decide(np.prod(Z[:, list(u)], axis=1))
            if generator is not None:
                found.generators.append((u, *generator))
            else:
                found.order_ideal.append(u)
                known.add(u)
                level.append(u)
    return found


def plain_loop(
    Z: np.ndarray, psi: float, solve: Solve, max_degree: int, border: str = "groebner"
) -> Plain:
    """Decide the border term by term, exactly as the algorithms are written down."""
    columns = [np.ones(len(Z))]

    def decide(values: np.ndarray) -> tuple[np.ndarray, float] | None:
        coefficients, value = solve(np.column_stack(columns), values)
        if value <= psi:
            return coefficients, value
        columns.append(values)
        return None

    return go_through(Z, max_degree, decide, border)


def gram_loop(
    Z: np.ndarray, psi: float, unit: bool, max_degree: int, vectors: bool = True
) -> Plain:
    """The plain loop with the Gram matrix kept and bordered: a baseline that does not waste work.

    Still one LAPACK call per border term: ``eigh`` of the bordered matrix, or a Cholesky solve.
    Without ``vectors`` the unit rule computes eigenvalues alone, and no coefficients.
    """
    m = len(Z)
    rows, gram = np.ones((1, m)), np.ones((1, 1))

    def decide(values: np.ndarray) -> tuple[np.ndarray, float] | None:
        nonlocal rows, gram
        b, beta = rows @ values / m, values @ values / m
        full = np.block([[gram, b[:, None]], [b[None], np.array([[beta]])]])
        if unit and not vectors:
            smallest = scipy.linalg.eigh(full, eigvals_only=True, subset_by_index=[0, 0])
            coefficients, value = np.zeros(0), float(smallest[0])
        elif unit:
            eigen, found_vectors = scipy.linalg.eigh(full, subset_by_index=[0, 0])
            coefficients, value = found_vectors[:, 0], float(eigen[0])
        else:
            c = -scipy.linalg.solve(gram, b, assume_a="pos")
            coefficients, value = np.append(c, 1.0), float(beta + b @ c)
        if value <= psi:
            return coefficients, value
        rows, gram = np.vstack([rows, values]), full
        return None

    return go_through(Z, max_degree, decide)


def blended_pairwise(
    gram: np.ndarray, b: np.ndarray, beta: float, radius: float, psi: float, max_steps: int = 10_000
) -> tuple[np.ndarray, float]:
    """Blended pairwise conditional gradients for c'Gc + 2b'c + beta over the l1 ball, as printed.

    From a vertex, until the value is below ``psi``, the gap below ``psi / 1000`` or the progress
    below ``psi / 1e6``: the settings that its authors give for vanishing ideals.
    """
    index, sign, weight = np.zeros(1, dtype=int), np.ones(1), np.ones(1)
    c = np.zeros(len(b))
    c[0] = radius
    last = np.inf
    for _ in range(max_steps):
        half = gram @ c + b
        value = float(c @ (half + b)) + beta
        grad = 2 * half
        best = int(np.abs(grad).argmax())
        gap = float(grad @ c) + radius * abs(grad[best])
        if value < psi or gap < 1e-3 * psi or value - gap > psi or last - value < 1e-6 * psi:
            return c, value
        last = value
        along = radius * sign * grad[index]
        away, local = int(along.argmax()), int(along.argmin())
        direction = np.zeros(len(b))
        if along[away] - along[local] >= gap:
            direction[index[local]] += radius * sign[local]
            direction[index[away]] -= radius * sign[away]
            limit = weight[away]
        else:
            direction -= c
            direction[best] -= radius * np.sign(grad[best])
            limit = 1.0
        step = min(float(-grad @ direction / (2 * direction @ gram @ direction)), limit)
        if limit == 1.0 and along[away] - along[local] < gap:
            weight = (1 - step) * weight
            same = np.flatnonzero((index == best) & (sign == -np.sign(grad[best])))
            if len(same):
                weight[same[0]] += step
            else:
                index, sign = np.append(index, best), np.append(sign, -np.sign(grad[best]))
                weight = np.append(weight, step)
        else:
            weight[local] += step
            weight[away] -= step
        c = c + step * direction
        stay = weight > 0
        index, sign, weight = index[stay], sign[stay], weight[stay]
        outside = np.ones(len(b), dtype=bool)
        outside[index] = False
        c[outside] = 0.0  # which rounding would leave
    return c, float(c @ (gram @ c + 2 * b)) + beta


def vertex_steps(
    gram: np.ndarray, b: np.ndarray, beta: float, radius: float, psi: float, kind: str
) -> tuple[np.ndarray, float, int]:
    """Conditional gradients ("cg"), pairwise ("pcg") or blended pairwise ("bpcg"), as printed.

    From the first vertex of the ball, until the value is at most ``psi`` or value minus gap proves
    that this is out of reach. Returns the point, its value and the number of steps.
    """
    o = len(b)
    vertices = radius * np.hstack([np.eye(o), -np.eye(o)])
    weights = np.eye(2 * o)[0]
    for step in range(1_000_000):
        c = vertices @ weights
        half = gram @ c + b
        value = float(c @ (half + b)) + beta
        along = half @ vertices
        best = int(along.argmin())
        gap = 2 * float(half @ c - along[best])
        if value <= psi or value - gap > psi:
            return c, value, step
        active = np.flatnonzero(weights > 0)
        away = active[along[active].argmax()]
        local = active[along[active].argmin()]
        if kind == "bpcg" and 2 * (along[away] - along[local]) >= gap:
            toward, whole = local, False
        else:
            toward, whole = best, kind != "pcg"
        origin, limit = (weights, 1.0) if whole else (np.eye(2 * o)[away], weights[away])
        change = np.eye(2 * o)[toward] - origin
        d = vertices @ change
        length = min(float(-half @ d / (d @ gram @ d)), limit)
        weights = weights + length * change
        if length == limit:
            weights[away if not whole else weights < 0] = 0.0
    raise AssertionError("no decision")


def accelerated_steps(
    gram: np.ndarray, b: np.ndarray, beta: float, radius: float, psi: float, kind: str
) -> tuple[np.ndarray, float, int]:
    """Accelerated projected gradients from 0, Nesterov's scheme without a restart; otherwise as
    :func:`vertex_steps`.
    """
    length = 1 / np.linalg.eigvalsh(gram)[-1]
    c = ahead = np.zeros(len(b))
    t = 1.0
    for step in range(1_000_000):
        half = gram @ c + b
        value = float(c @ (half + b)) + beta
        gap = 2 * (float(half @ c) + radius * float(np.abs(half).max()))
        if value <= psi or value - gap > psi:
            return c, value, step
        moved = ahead - length * (gram @ ahead + b)
        if np.abs(moved).sum() > radius:
            # the threshold that leaves an l1 norm of the radius, by bisection
            low, high = 0.0, float(np.abs(moved).max())
            for _ in range(100):
                middle = (low + high) / 2
                inside = np.maximum(np.abs(moved) - middle, 0).sum() <= radius
                low, high = (low, middle) if inside else (middle, high)
            moved = np.sign(moved) * np.maximum(np.abs(moved) - high, 0)
        grown = (1 + (1 + 4 * t * t) ** 0.5) / 2
        ahead = moved + (t - 1) / grown * (moved - c)
        c, t = moved, grown
    raise AssertionError("no decision")


def stepping_loop(
    Z: np.ndarray, psi: float, oracle: str, max_degree: int, tau: float
) -> tuple[Plain, list[int]]:
    """OAVI as printed, every border term decided by the oracle's own steps; and those steps."""
    run = accelerated_steps if oracle == "agd" else vertex_steps
    steps: list[int] = []

    def solve(A: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
        m = len(u)
        c, value, taken = run(A.T @ A / m, A.T @ u / m, float(u @ u / m), tau - 1, psi, oracle)
        if value <= psi:
            steps.append(taken)
        return np.append(c, 1.0), value

    return plain_loop(Z, psi, solve, max_degree), steps


def boosted_loop(Z: np.ndarray, psi: float, max_degree: int, tau: float = 1000.0) -> Plain:
    """OAVI with sparse coefficients as the prior art has it (Wirth, Kera, Pokutta 2023).

    Term by term: the inverse of the Gram matrix, bordered with every accepted term, decides;
    where a polynomial vanishes, blended pairwise conditional gradients start from a vertex, and
    their coefficients count if they vanish, too ("weak inverse Hessian boosting").
    """
    m = len(Z)
    rows, gram, inverse = np.ones((1, m)), np.ones((1, 1)), np.ones((1, 1))

    def decide(values: np.ndarray) -> tuple[np.ndarray, float] | None:
        nonlocal rows, gram, inverse
        b, beta = rows @ values / m, float(values @ values / m)
        along = inverse @ b
        value = beta - float(b @ along)
        if value <= psi:
            c, sparse_value = blended_pairwise(gram, b, beta, tau - 1, psi)
            if sparse_value > psi:
                c, sparse_value = -along, value
            return np.append(c, 1.0), sparse_value
        edge = np.append(-along, 1.0)
        inverse = np.pad(inverse, (0, 1)) + np.outer(edge, edge) / value
        gram = np.block([[gram, b[:, None]], [b[None], np.array([[beta]])]])
        rows = np.vstack([rows, values])
        return None

    return go_through(Z, max_degree, decide)


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


class PlainTransform:
    """Values of the generators of a plain loop, prepared once: products of parents by variables."""

    def __init__(self, plain: Plain) -> None:
        place = {term: i for i, term in enumerate(plain.order_ideal)}
        terms, leading = plain.order_ideal[1:], plain.leading
        top = max((len(t) for t in terms), default=0)
        self.levels = [
            ([place[t[:-1]] for t in terms if len(t) == d], [t[-1] for t in terms if len(t) == d])
            for d in range(1, top + 1)
        ]
        self.parent = np.array([place[t[:-1]] for t in leading], dtype=int)
        self.variable = np.array([t[-1] for t in leading], dtype=int)
        self.tail = np.zeros((len(leading), len(plain.order_ideal)))
        self.lead = np.array([c[-1] for _, c, _ in plain.generators])
        for row, (_, c, _) in zip(self.tail, plain.generators, strict=True):
            row[: len(c) - 1] = c[:-1]

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        columns = np.ascontiguousarray(Z.T)
        values = np.ones((self.tail.shape[1], len(Z)))
        start = 1
        for parent, variable in self.levels:
            stop = start + len(parent)
            np.multiply(values[parent], columns[variable], out=values[start:stop])
            start = stop
        own = values[self.parent] * columns[self.variable]
        own *= self.lead[:, None]
        own += self.tail @ values
        return np.abs(own, out=own).T
