from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from vinets.latent.collect import LatentStore
from vinets.latent.rescale import Rescale, moments

GENERATOR = torch.Generator().manual_seed(0)
VECTORS = torch.randn(50, 4, generator=GENERATOR) * torch.tensor([1.0, 5.0, 0.1, 2.0]) + 3
DESCRIPTORS = torch.randn(20, 3, 6, generator=GENERATOR) * 2 - 1


def test_features_are_standardised_as_scikit_learn_does():
    store = LatentStore.from_tensor(VECTORS, torch.zeros(50, dtype=torch.int64))
    expected = torch.tensor(StandardScaler().fit_transform(VECTORS.double().numpy()))
    plain, squashed = Rescale.fit(store, squash=False), Rescale.fit(store)
    torch.testing.assert_close(plain(VECTORS), expected.float(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(squashed(VECTORS), expected.tanh().float(), atol=1e-5, rtol=1e-5)
    assert squashed(1e6 * VECTORS).abs().max() <= 1


def test_channels_share_one_scale_over_all_positions():
    rescaled = Rescale.fit([DESCRIPTORS], "channel", squash=False)(DESCRIPTORS)
    rows = rescaled.transpose(1, 2).reshape(-1, 3)
    torch.testing.assert_close(rows.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(rows.std(0, correction=0), torch.ones(3))
    scale = (DESCRIPTORS[1] - DESCRIPTORS[0]) / (rescaled[1] - rescaled[0])
    torch.testing.assert_close(scale, scale[:, :1].expand_as(scale), rtol=1e-3, atol=1e-3)


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
    assert mean.shape == std.shape == (4, *[1] * (len(shape) - 1))
    np.testing.assert_allclose(mean.flatten(), rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std.flatten(), rows.std(0), rtol=1e-12)


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


def test_an_unknown_axis_and_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"'std'.*shape of the mean, \(3,\). Got \(2,\)"):
        Rescale(torch.zeros(3), torch.ones(2))
    with pytest.raises(ValueError, match=r"'per'.*'feature', 'channel'.*Got 'pixel'"):
        moments([torch.zeros(2, 2)], "pixel")
