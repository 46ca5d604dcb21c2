"""Coefficients of the candidates that vanished, each over the prefix of O that it met."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from vinets.algebra.eigen import smallest_eigenvectors
from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import Candidates, GrowingFactor
from vinets.algebra.krylov import batched_eigenvectors
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import Index, TermSet
from vinets.core.checks import rows_within
from vinets.ideals.ball import BlockSolutions, OracleLog, oracle_solutions, outside_ball
from vinets.ideals.fit import DegreeReport, FittedIdeal, Rule


class BallBinds(Exception):
    """The l1 ball changed a decision in a batch of several point sets; fit them one by one."""


@dataclass(frozen=True, eq=False)
class VanishingTerms:
    """Candidates of one block of one point set that vanished.

    By the leading rule ``table`` holds their coefficients and ``value`` their mean squares. By the
    unit rule it holds their coordinates in the factor, cut to the prefix, and ``value`` their
    squared norms (or, on the orthogonal path, least-squares residuals), from which
    :func:`unit_coefficients` makes eigenvectors once all of them are known.
    """

    position: Index  # (g,) in the block
    table: Tensor  # (g, o)
    value: Tensor  # (g,)
    prefix: Tensor  # (g,)
    steps: Tensor  # (g,) steps of the oracle

    @classmethod
    def joined(cls, blocks: list[VanishingTerms], width: int) -> VanishingTerms:
        """Join all blocks of a point set, over its whole order ideal of size ``width``.

        ``blocks`` is emptied on the way, so that both need not fit.
        """
        position = np.concatenate([b.position for b in blocks])
        rest = [
            torch.cat([getattr(b, name) for b in blocks]) for name in ("value", "prefix", "steps")
        ]
        table = blocks[0].table.new_zeros(len(position), width)
        row = 0
        blocks.reverse()  # pop() takes from the end, and a block is freed as soon as it is copied
        while blocks:
            part = blocks.pop().table
            table[row : row + len(part), : part.shape[1]] = part
            row += len(part)
        return cls(position, table, *rest)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of all generators of one point set."""

    tail: Tensor  # (g, o)
    lead: Tensor  # (g,)
    value: Tensor  # (g,) mean square on the points
    steps: Tensor  # (g,) steps of the oracle

    @classmethod
    def joined(cls, parts: list[Coefficients], width: int) -> Coefficients:
        """Join all parts, over the whole order ideal of size ``width``."""
        if len(parts) == 1:
            return parts[0]
        tail = torch.cat([pad(p.tail, (0, width - p.tail.shape[1])) for p in parts])
        rest = ([getattr(p, name) for p in parts] for name in ("lead", "value", "steps"))
        return cls(tail, *map(torch.cat, rest))

    def fitted(
        self,
        n_variables: int,
        accepted: list[Index],
        leading: list[Index],
        degrees: list[DegreeReport],
        path: str,
        rule: Rule,
        log: OracleLog,
        interrupted: bool = False,
    ) -> FittedIdeal:
        """Put them together with the terms, which are accepted or lead generators by degree."""
        one = np.zeros((1, 0), dtype=np.int64)
        order_ideal = TermSet.of_blocks(n_variables, [one, *accepted])
        leads = TermSet.of_blocks(n_variables, [one[:0], *leading])
        return FittedIdeal(
            PolynomialSet(order_ideal, leads, self.tail, self.lead),
            self.value,
            tuple(degrees),
            path,
            rule.precision,
            order_ideal,
            self.steps,
            vars(log) | {"status": dict(log.status)} if log.rows else {},
            interrupted,
        )


def block_outcome(
    factor: GrowingFactor,
    block: Candidates,
    valid: Tensor,
    before: list[int],
    rule: Rule,
    log: OracleLog,
) -> tuple[list[VanishingTerms], list[Index], int | None]:
    """Sort a decided block into vanished candidates and positions of accepted ones, set by set.

    Last comes the position of a candidate that the l1 ball keeps from vanishing, if there is one:
    everything after it has been undone and must be decided again.
    """
    # a candidate meets the terms accepted before it, those of its own block included
    prefix = torch.as_tensor(before, device=valid.device)[:, None] + block.accepted.cumsum(1)
    vanished = valid & ~block.accepted
    refused: int | None = None
    steps = torch.zeros_like(prefix)
    table, value = _over_prefix(block, prefix, residuals=not rule.unit)
    if not rule.unit:
        o = table.shape[-1]
        table = -torch.linalg.solve_triangular(
            factor.lower[:, :o, :o], table, upper=False, left=False
        )
        solutions = BlockSolutions(factor, block, prefix, table, value, steps)
        if rule.radius < float("inf"):
            refused = _keep_to_ball(solutions, vanished, before, rule)
        if rule.oracle != "exact":
            oracle_solutions(solutions, vanished, rule, log)
    vanishing, accepted = [], []
    for k in range(len(before)):
        rows = vanished[k].nonzero()[:, 0]
        # a copy, without which the whole table of the block would stay in memory
        cut = table[k].index_select(0, rows)[:, : factor.counts[k]]
        facts = (x[k, rows] for x in (value, prefix, steps))
        vanishing.append(VanishingTerms(rows.cpu().numpy(), cut, *facts))
        accepted.append(block.accepted[k].nonzero()[:, 0].cpu().numpy())
    return vanishing, accepted, refused


def unit_coefficients(
    factor: GrowingFactor, sets: list[VanishingTerms], psi: float, memory_limit: int
) -> list[Coefficients]:
    """Find eigenvectors of all generators of every set, from coordinates in the factor."""
    # small decompositions one by one are slow on a GPU
    if factor.lower.device.type == "cuda" and isinstance(factor, GramFactor):
        return _in_batches(factor, sets, psi, memory_limit)
    results = []
    for k, s in enumerate(sets):
        o = factor.counts[k]
        residual = None if isinstance(factor, GramFactor) else s.value
        # s.table becomes the table of coefficients: the coordinates are not read after this
        found = smallest_eigenvectors(
            factor.lower[k, :o, :o], s.table, s.value, s.prefix, psi, residual=residual
        )
        results.append(Coefficients(*found, s.steps))
    return results


def _in_batches(
    factor: GrowingFactor, sets: list[VanishingTerms], psi: float, memory_limit: int
) -> list[Coefficients]:
    """Take all point sets together, as many generators at a time as the memory limit allows."""
    o, longest = factor.size, max(len(s.value) for s in sets)
    # some thirty vectors a generator: the Krylov basis, and what it is made from
    width = rows_within(memory_limit, len(sets) * 8 * 30 * (o + 1), at_least=16)
    parts: list[list[Coefficients]] = [[] for _ in sets]
    stacked = partial(pad_sequence, batch_first=True)  # below each other, with rows of zeros
    for start in range(0, longest, width):
        rows = slice(start, start + width)
        pieces = [s.table[rows] for s in sets]
        coordinates = stacked([pad(p, (0, o - p.shape[1])) for p in pieces])
        square = stacked([s.value[rows] for s in sets])
        prefix = stacked([s.prefix[rows] for s in sets])
        valid = stacked([torch.ones_like(s.prefix[rows], dtype=torch.bool) for s in sets])
        found = batched_eigenvectors(
            factor.lower[:, :o, :o], coordinates, square, prefix, valid, psi
        )
        for k, piece in enumerate(pieces):
            tail, lead, value = (x[k, : len(piece)] for x in found)
            tail = tail[:, : factor.counts[k]]
            parts[k].append(Coefficients(tail, lead, value, sets[k].steps[rows]))
    return [Coefficients.joined(part, factor.counts[k]) for k, part in enumerate(parts)]


def _over_prefix(block: Candidates, prefix: Tensor, *, residuals: bool) -> tuple[Tensor, Tensor]:
    """Cut coordinates to the prefix (K, b, o); return residuals over it or squared norms (K, b)."""
    if bool(block.accepted.any()):
        inside = torch.arange(block.coordinates.shape[-1], device=prefix.device) < prefix[..., None]
        coordinates = block.coordinates * inside
    else:  # all candidates met the same terms
        inside = torch.ones_like(prefix[..., None], dtype=torch.bool)
        coordinates = block.coordinates
    if block.residual is not None:
        # what terms accepted after the candidate took from its residual belongs to it again
        beyond = (block.coordinates * ~inside).square().sum(-1)
        return coordinates, block.residual.square().sum(-1) + beyond
    if not residuals:
        return coordinates, block.square
    return coordinates, (block.square - coordinates.square().sum(-1)).clamp(min=0)


def _keep_to_ball(
    solutions: BlockSolutions, vanished: Tensor, before: list[int], rule: Rule
) -> int | None:
    """Find the position of the first candidate that does not vanish inside the l1 ball.

    It is accepted then and every decision behind it forgotten: in the factor, in the block and in
    ``vanished``, in place.
    """
    factor, block = solutions.factor, solutions.block
    doubtful = vanished & (solutions.tail.abs().sum(-1) > rule.radius)
    if not bool(doubtful.any()):
        return None
    refused = outside_ball(solutions, doubtful, rule)
    if refused is None:
        return None
    if len(factor.counts) > 1:
        raise BallBinds
    at = refused[1]
    block.accepted[:, at:] = False
    factor.truncate([before[0] + int(block.accepted[0].sum())])
    factor.force(block.values[0, at])  # after the truncation, because it joins behind what stays
    block.accepted[:, at] = True
    vanished[:, at:] = False
    return at
