"""Batched solvers of least squares over the l1 ball: one loop, a status per row.

>>> solution = solve(problem, ORACLES["bpcg"], target=0.01)  # doctest: +SKIP
>>> solution.summary()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from .accelerated import AcceleratedGradient
from .closed_form import least_squares, solve_exact
from .frank_wolfe import BlendedPairwise, FrankWolfe, PairwiseFrankWolfe
from .loop import solve
from .problem import LeastSquaresBatch
from .solution import Solution, Status, Summary
from .solver import Solver

ORACLES: dict[str, Solver[Any]] = {
    "cg": FrankWolfe(),
    "pcg": PairwiseFrankWolfe(),
    "bpcg": BlendedPairwise(),
    "agd": AcceleratedGradient(),
}
"""Solvers by the names the papers use; "exact" is :func:`solve_exact`."""

__all__ = [
    "ORACLES",
    "AcceleratedGradient",
    "BlendedPairwise",
    "FrankWolfe",
    "LeastSquaresBatch",
    "PairwiseFrankWolfe",
    "Solution",
    "Solver",
    "Status",
    "Summary",
    "least_squares",
    "solve",
    "solve_exact",
]
