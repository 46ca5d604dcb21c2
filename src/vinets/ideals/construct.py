"""The degree-by-degree construction shared by ABM and OAVI, for many point sets in step.

Each degree: list the border of every point set, evaluate it, decide it against the growing
factorisation (in blocks that fit the memory limit), compute the coefficients of whatever vanished,
and let the rest extend the order ideal. Decisions are those of the textbook loop over single terms.

This differs from the algorithms as printed in the paper in:

1. the ABM test, which is printed the wrong way round: a *small* eigenvalue makes a generator;
2. the border, which is of Gröbner type unless asked otherwise;
3. no eigenvalue or convex problem being solved to decide, except where the l1 ball of OAVI binds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.borders import Level, first_border, next_border
from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import GrowingFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import Index, TermSet
from vinets.checks import rows_within
from vinets.ideals.ball import OracleLog
from vinets.ideals.coefficients import (
    BallBinds,
    Coefficients,
    Found,
    Gathered,
    block_outcome,
    unit_coefficients,
)
from vinets.ideals.report import DegreeReport
from vinets.ideals.rule import Rule, Settings

__all__ = ["STORAGE", "Construction", "construct"]

STORAGE = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True, eq=False)
class Construction:
    """Order ideal and generators of one point set, variables as given to :func:`construct`."""

    order_ideal: TermSet
    generators: PolynomialSet
    values: Tensor  # (g,) mean square of every generator on the points
    degrees: tuple[DegreeReport, ...]
    path: str
    oracle: OracleLog


@dataclass
class _Progress:
    """What one point set has accumulated so far."""

    level: Level
    offset: int = 0  # position in O of the first term of the level below
    accepted: list[Index] = field(default_factory=list)
    leading: list[Index] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    degrees: list[DegreeReport] = field(default_factory=list)


def construct(
    points: list[Tensor], rule: Rule, settings: Settings, *, orthogonal: bool
) -> list[Construction]:
    """Order ideals and generators of several point sets over the same variables.

    Parameters
    ----------
    points : list of Tensor of shape (m_k, n)
        The point sets, float64, on one device.
    rule, settings
        What vanishes, and how to run.
    orthogonal : bool
        Decide through an orthogonal factorisation rather than the Gram matrix.

    Returns
    -------
    list of Construction
        One per point set, in order.
    """
    n_variables = points[0].shape[1]
    columns, constant = _stack(points, STORAGE[settings.precision])
    factor = _factor(constant, rule, orthogonal)
    sets = [_Progress(first_border(n_variables)) for _ in points]
    log = OracleLog()
    degree = 1
    while any(len(s.level) for s in sets):
        if settings.max_degree is not None and degree > settings.max_degree:
            break
        try:
            _run_degree(factor, columns, sets, rule, settings, degree, log)
        except BallBinds:
            # A refused term undoes what a block decided behind it, in one set alone: sets that
            # were decided together can no longer be, so each starts again by itself.
            return [construct([p], rule, settings, orthogonal=orthogonal)[0] for p in points]
        for k, s in enumerate(sets):
            # _run_degree left positions in the border of this degree. What stays is the exponents
            # there, for the border itself is about to be replaced by the next one.
            kept = s.accepted[-1]
            accepted = s.level.take(kept)
            s.accepted[-1] = accepted.rows
            s.offset = factor.counts[k] - len(accepted)
            s.level = (
                next_border(accepted, n_variables, settings.border) if len(accepted) else accepted
            )
        degree += 1
    coefficients = _coefficients(factor, sets, rule, settings)
    finished = []
    for s, c in zip(sets, coefficients, strict=True):
        order_ideal, leading = _terms(s, n_variables)
        generators = PolynomialSet(order_ideal, leading, c.tail, c.lead)
        path, degrees = "orthogonal" if orthogonal else "gram", tuple(s.degrees)
        finished.append(Construction(order_ideal, generators, c.value, degrees, path, log))
    return finished


def _run_degree(
    factor: GrowingFactor,
    columns: Tensor,
    sets: list[_Progress],
    rule: Rule,
    settings: Settings,
    degree: int,
    log: OracleLog,
) -> None:
    """Decide all candidates of one degree and record the outcome in ``sets``."""
    begin = time.perf_counter()
    longest = max(len(s.level) for s in sets)
    kept: list[list[Index]] = [[] for _ in sets]
    vanished: list[list[Index]] = [[] for _ in sets]
    scratch = _Scratch()
    start = 0
    while start < longest:
        width = _block_width(factor, columns, settings)
        stop = min(longest, start + width)
        values, valid = _evaluate(factor, columns, sets, start, stop, scratch)
        before = list(factor.counts)  # decide() grows the factor; an undo goes back to here
        block = factor.decide(values, valid, settings.panel)
        if not bool(torch.isfinite(block.square).all()):
            raise ValueError(
                f"terms of degree {degree} overflow on these points in {settings.precision}. "
                "Rescale the points to [-1, 1]."
            )
        outcome = block_outcome(factor, block, valid, before, rule, log)
        if outcome.refused is not None:  # the l1 ball binds: redo from the refused term on
            stop = start + outcome.refused + 1
        for k, s in enumerate(sets):
            found = outcome.found[k]
            s.found.append(found)
            vanished[k].append(start + found.position)
            kept[k].append(start + outcome.accepted[k])
        start = stop
    seconds = time.perf_counter() - begin
    for k, s in enumerate(sets):
        rows = np.concatenate(vanished[k])
        s.leading.append(s.level.rows[rows])
        s.accepted.append(np.concatenate(kept[k]))
        if len(s.level):
            counts = (len(s.level), len(s.accepted[-1]), len(rows))
            s.degrees.append(DegreeReport(degree, *counts, seconds))


class _Scratch:
    """Memory that the blocks of a degree share: allocating it anew costs more than filling it."""

    def __init__(self) -> None:
        self.buffers: dict[str, Tensor] = {}

    def take(self, name: str, rows: int, like: Tensor) -> Tensor:
        """A table (rows, ·) of the width and kind of ``like``; its contents are undefined."""
        need = rows * like.shape[1]
        if name not in self.buffers or self.buffers[name].numel() < need:
            self.buffers[name] = like.new_empty(need)
        return self.buffers[name][:need].view(rows, like.shape[1])


def _evaluate(
    factor: GrowingFactor,
    columns: Tensor,
    sets: list[_Progress],
    start: int,
    stop: int,
    scratch: _Scratch,
) -> tuple[Tensor, Tensor]:
    """Values (K, b, m) of candidates ``start:stop`` of every set, and which exist."""
    n_sets, capacity, m = factor.rows.shape
    parent = np.zeros((n_sets, stop - start), dtype=np.int64)
    variable = np.zeros_like(parent)
    valid = np.zeros(parent.shape, dtype=bool)
    for k, s in enumerate(sets):
        here = slice(start, min(stop, len(s.level)))
        count = max(0, here.stop - here.start)
        parent[k, :count] = s.level.parent[here] + s.offset + k * capacity
        variable[k, :count] = s.level.variable[here] + k * columns.shape[1]
        valid[k, :count] = True
    device = factor.rows.device
    at, by = (torch.from_numpy(index.ravel()).to(device) for index in (parent, variable))
    terms, variables = factor.rows.reshape(-1, m), columns.reshape(-1, m)
    values = torch.index_select(terms, 0, at, out=scratch.take("terms", len(at), terms))
    values *= torch.index_select(
        variables, 0, by, out=scratch.take("variables", len(by), variables)
    )
    values = values.view(n_sets, -1, m)  # lies in the scratch memory: the next block overwrites it
    exists = torch.from_numpy(valid).to(device)
    if not valid.all():  # sets with a shorter border are padded by columns of zeros
        values *= exists[:, :, None]
    return values, exists


def _block_width(factor: GrowingFactor, columns: Tensor, settings: Settings) -> int:
    """Candidates per block such that values, coordinates and coefficients fit the limit."""
    n_sets, _, m = columns.shape
    copies = 3 if isinstance(factor, GramFactor) else 6
    coordinates = 6 * (factor.size + settings.panel)
    per_candidate = n_sets * 8 * (copies * m + coordinates)
    return rows_within(settings.memory_limit, per_candidate, at_least=8)


def _stack(points: list[Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Variables (K, n, m) and the constant term over sqrt(m_k) (K, m), padded with zeros."""
    longest = max(len(p) for p in points)
    columns = points[0].new_zeros(len(points), points[0].shape[1], longest, dtype=dtype)
    constant = points[0].new_zeros(len(points), longest, dtype=dtype)
    for k, p in enumerate(points):
        columns[k, :, : len(p)] = p.mT
        constant[k, : len(p)] = len(p) ** -0.5
    return columns, constant


def _factor(constant: Tensor, rule: Rule, orthogonal: bool) -> GrowingFactor:
    if orthogonal:
        return OrthogonalFactor(constant, psi=rule.psi, unit=rule.unit)
    if rule.unit:
        return GramFactor(constant, shift=rule.psi, threshold=0.0)
    return GramFactor(constant, shift=0.0, threshold=rule.psi)


def _coefficients(
    factor: GrowingFactor, sets: list[_Progress], rule: Rule, settings: Settings
) -> list[Coefficients]:
    """Coefficients of every point set, over its whole order ideal."""
    gathered = [Gathered.of(s.found, factor.counts[k]) for k, s in enumerate(sets)]
    if rule.unit:
        return unit_coefficients(factor, gathered, rule.psi, settings.memory_limit)
    return [Coefficients(g.table, torch.ones_like(g.value), g.value) for g in gathered]


def _terms(progress: _Progress, n_variables: int) -> tuple[TermSet, TermSet]:
    one = np.zeros((1, 0), dtype=np.int64)
    order_ideal = TermSet.of_blocks(n_variables, [one, *progress.accepted])
    return order_ideal, TermSet.of_blocks(n_variables, [one[:0], *progress.leading])
