r"""The l1 ball of OAVI: which candidates it keeps from vanishing, and sparse coefficients in it.

Least squares decides all but a few candidates: a residual above :math:`\psi` does not vanish for
certain, a residual of at most :math:`\psi` with coefficients inside the ball vanishes for certain.
For the rest the constrained problem is solved until its value, or its value minus the dual gap,
settles the question.

Those problems are solved through Gram matrices. On the orthogonal path, where these are too coarse
for the tolerance, what comes of them is evaluated on the points before it counts as vanishing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from vinets.algebra.gram import inner
from vinets.algebra.growing import Candidates, GrowingFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.ideals.rule import Rule
from vinets.oracles import ORACLES, LeastSquaresBatch, Solution, Status, solve, solve_exact

SPARSE_STEPS = 2000  # beyond this the closed form stands in
FINEST = 1e-15  # gap of a problem in Gram form, for terms in [-1, 1]


@dataclass
class OracleLog:
    """Running statistics of the oracle over the blocks of a fit."""

    rows: int = 0
    kept: int = 0
    steps: int = 0
    max_steps: int = 0
    worst_gap: float = 0.0
    status: dict[str, int] = field(default_factory=dict)

    def add(self, solution: Solution, kept: int) -> None:
        """Count one batch of solutions, ``kept`` of which were used."""
        summary = solution.summary()
        self.rows += summary.rows
        self.kept += kept
        self.steps += summary.total_steps
        self.max_steps = max(self.max_steps, summary.max_steps)
        self.worst_gap = max(self.worst_gap, summary.worst_gap)
        for status, count in summary.per_status.items():
            name = Status(status).name.lower()
            self.status[name] = self.status.get(name, 0) + count


@dataclass(frozen=True, eq=False)
class Decided:
    """A block that was decided by least squares, and the solutions over what each candidate met.

    ``tail`` and ``value`` are the tables that the generators are read from: what the functions
    below find is written into them in place.
    """

    factor: GrowingFactor
    block: Candidates
    prefix: Tensor  # (K, b)
    tail: Tensor  # (K, b, o)
    value: Tensor  # (K, b)

    def problem(self, at: tuple[Tensor, ...], radius: float) -> LeastSquaresBatch:
        """The constrained problems of the candidates ``at`` (sets, positions).

        Their Gram matrices are computed anew: the factor has left out terms that depend on others.
        """
        sets, positions = at
        rows = self.factor.rows[:, : self.tail.shape[-1]]
        gram = inner(rows, rows).to(self.factor.work_dtype)
        linear = gram.new_zeros(len(sets), rows.shape[1])
        # set by set: the values of one alone may fill the memory
        for k in torch.unique(sets).tolist():
            here = sets == k
            linear[here] = inner(self.block.values[k, positions[here]], rows[k]).to(linear)
        return LeastSquaresBatch(gram, linear, self.block.square[at], self.prefix[at], sets, radius)

    def vanishing(
        self, at: tuple[Tensor, ...], solution: Solution, psi: float
    ) -> tuple[Tensor, Tensor]:
        """Mean squares of solutions for the candidates ``at``, and which of them are small enough.

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


def outside_ball(decided: Decided, doubtful: Tensor, rule: Rule) -> tuple[int, int] | None:
    """Settle the candidates whose least-squares coefficients leave the ball.

    Returns the set and position of the first candidate that does not vanish inside the ball, or
    None.
    """
    sets, positions = at = doubtful.nonzero(as_tuple=True)
    problem = decided.problem(at, rule.radius)
    # a gap that is no longer small against the tolerance would decide nothing
    finest = min(1e-7, max(0.01 * rule.psi, FINEST))
    solution = solve_exact(problem, target=rule.psi, stop_when_hopeless=True, tolerance=finest)
    decided.tail[at] = solution.coefficients
    decided.value[at], vanishes = decided.vanishing(at, solution, rule.psi)
    refused = (~vanishes).nonzero()[:, 0]
    if len(refused) == 0:
        return None
    first = refused[positions[refused].argmin()]
    return int(sets[first]), int(positions[first])


def sparse_solutions(decided: Decided, vanished: Tensor, rule: Rule, log: OracleLog) -> None:
    """Re-solve every generator with the oracle; keep what still vanishes.

    Sparse oracles start from zero and stop as soon as they vanish (weak boosting: the closed form
    has decided, and stands in where the oracle falls short). Others start from the closed form
    (full boosting).
    """
    at = vanished.nonzero(as_tuple=True)
    if len(at[0]) == 0:
        return
    problem = decided.problem(at, rule.radius)
    solver = ORACLES[rule.oracle]()
    # From 0 with a target few entries become non-zero before the polynomial vanishes. A solver
    # that is not sparse gains nothing by stopping early.
    if solver.sparse:
        solution = solve(problem, solver, target=rule.psi, max_steps=SPARSE_STEPS)
    else:
        solution = solve(problem, solver, start=decided.tail[at])
    value, keep = decided.vanishing(at, solution, rule.psi)
    sets, positions = at[0][keep], at[1][keep]
    decided.tail[sets, positions] = solution.coefficients[keep]
    decided.value[sets, positions] = value[keep]
    log.add(solution, int(keep.sum()))
