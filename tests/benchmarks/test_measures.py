"""What benchmarks measure with: shares of time, manifolds, faithfulness, rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from benchmarks.faithful import faithfulness
from benchmarks.layer import time_share
from benchmarks.manifolds import sphere_points, swiss_roll, torus_points
from benchmarks.theory import amplification, cancellation
from vinets.theory.bounds import subsets


def test_the_share_is_the_median_over_the_passes_behind_the_warm_up(monkeypatch):
    now = [0.0]

    class Work(nn.Module):
        def __init__(self, seconds, slower=0.0):
            super().__init__()
            self.seconds, self.slower = seconds, slower

        def forward(self, x):
            now[0] += self.seconds
            self.seconds += self.slower
            return x

    monkeypatch.setattr("benchmarks.layer.time.perf_counter", lambda: now[0])
    x = torch.zeros(1, 1)
    network = nn.Sequential(Work(1.0), Work(3.0), nn.Sequential(Work(4.0)))
    network.append(network[0])  # called twice
    for part, reference, share in [
        (network[0], network[1], 2 / 3),
        (network[1], network, 3 / 9),
        (network[2], network[2][0], 1),
    ]:
        assert time_share(network, x, part, reference) == pytest.approx(share)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    network = nn.Sequential(Work(1.0, slower=1.0), Work(1.0))
    assert time_share(network, x, network[0], network[1], repeats=3, warmup=2) == 4  # 3, 4, 5


MANIFOLDS = [sphere_points, torus_points, swiss_roll]


def test_points_satisfy_the_equations():
    sphere, torus, roll = (manifold(200, 3) for manifold in MANIFOLDS)
    assert np.allclose((sphere**2).sum(axis=1), 1)
    assert np.allclose(torus[:, :3] ** 2 + torus[:, 3:] ** 2, 1)
    radius, angle = np.hypot(*roll[:, :2].T), np.arctan2(*roll[:, 1::-1].T)
    assert np.allclose(np.cos(radius - angle), 1)
    assert ((roll[:, 2:] >= 0) & (roll[:, 2:] <= 21)).all()


def test_the_roll_is_even_along_its_length():
    radius = np.hypot(*swiss_roll(20_000)[:, :2].T)
    knots = np.linspace(1.5 * np.pi, 4.5 * np.pi, 20_001)
    steps = np.hypot(np.diff(knots * np.cos(knots)), np.diff(knots * np.sin(knots)))
    share = np.interp(radius, knots, np.append(0, steps.cumsum()) / steps.sum())
    assert stats.kstest(share, "uniform").pvalue > 0.01


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_embeddings_keep_distances_and_seeds_decide(manifold):
    low, high = manifold(50, 3, seed=4), manifold(50, 3, ambient=20, seed=4)
    assert high.shape == (50, 20)
    assert np.allclose(low @ low.T, high @ high.T)
    assert np.array_equal(low, manifold(50, 3, seed=4))
    assert not np.array_equal(low, manifold(50, 3, seed=5))


WEIGHTS = torch.linspace(-1, 2, 16).view(1, 4, 4)


def network(images):
    """The logit of class 1 is a weighted sum of pixels."""
    score = (images[:, 0] * WEIGHTS).sum((1, 2))
    return torch.stack([torch.zeros_like(score), score], 1)


IMAGES = 1 + torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
ANSWERS = torch.ones(5, dtype=torch.int64)
BLANK = torch.zeros_like(IMAGES)


def test_true_contributions_are_more_faithful_than_any_other_order():
    true = IMAGES[:, 0] * WEIGHTS
    best = faithfulness(network, IMAGES, true, ANSWERS, BLANK)
    worst = faithfulness(network, IMAGES, -true, ANSWERS, BLANK)
    for seed in range(5):
        drawn = torch.rand(5, 4, 4, generator=torch.Generator().manual_seed(seed))
        other = faithfulness(network, IMAGES, drawn, ANSWERS, BLANK)
        assert (best[0] <= other[0]).all() and (other[0] <= worst[0]).all()
        assert (best[1] >= other[1]).all() and (other[1] >= worst[1]).all()


def test_curves_begin_and_end_at_the_image_and_at_nothing():
    deleted, inserted = faithfulness(network, IMAGES, IMAGES[:, 0], ANSWERS, BLANK, steps=1)
    whole, none = (network(one).softmax(1)[:, 1].double() for one in (IMAGES, BLANK))
    torch.testing.assert_close(deleted, (whole + none) / 2)
    torch.testing.assert_close(inserted, deleted)


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
