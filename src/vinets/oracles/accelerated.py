"""Accelerated projected gradients with adaptive restart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .problem import LeastSquaresBatch, project_to_ball
from .solver import RowState, Solver


@dataclass(frozen=True)
class Momentum(RowState):
    """Points, points with momentum (N, o), momentum counters and step lengths (N, 1)."""

    point: Tensor
    ahead: Tensor
    count: Tensor
    length: Tensor


@dataclass(frozen=True)
class AcceleratedGradient(Solver[Momentum]):
    r"""FISTA ("agd"): projected gradient steps from an extrapolated point.

    .. math:: c^+ = P_{\text{ball}}\bigl(y - \lambda_{\max}(G)^{-1} (G y + b)\bigr), \qquad
              y^+ = c^+ + \tfrac{t - 1}{t^+} (c^+ - c), \qquad
              t^+ = \tfrac{1 + \sqrt{1 + 4 t^2}}{2}.

    A row whose momentum points uphill, :math:`\langle y - c^+, c^+ - c \rangle > 0`, restarts
    with :math:`t = 1`.

    References
    ----------
    Beck, Teboulle: A fast iterative shrinkage-thresholding algorithm. SIAM J. Imaging Sci. 2009.
    O'Donoghue, Candes: Adaptive restart for accelerated gradient schemes. Found. Comput. Math.
    2015.
    """

    name = "agd"

    def init(self, problem: LeastSquaresBatch, start: Tensor) -> Momentum:
        eps = torch.finfo(start.dtype).eps
        largest = torch.linalg.eigvalsh(problem.gram)[:, -1]  # (K,)
        # an eigenvalue that rounding has lowered would make the steps too long to converge
        largest = (largest * (1 + 8 * problem.width * eps)).clamp(min=eps)
        length = largest.reciprocal()[problem.owner, None]
        # copies, because the caller may go on writing to the start
        return Momentum(start.clone(), start.clone(), torch.ones_like(length), length)

    def step(self, problem: LeastSquaresBatch, state: Momentum) -> Momentum:
        slope = problem.product(state.ahead).add_(problem.linear)
        moved = torch.addcmul(state.ahead, slope, state.length, value=-1.0)
        c = project_to_ball(moved, problem.radius, problem.indicator)
        change = c - state.point
        uphill = ((state.ahead - c) * change).sum(1, keepdim=True) > 0
        count = (1 + torch.sqrt(1 + 4 * state.count.square())) / 2
        momentum = torch.where(uphill, 0.0, (state.count - 1) / count)
        ahead = torch.addcmul(c, change, momentum)
        return Momentum(c, ahead, torch.where(uphill, 1.0, count), state.length)

    def coefficients(self, problem: LeastSquaresBatch, state: Momentum) -> Tensor:
        return state.point  # without momentum, and so in the ball
