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
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import GrowingFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.algebra.terms import Index, Level, first_border, next_border
from vinets.core.checks import rows_within
from vinets.core.progress import Progress, progress_of
from vinets.ideals.ball import OracleLog
from vinets.ideals.coefficients import (
    BallBinds,
    Coefficients,
    VanishingTerms,
    block_outcome,
    unit_coefficients,
)
from vinets.ideals.fit import DegreeReport, FittedIdeal, Rule
from vinets.ideals.small import construct_small

if TYPE_CHECKING:
    from vinets.ideals.stream import StreamTerms

STORAGE: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")
}


@dataclass
class PartialIdeal:
    """Terms and generators of one point set so far."""

    level: Level
    offset: int = 0  # position in O of the first term of the level below
    accepted: list[Index] = field(default_factory=list)
    leading: list[Index] = field(default_factory=list)
    vanished: list[VanishingTerms] = field(default_factory=list)
    settled: list[Coefficients] = field(default_factory=list)
    degrees: list[DegreeReport] = field(default_factory=list)


def construct(
    points: list[Tensor], rule: Rule, *, orthogonal: bool, progress: Progress | None = None
) -> list[FittedIdeal]:
    """Find order ideals and generators of several point sets over the same variables.

    ``points`` are tensors (m_k, n) of float64 on one device; ``orthogonal`` decides through an
    orthogonal factorisation rather than the Gram matrix. ``progress`` hears of every degree, and
    of its terms. If interrupted, returns what was found in the degrees before.
    """
    alone = len(points) == 1 and points[0].device.type == "cpu"
    if alone and not orthogonal and rule.precision == "float64":
        small = construct_small(points[0], rule)
        if small is not None:
            return [small]
    terms = InMemory(points, rule)
    kind = OrthogonalFactor if orthogonal else GramFactor
    factor = kind(terms.constant, psi=rule.psi, unit=rule.unit)
    try:
        return grow(factor, terms, rule, progress)
    except BallBinds:
        # A refused term undoes what a block decided behind it, in one set alone: sets that
        # were decided together can no longer be, so each starts again by itself.
        built: list[FittedIdeal] = []
        for p in points:
            built += construct([p], rule, orthogonal=orthogonal, progress=progress)
            if built[-1].interrupted:
                raise KeyboardInterrupt from None  # there is nothing of the others
        return built


def grow(
    factor: GrowingFactor,
    terms: InMemory | StreamTerms,
    rule: Rule,
    progress: Progress | None = None,
) -> list[FittedIdeal]:
    """Go degree by degree, all point sets of the factor in step; ``terms`` gives their values."""
    watch = progress_of(progress)
    n_variables, interrupted = terms.n_variables, False
    sets = [PartialIdeal(first_border(n_variables)) for _ in factor.counts]
    log = OracleLog()
    degree = 1
    while any(len(s.level) for s in sets):
        if rule.max_degree is not None and degree > rule.max_degree:
            break
        known = list(factor.counts), [len(s.vanished) for s in sets]
        try:
            _run_degree(factor, terms, sets, rule, degree, log, watch)
        except KeyboardInterrupt:
            if degree == 1 or not terms.lasting:
                raise
            interrupted = True
            factor.truncate(known[0])
            for s, count in zip(sets, known[1], strict=True):
                del s.vanished[count:], s.leading[degree - 1 :], s.accepted[degree - 1 :]
                s.degrees = [d for d in s.degrees if d.degree < degree]
            break
        degree += 1
    # Coefficients come last: those of the unit rule need most of the memory.
    if terms.lasting:
        _settle(factor, sets, rule)
    path = "orthogonal" if isinstance(factor, OrthogonalFactor) else "gram"
    return [
        Coefficients.joined(s.settled, count).fitted(
            n_variables, s.accepted, s.leading, s.degrees, path, rule, log, interrupted
        )
        for s, count in zip(sets, factor.counts, strict=True)
    ]


def _settle(factor: GrowingFactor, sets: list[PartialIdeal], rule: Rule) -> None:
    """Make coefficients of what vanished since the last call, and empty those lists."""
    gathered = [VanishingTerms.joined(s.vanished, factor.counts[k]) for k, s in enumerate(sets)]
    if rule.unit:
        settled = unit_coefficients(factor, gathered, rule.psi, rule.memory_limit)
    else:
        settled = [
            Coefficients(g.table, torch.ones_like(g.value), g.value, g.steps) for g in gathered
        ]
    for s, coefficients in zip(sets, settled, strict=True):
        s.settled.append(coefficients)


def _run_degree(
    factor: GrowingFactor,
    terms: InMemory | StreamTerms,
    sets: list[PartialIdeal],
    rule: Rule,
    degree: int,
    log: OracleLog,
    watch: Progress,
) -> None:
    """Decide all candidates of one degree, record the outcome in ``sets``, list the next border."""
    begin = time.perf_counter()
    longest = max(len(s.level) for s in sets)
    kept: list[list[Index]] = [[] for _ in sets]
    vanished: list[list[Index]] = [[] for _ in sets]
    start = 0
    watch.start(f"degree {degree}", longest)
    while start < longest:
        # the factor has grown since the last block, and leaves less room
        stop = min(longest, start + terms.width(factor))
        values, valid = terms.values(factor, sets, slice(start, stop))
        before = list(factor.counts)  # decide() grows the factor; an undo goes back to here
        block = factor.decide(values, valid, rule.panel)
        # only now, because the norms are known here; nothing that was decided is kept
        if not bool(torch.isfinite(block.square).all()):
            raise ValueError(
                f"terms of degree {degree} overflow on these points in {rule.precision}. "
                "Rescale the points to [-1, 1]."
            )
        found, accepted, refused = block_outcome(factor, block, valid, before, rule, log)
        if refused is not None:  # the l1 ball binds: redo from the refused term on
            stop = start + refused + 1
        for k, s in enumerate(sets):
            s.vanished.append(found[k])
            vanished[k].append(start + found[k].position)
            kept[k].append(start + accepted[k])
        terms.accept(sets, [places[-1] for places in kept])
        if not terms.lasting:
            _settle(factor, sets, rule)
        watch.advance(stop - start)
        start = stop
    seconds = time.perf_counter() - begin
    for k, s in enumerate(sets):
        rows = s.level.rows[np.concatenate(vanished[k])]
        joined = s.level.take(np.concatenate(kept[k]))
        s.leading.append(rows)
        s.accepted.append(joined.rows)
        if len(s.level):
            counts = (len(s.level), len(joined), len(rows))
            s.degrees.append(DegreeReport(degree, *counts, seconds))
        s.offset = factor.counts[k] - len(joined)
        s.level = next_border(joined, terms.n_variables, rule.border) if len(joined) else joined


class InMemory:
    """Values of terms at points in memory: variables (K, n, m) and constant (K, m), padded by 0."""

    lasting = True  # what a block found still holds in the factor of later blocks

    def __init__(self, points: list[Tensor], rule: Rule) -> None:
        self.rule, self.n_variables = rule, points[0].shape[1]
        shape = len(points), self.n_variables, max(map(len, points))
        columns = points[0].new_zeros(shape, dtype=STORAGE[rule.precision])
        self.columns, self.constant = columns, torch.zeros_like(columns[:, 0])
        for k, p in enumerate(points):
            columns[k, :, : len(p)] = p.mT
            # With this in the constant, every product of a term with a variable has it, too: inner
            # products of rows are means over the points, and padding adds nothing to them.
            self.constant[k, : len(p)] = len(p) ** -0.5
        # memory that blocks share: allocating it anew costs more than filling it
        self.scratch = columns.new_empty(0), columns.new_empty(0)

    def accept(self, sets: list[PartialIdeal], accepted: list[Index]) -> None:
        """Hear which candidates of every set, by their places in its level, have joined O."""

    def width(self, factor: GrowingFactor) -> int:
        """Count candidates whose values, coordinates and coefficients fit the limit."""
        n_sets, _, m = self.columns.shape
        copies = 3 if isinstance(factor, GramFactor) else 6  # residuals are vectors over the points
        # the coordinates grow with the terms that this block may accept
        coordinates = 6 * (factor.size + self.rule.panel)
        per_candidate = n_sets * 8 * (copies * m + coordinates)
        return rows_within(self.rule.memory_limit, per_candidate, at_least=8)

    def values(
        self, factor: GrowingFactor, sets: list[PartialIdeal], which: slice
    ) -> tuple[Tensor, Tensor]:
        """Return values (K, b, m) of the candidates ``which``, and which of them exist (K, b).

        The next block overwrites them.
        """
        n_sets, capacity, m = factor.rows.shape
        parent = np.zeros((n_sets, which.stop - which.start), dtype=np.int64)
        variable = np.zeros_like(parent)
        valid = np.zeros(parent.shape, dtype=bool)
        # all sets are one table under each other, so that one selection serves them all
        for k, s in enumerate(sets):
            count = len(s.level.parent[which])
            parent[k, :count] = s.level.parent[which] + s.offset + k * capacity
            variable[k, :count] = s.level.variable[which] + k * self.n_variables
            valid[k, :count] = True
        device = factor.rows.device
        at, by = (torch.from_numpy(index.ravel()).to(device) for index in (parent, variable))
        # a tensor of size 0 keeps its storage, and selecting into it reuses that where it suffices
        values, factors = (memory.resize_(0) for memory in self.scratch)
        torch.index_select(factor.rows.reshape(-1, m), 0, at, out=values)
        torch.index_select(self.columns.reshape(-1, m), 0, by, out=factors)
        values = values.mul_(factors).view(n_sets, -1, m)
        exists = torch.from_numpy(valid).to(device)
        if not valid.all():  # sets with a shorter border are padded by columns of zeros
            values *= exists[:, :, None]
        return values, exists
