"""The one loop that drives every solver, tests for termination and drops finished rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from vinets.core.checks import parameter_error

from .problem import LeastSquaresBatch, project_to_ball, scale_into_ball
from .solver import RowState, Solution, Solver, State, Status

MAX_BLOCK_NUMBERS = 1 << 17  # numbers in the points of a block, which a processor's cache holds
STALL_STEPS = 384  # steps in a row without progress, after which a row counts as stalled
REFRESH_STEPS = 8  # steps after which what a solver only updates is computed afresh
_RUNNING = -1


@dataclass(frozen=True)
class _Progress(RowState):
    """Per working row: its place in the batch, the best value and gap, steps since the last."""

    row: Tensor
    value: Tensor
    gap: Tensor
    idle: Tensor


def solve(
    problem: LeastSquaresBatch,
    solver: Solver[State],
    *,
    start: Tensor | None = None,
    target: float | Tensor | None = None,
    stop_when_hopeless: bool = False,
    tolerance: float = 1e-7,
    max_steps: int = 10_000,
    check_every: int = 8,
) -> Solution:
    """Run ``solver`` on every row until it ends; rows that ended leave the working batch.

    Parameters
    ----------
    problem, solver
        The problems, and for instance ``ORACLES["bpcg"]()``.
    start
        Points to start from, shape (N, o), projected to the ball first; zero if None.
    target
        Stop a row as soon as its value is at most this; a number, or one per row.
    stop_when_hopeless
        Stop a row as soon as value - gap proves that its target is out of reach.
    tolerance
        Stop a row as soon as its dual gap is at most this.
    max_steps
        Steps after which a row ends unconverged: a status, not an exception.
    check_every
        Steps between two termination tests; the device is waited for at those only.

    Values and gaps of the solution are computed afresh from its coefficients.
    """
    for name, number, least in (("max_steps", max_steps, 0), ("check_every", check_every, 1)):
        if number < least:
            raise parameter_error("solve", name, f">= {least}", number)
    goal = target_per_row(problem, target)
    height = max(1, MAX_BLOCK_NUMBERS // problem.width)
    if len(problem) > height and problem.linear.device.type == "cpu":
        # Rows do not depend on each other, and every step reads all points of its batch.
        parts = [
            solve(
                problem.select(rows),
                solver,
                start=None if start is None else start[rows],
                target=None if goal is None else goal[rows],
                stop_when_hopeless=stop_when_hopeless,
                tolerance=tolerance,
                max_steps=max_steps,
                check_every=check_every,
            )
            for rows in torch.arange(len(problem)).split(height)
        ]
        joined = (torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Solution))
        return Solution(*joined)
    points = torch.zeros_like(problem.linear)
    if start is not None:
        if start.shape != points.shape:
            accepted = f"of shape {tuple(points.shape)}"
            raise parameter_error("solve", "start", accepted, tuple(start.shape))
        points = project_to_ball(start.to(points), problem.radius, problem.mask)
    steps = torch.zeros_like(problem.owner)
    status = torch.full_like(problem.owner, Status.STEP_LIMIT)

    working, state = problem, solver.init(problem, points)
    worst = torch.full_like(problem.constant, torch.inf)
    row = torch.arange(len(problem), device=worst.device)
    progress = _Progress(row, worst, worst, torch.zeros_like(row))
    done = 0
    while len(working):
        # steps that only update their points drift out of the ball by rounding
        c = scale_into_ball(solver.coefficients(working, state), problem.radius)
        rules = goal, stop_when_hopeless, tolerance, check_every
        verdict, progress = _judge(working, c, progress, *rules)
        if done >= max_steps:
            verdict = torch.where(verdict == _RUNNING, int(Status.STEP_LIMIT), verdict)
        ended = (verdict != _RUNNING).nonzero()[:, 0]
        if ended.numel():
            place = progress.row[ended]
            points[place], steps[place], status[place] = c[ended], done, verdict[ended]
            alive = (verdict == _RUNNING).nonzero()[:, 0]
            working, state = working.select(alive), state.select(alive)
            progress = progress.select(alive)
            if not len(working):
                break
        if done % REFRESH_STEPS < check_every:  # after every test, unless tests are close together
            state = solver.refresh(working, state)
        todo = min(check_every, max_steps - done)
        for _ in range(todo):
            state = solver.step(working, state)
        done += todo
    return finish(problem, points, steps, status, target=goal, tolerance=tolerance)


def finish(
    problem: LeastSquaresBatch,
    coefficients: Tensor,
    steps: Tensor,
    status: Tensor,
    *,
    target: Tensor | None,
    tolerance: float,
) -> Solution:
    """Certify coefficients: fresh values and gaps, and only statuses that those bear out."""
    value, gradient = problem.value_and_gradient(coefficients)
    gap = problem.dual_gap(coefficients, gradient)
    # the batch shrank since the verdict, and sums round differently
    broken = (status == Status.CONVERGED) & (gap > tolerance)
    if target is not None:
        broken |= (status == Status.TARGET) & (value > target)
        broken |= (status == Status.INFEASIBLE_TARGET) & (value - gap <= target)
    status = torch.where(broken, int(Status.STALLED), status)
    if target is not None:  # a row may end within rounding of its target
        short = (status == Status.STALLED) | (status == Status.STEP_LIMIT)
        status = torch.where(short & (value <= target), int(Status.TARGET), status)
    return Solution(coefficients, value, gap, steps, status)


def _judge(
    problem: LeastSquaresBatch,
    c: Tensor,
    progress: _Progress,
    target: Tensor | None,
    stop_when_hopeless: bool,
    tolerance: float,
    check_every: int,
) -> tuple[Tensor, _Progress]:
    """Find the status of every working row at ``c``, or _RUNNING, and its new progress."""
    value, gradient = problem.value_and_gradient(c)
    gap = problem.dual_gap(c, gradient)
    # Sums over another batch shape round differently: keep clear of the thresholds by that much.
    slack = problem.rounding(c)
    # gaps fall slowly and not monotonically: any fall of a tenth of a percent is progress
    better = (value < progress.value - slack) | (gap < 0.999 * progress.gap)
    progress = replace(
        progress,
        value=torch.minimum(value, progress.value),
        gap=torch.minimum(gap, progress.gap),
        idle=torch.where(better, 0, progress.idle + check_every),
    )
    verdict = torch.full_like(progress.row, _RUNNING)
    # what is written later counts for more
    verdict[progress.idle >= STALL_STEPS] = Status.STALLED
    verdict[gap <= tolerance * (1 - 1e-6)] = Status.CONVERGED
    if target is not None:
        goal = target[progress.row]
        if stop_when_hopeless:
            verdict[value - gap > goal + slack] = Status.INFEASIBLE_TARGET
        verdict[value <= goal - slack] = Status.TARGET
    return verdict, progress


def target_per_row(problem: LeastSquaresBatch, target: float | Tensor | None) -> Tensor | None:
    """Return the target as one number per row, shape (N,)."""
    if target is None:
        return None
    target = torch.as_tensor(target).to(problem.constant)
    if target.ndim > 0 and target.shape != problem.constant.shape:
        accepted = f"a number or of shape {tuple(problem.constant.shape)}"
        raise parameter_error("solve", "target", accepted, tuple(target.shape))
    return target.expand_as(problem.constant)
