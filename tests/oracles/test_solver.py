"""Oracles by name, and one that is added from outside the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from vinets import OAVI
from vinets.oracles import ORACLES, LeastSquaresBatch, RowState, Solver, l1_ball, solve


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
            return Points(l1_ball.project(moved, problem.radius, problem.indicator))

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
