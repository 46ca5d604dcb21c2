"""Corrections of points over their support by conjugate gradients, which stay in the l1 ball."""

from __future__ import annotations

import torch
from torch import Tensor

from .problem import LeastSquaresBatch, scale_into_ball


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
