"""Least squares without the ball, by one triangular factor; and with it, where that is needed."""

from __future__ import annotations

import torch
from torch import Tensor

from . import l1_ball
from .accelerated import AcceleratedGradient
from .loop import finish, solve
from .problem import LeastSquaresBatch
from .solution import Solution, Status


def cholesky(gram: Tensor) -> Tensor:
    """Lower Cholesky factors (K, o, o); where a matrix is singular, of a slightly raised one.

    The ridge of ``64 o eps`` times the mean diagonal is far below what a threshold on the value
    can see; :func:`least_squares` then refines against the matrix itself.
    """
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(gram)
    if not bool(failed.any()):
        return factor
    o = gram.shape[1]
    mean = gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=torch.finfo(gram.dtype).tiny)
    ridge = torch.where(failed > 0, 64 * o * torch.finfo(gram.dtype).eps * mean, 0.0)
    raised = gram + ridge[:, None, None] * torch.eye(o, dtype=gram.dtype, device=gram.device)
    factor = torch.linalg.cholesky_ex(raised).L
    return factor


def least_squares(
    problem: LeastSquaresBatch, factor: Tensor | None = None, refinements: int = 1
) -> Tensor:
    r"""Minimiser of every row over its prefix, the ball ignored.

    With :math:`G = L L^\top` a leading principal block of ``G`` has the same block of ``L`` as its
    factor. So all rows, whatever their prefix, share one forward solve :math:`L w = -b`, a zeroing
    of the entries of ``w`` beyond the prefix, and one back solve :math:`L^\top c = w`.

    Parameters
    ----------
    problem
        The problems; ``radius`` is not looked at.
    factor
        Cholesky factors ``L`` of the Gram matrices, shape (K, o, o); computed if None.
    refinements
        Rounds of iterative refinement, each one more product and solve.

    Returns
    -------
    Tensor
        Coefficients, shape (N, o).
    """
    factor = cholesky(problem.gram) if factor is None else factor
    if factor.shape != problem.gram.shape:
        raise ValueError(
            "The 'factor' argument of least_squares must be of shape "
            f"{tuple(problem.gram.shape)}. Got {tuple(factor.shape)}."
        )
    c = _prefix_solve(problem, factor, problem.linear)
    for _ in range(refinements):
        c = c + _prefix_solve(problem, factor, problem.product(c) + problem.linear)
    return c


def _prefix_solve(problem: LeastSquaresBatch, factor: Tensor, slope: Tensor) -> Tensor:
    """Solve ``G c = -slope`` in the leading principal block of each row's prefix."""
    right = problem.group(slope * problem.indicator).mT  # (K, o, g)
    forward = torch.linalg.solve_triangular(factor, -right, upper=False)
    forward = forward * problem.group(problem.indicator).mT
    back = torch.linalg.solve_triangular(factor.mT, forward, upper=True)
    return problem.ungroup(back.mT) * problem.indicator


def solve_exact(
    problem: LeastSquaresBatch,
    factor: Tensor | None = None,
    *,
    target: float | Tensor | None = None,
    stop_when_hopeless: bool = False,
    tolerance: float = 1e-7,
    max_steps: int = 10_000,
    check_every: int = 16,
) -> Solution:
    """Closed form where it lies in the ball, accelerated gradients elsewhere.

    Rows whose least-squares minimiser is in the ball, with a gap within the tolerance, end with
    ``CONVERGED`` after 0 steps. The others start at its projection and run under :func:`solve`,
    where ``target`` and ``stop_when_hopeless`` may end them early.
    """
    c = least_squares(problem, factor)
    norm = c.abs().sum(1)
    inside = norm.isfinite() & (norm <= problem.radius)
    c = torch.where(norm.isfinite()[:, None], c, 0.0)
    c = l1_ball.project(c, problem.radius)
    _, gradient = problem.value_and_gradient(c)
    inside &= problem.dual_gap(c, gradient) <= tolerance * (1 - 1e-6)
    steps = torch.zeros_like(problem.owner)
    status = torch.full_like(problem.owner, Status.CONVERGED)
    rest = (~inside).nonzero()[:, 0]
    per_row = isinstance(target, Tensor) and target.ndim > 0
    if rest.numel():
        part = solve(
            problem.select(rest),
            AcceleratedGradient(),
            start=c[rest],
            target=target[rest] if isinstance(target, Tensor) and per_row else target,
            stop_when_hopeless=stop_when_hopeless,
            tolerance=tolerance,
            max_steps=max_steps,
            check_every=check_every,
        )
        c[rest], steps[rest], status[rest] = part.coefficients, part.steps, part.status
    return finish(problem, c, steps, status, target=None, tolerance=tolerance)
