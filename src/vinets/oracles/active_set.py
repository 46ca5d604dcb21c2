"""Points of the l1 ball as convex combinations of its vertices, moved one vertex at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .problem import LeastSquaresBatch
from .solver import RowState


@dataclass(frozen=True)
class ActiveSet(RowState):
    r"""Weights of the vertices, and what a step needs to know about the point they stand for.

    The ball has 2o vertices: number ``i`` is :math:`+r e_i`, number ``o + i`` is :math:`-r e_i`.
    With weights ``w`` the point is :math:`c_i = r (w_i - w_{o+i})`.
    """

    weights: Tensor  # (N, 2o) non-negative, summing to 1 per row
    # (N, 2o) 0 where the weight is positive, -inf elsewhere: added to a score it leaves the active
    # vertices only, which is far faster than selecting them
    barrier: Tensor
    slope: Tensor  # (N, o) half the gradient, G c + b, zero beyond the prefix
    quadratic: Tensor  # (N, 1) c^T G c
    linear: Tensor  # (N, 1) b^T c


class Move(NamedTuple):
    r"""Mass to be carried to the vertex ``toward``, from the whole point or the vertex ``away``.

    The direction is :math:`d = v - y` with :math:`y = c` where ``whole`` (a Frank-Wolfe step) and
    :math:`y` the vertex ``away`` elsewhere (a pairwise step). ``descent`` is
    :math:`-\langle Gc + b, d \rangle`. All of shape (N, 1).
    """

    toward: Tensor
    away: Tensor
    whole: Tensor
    descent: Tensor


def from_point(problem: LeastSquaresBatch, c: Tensor) -> ActiveSet:
    """Represent points ``c`` (N, o) of the ball.

    Every non-zero entry takes the vertex of its sign. The mass left over goes half to the plus
    and half to the minus vertex of the coordinate that promises the largest decrease: far
    sparser, and far better scaled for a large radius, than to start at a vertex.
    """
    slope = (problem.product(c) + problem.linear) * problem.indicator
    diagonal = problem.gram.diagonal(dim1=1, dim2=2)[problem.owner]  # (N, o)
    promise = slope.square() / diagonal.clamp(min=torch.finfo(c.dtype).tiny)
    best = promise.max(dim=1, keepdim=True).indices
    share = c / problem.radius
    weights = torch.cat([share.clamp(min=0.0), (-share).clamp(min=0.0)], dim=1)
    spare = (1.0 - weights.sum(1, keepdim=True)).clamp(min=0.0) / 2
    weights.scatter_add_(1, best, spare)
    weights.scatter_add_(1, best + problem.width, spare)
    return rebuild(problem, weights)


def rebuild(problem: LeastSquaresBatch, weights: Tensor) -> ActiveSet:
    """Make the state of the given weights; everything else is computed from them."""
    # weights that are rounding would keep vertices active that have no part in the point
    weights = torch.where(weights > torch.finfo(weights.dtype).eps, weights, 0.0)
    weights = weights / weights.sum(1, keepdim=True)
    c = point(problem, weights)
    product = problem.product(c)
    return ActiveSet(
        weights=weights,
        barrier=torch.where(weights > 0, 0.0, -torch.inf).to(weights.dtype),
        slope=(product + problem.linear) * problem.indicator,
        quadratic=(c * product).sum(1, keepdim=True),
        linear=(c * problem.linear).sum(1, keepdim=True),
    )


def point(problem: LeastSquaresBatch, weights: Tensor) -> Tensor:
    """Return the points that the weights stand for, shape (N, o)."""
    plus, minus = weights[:, : problem.width], weights[:, problem.width :]
    return problem.radius * (plus - minus)


def best_active(state: ActiveSet, direction: float) -> tuple[Tensor, Tensor]:
    """Find the active vertex with the largest ``direction * <slope, vertex>`` (+1 or -1).

    Returns the vertex number and that score for radius 1, both of shape (N, 1).
    """
    o = state.slope.shape[1]
    plus, minus = state.barrier.split(o, dim=1)
    plus = torch.add(plus, state.slope, alpha=direction)
    minus = torch.sub(minus, state.slope, alpha=direction)
    score, index = torch.maximum(plus, minus).max(dim=1, keepdim=True)
    # at a tie of the two vertices of one coordinate, plus wins
    return index + o * (plus.gather(1, index) < score), score


def best_of_all(slope: Tensor) -> tuple[Tensor, Tensor]:
    """Find the vertex with the smallest ``<slope, vertex>``: its number, minus that score (N, 1).

    The linear minimisation oracle of the ball: the largest entry, against its sign.
    """
    index = largest_entry(slope)
    entry = slope.gather(1, index)
    return index + slope.shape[1] * (entry > 0), entry.abs()


def largest_entry(rows: Tensor) -> Tensor:
    """Find the first entry of the largest size in every row, shape (N, 1)."""
    if rows.device.type != "cpu":
        return rows.abs().argmax(1, keepdim=True)
    # torch does not vectorise this on a CPU: NumPy takes a sixth of the time
    return torch.from_numpy(np.abs(rows.numpy()).argmax(1))[:, None]


def apply(problem: LeastSquaresBatch, state: ActiveSet, move: Move) -> ActiveSet:
    r"""Take the step that minimises ``f`` on the segment, in O(o) per row and in place.

    The step length is :math:`\gamma = \min(\text{descent} / d^\top G d, \gamma_{\max})`, where
    :math:`\gamma_{\max}` is 1 for the whole point and the weight of a vertex to move away from;
    at :math:`\gamma_{\max}` that vertex leaves with a weight of exactly 0.
    """
    # From here to the step length, all products with d come from entries of G and from the numbers
    # that the state carries: no product with a Gram matrix.
    o, r = problem.width, problem.radius
    i, j = move.toward % o, move.away % o
    v = r * (1 - 2 * (move.toward >= o).to(state.slope.dtype))  # the vertex is v e_i
    y = r * (1 - 2 * (move.away >= o).to(state.slope.dtype))
    b_v = v * problem.linear.gather(1, i)
    b_y = torch.where(move.whole, state.linear, y * problem.linear.gather(1, j))
    vv = r * r * problem.gram_entries(i, i)
    vy = torch.where(
        move.whole, v * state.slope.gather(1, i) - b_v, v * y * problem.gram_entries(i, j)
    )
    yy = torch.where(move.whole, state.quadratic, r * r * problem.gram_entries(j, j))
    curvature = vv - 2 * vy + yy
    # no further than the weight that is there to be moved
    limit = torch.where(move.whole, 1.0, state.weights.gather(1, move.away))
    step = (move.descent / curvature.clamp(min=torch.finfo(v.dtype).tiny)).clamp(min=0.0)
    step = torch.minimum(step, limit)

    b_d = b_v - b_y
    quadratic = state.quadratic - 2 * step * (move.descent + b_d) + step * step * curvature
    linear = state.linear + step * b_d
    from_whole = torch.where(move.whole, step, 0.0)
    from_vertex = step - from_whole
    # The memory of the old state becomes that of the new one. (1 - gamma)(Gc + b) + gamma b is
    # G(1 - gamma)c + b; what follows adds the vertex and takes away the other.
    slope = state.slope.mul_(1 - from_whole).addcmul_(problem.linear, from_whole)
    slope.addcmul_(problem.gram_rows(i), step * v)
    slope.addcmul_(problem.gram_rows(j), from_vertex * y, value=-1.0).mul_(problem.indicator)
    weights = state.weights.mul_(1 - from_whole)
    weights.scatter_add_(1, move.toward, step).scatter_add_(1, move.away, -from_vertex)
    barrier = state.barrier
    for vertex in (move.toward, move.away):
        closed = torch.where(weights.gather(1, vertex) > 0, 0.0, -torch.inf)
        barrier.scatter_(1, vertex, closed.to(barrier.dtype))
    return ActiveSet(weights, barrier, slope, quadratic, linear)
