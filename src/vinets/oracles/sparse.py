r"""Sparse coefficients from dense ones: what a target leaves room for is dropped, in many rows.

Where a few entries suffice, :mod:`.forward` finds them from nothing. What follows is for the rest.

Leaving out the entry :math:`i` of a minimiser :math:`c` costs :math:`c_i^2 / (G^{-1})_{ii}`. With
the entries in the order of their costs, one Cholesky factor tells how many of them a target asks
for. Where these are few, the factor :math:`G_{SS} = LL^\top` of the costliest: the first :math:`k`
entries of :math:`w = L^{-1} b_S` give the value over the first :math:`k` of :math:`S`,

.. math:: \beta - \lVert w_{1 \ldots k}\rVert^2 .

Where they are many, the factor :math:`H_{RR} = LL^\top` of :math:`H = G^{-1}` at the cheapest,
which rows share: leaving out :math:`R` and minimising over the rest gives

.. math:: c' = c - H_{\cdot R}\, y, \qquad f(c') = f(c) + \lVert t\rVert^2, \qquad
          t = L^{-1} c_R,\quad y = L^{-\top} t,

and the first :math:`k` entries of :math:`t` belong to the first :math:`k` of :math:`R`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .closed_form import cholesky, least_squares
from .forward import MAX_NARROW_TERMS, add_entries
from .loop import finish, solve
from .problem import LeastSquaresBatch
from .solver import Solution, Solver, Status

MAX_WHOLE_TERMS = 16  # problems of at most so many terms try all of them as one support
SUPPORT_SHARES = (8, 4, 2)  # problems of more terms try one in so many as a support
COST_FACTOR = 3.0  # to leave out many entries costs up to about this many times their sum
MAX_REVISED_ENTRIES = 64  # supports of at most so many are looked through once more
MAX_SPARED_SHARE = 0.4  # share of the entries of a long prefix that may be left out
MAX_BATCH_NUMBERS = 1 << 20  # numbers in the largest array of a batch of rows
SINGLE_TARGET = 1e-4  # share of the square; larger targets leave room for single precision
SINGLE_TERMS = 64  # single precision pays for problems of more terms than these
VALUE_ROUNDING = 1e-12  # share of the square by which values of short points may round
MAX_GRADIENT = 1e-6  # largest entry of the gradient at a minimiser


def solve_sparse(
    problem: LeastSquaresBatch,
    solver: Solver[Any],
    start: Tensor | None,
    target: float,
    *,
    max_steps: int = 10_000,
) -> Solution:
    """Find points of few entries with values of at most ``target``, by :func:`shorten` first.

    ``start`` (N, o) are the minimisers without the ball; if None, they are computed where they are
    needed. Rows where it is none of them, or misses the target, or lies outside of the ball are
    left to ``solver``, from 0.
    """
    goal = torch.full_like(problem.constant, target)
    c, short = _shortened(problem, start, goal)
    value, gradient = problem.value_and_gradient(c)
    good = short & (value <= target) & (c.abs().sum(1) <= problem.radius)
    steps = torch.zeros_like(problem.owner)
    status = torch.full_like(problem.owner, Status.TARGET)
    if bool(good.all()):
        return Solution(c, value, problem.dual_gap(c, gradient), steps, status)
    # the long point will do if rounding or the ball spoilt the short one
    bad = (~good).nonzero()[:, 0]
    spoilt = problem.select(bad)
    long = least_squares(spoilt) if start is None else start[bad]
    value, gradient = spoilt.value_and_gradient(long)
    fits = _is_minimal(gradient) & (value <= target) & (long.abs().sum(1) <= problem.radius)
    c[bad[fits]] = long[fits]
    rest = bad[~fits]
    part = solve(problem.select(rest), solver, target=target, max_steps=max_steps)
    c = c.index_copy(0, rest, part.coefficients)
    steps[rest], status[rest] = part.steps, part.status
    return finish(problem, c, steps, status, target=goal, tolerance=1e-7)


def shorten(problem: LeastSquaresBatch, start: Tensor, target: Tensor) -> Tensor:
    """Find points with fewer entries, each minimal over those that it has, of values <= target.

    ``start`` (N, o) minimises every row over its prefix, the ball ignored; ``target`` (N,). A few
    entries are added to 0 where these suffice; elsewhere, as many as can be spared are left out of
    the start. Rows that miss their target, or do not start from a minimiser, come back as they are.
    Nothing keeps a point in the ball: values and norms are for the caller to check.

    References
    ----------
    Couvreur, Bresler: On the optimality of the backward greedy algorithm for the subset selection
    problem. SIAM J. Matrix Anal. Appl. 2000 (one entry at a time).
    """
    return _shortened(problem, start, target)[0]


def _shortened(
    problem: LeastSquaresBatch, start: Tensor | None, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what :func:`shorten` does, and in which rows (N,) it is a short point."""
    if problem.width > MAX_NARROW_TERMS and problem.linear.is_cuda:
        # few rows of such problems are short, and steps are taken on the CPU
        found, reached = torch.zeros_like(problem.linear), problem.constant <= target
    else:
        found, reached = add_entries(problem, target - VALUE_ROUNDING * problem.constant)
    left = (~reached).nonzero()[:, 0]
    if len(left):
        rest = problem.select(left)
        long = least_squares(rest) if start is None else start[left]
        found[left], reached[left] = _leave_out(rest, long, target[left])
    return found, reached


def _is_minimal(gradient: Tensor) -> Tensor:
    return gradient.abs().amax(1) <= MAX_GRADIENT  # NaN is not minimal


def _leave_out(problem: LeastSquaresBatch, start: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Leave out entries of ``start`` that can be spared, and tell where they may be looked for."""
    found = start.clone()
    precise = start.dtype
    if problem.width > SINGLE_TERMS and bool((target > SINGLE_TARGET * problem.constant).all()):
        # an error of a minimiser changes its value by the square of it only
        precise = torch.float32
        target = target - 8 * torch.finfo(precise).eps * problem.constant
    else:
        target = target - problem.rounding(start)
    value, gradient = problem.value_and_gradient(start)
    fit = (value <= target) & _is_minimal(gradient)
    rows = (fit & (problem.prefix > 0)).nonzero()[:, 0]
    if not len(rows):
        return found, fit
    factor = cholesky(problem.gram)
    eye = torch.eye(problem.width, dtype=factor.dtype, device=factor.device)
    half = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    # diagonals of the inverses of all leading blocks: row p - 1 is that of the block of size p
    diagonal = half.square().cumsum(1)[problem.owner[rows], problem.prefix[rows] - 1]
    cost = (start[rows].square() / diagonal).masked_fill_(~problem.mask[rows], -1.0)
    cost, order = cost.sort(1, descending=True)
    # the cost of leaving out all behind an entry, if entries had no part in each other
    behind = cost.clamp_(min=0.0).sum(1, keepdim=True) - cost.cumsum(1)
    problem, half = problem.to(precise), half.to(precise)
    start, value, target = start.to(precise), value.to(precise), target.to(precise)
    for share in SUPPORT_SHARES if problem.width > MAX_WHOLE_TERMS else (1,):
        size = math.ceil(problem.width / share)
        likely = COST_FACTOR * behind[:, size - 1] <= target[rows] - value[rows]
        left = [(~likely).nonzero()[:, 0]]
        for part in likely.nonzero()[:, 0].split(max(1, MAX_BATCH_NUMBERS // size**2)):
            at, support = rows[part], order[part, :size]
            reached, short = _over(problem, at, support, target[at])
            left.append(part[~reached])
            at, support = at[reached], support[reached, : short.shape[1]]
            found[at] = torch.zeros_like(found[at]).scatter_(1, support, short.to(found))
        kept = torch.cat(left)
        rows, order, behind = rows[kept], order[kept], behind[kept]
    for k in torch.unique(problem.owner[rows]).tolist():
        mine = rows[problem.owner[rows] == k]
        # rows of one prefix share an inverse, which grows with the prefix
        inverse, done = torch.zeros_like(half[k]), 0
        for p in torch.unique(problem.prefix[mine]).tolist():
            inverse += half[k, done:p].mT @ half[k, done:p]
            done, most = p, math.ceil(MAX_SPARED_SHARE * p)
            same = mine[problem.prefix[mine] == p]
            shared = inverse[None, :p, :p].contiguous()
            for at in same.split(max(1, 4 * MAX_BATCH_NUMBERS // p**2)):
                short = _without(shared, start[at, :p], target[at] - value[at], most)
                found[at, :p] = short.to(found)
    return found, fit


def _over(
    problem: LeastSquaresBatch, rows: Tensor, support: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Find rows that reach their target over their ``support`` (n, M), and their short points.

    A point has as many of the first entries as it takes, or fewer.
    """
    gram = problem.gram_blocks(rows, support)
    inside = support < problem.prefix[rows, None]
    gram.masked_fill_(~inside[:, :, None], 0.0).masked_fill_(~inside[:, None, :], 0.0)
    gram.diagonal(dim1=1, dim2=2).add_(~inside)  # beyond the prefix: rows of the identity
    lower, failed = torch.linalg.cholesky_ex(gram)
    linear = problem.linear[rows].gather(1, support) * inside
    w = torch.linalg.solve_triangular(lower, linear[:, :, None], upper=False)[:, :, 0]
    values = problem.constant[rows, None] - w.square().cumsum(1)
    reached = (values[:, -1] <= target) & (failed == 0)
    if not bool(reached.any()):
        return reached, w[:0, :0]
    lower, w, values = lower[reached], w[reached], values[reached]
    # the first entry that suffices, and all before it
    enough = (values <= target[reached, None]).cumsum(1) <= 1
    size = int(enough.sum(1).amax())
    lower, w, enough = lower[:, :size, :size], w[:, :size], enough[:, :size]
    eye = torch.eye(size, dtype=gram.dtype, device=gram.device)
    lower = torch.where(enough[:, :, None], lower, eye)
    w = w * enough
    if size > MAX_REVISED_ENTRIES:
        return reached, -_back(lower, w)
    half = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    point = -(w[:, None] @ half)[:, 0]
    value = problem.constant[rows[reached]] - w.square().sum(1)
    return reached, _without(half.mT @ half, point, target[reached] - value, size)


def _without(inverse: Tensor, point: Tensor, room: Tensor, most: int) -> Tensor:
    """Return points (n, M) without those entries, at most ``most``, that can be left out.

    ``inverse`` (n or 1, M, M) is that of the Gram matrices; values may rise by ``room`` (n,).
    """
    absent = point == 0
    cost = point.square() / inverse.diagonal(dim1=1, dim2=2)
    price, listed = cost.masked_fill_(absent, torch.inf).topk(most, largest=False)
    n, size = point.shape
    places = listed
    if len(inverse) > 1:  # all matrices are one table under each other
        places = listed + size * torch.arange(n, device=listed.device)[:, None]
    rows = inverse.reshape(-1, size).index_select(0, places.reshape(-1)).view(n, most, size)
    block = rows.gather(2, listed[:, None, :].expand(-1, most, -1))
    lower, failed = torch.linalg.cholesky_ex(block)
    right = point.gather(1, listed)[:, :, None]
    t = torch.linalg.solve_triangular(lower, right, upper=False)[:, :, 0]
    # as many of the list as there is room for; nothing where the factor failed
    fits = t.square().cumsum(1) <= room[:, None]
    goes = (fits & price.isfinite() & (failed == 0)[:, None]).cumprod(1)
    # what stays has no part in the solution, which begins behind it
    y = _back(lower, t * goes)
    gone = absent.scatter(1, listed, goes.bool() | price.isinf())
    return torch.where(gone, 0.0, point - (y[:, None] @ rows)[:, 0])


def _back(lower: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(lower.mT, right[:, :, None], upper=True)[:, :, 0]
