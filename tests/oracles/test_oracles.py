"""The built-in oracles keep the contract of oracles."""

from __future__ import annotations

from vinets.oracles import (
    AcceleratedGradient,
    BlendedPairwise,
    FrankWolfe,
    PairwiseFrankWolfe,
    solve_exact,
)
from vinets.testing.oracles import OracleContract, SolverContract


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
