from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benchmarks.theory import amplification, cancellation
from vinets.theory.bounds import subsets


def test_cancellation_grows_with_the_degree_and_with_the_rounding():
    medians = [float(np.median(cancellation(d, torch.float64, 32))) for d in (1, 2, 4, 8, 12)]
    assert medians == sorted(medians) and medians[0] == 0
    assert max(cancellation(4, torch.float64, 32)) < 1e-9 and medians[-1] > 100 * medians[2]
    assert np.median(cancellation(4, torch.float32, 32)) > 1e4 * medians[2]


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_the_amplification_is_that_of_ones(degree):
    sums = subsets(degree).sum(1)
    expected = float((sums**degree).sum()) / math.factorial(degree)
    assert amplification(degree) == pytest.approx(expected)
