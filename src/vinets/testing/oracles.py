"""The promises of every oracle, on every kind of problem, against an independent solver.

In a file of tests::

    class TestMine(SolverContract):
        def make(self):
            return MySolver()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import pytest
import torch
from torch import Tensor

from vinets.oracles import LeastSquaresBatch, Solution, Solver, Status, solve, solve_exact
from vinets.oracles.problem import project_to_ball


@dataclass(frozen=True)
class Instance:
    """A batch of problems with the matrices (K, m, o) and columns (N, m) it was made from."""

    problem: LeastSquaresBatch
    matrices: Tensor
    columns: Tensor

    @cached_property
    def optimum(self) -> Tensor:
        """Optimal values by cvxpy with Clarabel, shape (N,)."""
        cvxpy = pytest.importorskip("cvxpy", reason="the independent solver is not installed")
        p = self.problem
        values = []
        for n, width in enumerate(p.prefix.tolist()):
            u = self.columns[n].numpy()
            if width == 0:
                values.append(float(u @ u))
                continue
            M = self.matrices[p.owner[n], :, :width].numpy()
            c = cvxpy.Variable(width)
            aim = cvxpy.Minimize(cvxpy.sum_squares(M @ c + u))
            ball = [cvxpy.norm1(c) <= p.radius]
            values.append(cvxpy.Problem(aim, ball).solve(solver=cvxpy.CLARABEL))
        return torch.tensor(values, dtype=torch.float64)


def random_instance(
    seed: int,
    *,
    rows: int = 6,
    width: int = 8,
    points: int = 20,
    classes: int = 1,
    rank: int | None = None,
    radius: float = 2.0,
    random_prefix: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Instance:
    """Draw problems from normal distributions; equal seeds give equal problems.

    ``rows``, ``width``, ``points`` and ``classes`` are the sizes N, o, m and K, and ``rank`` that
    of the matrices, which are in float64. ``random_prefix`` draws the prefixes, of which the first
    is 0; else all are o.
    """
    g = torch.Generator().manual_seed(seed)
    M = torch.randn(classes, points, width, generator=g, dtype=torch.float64)
    if rank is not None:
        M = M[..., :rank] @ torch.randn(classes, rank, width, generator=g, dtype=torch.float64)
    M /= points**0.5
    U = torch.randn(rows, points, generator=g, dtype=torch.float64) / points**0.5
    owner = torch.randint(classes, (rows,), generator=g)
    prefix = torch.full((rows,), width)
    if random_prefix:
        prefix = torch.randint(width + 1, (rows,), generator=g)
        prefix[0] = 0
    problem = LeastSquaresBatch(
        gram=(M.mT @ M).to(dtype),
        linear=torch.einsum("nmo,nm->no", M[owner], U).to(dtype),
        constant=U.square().sum(1).to(dtype),
        prefix=prefix,
        owner=owner,
        radius=radius,
    )
    return Instance(problem, M, U)


CASES: dict[str, dict[str, Any]] = {
    "inside": {"radius": 50.0},
    "large radius": {"radius": 999.0, "width": 5},
    "tight": {"radius": 0.4},
    "singular": {"radius": 20.0, "rank": 3},
    "singular, tight": {"radius": 0.3, "rank": 3},
    "more columns than points": {"radius": 1.0, "width": 12, "points": 6},
    "prefixes": {"radius": 0.6, "random_prefix": True, "rows": 9},
    "owners": {"radius": 0.7, "classes": 4, "rows": 9},
    "one column": {"radius": 0.1, "width": 1, "classes": 3, "rows": 5},
    "all at once": {"radius": 0.5, "classes": 3, "rank": 5, "random_prefix": True, "rows": 9},
}
"""One batch of each kind: where the optimum lies, how singular it is, what rows share."""


@cache  # the optimum of an instance is computed once for all oracles
def case(name: str) -> Instance:
    """Make the batch of problems that ``name`` stands for in :data:`CASES`."""
    return random_instance(list(CASES).index(name), **CASES[name])


class OracleContract(ABC):
    """Tests of whatever solves a :class:`~vinets.oracles.LeastSquaresBatch`."""

    converges: bool = True  # on all of CASES within max_steps
    stops_at_target: bool = True  # every row ends with a verdict on its target, if it has one
    sparse: bool = False  # columns that take no part in the solution have the coefficient 0 exactly
    max_steps: int = 2000  # that a test allows

    @abstractmethod
    def run(self, problem: LeastSquaresBatch, **options: Any) -> Solution:
        """Solve; options are those of :func:`vinets.oracles.solve`."""

    def _run(self, problem: LeastSquaresBatch, **options: Any) -> Solution:
        return self.run(problem, **{"max_steps": self.max_steps} | options)

    @pytest.mark.parametrize("name", CASES)
    def test_optimal_feasible_and_certified(self, name: str) -> None:
        p, optimum = case(name).problem, case(name).optimum
        solution = self._run(p)
        converged = solution.status == Status.CONVERGED
        error = solution.value - optimum
        assert converged.all() or not self.converges
        assert (error[converged].abs() <= 1e-6).all()
        assert (solution.gap[converged] <= 1e-7).all()
        assert (solution.gap >= error - 1e-7).all()
        assert (solution.coefficients.abs().sum(1) <= p.radius * (1 + 1e-12)).all()
        assert (solution.coefficients[~p.mask] == 0).all()
        value, gradient = p.value_and_gradient(solution.coefficients)
        assert torch.equal(solution.value, value)
        assert torch.equal(solution.gap, p.dual_gap(solution.coefficients, gradient))

    @pytest.mark.parametrize("name", CASES)
    def test_target_is_reached_or_proved_out_of_reach(self, name: str) -> None:
        p, best = case(name).problem, case(name).optimum
        ahead = torch.arange(len(p)) % 2 == 0  # every second row gets a target it can reach
        target = torch.where(ahead, best + 0.3 * (p.constant - best) + 1e-5, best - 1e-3)
        solution = self._run(p, target=target, stop_when_hopeless=True)
        reached = solution.status == Status.TARGET
        refuted = solution.status == Status.INFEASIBLE_TARGET
        assert (solution.value[reached] <= target[reached]).all()
        assert (best[refuted] > target[refuted]).all()
        assert (solution.value - solution.gap)[refuted].gt(target[refuted]).all()
        assert not (reached & ~ahead).any() and not (refuted & ahead).any()
        assert (reached | refuted).all() or not (self.converges and self.stops_at_target)

    def test_one_step_is_too_few_and_no_exception(self) -> None:
        p = random_instance(11, radius=0.5).problem
        solution = self._run(p, max_steps=1, tolerance=1e-12)
        assert (solution.status == Status.STEP_LIMIT).any()
        assert (solution.steps <= 1).all()
        assert (solution.value <= p.constant + 1e-12).all()

    def test_deterministic(self) -> None:
        p = random_instance(12, classes=3, random_prefix=True, radius=0.7).problem
        first, second = (self._run(p, max_steps=200) for _ in range(2))
        assert torch.equal(first.coefficients, second.coefficients)
        assert torch.equal(first.status, second.status)

    def test_a_batch_of_classes_equals_its_problems_one_by_one(self) -> None:
        p = random_instance(13, classes=3, rows=6, random_prefix=True, radius=0.7).problem
        how: dict[str, Any] = {"tolerance": 1e-10 if self.converges else 1e-3, "max_steps": 500}
        rough = 1e-9 if self.converges else 1e-3
        together = self.run(p, **how)
        for n in range(len(p)):
            single = self.run(p.select(torch.tensor([n])), **how)
            torch.testing.assert_close(single.value[0], together.value[n], rtol=0, atol=rough)
            if self.converges:
                coefficients = single.coefficients[0], together.coefficients[n]
                torch.testing.assert_close(*coefficients, rtol=0, atol=1e-4)

    def test_single_precision_runs_to_what_it_can_resolve(self) -> None:
        made = random_instance(14, radius=0.5, dtype=torch.float32)
        solution = self._run(made.problem, tolerance=1e-4)
        assert solution.coefficients.dtype == solution.value.dtype == torch.float32
        if self.converges:
            assert (solution.status == Status.CONVERGED).all()
            torch.testing.assert_close(solution.value.double(), made.optimum, rtol=0, atol=2e-4)

    def test_nothing_to_solve_and_zeros(self) -> None:
        p = random_instance(0, rows=2, width=3).problem
        empty = self._run(p.select(torch.zeros(0, dtype=torch.int64)))
        assert empty.coefficients.shape == (0, p.width)
        zero, prefix = torch.zeros_like(p.linear), torch.tensor([3, 0])
        solution = self._run(replace(p, gram=0 * p.gram, linear=zero, prefix=prefix))
        assert (solution.status == Status.CONVERGED).all()
        assert torch.equal(solution.coefficients, zero)

    def test_sparse_oracles_return_exact_zeros(self) -> None:
        """Columns that take no part in the solution stay out of it, not nearly but exactly."""
        p = random_instance(16, rows=20, width=30, points=60, radius=5.0).problem
        generator, truth = torch.Generator().manual_seed(0), torch.zeros_like(p.linear)
        truth[:, [3, 8, 21]] = torch.randn(20, 3, generator=generator, dtype=torch.float64)
        product = p.product(truth)
        exact = replace(p, linear=-product, constant=(truth * product).sum(1) + 1e-3)
        solution = self._run(exact, target=2e-2)
        assert (solution.value <= 2e-2).all()
        if self.sparse:
            assert (solution.coefficients == 0).double().mean() > 0.6
            dense = solve_exact(exact).coefficients
            assert (solution.coefficients != 0).sum() < (dense != 0).sum()


class SolverContract(OracleContract):
    """Tests of a :class:`~vinets.oracles.Solver`: those of oracles, and those of its state."""

    @abstractmethod
    def make(self) -> Solver[Any]:
        """Make the solver to test."""

    def run(self, problem: LeastSquaresBatch, **options: Any) -> Solution:
        return solve(problem, self.make(), **options)

    @pytest.mark.parametrize("name", CASES)
    def test_a_state_holds_a_point_of_the_ball_and_refreshing_never_raises_its_value(
        self, name: str
    ) -> None:
        p, solver = case(name).problem, self.make()
        g = torch.Generator().manual_seed(0)
        start = torch.randn(p.linear.shape, generator=g).double()
        start = project_to_ball(start, p.radius, p.mask)
        state = solver.init(p, start.clone())  # a solver may work in the memory that it is given
        with pytest.raises(FrozenInstanceError):  # what a step changes is a new state
            setattr(state, fields(state)[0].name, None)
        with pytest.raises(AttributeError):  # so that one solver serves many calls
            solver.something = 1  # type: ignore[attr-defined]
        near = 1e-12 * max(1.0, p.radius)
        torch.testing.assert_close(solver.coefficients(p, state), start, rtol=0, atol=near)
        for _ in range(5):
            state = solver.step(p, state)
            c = solver.coefficients(p, state)
            assert (c.abs().sum(1) <= p.radius * (1 + 1e-9)).all()
            assert (c[~p.mask] == 0).all()
        before = c.clone()  # refresh may reuse the memory of its state
        after = solver.coefficients(p, solver.refresh(p, state))
        assert (p.value(after) <= p.value(before) + 4 * p.rounding(before)).all()

    def test_rows_of_a_state_go_their_own_way(self) -> None:
        """Rows that ended leave the batch: the others must not notice."""
        p, solver = random_instance(17, classes=3, rows=8, radius=0.7).problem, self.make()
        keep = torch.tensor([6, 1, 4])
        whole = solver.step(p, solver.init(p, torch.zeros_like(p.linear)))
        own, part = p.select(keep), whole.select(keep)  # before the next step changes the whole
        here = solver.coefficients(p, solver.step(p, whole))[keep]
        there = solver.coefficients(own, solver.step(own, part))
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-12)

    def test_a_start_at_the_optimum_stays_there(self) -> None:
        p = random_instance(18, radius=50.0).problem
        solution = self._run(p, start=solve_exact(p).coefficients)
        assert (solution.status == Status.CONVERGED).all() and (solution.steps == 0).all()
