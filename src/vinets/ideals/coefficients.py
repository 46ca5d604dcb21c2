"""Coefficients of the candidates that vanished, each over the prefix of O that it met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vinets.algebra.eigen import smallest_eigenvectors
from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import Candidates, GrowingFactor
from vinets.algebra.terms import Index
from vinets.ideals.ball import OracleLog, outside_ball, sparse_solutions

if TYPE_CHECKING:
    from vinets.ideals.construct import Rule

__all__ = ["BallBinds", "Generators", "Outcome", "generator_coefficients"]


class BallBinds(Exception):
    """The l1 ball changed a decision in a batch of several point sets; fit them one by one."""


@dataclass(frozen=True, eq=False)
class Generators:
    """Generators of one block of candidates of one point set."""

    position: Index  # (g,) in the block
    tail: Tensor  # (g, o)
    lead: Tensor  # (g,)
    value: Tensor  # (g,) mean square on the points


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a block: generators and accepted positions per point set.

    ``refused`` is the position of a candidate that the l1 ball keeps from vanishing; everything
    after it has been undone and must be decided again.
    """

    generators: list[Generators]
    accepted: list[Index]
    refused: int | None = None


def generator_coefficients(
    factor: GrowingFactor,
    block: Candidates,
    valid: Tensor,
    before: list[int],
    rule: Rule,
    log: OracleLog,
) -> Outcome:
    """Coefficients of every vanishing candidate of a decided block."""
    prefix = torch.as_tensor(before, device=valid.device)[:, None] + block.accepted.cumsum(1)
    vanished = valid & ~block.accepted
    refused: int | None = None
    if rule.unit:
        tail, lead, value = _unit_rule(factor, block, prefix, vanished, rule.psi)
    else:
        tail, lead, value = _leading_rule(factor, block, prefix)
        refused = _check_ball(factor, block, prefix, tail, value, vanished, rule)
        if refused is not None:
            vanished = _undo(factor, block, vanished, before, refused)
        if rule.oracle != "exact":
            sparse_solutions(
                factor,
                block,
                prefix,
                tail,
                value,
                vanished,
                rule.oracle,
                rule.psi,
                rule.radius,
                log,
            )
    found, accepted = [], []
    for k in range(len(before)):
        rows = vanished[k].nonzero()[:, 0]
        width = factor.counts[k]
        tail_k = tail[k].index_select(0, rows)[:, :width]
        found.append(Generators(rows.cpu().numpy(), tail_k, lead[k, rows], value[k, rows]))
        accepted.append(block.accepted[k].nonzero()[:, 0].cpu().numpy())
    return Outcome(found, accepted, refused)


def _check_ball(
    factor: GrowingFactor,
    block: Candidates,
    prefix: Tensor,
    tail: Tensor,
    value: Tensor,
    vanished: Tensor,
    rule: Rule,
) -> int | None:
    """Position of the first candidate that does not vanish inside the l1 ball, if any."""
    doubtful = vanished & (tail.abs().sum(-1) > rule.radius)
    if not bool(doubtful.any()):
        return None
    refused = outside_ball(factor, block, prefix, tail, value, doubtful, rule.psi, rule.radius)
    if refused is None:
        return None
    if len(factor.counts) > 1:
        raise BallBinds
    return refused[1]


def _undo(
    factor: GrowingFactor, block: Candidates, vanished: Tensor, before: list[int], refused: int
) -> Tensor:
    """Accept the refused candidate and forget every decision behind it."""
    block.accepted[:, refused:] = False
    factor.truncate([before[0] + int(block.accepted[0].sum())])
    factor.force(block.values[0, refused])
    block.accepted[:, refused] = True
    vanished = vanished.clone()
    vanished[:, refused:] = False
    return vanished


def _leading_rule(
    factor: GrowingFactor, block: Candidates, prefix: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Least squares over the prefix: zero-padded right-hand sides, one triangular solve."""
    coordinates, value = _over_prefix(block, prefix)
    o = coordinates.shape[-1]
    tail = -torch.linalg.solve_triangular(
        factor.lower[:, :o, :o], coordinates, upper=False, left=False
    )
    return tail, torch.ones_like(value), value


def _unit_rule(
    factor: GrowingFactor, block: Candidates, prefix: Tensor, vanished: Tensor, psi: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvectors of the smallest eigenvalue over the prefix."""
    o = block.coordinates.shape[-1]
    lower = factor.lower[:, :o, :o]
    gram = isinstance(factor, GramFactor)
    if gram:  # from the factor of G - psi I to that of G
        eye = torch.eye(o, dtype=lower.dtype, device=lower.device)
        products = block.coordinates @ lower.mT
        lower = torch.linalg.cholesky(lower @ lower.mT + psi * eye)
        block.coordinates = torch.linalg.solve_triangular(
            lower.mT, products, upper=True, left=False
        )
    coordinates, value = _over_prefix(block, prefix)
    vectors, value = smallest_eigenvectors(
        lower, coordinates, value, prefix, vanished, psi, by_prefix=not gram
    )
    return vectors[..., :-1], vectors[..., -1], value


def _over_prefix(block: Candidates, prefix: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates cut to the prefix (K, b, o) and the residual over it (K, b)."""
    inside = torch.arange(block.coordinates.shape[-1], device=prefix.device) < prefix[..., None]
    coordinates = block.coordinates * inside
    if block.residual is None:
        residual = (block.square - coordinates.square().sum(-1)).clamp(min=0)
    else:
        beyond = (block.coordinates * ~inside).square().sum(-1)
        residual = block.residual.square().sum(-1) + beyond
    return coordinates, residual
