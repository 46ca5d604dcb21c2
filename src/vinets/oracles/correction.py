"""Improve points over their support by conjugate gradients, staying in the l1 ball."""

from __future__ import annotations

import torch
from torch import Tensor

from .problem import LeastSquaresBatch


def correct(problem: LeastSquaresBatch, c: Tensor, rounds: int) -> Tensor:
    r"""Lower ``f`` without adding to the support of ``c``.

    Inside the ball, :math:`f` is minimised over all vectors with the support of ``c``. On its
    boundary the face :math:`\{x : \langle \operatorname{sign} c, x \rangle = r\}` is kept to as
    well. Either way ``rounds`` of conjugate gradients, preconditioned by the diagonal of the
    Gram matrix, give a direction, and the point moves along it as far as the ball allows: to the
    first change of sign on a face, where that entry becomes exactly 0.

    Parameters
    ----------
    problem
        The problems.
    c
        Points of the ball, shape (N, o).
    rounds
        Conjugate gradient rounds, one product with the Gram matrices each.

    Returns
    -------
    Tensor
        Points of the ball with ``f`` no larger, shape (N, o).

    References
    ----------
    Gould, Hribar, Nocedal: On the solution of equality constrained quadratic programming problems
    arising in optimization. SIAM J. Sci. Comput. 2001 (conjugate gradients in a subspace).
    """
    norm = c.abs().sum(1, keepdim=True)
    margin = torch.finfo(c.dtype).eps ** 0.5
    on_face = norm > problem.radius * (1 - margin)  # (N, 1)
    direction, change = _conjugate_gradients(problem, c, on_face, rounds)
    # f(c + t d) - f(c) = t (2 <Gc + b, d> + t <d, Gd>); change holds the two inner products
    moved = c + direction
    flips = moved * c < 0
    ratio = torch.where(on_face & flips, -c / direction, torch.inf)
    far = moved.abs().sum(1, keepdim=True)
    room = (problem.radius - norm) / (far - norm).clamp(min=torch.finfo(c.dtype).tiny)
    inside = torch.where(far <= problem.radius, 1.0, room.clamp(0.0, 1.0))
    first = ratio.amin(1, keepdim=True)
    t = torch.where(on_face, first.clamp(max=1.0), inside)
    gained = 2 * change[0] + t * change[1] < 0
    moved = torch.where(ratio <= t, 0.0, c + t * direction)
    return torch.where(gained, moved, c)


def _conjugate_gradients(
    problem: LeastSquaresBatch, c: Tensor, on_face: Tensor, rounds: int
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Direction ``d`` towards the minimiser, and ``<Gc + b, d>`` and ``<d, Gd>`` (N, 1)."""
    tiny, eps = torch.finfo(c.dtype).tiny, torch.finfo(c.dtype).eps
    sign = torch.sign(c)
    support = sign.abs()
    diagonal = problem.gram.diagonal(dim1=1, dim2=2)[problem.owner].clamp(min=tiny)  # (N, o)
    scale = support / diagonal
    normal = sign * on_face.to(c.dtype)
    scaled_normal = scale * normal
    length = (scaled_normal * normal).sum(1, keepdim=True).clamp(min=tiny)

    def precondition(residual: Tensor) -> Tensor:
        z = scale * residual
        return z.addcmul_(scaled_normal, (normal * z).sum(1, keepdim=True) / length, value=-1.0)

    slope = problem.product(c).add_(problem.linear).mul_(support)
    residual, direction = -slope, torch.zeros_like(c)
    z = precondition(residual)
    search, energy = z, (residual * z).sum(1, keepdim=True)
    for _ in range(rounds):
        image = problem.product(search).mul_(support)
        curvature = (search * image).sum(1, keepdim=True)
        # a search direction that the Gram matrix all but annihilates carries noise only
        floor = problem.width * eps * (search.square() * diagonal).sum(1, keepdim=True)
        length_along = torch.where(curvature > floor, energy / curvature.clamp(min=tiny), 0.0)
        direction = torch.addcmul(direction, search, length_along)
        residual = torch.addcmul(residual, image, length_along, value=-1.0)
        z = precondition(residual)
        previous, energy = energy, (residual * z).sum(1, keepdim=True)
        search = torch.addcmul(z, search, energy / previous.clamp(min=tiny))
    linear = (slope * direction).sum(1, keepdim=True)
    quadratic = -(direction * (slope + residual)).sum(1, keepdim=True)
    return direction, (linear, quadratic)
