from __future__ import annotations

import pytest
import torch
from sklearn.preprocessing import StandardScaler

from vinets.latent.rescale import Rescale
from vinets.latent.store import LatentStore

GENERATOR = torch.Generator().manual_seed(0)
VECTORS = torch.randn(50, 4, generator=GENERATOR) * torch.tensor([1.0, 5.0, 0.1, 2.0]) + 3
DESCRIPTORS = torch.randn(20, 3, 6, generator=GENERATOR) * 2 - 1


def store(values: torch.Tensor) -> LatentStore:
    return LatentStore.from_tensor(values, torch.zeros(len(values), dtype=torch.int64))


def test_features_are_standardised_as_scikit_learn_does():
    expected = torch.tensor(StandardScaler().fit_transform(VECTORS.double().numpy()))
    plain = Rescale.fit(store(VECTORS), squash=False)
    torch.testing.assert_close(plain(VECTORS), expected.float(), atol=1e-5, rtol=1e-5)
    squashed = Rescale.fit(store(VECTORS))
    torch.testing.assert_close(squashed(VECTORS), expected.tanh().float(), atol=1e-5, rtol=1e-5)
    assert squashed(1e6 * VECTORS).abs().max() <= 1


def test_channels_share_one_scale_over_all_positions():
    rescaled = Rescale.fit(store(DESCRIPTORS), "channel", squash=False)(DESCRIPTORS)
    rows = rescaled.transpose(1, 2).reshape(-1, 3)
    torch.testing.assert_close(rows.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(rows.std(0, correction=0), torch.ones(3))
    scale = (DESCRIPTORS[1] - DESCRIPTORS[0]) / (rescaled[1] - rescaled[0])
    torch.testing.assert_close(scale, scale[:, :1].expand_as(scale), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("values", [VECTORS, DESCRIPTORS])
def test_the_scale_travels_with_the_state(values):
    fitted = Rescale.fit([values], "channel")
    fresh = Rescale(torch.zeros_like(fitted.mean), torch.ones_like(fitted.std))
    fresh.load_state_dict(fitted.state_dict())
    assert torch.equal(fresh(values), fitted(values))
    assert not list(fitted.parameters()) and fitted(values).dtype == torch.float32


def test_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"'std'.*shape of the mean, \(3,\). Got \(2,\)"):
        Rescale(torch.zeros(3), torch.ones(2))
