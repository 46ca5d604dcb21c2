r"""The l1 ball of OAVI: which candidates it keeps from vanishing, and sparse coefficients in it.

Least squares decides all but a few candidates: a residual above :math:`\psi` does not vanish for
certain, a residual of at most :math:`\psi` with coefficients inside the ball vanishes for certain.
For the rest the constrained problem is solved exactly on the points, unless a bound on its value
settles the question before.

Oracles work through Gram matrices. On the orthogonal path, where these are too coarse for the
tolerance, what comes of them is evaluated on the points before it counts as vanishing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from vinets.algebra.growing import Candidates, GrowingFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.ideals.fit import Rule
from vinets.oracles import (
    ORACLES,
    LeastSquaresBatch,
    Solution,
    Status,
    least_squares,
    minimise_in_ball,
    solve,
    solve_sparse,
)
from vinets.oracles.loop import finish

SPARSE_STEPS = 2000  # steps of an oracle where a few entries did not suffice
MAX_STEPS = 10_000  # steps of an oracle by itself; beyond either, the minimiser stands in


@dataclass
class OracleLog:
    """Running statistics of the oracle over the blocks of a fit."""

    rows: int = 0
    kept: int = 0
    steps: int = 0
    max_steps: int = 0
    worst_gap: float = 0.0
    status: Counter[str] = field(default_factory=Counter)

    def add(self, solution: Solution, kept: int) -> None:
        """Count one batch of solutions, ``kept`` of which were used."""
        summary = solution.summary()
        self.rows += summary.rows
        self.kept += kept
        self.steps += summary.total_steps
        self.max_steps = max(self.max_steps, summary.max_steps)
        self.worst_gap = max(self.worst_gap, summary.worst_gap)
        self.status.update({s.name.lower(): n for s, n in summary.per_status.items()})


@dataclass(frozen=True, eq=False)
class BlockSolutions:
    """A block that was decided by least squares, and the solutions over what each candidate met.

    ``tail``, ``value`` and ``steps`` are the tables that the generators are read from: what the
    functions below find is written into them in place.
    """

    factor: GrowingFactor
    block: Candidates
    prefix: Tensor  # (K, b)
    tail: Tensor  # (K, b, o)
    value: Tensor  # (K, b)
    steps: Tensor  # (K, b) steps that the oracle took

    def problem(self, at: tuple[Tensor, ...], radius: float) -> LeastSquaresBatch:
        """Make the constrained problems of the candidates ``at`` (sets, positions).

        Their Gram matrices are computed anew: the factor has left out terms that depend on others.
        """
        sets, positions = at
        rows = self.factor.rows[:, : self.tail.shape[-1]]
        gram = self.factor.inner(rows, rows)
        linear = gram.new_zeros(len(sets), rows.shape[1])
        # set by set: the values of one alone may fill the memory
        for k in torch.unique(sets).tolist():
            here = sets == k
            linear[here] = self.factor.inner(self.block.values[k, positions[here]], rows[k])
        return LeastSquaresBatch(gram, linear, self.block.square[at], self.prefix[at], sets, radius)

    def vanishing(
        self, at: tuple[Tensor, ...], solution: Solution, psi: float
    ) -> tuple[Tensor, Tensor]:
        """Return mean squares of solutions for the candidates ``at``, and which are small enough.

        NaN does not vanish.
        """
        if not isinstance(self.factor, OrthogonalFactor):
            return solution.value.clamp(min=0), solution.value <= psi
        sets, positions = at
        value, limit = torch.empty_like(solution.value), torch.empty_like(solution.value)
        for k in torch.unique(sets).tolist():
            here = sets == k
            c = solution.coefficients[here]
            rows = self.factor.rows[k, : c.shape[1]].to(c)
            values = self.block.values[k, positions[here]].to(c)
            value[here] = (values + c @ rows).square().sum(-1)
            limit[here] = self.factor.noise(
                self.block.square[k, positions[here]], c, self.factor.norms[k, : c.shape[1]]
            )
        return value, value <= limit.clamp(min=psi)


def outside_ball(solutions: BlockSolutions, doubtful: Tensor, rule: Rule) -> tuple[int, int] | None:
    """Settle the candidates whose least-squares coefficients leave the ball, one after the other.

    Returns the set and position of the first candidate that does not vanish inside the ball, or
    None.
    """
    count = solutions.tail.shape[-1]
    rotated = {
        k: solutions.factor.rotation(k, count) for k in doubtful.any(1).nonzero()[:, 0].tolist()
    }
    for position in doubtful.any(0).nonzero()[:, 0].tolist():
        for k in doubtful[:, position].nonzero()[:, 0].tolist():
            columns, turn = rotated[k]
            met = int(solutions.prefix[k, position])
            u = turn(solutions.block.values[k, position]).cpu().numpy()
            # what a candidate has besides the terms is a direction of its own
            terms = pad(columns[:, :met], (0, 0, 0, 1)).cpu().numpy()
            c, value, vanishes = minimise_in_ball(terms, u, rule.radius, rule.psi)
            solutions.tail[k, position] = 0.0
            solutions.tail[k, position, :met] = torch.from_numpy(c).to(solutions.tail)
            solutions.value[k, position] = value
            if not vanishes:
                return k, position
    return None


def run_oracle(problem: LeastSquaresBatch, minimisers: Tensor | None, rule: Rule) -> Solution:
    """Solve problems whose minimisers vanish, as ``start`` and ``stop`` of the rule ask for.

    ``minimisers`` (N, o) are those over the ball; if None, least squares without the ball, computed
    where they are needed.
    """
    solver = ORACLES[rule.oracle]()
    to_target = rule.stop == "vanishing"
    if rule.start == "least-squares" and to_target and solver.sparse:
        return solve_sparse(problem, solver, minimisers, rule.psi, max_steps=SPARSE_STEPS)
    if rule.start != "least-squares":
        solver = solver.as_published()
        start = torch.zeros_like(problem.linear)
        if rule.start == "vertex":
            start[:, 0] = problem.radius
    else:
        start = least_squares(problem) if minimisers is None else minimisers
        if to_target:  # most minimisers vanish, and no solver needs to be set up for them
            steps = torch.zeros_like(problem.owner)
            status = torch.full_like(steps, Status.TARGET)
            goal = torch.full_like(problem.constant, rule.psi)
            solution = finish(problem, start, steps, status, target=goal, tolerance=0.0)
            if bool((solution.status == Status.TARGET).all()):
                return solution
    return solve(
        problem,
        solver,
        start=start,
        target=rule.psi if to_target else None,
        tolerance=0.0 if to_target else rule.tol * rule.psi,
        max_steps=MAX_STEPS,
        check_every=1 if to_target else 8,
    )


def oracle_solutions(
    solutions: BlockSolutions, vanished: Tensor, rule: Rule, log: OracleLog
) -> None:
    """Solve for every generator by the oracle; where its point does not vanish, nothing changes."""
    at = vanished.nonzero(as_tuple=True)
    if len(at[0]) == 0:
        return
    problem = solutions.problem(at, rule.radius)
    solution = run_oracle(problem, solutions.tail[at], rule)
    value, keep = solutions.vanishing(at, solution, rule.psi)
    solutions.steps[at] = solution.steps
    sets, positions = at[0][keep], at[1][keep]
    solutions.tail[sets, positions] = solution.coefficients[keep]
    solutions.value[sets, positions] = value[keep]
    log.add(solution, int(keep.sum()))
