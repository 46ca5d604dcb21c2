r"""The construction for one small point set, in NumPy: the decisions of :mod:`.construct`.

A step of torch costs several times what it computes where there are a few hundred terms. With the
coordinates :math:`W` of candidates :math:`V` in the factor of the terms accepted before, the Schur
complement :math:`VV^\top - WW^\top - sI` is factored row by row, and rows whose pivot is too small
are skipped; they vanish. A short border is decided by one such elimination. Of a longer one, only
what is not small already is, panel by panel. What grows beyond :data:`MAX_BORDER_TERMS` and
:data:`MAX_BORDER_NUMBERS` is left to the general construction.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dsyevr, dtrtri, dtrtrs
from torch import Tensor

from vinets.algebra.eigen import smallest_eigenvectors
from vinets.algebra.gram import pivots_of, widened
from vinets.algebra.terms import Index, first_border, next_border
from vinets.ideals.ball import OracleLog, run_oracle
from vinets.ideals.coefficients import Coefficients
from vinets.ideals.fit import DegreeReport, FittedIdeal, Rule
from vinets.oracles import ORACLES, LeastSquaresBatch

Array = NDArray[np.float64]

MAX_BORDER_TERMS = 1024
MAX_ACCEPTED_TERMS = 128
MAX_BORDER_NUMBERS = 1 << 18  # values of the terms of a border on all points
MAX_DENSE_WORK = 1 << 17  # sum of the cubes of sizes that are decomposed one by one


@dataclass
class _Border:
    """Candidates of one border, and which of them vanished over a prefix of the accepted terms."""

    values: Array  # (b, m)
    square: Array  # (b,) squared norms
    coordinates: Array  # (b, o) in the factor, 0 beyond the prefix
    taken: list[int]  # accepted ones
    rest: list[int]  # the others
    met: int  # terms accepted before

    @property
    def prefix(self) -> Index:
        """Numbers of terms that the others have met (g,)."""
        return self.met + np.array(self.rest) - np.arange(len(self.rest))


@dataclass
class _BorderedSystems:
    """The candidates that vanished in all degrees, and the accepted terms with their factor."""

    terms: Array  # (o, m) values
    lower: Array  # (o, o)
    square: Array  # (g,)
    coordinates: Array  # (g, o)
    prefix: Index  # (g,)


def construct_small(points: Tensor, rule: Rule) -> FittedIdeal | None:
    """Fit ``points`` (m, n) on a CPU; None if they are not small, or the l1 ball binds."""
    m, n = points.shape
    if not _fits(n, m):
        return None
    columns = np.ascontiguousarray(points.numpy().T)
    shift, threshold = (rule.psi, 0.0) if rule.unit else (0.0, rule.psi)
    terms, lower = np.full((1, m), m**-0.5), np.full((1, 1), (1.0 - shift) ** 0.5)
    level, below, degree = first_border(n), 0, 1
    accepted: list[Index] = []
    leading: list[Index] = []
    degrees: list[DegreeReport] = []
    borders: list[_Border] = []
    while len(level):
        begin, o = time.perf_counter(), len(terms)
        if o > MAX_ACCEPTED_TERMS or not _fits(len(level), m):
            return None
        values = terms.take(below + level.parent, 0)
        values *= columns.take(level.variable, 0)
        decided = _decide(terms, lower, values, shift, threshold, rule.panel)
        if not math.isfinite(decided.square.max()):
            return None  # the general construction gives the reason
        taken, rest = decided.taken, decided.rest
        if rest:
            borders.append(decided)
        accepted.append(level.rows.take(taken, 0))
        leading.append(level.rows.take(rest, 0))
        seconds = time.perf_counter() - begin
        degrees.append(DegreeReport(degree, len(level), len(taken), len(rest), seconds))
        if not taken:
            break
        terms = np.concatenate([terms, values.take(taken, 0)])
        fresh = decided.coordinates.take(taken, 0)
        lower = np.concatenate([widened(lower, len(terms)), fresh])
        if degree == rule.max_degree:
            break
        level = next_border(level.take(np.array(taken)), n, rule.border)
        below, degree = o, degree + 1
    log, found = OracleLog(), None
    if not borders:
        none = torch.zeros(0, dtype=torch.float64)
        found = Coefficients(none.new_zeros(0, len(terms)), none, none, none.long())
    else:
        vanished = _BorderedSystems(
            terms,
            lower,
            np.concatenate([d.square.take(d.rest) for d in borders]),
            np.concatenate([widened(d.coordinates.take(d.rest, 0), len(terms)) for d in borders]),
            np.concatenate([d.prefix for d in borders]),
        )
        if rule.unit:
            found = _eigenvectors(vanished, borders, rule.psi)
        else:
            found = _leading(vanished, rule, log)
    if found is None:
        return None
    return found.fitted(n, accepted, leading, degrees, "gram", rule, log)


def _decide(
    terms: Array, lower: Array, values: Array, shift: float, threshold: float, panel: int
) -> _Border:
    """Decide the candidates ``values`` (b, m) as one after the other."""
    # the factor is small and, above the tolerances of this path, well conditioned
    known = values @ (dtrtri(lower, lower=1)[0] @ terms).T
    if len(values) <= panel:
        gram = values @ values.T
        square = gram.diagonal()
        taken, fresh = _eliminate(gram, known, shift, threshold)
        coordinates = np.concatenate([known, fresh], axis=1)
    else:
        square = _squares(values)
        gap = square - shift - _squares(known)
        taken, coordinates = _by_panels(values, known, gap, shift, threshold, panel)
    rest = sorted(set(range(len(values))).difference(taken))
    return _Border(values, square, coordinates, taken, rest, len(terms))


def _eliminate(
    gram: Array, known: Array, shift: float, threshold: float
) -> tuple[list[int], Array]:
    """Find the positions of those that join, and coordinates of all along them."""
    schur = gram - known @ known.T
    schur.ravel()[:: len(schur) + 1] -= shift  # a view
    return pivots_of(schur, threshold)


def _by_panels(
    values: Array, known: Array, gap: Array, shift: float, threshold: float, panel: int
) -> tuple[list[int], Array]:
    """Decide many candidates: most have a small ``gap`` (b,), and only the rest can join."""
    taken: list[int] = []
    everyone = np.arange(len(values))[:, None]
    open_ = (gap > threshold).nonzero()[0]
    while len(open_):
        index, open_ = open_[:panel], open_[panel:]
        own, mine = values.take(index, 0), known.take(index, 0)
        order, columns = _eliminate(own @ own.T, mine, shift, threshold)
        if not order:
            continue
        joined, corner = index.take(order), columns.take(order, 0)
        cross = own.take(order, 0) @ values.T - mine.take(order, 0) @ known.T
        fresh = dtrtrs(corner, cross, lower=1)[0].T
        gap -= _squares(fresh)
        open_ = open_[gap.take(open_) > threshold]
        fresh = fresh * (everyone > joined)
        fresh[joined] = corner
        known = np.concatenate([known, fresh], axis=1)
        taken += joined.tolist()
    return taken, known


def _fits(count: int, m: int) -> bool:
    return count <= MAX_BORDER_TERMS and count * m <= MAX_BORDER_NUMBERS


def _squares(rows: Array) -> Array:
    total: Array = np.einsum("ij,ij->i", rows, rows)
    return total


def _leading(v: _BorderedSystems, rule: Rule, log: OracleLog) -> Coefficients | None:
    """Find coefficients by least squares or by the oracle; None if they leave the ball."""
    lead = torch.ones(len(v.square), dtype=torch.float64)
    quick = rule.start == "least-squares" and rule.stop == "vanishing"
    if rule.oracle != "exact" and quick and ORACLES[rule.oracle].sparse:
        # Few coefficients, most of which are found without least squares.
        solution = run_oracle(_problem(v, rule.radius), None, rule)
        if not bool((solution.value <= rule.psi).all()):
            return None  # the ball binds, or rounding is too large
        log.add(solution, len(v.square))
        value = solution.value.clamp(min=0)
        return Coefficients(solution.coefficients, lead, value, solution.steps)
    table = v.coordinates @ -dtrtri(v.lower, lower=1)[0]
    if np.abs(table).sum(1).max() > rule.radius:
        return None
    tail = torch.from_numpy(table)
    value = torch.from_numpy(np.maximum(v.square - _squares(v.coordinates), 0.0))
    if rule.oracle == "exact":
        return Coefficients(tail, lead, value, torch.zeros(len(lead), dtype=torch.int64))
    solution = run_oracle(_problem(v, rule.radius), tail, rule)
    keep = solution.value <= rule.psi
    tail[keep] = solution.coefficients[keep]
    value[keep] = solution.value[keep].clamp(min=0)
    log.add(solution, int(keep.sum()))
    return Coefficients(tail, lead, value, solution.steps)


def _problem(v: _BorderedSystems, radius: float) -> LeastSquaresBatch:
    """Make the problems of the oracles; beyond the prefix, linear parts do not count."""
    linear = v.coordinates @ v.lower.T
    return LeastSquaresBatch(
        torch.from_numpy(v.lower @ v.lower.T)[None],
        torch.from_numpy(linear),
        torch.from_numpy(v.square),
        torch.from_numpy(v.prefix),
        torch.zeros(len(linear), dtype=torch.int64),
        radius,
    )


def _eigenvectors(v: _BorderedSystems, borders: list[_Border], psi: float) -> Coefficients | None:
    """Find the eigenvectors of the bordered Gram matrices; None if LAPACK fails."""
    g, o = v.coordinates.shape
    steps = np.zeros(g, dtype=np.int64)
    if g * (o + 1) ** 3 > MAX_DENSE_WORK:  # all of them through the factor
        factor, coordinates, square, prefix = map(
            torch.from_numpy, (v.lower, v.coordinates, v.square, v.prefix)
        )
        found = smallest_eigenvectors(factor, coordinates, square, prefix, psi)
        return Coefficients(*found, torch.from_numpy(steps))
    own = np.concatenate([d.values.take(d.rest, 0) for d in borders])
    rows = np.concatenate([v.terms, own])
    gram = rows @ rows.T
    tail, lead = np.zeros((g, o)), np.empty(g)
    for j, k in enumerate(v.prefix.tolist()):
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
    value = _squares(tail @ v.terms + lead[:, None] * own)
    return Coefficients(*map(torch.from_numpy, (tail, lead, value, steps)))
