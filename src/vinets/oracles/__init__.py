"""Batched solvers of least squares over the l1 ball: one loop, a status per row.

Which oracle? ``solve_exact`` for the optimum; ``solve_sparse`` with a target for coefficients with
many exact zeros, and "bpcg" for what it leaves; "agd" to improve a warm start; "cg" as a baseline.
"""

from __future__ import annotations

from .accelerated import AcceleratedGradient
from .closed_form import least_squares, solve_exact
from .frank_wolfe import BlendedPairwise, FrankWolfe, PairwiseFrankWolfe
from .homotopy import minimise_in_ball
from .loop import solve
from .problem import LeastSquaresBatch
from .solver import ORACLES, RowState, Solution, Solver, Status, Summary
from .sparse import shorten, solve_sparse

__all__ = [
    "ORACLES",
    "AcceleratedGradient",
    "BlendedPairwise",
    "FrankWolfe",
    "LeastSquaresBatch",
    "PairwiseFrankWolfe",
    "RowState",
    "Solution",
    "Solver",
    "Status",
    "Summary",
    "least_squares",
    "minimise_in_ball",
    "shorten",
    "solve",
    "solve_exact",
    "solve_sparse",
]
