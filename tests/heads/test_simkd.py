"""The projector of SimKD."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from vinets import collect
from vinets.heads import ProductsOptions, SimKDHead
from vinets.testing.heads import HeadContract, lived


def uncut(last=nn.ReLU):
    """A network whose classifier sees 20 values of one sign, unless another layer is last."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Identity(), nn.Flatten(), nn.Linear(96, 20), last(), nn.Linear(20, 3))


def latents_of(network):
    data = torch.randn(30, 6, 16, 1), torch.arange(30) % 3
    return collect(network, data, "0", reuse=True, progress=None)


@pytest.fixture(scope="module")
def small():
    return latents_of(uncut())


def made(positions=4, signed=False):
    return SimKDHead(6, positions, 3, features=7, width=5, signed=signed)


class TestSimKD(HeadContract):
    @pytest.fixture(params=[False, True])
    def head(self, request):
        return lived(made(signed=request.param)).eval()


class TestSimKDWithoutSquare(HeadContract):
    shape = (6, 5)

    def make(self):
        return made(5)


def test_the_loss_of_simkd_is_the_distance_of_features():
    head = made().train()
    latents, taught = torch.randn(8, 6, 4), torch.rand(8, 7)
    logits = head(latents)
    seen = head.features(latents)
    loss = head.criterion(logits, torch.zeros(8, dtype=torch.int64), taught, None)
    torch.testing.assert_close(loss, (seen - taught).square().mean() / taught.square().mean())
    assert not any(p.requires_grad for p in head.classifier.parameters())


def test_the_classifier_of_the_uncut_network_is_taken_over(small):
    theirs, ours = small.uncut[-1], SimKDHead.build(small).classifier
    assert torch.equal(ours.weight, theirs.weight) and torch.equal(ours.bias, theirs.bias)
    assert ours.weight.data_ptr() != theirs.weight.data_ptr()


def test_features_are_negative_where_those_of_the_uncut_network_are(small):
    h = torch.randn(8, 6, 16)
    assert SimKDHead.build(small).features(h).min() >= 0
    signed = latents_of(uncut(lambda: nn.LayerNorm(20)))
    assert SimKDHead.build(signed).features(h).min() < 0


@pytest.mark.parametrize("budget", [900, 4_000, 40_000])
def test_simkd_is_the_widest_that_fits(small, budget):
    head = SimKDHead.build(small, SimKDHead.Options(parameters=budget))
    wider = SimKDHead(6, 16, 3, features=20, width=head.width + 1)
    assert sum(head.folded().parts().values()) <= budget
    assert sum(wider.folded().parts().values()) > budget
    like = SimKDHead.build(small, SimKDHead.Options(like=ProductsOptions(parameters=budget)))
    assert like.parts() == head.parts()


def test_simkd_is_normalised_and_not_signed_unless_told():
    h = torch.randn(64, 6, 4)
    seen = made().features(h)
    assert seen.min() >= 0 > made(signed=True).features(h).min()
    # what enters the last ReLU has mean 0 and variance 1, so a half of it is above
    torch.testing.assert_close(seen.mean(), torch.tensor(0.4), rtol=0, atol=0.1)


@pytest.mark.parametrize("positions", [4, 5, 49])
def test_maps_lead_from_the_latents_to_the_logits(positions):
    maps = made(positions).folded().maps((6, positions))
    sizes = [one.dense().shape for one in (*maps.before, maps.final)]
    assert sizes[0][1] == 6 * positions and sizes[-1][0] == 3
    assert all(below[0] == above[1] for below, above in pairwise(sizes))
