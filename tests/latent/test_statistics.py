from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets.latent.rescale import moments
from vinets.latent.store import LatentStore


@pytest.mark.parametrize("size", [1, 7, 100])
def test_features_agree_with_numpy_however_they_are_cut(random, size):
    values = random.normal(3.0, 2.0, (100, 5))
    mean, std = moments(torch.tensor(values).split(size))
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-13)
    np.testing.assert_allclose(std, values.std(0), rtol=1e-13)


@pytest.mark.parametrize("shape", [(4,), (4, 6), (4, 2, 3)])
def test_channels_pool_over_the_other_axes(random, shape):
    values = random.normal(size=(20, *shape)) * 3 + 1
    rows = np.moveaxis(values.reshape(20, 4, -1), 1, 2).reshape(-1, 4)
    mean, std = moments(torch.tensor(values).split(6), "channel")
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std, rows.std(0), rtol=1e-12)
    kept, _ = moments([torch.tensor(values)], "channel", keepdim=True)
    assert kept.shape == (4, *[1] * (len(shape) - 1))


def test_a_large_mean_does_not_swallow_the_deviation(random):
    values = random.normal(size=(1000, 3)) + 1e9
    _, std = moments(torch.tensor(values).split(10))
    np.testing.assert_allclose(std, values.std(0), rtol=1e-7)
    naive = np.sqrt(np.abs((values**2).mean(0) - values.mean(0) ** 2))
    assert np.abs(naive / values.std(0) - 1).max() > 0.1  # the formula that would not do


def test_constant_features_get_the_deviation_one():
    values = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
    values[:, 1], values[:, 2], values[:, 3] = 0.1, 0.0, values[:, 3] * 1e-6
    _, std = moments(values.split(3))
    assert std[1] == 1 and std[2] == 1
    np.testing.assert_allclose(std[[0, 3]], values[:, [0, 3]].double().std(0, correction=0))


def test_a_store_is_read_in_chunks():
    values = torch.randn(30, 3, 4, generator=torch.Generator().manual_seed(0))
    store = LatentStore.from_tensor(values, torch.zeros(30, dtype=torch.int64))
    for got, expected in zip(moments(store), moments([values]), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([], "at least one"),
        ([torch.zeros(0, 3)], "at least one"),
        ([torch.tensor([[1.0, float("nan")]])], "NaN or infinite"),
        ([torch.tensor([[float("inf")]]), torch.zeros(1, 1)], "NaN or infinite"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], r"one shape, \(b, 3\)\. Got \(2, 4\)"),
        ([torch.zeros(3)], r"Got \(3,\)"),
    ],
)
def test_latents_without_moments_are_refused(chunks, message):
    with pytest.raises(ValueError, match=message):
        moments(chunks)


def test_an_unknown_axis_is_refused():
    with pytest.raises(ValueError, match=r"'per'.*'feature', 'channel'.*Got 'pixel'"):
        moments([torch.zeros(2, 2)], "pixel")
