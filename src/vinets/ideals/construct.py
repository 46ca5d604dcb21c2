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
    block_outcome,
    unit_coefficients,
)
from vinets.ideals.report import DegreeReport
from vinets.ideals.rule import Rule, Settings

STORAGE: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")
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
    """Order ideals and generators of several point sets over the same variables, in their order.

    ``points`` are tensors (m_k, n) of float64 on one device; ``orthogonal`` decides through an
    orthogonal factorisation rather than the Gram matrix.
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
        degree += 1
    # Coefficients come last: those of the unit rule need the whole factor, and most of the memory.
    gathered = [Found.joined(s.found, factor.counts[k]) for k, s in enumerate(sets)]
    if rule.unit:
        coefficients = unit_coefficients(factor, gathered, rule.psi, settings.memory_limit)
    else:
        coefficients = [Coefficients(g.table, torch.ones_like(g.value), g.value) for g in gathered]
    one = np.zeros((1, 0), dtype=np.int64)
    path = "orthogonal" if orthogonal else "gram"
    finished = []
    for s, c in zip(sets, coefficients, strict=True):
        order_ideal = TermSet.of_blocks(n_variables, [one, *s.accepted])
        leading = TermSet.of_blocks(n_variables, [one[:0], *s.leading])
        generators = PolynomialSet(order_ideal, leading, c.tail, c.lead)
        finished.append(Construction(order_ideal, generators, c.value, tuple(s.degrees), path, log))
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
    """Decide all candidates of one degree, record the outcome in ``sets``, list the next border."""
    begin = time.perf_counter()
    longest = max(len(s.level) for s in sets)
    kept: list[list[Index]] = [[] for _ in sets]
    vanished: list[list[Index]] = [[] for _ in sets]
    # memory that the blocks of a degree share: allocating it anew costs more than filling it
    scratch = columns.new_empty(0), columns.new_empty(0)
    start = 0
    while start < longest:
        # the factor has grown since the last block, and leaves less room
        stop = min(longest, start + _block_width(factor, columns, settings))
        values, valid = _evaluate(factor, columns, sets, slice(start, stop), scratch)
        before = list(factor.counts)  # decide() grows the factor; an undo goes back to here
        block = factor.decide(values, valid, settings.panel)
        # only now, for the norms are there; of what was decided nothing is kept
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
        rows = s.level.rows[np.concatenate(vanished[k])]
        accepted = s.level.take(np.concatenate(kept[k]))
        s.leading.append(rows)
        s.accepted.append(accepted.rows)
        if len(s.level):
            counts = (len(s.level), len(accepted), len(rows))
            s.degrees.append(DegreeReport(degree, *counts, seconds))
        s.offset = factor.counts[k] - len(accepted)
        s.level = accepted
        if len(accepted):
            s.level = next_border(accepted, columns.shape[1], settings.border)


def _evaluate(
    factor: GrowingFactor,
    columns: Tensor,
    sets: list[_Progress],
    which: slice,
    scratch: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Values (K, b, m) of the candidates ``which`` of every set, and which exist.

    The values lie in ``scratch``: the next block overwrites them.
    """
    n_sets, capacity, m = factor.rows.shape
    parent = np.zeros((n_sets, which.stop - which.start), dtype=np.int64)
    variable = np.zeros_like(parent)
    valid = np.zeros(parent.shape, dtype=bool)
    # all sets are one table under each other, so that one selection serves them all
    for k, s in enumerate(sets):
        count = len(s.level.parent[which])
        parent[k, :count] = s.level.parent[which] + s.offset + k * capacity
        variable[k, :count] = s.level.variable[which] + k * columns.shape[1]
        valid[k, :count] = True
    device = factor.rows.device
    at, by = (torch.from_numpy(index.ravel()).to(device) for index in (parent, variable))
    # a tensor of size 0 keeps its storage, and selecting into it reuses that where it suffices
    values, factors = (memory.resize_(0) for memory in scratch)
    torch.index_select(factor.rows.reshape(-1, m), 0, at, out=values)
    torch.index_select(columns.reshape(-1, m), 0, by, out=factors)
    values = values.mul_(factors).view(n_sets, -1, m)
    exists = torch.from_numpy(valid).to(device)
    if not valid.all():  # sets with a shorter border are padded by columns of zeros
        values *= exists[:, :, None]
    return values, exists


def _block_width(factor: GrowingFactor, columns: Tensor, settings: Settings) -> int:
    """Candidates per block such that values, coordinates and coefficients fit the limit."""
    n_sets, _, m = columns.shape
    copies = 3 if isinstance(factor, GramFactor) else 6  # residuals are vectors over the points
    # and the coordinates grow with the terms that this block may accept
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
        # With this in the constant, every product of a term with a variable has it, too: inner
        # products of rows are means over the points, and padding adds nothing to them.
        constant[k, : len(p)] = len(p) ** -0.5
    return columns, constant


def _factor(constant: Tensor, rule: Rule, orthogonal: bool) -> GrowingFactor:
    if orthogonal:
        return OrthogonalFactor(constant, psi=rule.psi, unit=rule.unit)
    if rule.unit:
        return GramFactor(constant, shift=rule.psi, threshold=0.0)
    return GramFactor(constant, shift=0.0, threshold=rule.psi)
