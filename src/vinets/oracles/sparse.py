r"""Sparse coefficients from dense ones: drop what a target leaves room to drop, many rows at once.

Over a support :math:`S`, with :math:`H = (G_{SS})^{-1}` and the minimiser :math:`c` there, leaving
out the entries :math:`R` and minimising over the rest gives

.. math:: c' = c - H_{\cdot R}\, y, \qquad f(c') = f(c) + \lVert t\rVert^2, \qquad
          H_{RR} = LL^\top,\quad t = L^{-1} c_R,\quad y = L^{-\top} t,

and the first :math:`k` entries of :math:`t` are those of the first :math:`k` of :math:`R`. So one
Cholesky factor tells how many entries of a list can go before the value passes the target. Lists
begin with the entries of least :math:`c_i^2 / H_{ii}`, which is what leaving one out costs.

The other way round, with :math:`G_{SS} = LL^\top` the first :math:`k` entries of
:math:`w = L^{-1} b_S` give the value :math:`\beta - \lVert w\rVert^2` over the first :math:`k` of
:math:`S`. With the entries of greatest cost in front, most rows need a small part of them: they go
on with that part, at the price of its size alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .closed_form import cholesky
from .loop import finish, solve
from .problem import LeastSquaresBatch
from .solution import Solution, Status
from .solver import Solver

# shares of all entries that are tried as a first support, for so many entries at most
LADDERS = {16: (1,), 96: (8, 1), 1 << 62: (8, 4, 2)}
APART = 2.0  # leaving out many entries costs at least about this many times the sum over them
SHORT = 16  # supports that are one list as a whole
NUMBERS = 1 << 20  # in the largest array of a batch of rows
ROUGH = 1e-4  # targets above this share of the square leave room for single precision,
MINIMAL = 1e-6  # gradients of minimisers are at most this
WIDE = 64  # which pays for more entries than this


def solve_sparse(
    problem: LeastSquaresBatch,
    solver: Solver[Any],
    start: Tensor,
    target: float,
    *,
    max_steps: int = 10_000,
) -> Solution:
    """Points of few entries with values of at most ``target``, by :func:`shorten` where it can.

    ``start`` (N, o) are the minimisers without the ball. Rows where it is none of them, or misses
    the target, or lies outside of the ball are left to ``solver``, from 0.
    """
    goal = torch.full_like(problem.constant, target)
    minimal = problem.gradient(start).abs().amax(1) <= MINIMAL
    c = shorten(problem, start, torch.where(minimal, goal, -torch.inf))
    value, gradient = problem.value_and_gradient(c)
    good = minimal & (value <= target) & (c.abs().sum(1) <= problem.radius)  # NaN is not
    steps = torch.zeros_like(problem.owner)
    status = torch.full_like(problem.owner, Status.TARGET)
    if bool(good.all()):
        return Solution(c, value, problem.dual_gap(c, gradient), steps, status)
    # where rounding or the ball spoilt the short point, the long one will do
    c = torch.where(good[:, None], c, start)
    good = minimal & (problem.value(c) <= target) & (c.abs().sum(1) <= problem.radius)
    rest = (~good).nonzero()[:, 0]
    part = solve(problem.select(rest), solver, target=target, max_steps=max_steps)
    c = c.index_copy(0, rest, part.coefficients)
    steps[rest], status[rest] = part.steps, part.status
    return finish(problem, c, steps, status, target=goal, tolerance=1e-7)


def shorten(problem: LeastSquaresBatch, start: Tensor, target: Tensor) -> Tensor:
    """Points with fewer entries, each minimal over those that it has, and of values <= target.

    ``start`` (N, o) minimises every row over its prefix, the ball ignored; ``target`` (N,). Rows
    that miss their target come back as they are, and nothing keeps a point in the ball: values
    and norms are for the caller to check.

    References
    ----------
    Couvreur, Bresler: On the optimality of the backward greedy algorithm for the subset selection
    problem. SIAM J. Matrix Anal. Appl. 2000 (one entry at a time).
    """
    found = start.clone()
    precise = start.dtype
    hopeful = target > -torch.inf
    if problem.width > WIDE and bool((target > ROUGH * problem.constant)[hopeful].all()):
        # an error of a minimiser changes its value by the square of it only
        precise = torch.float32
        target = target - 8 * torch.finfo(precise).eps * problem.constant
    else:
        target = target - problem.rounding(start)
    value = problem.value(start)
    rows = ((value <= target) & (problem.prefix > 0)).nonzero()[:, 0]
    if not len(rows):
        return found
    factor = cholesky(problem.gram)
    eye = torch.eye(problem.width, dtype=factor.dtype, device=factor.device)
    half = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    # diagonals of the inverses of all leading blocks: row p - 1 is that of the block of size p
    diagonal = half.square().cumsum(1)[problem.owner[rows], problem.prefix[rows] - 1]
    cost = (start[rows].square() / diagonal).masked_fill_(~problem.mask[rows], -1.0)
    cost, order = cost.sort(1, descending=True)
    # what leaving out all behind an entry would cost if entries had no part in each other
    behind = cost.clamp_(min=0.0).sum(1, keepdim=True) - cost.cumsum(1)
    problem, half = problem.to(precise), half.to(precise)
    start, value, target = start.to(precise), value.to(precise), target.to(precise)
    for share in next(shares for most, shares in LADDERS.items() if problem.width <= most):
        size = -(-problem.width // share)
        likely = APART * behind[:, size - 1] <= target[rows] - value[rows]
        left = [(~likely).nonzero()[:, 0]]
        for part in likely.nonzero()[:, 0].split(max(1, NUMBERS // size**2)):
            at, support = rows[part], order[part, :size]
            reached, base = _over(problem, at, support, target[at])
            left.append(part[~reached])
            at = at[reached]
            if len(at):
                support = support[reached, : base.point.shape[1]]
                short = _eliminate(base, target[at]).to(found)
                found[at] = torch.zeros_like(found[at]).scatter_(1, support, short)
        kept = torch.cat(left)
        rows, order, behind = rows[kept], order[kept], behind[kept]
    _from_whole(problem, half, rows, start, value, target, found)
    return found


@dataclass(frozen=True)
class _Base:
    """Minimisers over supports, their values, and the inverse Gram matrices there.

    ``inverse`` has a matrix a row, or one for all rows.
    """

    point: Tensor  # (n, M)
    value: Tensor  # (n,)
    inverse: Tensor  # (n, M, M) or (1, M, M)

    def entries(self, i: Tensor, j: Tensor) -> Tensor:
        """Blocks (n, p, q) of the inverses at ``i`` (n, p) and ``j`` (n, q)."""
        size = self.point.shape[1]
        first = size * i
        if len(self.inverse) > 1:
            first = first + size * size * torch.arange(len(i), device=i.device)[:, None]
        return self.inverse.reshape(-1)[first[:, :, None] + j[:, None, :]]

    def times(self, rows: Tensor) -> Tensor:
        """Products (n, M) of rows with the inverses."""
        if len(self.inverse) == 1:
            return rows @ self.inverse[0]
        return (rows[:, None] @ self.inverse)[:, 0]

    def cheapest(self, point: Tensor, absent: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Entries (n, count) that cost least to leave out, cheapest first, and their costs.

        Those that are absent come last, at an infinite cost.
        """
        cost = point.square() / self.inverse.diagonal(dim1=1, dim2=2)
        found = cost.masked_fill_(absent, torch.inf).topk(count, largest=False)
        return found.indices, found.values


def _over(
    problem: LeastSquaresBatch, rows: Tensor, support: Tensor, target: Tensor
) -> tuple[Tensor, _Base]:
    """Which rows reach their target over their ``support`` (n, M), and the minimisers of those.

    These are over as many of the first entries as it takes, and 0 behind them.
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
    lower, w, values = lower[reached], w[reached], values[reached]
    # the first entry that suffices, and all before it
    enough = (values <= target[reached, None]).cumsum(1) <= 1
    size = int(enough.sum(1).amax()) if len(w) else 0
    lower, w, enough = lower[:, :size, :size], w[:, :size], enough[:, :size]
    eye = torch.eye(size, dtype=gram.dtype, device=gram.device)
    lower = torch.where(enough[:, :, None], lower, eye)
    w = w * enough
    half = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    point = -(w[:, None] @ half)[:, 0]
    value = problem.constant[rows[reached]] - w.square().sum(1)
    return reached, _Base(point, value, half.mT @ half)


def _from_whole(
    problem: LeastSquaresBatch,
    half: Tensor,
    rows: Tensor,
    start: Tensor,
    value: Tensor,
    target: Tensor,
    found: Tensor,
) -> None:
    """Eliminate from whole prefixes: rows of one prefix share an inverse. Writes to ``found``."""
    for k in torch.unique(problem.owner[rows]).tolist():
        mine = rows[problem.owner[rows] == k]
        inverse, done = torch.zeros_like(half[k]), 0
        for p in torch.unique(problem.prefix[mine]).tolist():
            inverse += half[k, done:p].mT @ half[k, done:p]
            done = p
            same = mine[problem.prefix[mine] == p]
            shared = inverse[None, :p, :p].contiguous()
            for at in same.split(max(1, 4 * NUMBERS // p**2)):
                base = _Base(start[at, :p], value[at], shared)
                found[at, :p] = _eliminate(base, target[at], share=4).to(found)


def _eliminate(base: _Base, target: Tensor, share: int = 2) -> Tensor:
    """Points (n, M) without what can be left out."""
    y, gone = _multipliers(base, target, base.point == 0, share)
    return torch.where(gone | (base.point == 0), 0.0, base.point - base.times(y))


def _multipliers(
    base: _Base, target: Tensor, absent: Tensor, share: int = 2
) -> tuple[Tensor, Tensor]:
    """The ``y`` of the entries that are left out, as (n, M) with zeros, and which those are.

    A list of 1 in ``share`` entries first. As many that come next are a problem of their own, in
    the same form but smaller, given that the list is gone.
    """
    size = base.point.shape[1]
    length = size if size <= SHORT else size // share
    listed, price = base.cheapest(base.point, absent, length)
    lower, failed = torch.linalg.cholesky_ex(base.entries(listed, listed))
    right = base.point.gather(1, listed)
    t = torch.linalg.solve_triangular(lower, right[:, :, None], upper=False)[:, :, 0]
    values = base.value[:, None] + t.square().cumsum(1)
    # as many of the list as the target allows; nothing where the factor failed
    goes = ((values <= target[:, None]) & price.isfinite() & (failed == 0)[:, None]).cumprod(1)
    # what stays has no part in the solution, which begins behind it
    t = t * goes
    y = _back(lower, t)
    gone = torch.zeros_like(absent).scatter_(1, listed, goes.bool())
    value = base.value + t.square().sum(1)
    spread = torch.zeros_like(base.point).scatter_(1, listed, y)
    if size <= SHORT:
        return spread, gone
    point = base.point - base.times(spread)
    near, _ = base.cheapest(point, absent | gone, length)
    cross = torch.linalg.solve_triangular(lower, base.entries(listed, near), upper=False)
    cross = cross * goes[:, :, None]
    inner = _Base(point.gather(1, near), value, base.entries(near, near) - cross.mT @ cross)
    fixed = (absent | gone).gather(1, near)
    more, left = _multipliers(inner, target, fixed)
    y = _back(lower, t - (cross @ more[:, :, None])[:, :, 0])
    spread.scatter_(1, listed, y).scatter_add_(1, near, more)
    return spread, gone.scatter_(1, near, left | (gone.gather(1, near)))


def _back(lower: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(lower.mT, right[:, :, None], upper=True)[:, :, 0]
