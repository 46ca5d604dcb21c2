"""Projection-free solvers: conditional gradients, pairwise, and blended pairwise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from . import active_set
from .active_set import ActiveSet, Move
from .correction import correct
from .problem import LeastSquaresBatch
from .solver import RowState, Solver


@dataclass(frozen=True)
class _VertexSolver(Solver[ActiveSet]):
    """A solver that moves mass between vertices, all but the choice of the move."""

    sparse = True

    corrections: int = 0

    def as_published(self) -> Self:
        return replace(self, corrections=0)

    def init(self, problem: LeastSquaresBatch, start: Tensor) -> ActiveSet:
        return active_set.from_point(problem, start)

    def step(self, problem: LeastSquaresBatch, state: ActiveSet) -> ActiveSet:
        return active_set.apply(problem, state, self.choose(problem, state))

    def refresh(self, problem: LeastSquaresBatch, state: ActiveSet) -> ActiveSet:
        if not self.corrections:
            return active_set.rebuild(problem, state.weights)
        # the corrected point has another set of vertices, found from its signs
        c = self.coefficients(problem, state)
        return active_set.from_point(problem, correct(problem, c, self.corrections))

    def coefficients(self, problem: LeastSquaresBatch, state: ActiveSet) -> Tensor:
        return active_set.point(problem, state.weights)

    @abstractmethod
    def choose(self, problem: LeastSquaresBatch, state: ActiveSet) -> Move:
        """Choose the next move of every row."""


@dataclass(frozen=True)
class Iterate(RowState):
    """Points of the ball with the products that a Frank-Wolfe step needs."""

    point: Tensor  # (N, o)
    slope: Tensor  # (N, o) half the gradient, G c + b, zero beyond the prefix
    quadratic: Tensor  # (N, 1) c^T G c
    linear: Tensor  # (N, 1) b^T c


@dataclass(frozen=True)
class FrankWolfe(Solver[Iterate]):
    r"""Conditional gradients ("cg"): step towards the best vertex of the ball.

    :math:`c \leftarrow (1 - \gamma) c + \gamma v` with :math:`v = \arg\min_v \langle \nabla f(c),
    v \rangle` and exact line search. Its error falls like :math:`r^2 / t` only: for a large
    radius take one of the others.

    References
    ----------
    Frank, Wolfe: An algorithm for quadratic programming. 1956.
    Jaggi: Revisiting Frank-Wolfe: projection-free sparse convex optimization. ICML 2013.
    """

    name = "cg"
    sparse = True

    def init(self, problem: LeastSquaresBatch, start: Tensor) -> Iterate:
        """Begin at ``start``."""
        product = problem.product(start)
        return Iterate(
            point=start.clone(),  # because steps change it in place
            slope=(product + problem.linear) * problem.indicator,
            quadratic=(start * product).sum(1, keepdim=True),
            linear=(start * problem.linear).sum(1, keepdim=True),
        )

    def step(self, problem: LeastSquaresBatch, state: Iterate) -> Iterate:
        """Take the step that minimises ``f`` on the way to the best vertex, in place."""
        r, slope = problem.radius, state.slope
        i = active_set.largest_entry(slope)
        entry, b_i = slope.gather(1, i), problem.linear.gather(1, i)
        v = r * (1 - 2 * (entry > 0).to(slope.dtype))  # the vertex is v e_i
        descent = state.quadratic + state.linear + r * entry.abs()
        # With d = v e_i - c, d^T G d takes one entry of G and numbers that the state carries.
        curvature = r * r * problem.gram_entries(i, i) - 2 * v * (entry - b_i) + state.quadratic
        step = (descent / curvature.clamp(min=torch.finfo(v.dtype).tiny)).clamp(0.0, 1.0)
        b_d = v * b_i - state.linear
        quadratic = state.quadratic - 2 * step * (descent + b_d) + step * step * curvature
        linear = state.linear + step * b_d
        rest, moved = 1 - step, step * v
        slope.mul_(rest).addcmul_(problem.linear, step).addcmul_(problem.gram_rows(i), moved)
        if not problem.is_full:
            slope.mul_(problem.indicator)
        state.point.mul_(rest).scatter_add_(1, i, moved)
        return Iterate(state.point, slope, quadratic, linear)

    def refresh(self, problem: LeastSquaresBatch, state: Iterate) -> Iterate:
        return self.init(problem, state.point)

    def coefficients(self, problem: LeastSquaresBatch, state: Iterate) -> Tensor:
        """Return the current points."""
        return state.point


@dataclass(frozen=True)
class PairwiseFrankWolfe(_VertexSolver):
    """Pairwise conditional gradients ("pcg"): carry mass from the worst active vertex to the best.

    Parameters
    ----------
    corrections
        As for :class:`BlendedPairwise`.

    References
    ----------
    Lacoste-Julien, Jaggi: On the global linear convergence of Frank-Wolfe optimization variants.
    NeurIPS 2015.
    """

    name = "pcg"

    corrections: int = 16

    def choose(self, problem: LeastSquaresBatch, state: ActiveSet) -> Move:
        """Move from the worst active vertex to the best vertex of the ball."""
        toward, gain = active_set.best_of_all(state.slope)
        away, loss = active_set.best_active(state, 1.0)
        descent = problem.radius * (gain + loss)
        return Move(toward, away, torch.zeros_like(toward, dtype=torch.bool), descent)


@dataclass(frozen=True)
class BlendedPairwise(_VertexSolver):
    """Blended pairwise conditional gradients ("bpcg").

    Carries mass between two active vertices while that promises at least as much as a
    Frank-Wolfe step; only otherwise takes such a step, which may open a new vertex. So the active
    set, and the support of ``c`` with it, grows late and stays small.

    Differs from the paper in: 1. It starts at 0, not at a vertex. 2. Whenever the loop tests for
    termination, ``corrections`` rounds of conjugate gradients improve the point over its support
    (see :func:`~vinets.oracles.correction.correct`), and the mass that its l1 norm leaves over
    goes to the plus and minus vertex of the most promising coordinate. With 0 rounds neither
    happens and the steps are the paper's; ill-conditioned problems then take far more of them.

    Parameters
    ----------
    corrections
        Conjugate gradient rounds per termination test.

    References
    ----------
    Tsuji, Tanaka, Pokutta: Pairwise conditional gradients without swap steps and sparser kernel
    herding. ICML 2022.
    """

    name = "bpcg"

    corrections: int = 16

    def choose(self, problem: LeastSquaresBatch, state: ActiveSet) -> Move:
        """Compare the local pairwise gap with the Frank-Wolfe gap, row by row."""
        away, loss = active_set.best_active(state, 1.0)
        local, local_gain = active_set.best_active(state, -1.0)
        anywhere, gain = active_set.best_of_all(state.slope)
        pairwise = problem.radius * (loss + local_gain)
        frank_wolfe = state.quadratic + state.linear + problem.radius * gain
        whole = pairwise < frank_wolfe
        toward = torch.where(whole, anywhere, local)
        return Move(toward, away, whole, torch.maximum(pairwise, frank_wolfe))
