"""The suites fail what is broken, and nothing but they asks for pytest."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from vinets import ABM
from vinets.data import TensorSource
from vinets.oracles import solve_exact
from vinets.testing.ideals import MonomialContract
from vinets.testing.oracles import OracleContract
from vinets.testing.sources import SourceContract


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_package_does_without_pytest():
    code = "import sys, vinets; vinets.ABM; assert 'pytest' not in sys.modules"
    assert python(code).returncode == 0


def test_the_suites_say_what_is_missing():
    missing = python("import sys; sys.modules['pytest'] = None; import vinets.testing.oracles")
    last = missing.stderr.strip().splitlines()[-1]
    assert "which is not installed. Install it with: pip install 'vinets[test]'" in last


class Careless(OracleContract):
    """Stops short of the optimum and claims to have converged."""

    def run(self, problem, **options):
        solution = solve_exact(problem, **options)
        c = 0.9 * solution.coefficients
        return replace(solution, coefficients=c, value=problem.value(c))


class Loose(MonomialContract):
    """Ten times the tolerance that was asked for."""

    def make(self, psi, max_degree):
        return ABM(10 * psi, max_degree=max_degree)


class Unsorted(TensorSource):
    """Reads the positions it is given in increasing order."""

    def batches(self, batch_size, *, order=None, **options):
        order = None if order is None else order.sort().values
        return super().batches(batch_size, order=order, **options)


class Sorted(SourceContract):
    def make(self):
        return Unsorted(torch.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1])

    def expected(self):
        return torch.arange(6.0)[:, None], torch.tensor([0, 1] * 3)


def test_what_is_broken_fails():
    with pytest.raises(AssertionError):
        Careless().test_optimal_feasible_and_certified("tight")
    with pytest.raises(AssertionError):
        Loose().test_generators_vanish_on_the_points_and_not_everywhere()
    Sorted().test_all_examples_come_in_their_order_as_often_as_asked(2)
    with pytest.raises(AssertionError):
        Sorted().test_any_order_is_kept_with_what_it_repeats()


@pytest.mark.parametrize("suite", [OracleContract, MonomialContract, SourceContract])
def test_a_suite_asks_for_what_it_tests(suite):
    with pytest.raises(TypeError, match="abstract"):
        suite()
