r"""Evaluation plans: every term is one multiplication, its parent times a variable.

A plan lists, degree by degree, which row of the level below and which variable to multiply. Sets
closed under division need nothing else; for others the missing parents are added as auxiliary rows
and dropped from the result. Compared with raising to powers and multiplying out, this touches each
value once, and its gradient is finite at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.terms import Index, TermSet, locate_rows


@dataclass(frozen=True, eq=False)
class EvaluationPlan:
    """A way to evaluate a :class:`TermSet` by products of a parent and a variable.

    ``steps[d-1]`` makes level ``d``: rows ``parent`` of level ``d - 1`` times ``variable``.
    """

    steps: tuple[tuple[Index, Index], ...]
    outputs: Index | None  # positions of the wanted terms among all rows; None if all are

    @classmethod
    def of(cls, terms: TermSet) -> EvaluationPlan:
        """Plan the evaluation of any set of terms; parents that are missing are added."""
        n, wanted = terms.n_variables, list(terms.blocks) or [np.zeros((0, 0), dtype=np.int64)]
        rows = list(wanted)
        steps: list[tuple[Index, Index]] = []
        # from the top: a parent that is added needs one itself, a degree further down
        for degree in range(len(rows) - 1, 0, -1):
            parent, variable, missing = factor_terms(rows[degree], rows[degree - 1], n)
            rows[degree - 1] = np.concatenate([rows[degree - 1], missing])
            steps.append((parent, variable))
        if len(rows[0]) == 0:
            rows[0] = np.zeros((1, 0), dtype=np.int64)
        starts = np.cumsum([0] + [len(block) for block in rows])
        # what was added stands behind what is wanted, in every degree
        outputs = [s + np.arange(len(w)) for s, w in zip(starts, wanted, strict=False)]
        everything = all(len(r) == len(w) for r, w in zip(rows, wanted, strict=True))
        return cls(tuple(reversed(steps)), None if everything else np.concatenate(outputs))

    def levels(self, points: Tensor) -> list[Tensor]:
        """Return the values of every degree as (count_d, m), for ``points`` (m, n)."""
        columns = points.mT.contiguous()  # (n, m)
        levels = [torch.ones(1, len(points), dtype=points.dtype, device=points.device)]
        for parent, variable in self.steps:
            at = torch.as_tensor(parent, device=points.device)
            by = torch.as_tensor(variable, device=points.device)
            levels.append(levels[-1].index_select(0, at) * columns.index_select(0, by))
        return levels

    def evaluate(self, points: Tensor) -> Tensor:
        """Return the values of the terms at ``points`` (m, n), as (m, count). Differentiable."""
        values = torch.cat(self.levels(points)) if points.requires_grad else self._fill(points)
        if self.outputs is not None:
            values = values.index_select(0, torch.as_tensor(self.outputs, device=points.device))
        return values.mT

    def _fill(self, points: Tensor) -> Tensor:
        """Write the levels under each other, (count, m)."""
        columns = points.mT.contiguous()
        counts = [1, *(len(parent) for parent, _ in self.steps)]
        values = points.new_empty(sum(counts), len(points))
        levels = values.split(counts)
        levels[0].fill_(1.0)
        for (parent, variable), below, level in zip(self.steps, levels, levels[1:], strict=False):
            at = torch.as_tensor(parent, device=points.device)
            by = torch.as_tensor(variable, device=points.device)
            torch.index_select(below, 0, at, out=level)
            level *= columns.index_select(0, by)
        return values

    def jacobian(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return values (m, count) and derivatives (m, count, n), by the product rule."""
        m, n = points.shape
        columns, levels = points.mT, self.levels(points)
        slopes = [points.new_zeros(1, m, n)]
        for (parent, variable), below in zip(self.steps, levels, strict=False):
            at = torch.as_tensor(parent, device=points.device)
            by = torch.as_tensor(variable, device=points.device)
            slope = slopes[-1].index_select(0, at) * columns.index_select(0, by)[:, :, None]
            here = torch.arange(len(at), device=points.device)  # each row once: += is safe
            slope[here, :, by] += below.index_select(0, at)
            slopes.append(slope)
        values, derivative = torch.cat(levels), torch.cat(slopes)
        if self.outputs is not None:
            keep = torch.as_tensor(self.outputs, device=points.device)
            values, derivative = values[keep], derivative[keep]
        return values.mT, derivative.transpose(0, 1)


def factor_terms(rows: Index, below: Index, n_variables: int) -> tuple[Index, Index, Index]:
    """Write each row as a row of ``below`` times a variable.

    Returns ``parent`` (positions in ``below`` followed by ``missing``), ``variable``, and
    ``missing``, the parents that ``below`` does not have. The factor split off is the largest one
    whose quotient is known, or simply the largest.
    """
    degree = rows.shape[1]
    parent = np.full(len(rows), -1, dtype=np.int64)
    variable = rows[:, -1].copy()
    for drop in range(degree - 1, -1, -1):
        open_ = np.flatnonzero(parent < 0)
        if len(open_) == 0:
            break
        quotient = np.delete(rows[open_], drop, axis=1)
        found = locate_rows(quotient, below, n_variables)
        parent[open_] = found
        variable[open_[found >= 0]] = rows[open_[found >= 0], drop]
    orphans = np.flatnonzero(parent < 0)
    if len(orphans) == 0:
        return parent, variable, below[:0]
    missing, where = np.unique(rows[orphans, :-1], axis=0, return_inverse=True)
    parent[orphans] = len(below) + where.ravel()
    return parent, variable, missing
