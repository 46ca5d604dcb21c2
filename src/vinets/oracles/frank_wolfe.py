"""Projection-free solvers: conditional gradients, pairwise, and blended pairwise; corrections."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from . import active_set
from .active_set import ActiveSet, Move
from .problem import LeastSquaresBatch, scale_into_ball
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
        product = problem.product(start)
        return Iterate(
            point=start.clone(),  # because steps change it in place
            slope=(product + problem.linear) * problem.indicator,
            quadratic=(start * product).sum(1, keepdim=True),
            linear=(start * problem.linear).sum(1, keepdim=True),
        )

    def step(self, problem: LeastSquaresBatch, state: Iterate) -> Iterate:
        # the step that minimises f on the way to the best vertex, in place
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
        return state.point


@dataclass(frozen=True)
class PairwiseFrankWolfe(_VertexSolver):
    """Pairwise conditional gradients ("pcg"): carry mass from the worst active vertex to the best.

    ``corrections`` are those of :class:`BlendedPairwise`.

    References
    ----------
    Lacoste-Julien, Jaggi: On the global linear convergence of Frank-Wolfe optimization variants.
    NeurIPS 2015.
    """

    name = "pcg"

    corrections: int = 16

    def choose(self, problem: LeastSquaresBatch, state: ActiveSet) -> Move:
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
    (see :func:`~vinets.oracles.frank_wolfe.correct`), and the mass that its l1 norm leaves over
    goes to the plus and minus vertex of the most promising coordinate. With 0 rounds neither
    happens and the steps are the paper's; ill-conditioned problems then take far more of them.

    References
    ----------
    Tsuji, Tanaka, Pokutta: Pairwise conditional gradients without swap steps and sparser kernel
    herding. ICML 2022.
    """

    name = "bpcg"

    corrections: int = 16

    def choose(self, problem: LeastSquaresBatch, state: ActiveSet) -> Move:
        away, loss = active_set.best_active(state, 1.0)
        local, local_gain = active_set.best_active(state, -1.0)
        anywhere, gain = active_set.best_of_all(state.slope)
        pairwise = problem.radius * (loss + local_gain)
        frank_wolfe = state.quadratic + state.linear + problem.radius * gain
        whole = pairwise < frank_wolfe
        toward = torch.where(whole, anywhere, local)
        return Move(toward, away, whole, torch.maximum(pairwise, frank_wolfe))


def correct(problem: LeastSquaresBatch, c: Tensor, rounds: int) -> Tensor:
    r"""Lower ``f`` without adding to the support of ``c``.

    Inside the ball, :math:`f` is minimised over all vectors with the support of ``c``. On its
    boundary the face :math:`\{x : \langle \operatorname{sign} c, x \rangle = r\}` is kept to as
    well. Either way ``rounds`` of conjugate gradients, preconditioned by the diagonal of the
    Gram matrix, give a direction, and the point moves along it as far as the ball allows: to the
    first change of sign on a face, where that entry becomes exactly 0. Takes and returns points
    of the ball, shape (N, o); a round is one product with the Gram matrices.

    References
    ----------
    Gould, Hribar, Nocedal: On the solution of equality constrained quadratic programming problems
    arising in optimization. SIAM J. Sci. Comput. 2001 (conjugate gradients in a subspace).
    """
    eps, tiny = torch.finfo(c.dtype).eps, torch.finfo(c.dtype).tiny
    norm = c.abs().sum(1, keepdim=True)
    on_face = norm > problem.radius * (1 - eps**0.5)  # (N, 1)
    d, slope_d, d_gram_d = _conjugate_gradients(problem, c, on_face, rounds)
    far = (c + d).abs().sum(1, keepdim=True)
    room = (problem.radius - norm) / (far - norm).clamp(min=tiny)  # the norm is convex along d
    inside = torch.where(far <= problem.radius, 1.0, room.clamp(0.0, 1.0))
    ratio = torch.where(on_face & ((c + d) * c < 0), -c / d, torch.inf)
    t = torch.where(on_face, ratio.amin(1, keepdim=True).clamp(max=1.0), inside)
    moved = torch.where(ratio <= t, 0.0, c + t * d)
    # f(c + t d) - f(c) = t (2 <Gc + b, d> + t <d, Gd>)
    lower = 2 * slope_d + t * d_gram_d < 0
    # the point stays if rounding spoilt the direction: a correction never makes things worse
    in_ball = moved.abs().sum(1, keepdim=True) <= problem.radius * (1 + 4 * problem.width * eps)
    return torch.where(lower & in_ball, scale_into_ball(moved, problem.radius), c)


def _conjugate_gradients(
    problem: LeastSquaresBatch, c: Tensor, on_face: Tensor, rounds: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Find directions ``d`` (N, o) to the minimisers, ``<Gc + b, d>`` and ``<d, Gd>`` (N, 1)."""
    eps, tiny = torch.finfo(c.dtype).eps, torch.finfo(c.dtype).tiny
    sign = torch.sign(c)
    support = sign.abs()
    diagonal = problem.gram.diagonal(dim1=1, dim2=2)[problem.owner].clamp(min=tiny)  # (N, o)
    scale = support / diagonal
    normal = sign * on_face.to(c.dtype)
    scaled_normal = scale * normal
    length = _dot(scaled_normal, normal).clamp(min=tiny)

    slope = problem.product(c).add_(problem.linear).mul_(support)
    least = (problem.width * eps) ** 2 * _dot(slope * scale, slope)  # below it all is noise
    residual = -slope
    direction, search = torch.zeros_like(c), torch.zeros_like(c)
    previous = torch.full_like(least, torch.inf)
    for _ in range(rounds):
        # Taking the normal part out of the residual itself keeps its energy free of cancellation.
        residual = torch.addcmul(
            residual, normal, _dot(scaled_normal, residual) / length, value=-1.0
        )
        z = scale * residual
        energy = _dot(residual, z)
        search = torch.addcmul(z, search, energy / previous.clamp(min=tiny))
        image = problem.product(search).mul_(support)
        curvature = _dot(search, image)
        # The Gram matrix all but annihilates some directions: those carry noise only.
        flat = curvature <= problem.width * eps * _dot(search.square(), diagonal)
        step = torch.where(flat | (energy <= least), 0.0, energy / curvature.clamp(min=tiny))
        direction = torch.addcmul(direction, search, step)
        residual = torch.addcmul(residual, image, step, value=-1.0)
        previous = energy
    # rounding adds up to a step off the face: taken out once more
    direction = torch.addcmul(
        direction, scaled_normal, _dot(normal, direction) / length, value=-1.0
    )
    image = problem.product(direction)
    return direction, _dot(slope, direction), _dot(direction, image)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1, keepdim=True)
