r"""The construction for one small point set, in NumPy: the decisions of :mod:`.construct`.

A step of torch costs several times what it computes where there are a few dozen terms. Here a
whole degree is decided by one elimination: with the coordinates :math:`W` of the candidates
:math:`V` in the factor of the terms accepted before, the Schur complement
:math:`VV^\top - WW^\top - sI` is factored row by row, and rows whose pivot is too small are
skipped; they vanish. What grows beyond :data:`SMALL` is left to the general construction.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dsyevr, dtrtrs
from torch import Tensor

from vinets.algebra.borders import first_border, next_border
from vinets.algebra.eigen import smallest_eigenvectors
from vinets.algebra.gram import pivots_of
from vinets.algebra.terms import Index
from vinets.ideals.ball import SPARSE_STEPS, OracleLog
from vinets.ideals.report import DegreeReport
from vinets.ideals.rule import Rule, Settings
from vinets.oracles import ORACLES, LeastSquaresBatch, solve, solve_sparse

Array = NDArray[np.float64]

SMALL = 64  # terms of a border, and of the order ideal
NUMBERS = 1 << 18  # in the values of a border
DENSE = 1 << 17  # numbers, cubes of sizes: decomposed one by one up to here
NOTHING = torch.zeros(0, dtype=torch.float64)


@dataclass
class SmallIdeal:
    """What was found: terms by degree, and coefficients over all accepted ones."""

    accepted: list[Index] = field(default_factory=list)
    leading: list[Index] = field(default_factory=list)
    degrees: list[DegreeReport] = field(default_factory=list)
    tail: Tensor = NOTHING[:, None]
    lead: Tensor = NOTHING
    value: Tensor = NOTHING
    log: OracleLog = field(default_factory=OracleLog)


@dataclass(frozen=True)
class _Decided:
    """Accepted terms with their factor, and what vanished over a prefix of them."""

    terms: Array  # (o, m) values
    lower: Array  # (o, o)
    own: Array  # (g, m) values of the candidates
    coordinates: Array  # (g, o) in the factor, 0 beyond the prefix
    prefix: Index  # (g,)

    @property
    def square(self) -> Array:
        """Squared norms (g,) of the candidates."""
        return _squares(self.own)


def construct_small(points: Tensor, rule: Rule, settings: Settings) -> SmallIdeal | None:
    """Fit ``points`` (m, n) on a CPU; None if they are not small, or the l1 ball binds."""
    m, n = points.shape
    if not _fits(n, m):
        return None
    columns = np.ascontiguousarray(points.numpy().T)
    shift, threshold = (rule.psi, 0.0) if rule.unit else (0.0, rule.psi)
    terms, lower = np.full((1, m), m**-0.5), np.full((1, 1), (1.0 - shift) ** 0.5)
    ideal, level, below, degree = SmallIdeal(), first_border(n), 0, 1
    found: list[tuple[Array, Array, list[int]]] = []  # values, coordinates, prefixes
    while len(level):
        begin, o = time.perf_counter(), len(terms)
        if o > SMALL or not _fits(len(level), m):
            return None
        values = terms.take(below + level.parent, 0) * columns.take(level.variable, 0)
        known = dtrtrs(lower.T, terms @ values.T, trans=1)[0].T
        schur = values @ values.T - known @ known.T
        schur.flat[:: len(schur) + 1] -= shift
        if not np.isfinite(schur).all():
            return None  # where the reason is told
        taken, fresh = pivots_of(schur, threshold)
        rest = sorted(set(range(len(level))).difference(taken))
        prefix = [o + i - before for before, i in enumerate(rest)]
        coordinates = np.concatenate([known, fresh], axis=1)
        if rest:
            found.append((values.take(rest, 0), coordinates.take(rest, 0), prefix))
        ideal.accepted.append(level.rows.take(taken, 0))
        ideal.leading.append(level.rows.take(rest, 0))
        seconds = time.perf_counter() - begin
        ideal.degrees.append(DegreeReport(degree, len(level), len(taken), len(rest), seconds))
        if not taken:
            break
        terms = np.concatenate([terms, values.take(taken, 0)])
        lower = np.concatenate([_widened(lower, len(terms)), coordinates.take(taken, 0)])
        if degree == settings.max_degree:
            break
        level = next_border(level.take(np.array(taken)), n, settings.border)
        below, degree = o, degree + 1
    if not found:
        ideal.tail = torch.zeros(0, len(terms), dtype=torch.float64)
        return ideal
    own, prefixes = (np.concatenate([part[k] for part in found]) for k in (0, 2))
    table = np.concatenate([_widened(part[1], len(terms)) for part in found])
    decided = _Decided(terms, lower, own, table, prefixes)
    return _unit(ideal, decided, rule.psi) if rule.unit else _leading(ideal, decided, rule)


def _widened(table: Array, width: int) -> Array:
    """Columns of zeros behind those of a table."""
    wide = np.zeros((len(table), width))
    wide[:, : table.shape[1]] = table
    return wide


def _fits(count: int, m: int) -> bool:
    return count <= SMALL and count * m <= NUMBERS


def _squares(rows: Array) -> Array:
    total: Array = np.square(rows).sum(1)
    return total


def _leading(ideal: SmallIdeal, d: _Decided, rule: Rule) -> SmallIdeal | None:
    """Coefficients by least squares, and by the oracle; None if they leave the ball."""
    tail = -dtrtrs(d.lower, d.coordinates.T, lower=1, trans=1)[0].T
    if np.abs(tail).sum(1).max() > rule.radius:
        return None
    value = d.square - _squares(d.coordinates)
    ideal.tail = torch.from_numpy(np.ascontiguousarray(tail))
    ideal.value = torch.from_numpy(np.maximum(value, 0.0))
    ideal.lead = torch.ones_like(ideal.value)
    if rule.oracle == "exact":
        return ideal
    problem = LeastSquaresBatch(
        torch.from_numpy(d.terms @ d.terms.T)[None],
        torch.from_numpy(d.own @ d.terms.T),
        torch.from_numpy(d.square),
        torch.from_numpy(d.prefix),
        torch.zeros(len(tail), dtype=torch.int64),
        rule.radius,
    )
    solver = ORACLES[rule.oracle]()
    if solver.sparse:
        solution = solve_sparse(problem, solver, ideal.tail, rule.psi, max_steps=SPARSE_STEPS)
    else:
        solution = solve(problem, solver, start=ideal.tail)
    keep = solution.value <= rule.psi
    ideal.tail[keep] = solution.coefficients[keep]
    ideal.value[keep] = solution.value[keep].clamp(min=0)
    ideal.log.add(solution, int(keep.sum()))
    return ideal


def _unit(ideal: SmallIdeal, d: _Decided, psi: float) -> SmallIdeal | None:
    """Eigenvectors of the bordered Gram matrices; None if LAPACK finds none."""
    g, o = d.coordinates.shape
    if g * (o + 1) ** 3 > DENSE:
        lower, coordinates, square, prefix = (
            torch.from_numpy(x.copy()) for x in (d.lower, d.coordinates, d.square, d.prefix)
        )
        found = smallest_eigenvectors(lower, coordinates, square, prefix, psi)
        ideal.tail, ideal.lead, ideal.value = found
        return ideal
    rows = np.concatenate([d.terms, d.own])
    gram = rows @ rows.T
    tail, lead = np.zeros((g, o)), np.empty(g)
    for j, k in enumerate(d.prefix.tolist()):
        full = np.empty((k + 1, k + 1))
        full[:k, :k] = gram[:k, :k]
        full[k, :k] = full[:k, k] = gram[o + j, :k]
        full[k, k] = gram[o + j, o + j]
        _, vectors, _, _, failed = dsyevr(full, range="I", il=1, iu=1)
        if failed:
            return None
        vector = vectors[:, 0] if vectors[k, 0] > 0 else -vectors[:, 0]
        tail[j, :k], lead[j] = vector[:k], vector[k]
    # on the points, where a small value is no difference of large ones
    value = _squares(tail @ d.terms + lead[:, None] * d.own)
    ideal.tail, ideal.lead, ideal.value = map(torch.from_numpy, (tail, lead, value))
    return ideal
