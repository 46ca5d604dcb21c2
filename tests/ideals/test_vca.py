"""Vanishing components of many points, in memory that grows with their number alone."""

from __future__ import annotations

import numpy as np
import torch

from vinets import VCA
from vinets.ideals import vca
from vinets.measure.cost import peak_bytes


def curved(random, points: int, variables: int):
    return np.tanh(random.normal(size=(points, 3)) @ random.normal(size=(3, variables)))


def test_points_are_taken_block_by_block_with_the_same_result(monkeypatch, random):
    points = curved(random, 900, 5)
    whole = VCA(psi=1e-3, max_degree=3).fit(points)
    monkeypatch.setattr(vca, "BLOCK_BYTES", 8 * 100 * 37)
    parts = VCA(psi=1e-3, max_degree=3).fit(points)
    assert [one.degree for one in parts.report_.degrees] == [1, 2, 3]
    assert parts.report_.degrees[-1].generators == whole.report_.degrees[-1].generators > 0
    found, expected = parts.transform(points), whole.transform(points)
    # Components of equal size may be rotated, which leaves their sum of squares.
    np.testing.assert_allclose((found**2).sum(1), (expected**2).sum(1), rtol=1e-6, atol=1e-12)


def test_memory_is_a_few_values_for_every_point_and_no_matrix_of_points(random):
    points = torch.from_numpy(curved(random, 30_000, 6))
    peak = peak_bytes(lambda: VCA(psi=1e-3, max_degree=3).fit(points), [points], points.device)
    assert peak < 30_000 * 8 * 1_000 < 30_000**2
