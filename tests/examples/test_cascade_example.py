from __future__ import annotations

import pytest
import torch
from torch import nn

from examples import cascade


@pytest.fixture
def made():
    """A cascade of two random networks, with images and labels."""
    torch.manual_seed(0)
    with torch.no_grad():
        images = torch.randn(200, 6)
        network = cascade.Cascade(nn.Linear(6, 3), nn.Linear(6, 3)).requires_grad_(False)
        unclear = network.late(images) + torch.randn(200, 3)
        return network, images, unclear.argmax(1)


def test_each_image_is_answered_by_one_of_the_networks(made):
    network, images, _ = made
    early, late = network.early(images), network.late(images)
    for threshold, chosen in ((0.0, early), (2.0, late)):
        network.threshold = threshold
        assert torch.equal(network(images), chosen)
    network.threshold = 0.5
    sure = early.softmax(1).amax(1) >= 0.5
    assert 0 < sure.sum() < len(sure)
    assert torch.equal(network(images[sure]), early[sure])
    assert torch.allclose(network(images)[~sure], late[~sure])


@pytest.mark.parametrize("loss", [0.0, 0.02, 0.1])
def test_the_threshold_is_the_lowest_that_loses_no_more(made, loss):
    network, images, labels = made
    images, labels = torch.cat([images, images]), torch.cat([labels, labels])  # none is alone

    def lost(threshold):
        network.threshold = threshold
        right = [
            (logits.argmax(1) == labels).sum() for logits in (network.late(images), network(images))
        ]
        return int(right[0] - right[1])

    network.calibrate(images, labels, loss)
    chosen = network.threshold
    assert lost(chosen) <= loss * len(labels)
    sure = network.early(images).softmax(1).amax(1)
    assert all(lost(float(one)) > loss * len(labels) for one in sure[sure < chosen].unique())


def test_it_runs():
    found = cascade.main(epochs=1, loss=0.5)
    assert list(found) == ["uncut", "VI-Net", "cascade", "leave early"]
    assert all(0 <= share <= 1 for share in found.values())
