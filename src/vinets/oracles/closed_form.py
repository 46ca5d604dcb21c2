"""Least squares without the ball, by one triangular factor; and with it, where that is needed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vinets.core.checks import parameter_error

from .frank_wolfe import PairwiseFrankWolfe
from .loop import finish, solve, target_per_row
from .problem import LeastSquaresBatch, project_to_ball
from .solver import Solution, Solver, Status


def cholesky(gram: Tensor) -> Tensor:
    """Return lower Cholesky factors (K, o, o); where a matrix is singular, of a raised one.

    Zero rows (padding of a Gram matrix smaller than the others) get a diagonal of 1, which changes
    no solution. What is singular even so gets a ridge of ``64 o eps`` times the mean diagonal;
    :func:`least_squares` then refines against the matrix itself.
    """
    diagonal = gram.diagonal(dim1=1, dim2=2)
    filled = gram + torch.diag_embed((diagonal == 0).to(gram.dtype))
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(filled)
    if not bool(failed.any()):
        return factor
    scale = 64 * gram.shape[1] * torch.finfo(gram.dtype).eps
    ridge = torch.where(failed > 0, scale * diagonal.mean(1), 0.0)[:, None]
    factor = torch.linalg.cholesky_ex(filled + torch.diag_embed(ridge.expand_as(diagonal))).L
    return factor


def least_squares(problem: LeastSquaresBatch, factor: Tensor | None = None) -> Tensor:
    r"""Find the minimiser of every row over its prefix, the ball ignored.

    With :math:`G = L L^\top` a leading principal block of ``G`` has the same block of ``L`` as its
    factor. So all rows, whatever their prefix, share one forward solve :math:`L w = -b`, a zeroing
    of the entries of ``w`` beyond the prefix, and one back solve :math:`L^\top c = w`.

    The Cholesky factors ``factor`` (K, o, o) of the Gram matrices are computed if None. Returns
    coefficients (N, o).
    """
    factor = cholesky(problem.gram) if factor is None else factor
    if factor.shape != problem.gram.shape:
        accepted = f"of shape {tuple(problem.gram.shape)}"
        raise parameter_error("least_squares", "factor", accepted, tuple(factor.shape))
    c = _prefix_solve(problem, factor, problem.linear)
    # refinement: rounding and the ridge of a singular matrix are taken out again
    return c + _prefix_solve(problem, factor, problem.product(c) + problem.linear)


def _prefix_solve(problem: LeastSquaresBatch, factor: Tensor, slope: Tensor) -> Tensor:
    """Solve ``G c = -slope`` in the leading principal block of each row's prefix."""
    right = problem.group(slope * problem.indicator).mT  # (K, o, g)
    forward = torch.linalg.solve_triangular(factor, -right, upper=False)
    # zeros beyond the prefix turn the back solve into that of the leading block
    forward = forward * problem.group(problem.indicator).mT
    back = torch.linalg.solve_triangular(factor.mT, forward, upper=True)
    return problem.ungroup(back.mT) * problem.indicator


def solve_exact(
    problem: LeastSquaresBatch,
    factor: Tensor | None = None,
    *,
    solver: Solver[Any] | None = None,
    target: float | Tensor | None = None,
    stop_when_hopeless: bool = False,
    tolerance: float = 1e-7,
    max_steps: int = 10_000,
    check_every: int = 8,
) -> Solution:
    """Solve in closed form where that lies in the ball, by an iterative solver elsewhere.

    Rows whose least-squares minimiser is in the ball, with a gap within the tolerance, end with
    ``CONVERGED`` after 0 steps. The others start at its projection and run under
    :func:`~vinets.oracles.loop.solve`, where ``target`` and ``stop_when_hopeless`` may end them
    early.

    Other arguments are those of that function, and ``factor`` that of :func:`least_squares`. Rows
    outside the ball run ``solver``, ``PairwiseFrankWolfe()`` if None: its corrections make it far
    faster than ``AcceleratedGradient()`` where the Gram matrix is ill-conditioned, which is where a
    minimiser lies outside a large ball.
    """
    goal = target_per_row(problem, target)
    c = least_squares(problem, factor)
    # a factor of an all but singular matrix may give infinities: such rows start at 0
    finite = c.isfinite().all(1, keepdim=True)
    c = torch.where(finite, c, 0.0)
    inside = finite[:, 0] & (c.abs().sum(1) <= problem.radius)
    c = project_to_ball(c, problem.radius)
    # a point of an ill-conditioned matrix may be wrong: the gap tells whether to trust it
    gap = problem.dual_gap(c, problem.gradient(c))
    rest = (~(inside & (gap <= tolerance))).nonzero()[:, 0]
    steps = torch.zeros_like(problem.owner)
    status = torch.full_like(problem.owner, Status.CONVERGED)
    if rest.numel():
        part = solve(
            problem.select(rest),
            PairwiseFrankWolfe() if solver is None else solver,
            start=c[rest],
            target=None if goal is None else goal[rest],
            stop_when_hopeless=stop_when_hopeless,
            tolerance=tolerance,
            max_steps=max_steps,
            check_every=check_every,
        )
        c = c.index_copy(0, rest, part.coefficients)
        steps[rest], status[rest] = part.steps, part.status
    return finish(problem, c, steps, status, target=goal, tolerance=tolerance)
