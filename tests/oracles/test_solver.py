"""The contract of oracles, kept by the built-in ones; oracles by name; what solvers hand back."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from vinets import OAVI
from vinets.oracles import (
    ORACLES,
    AcceleratedGradient,
    BlendedPairwise,
    FrankWolfe,
    LeastSquaresBatch,
    PairwiseFrankWolfe,
    RowState,
    Solution,
    Solver,
    Status,
    solve,
    solve_exact,
)
from vinets.oracles.problem import project_to_ball
from vinets.testing.oracles import OracleContract, SolverContract


@dataclass(frozen=True)
class Points(RowState):
    """Where the rows are."""

    at: Tensor


@pytest.fixture
def plain_gradient(monkeypatch):
    """An oracle of another distribution: projected gradient steps, and no more than that."""
    monkeypatch.setattr(ORACLES, "_entries", dict(ORACLES))

    class PlainGradient(Solver[Points]):
        name = "pgd"

        def init(self, problem: LeastSquaresBatch, start: Tensor) -> Points:
            return Points(start)

        def step(self, problem: LeastSquaresBatch, state: Points) -> Points:
            length = torch.linalg.matrix_norm(problem.gram, 2).reciprocal()[problem.owner, None]
            moved = state.at - length * problem.gradient(state.at) / 2  # of a square
            return Points(project_to_ball(moved, problem.radius, problem.indicator))

        def coefficients(self, problem: LeastSquaresBatch, state: Points) -> Tensor:
            return state.at

    return PlainGradient


def test_every_oracle_says_whether_it_is_sparse():
    told = {name: oracle.sparse for name, oracle in ORACLES.items()}
    assert told == {"cg": True, "pcg": True, "bpcg": True, "agd": False}


def test_an_oracle_from_outside_is_found_by_its_name(plain_gradient, make_instance):
    instance = make_instance(30, radius=0.6)
    solution = solve(instance.problem, ORACLES["pgd"](), max_steps=5000)
    torch.testing.assert_close(solution.value, instance.optimum, rtol=0, atol=1e-6)
    points = np.random.default_rng(0).normal(size=(30, 2)) / 4
    found = OAVI(0.01, oracle="pgd", max_degree=3).fit(points)
    exact = OAVI(0.01, oracle="exact", max_degree=3).fit(points)
    assert found.report_.oracle["rows"] == len(found.generators_) > 0
    np.testing.assert_array_equal(found.leading_terms_, exact.leading_terms_)
    with pytest.raises(ValueError, match=r"'oracle' parameter of OAVI must be one of .*'pgd'"):
        OAVI(oracle="newton").fit(points)


def test_a_name_that_is_taken_is_refused(plain_gradient):
    with pytest.raises(ValueError, match="oracle 'cg' already"):
        type("Other", (plain_gradient,), {"name": "cg"})


def test_a_solver_without_its_points_is_none():
    assert "coefficients" in Solver.__abstractmethods__


def test_summary_counts_rows_steps_and_the_worst_gap():
    solution = Solution(
        coefficients=torch.zeros(4, 2),
        value=torch.zeros(4),
        gap=torch.tensor([0.0, 0.5, 0.25, 0.0]),
        steps=torch.tensor([0, 16, 8, 8]),
        status=torch.tensor([Status.CONVERGED, Status.STEP_LIMIT, Status.TARGET, Status.TARGET]),
    )
    summary = solution.summary()
    assert summary.per_status == {Status.CONVERGED: 1, Status.TARGET: 2, Status.STEP_LIMIT: 1}
    assert (summary.rows, summary.total_steps, summary.max_steps) == (4, 32, 16)
    assert summary.worst_gap == 0.5


def test_a_summary_of_nothing_and_that_nothing_can_be_changed(make_instance):
    none, whole = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    solution = Solution(torch.zeros(0, 2), none, none, whole, whole)
    summary = solution.summary()
    assert (summary.rows, summary.per_status, summary.worst_gap) == (0, {}, 0.0)
    problem = make_instance(8).problem
    for result, name in ((solution, "value"), (summary, "rows"), (problem, "radius")):
        with pytest.raises(FrozenInstanceError):
            setattr(result, name, 1)


class TestFrankWolfe(SolverContract):
    converges = False
    sparse = True

    def make(self):
        return FrankWolfe()


class TestPairwise(SolverContract):
    sparse = True

    def make(self):
        return PairwiseFrankWolfe()


class TestBlendedPairwise(SolverContract):
    sparse = True

    def make(self):
        return BlendedPairwise()


class TestPlainPairwise(SolverContract):
    converges = False

    def make(self):
        return PairwiseFrankWolfe(corrections=0)


class TestPlainBlendedPairwise(SolverContract):
    converges = False

    def make(self):
        return BlendedPairwise(corrections=0)


class TestAcceleratedGradient(SolverContract):
    def make(self):
        return AcceleratedGradient()


class TestExact(OracleContract):
    stops_at_target = False  # a row that the closed form settles has no need of it

    def run(self, problem, **options):
        return solve_exact(problem, **options)
