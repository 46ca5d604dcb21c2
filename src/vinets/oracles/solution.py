"""What a solver hands back: coefficients, values, certificates and how each row ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor


class Status(IntEnum):
    """How a row ended.

    ``CONVERGED``: dual gap <= tolerance. ``TARGET``: value <= target, stopped there.
    ``INFEASIBLE_TARGET``: value - gap > target, so no point of the ball reaches the target.
    ``STEP_LIMIT``: out of steps. ``STALLED``: rounding allows no further progress.
    """

    CONVERGED = 0
    TARGET = 1
    INFEASIBLE_TARGET = 2
    STEP_LIMIT = 3
    STALLED = 4


@dataclass(frozen=True)
class Summary:
    """Counts over the rows of a solution."""

    rows: int
    per_status: dict[Status, int]
    total_steps: int
    max_steps: int
    worst_gap: float


@dataclass(frozen=True)
class Solution:
    """Solutions of N problems, row by row.

    Attributes
    ----------
    coefficients
        Points of the ball, zero beyond the prefix, shape (N, o).
    value
        ``f`` at the coefficients, shape (N,).
    gap
        Dual gap at the coefficients: the optimum lies in [value - gap, value], shape (N,).
    steps
        Steps taken, counted up to the check that ended the row, int64, shape (N,).
    status
        A :class:`Status`, int64, shape (N,).
    """

    coefficients: Tensor
    value: Tensor
    gap: Tensor
    steps: Tensor
    status: Tensor

    def summary(self) -> Summary:
        """Count rows per status, add up steps and find the worst gap."""
        counts = torch.bincount(self.status, minlength=len(Status)).tolist()
        some = len(self.status) > 0
        return Summary(
            rows=len(self.status),
            per_status={status: counts[status] for status in Status if counts[status]},
            total_steps=int(self.steps.sum()),
            max_steps=int(self.steps.max()) if some else 0,
            worst_gap=float(self.gap.max()) if some else 0.0,
        )
