"""Steps that a GPU records and replays."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from vinets.training import fine_tune, train_classifier

OPTIONS = {"epochs": 3, "batch_size": 32, "progress": None, "learning_rate": 0.02}

needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_elsewhere_nothing_is_recorded(make, train):
    plain, recorded = make(), make()
    fine_tune(plain, train, trained="backbone", **OPTIONS)
    fine_tune(recorded, train, trained="backbone", recorded=True, **OPTIONS)
    torch.testing.assert_close(recorded.state_dict(), plain.state_dict(), rtol=0, atol=0)


def _apart(one: nn.Module, other: nn.Module) -> float:
    """The largest distance of a tensor of one from that of the other, as a share of its size."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return max(float((a - b).norm() / (1e-3 + b.norm())) for a, b in pairs if b.is_floating_point())


@needs_a_gpu
def test_a_recorded_training_is_the_same(make, model, train):
    """As far as two that are not recorded are: a GPU adds in another order every time."""
    losses, nets = [], []
    for recorded in (False, False, True):
        net = make()
        options = {"device": "cuda", "teacher": copy.deepcopy(model), "recorded": recorded}
        history = fine_tune(net, train, trained="backbone", **options, **OPTIONS)
        losses.append([epoch.loss for epoch in history.epochs])
        nets.append(net)
    assert losses[2][0] == pytest.approx(losses[0][0], rel=1e-3)
    assert losses[2] == pytest.approx(losses[0], rel=1e-2)
    assert _apart(nets[2], nets[0]) < 3 * _apart(nets[1], nets[0]) + 1e-3


@needs_a_gpu
def test_the_learning_rate_of_a_recorded_training_follows_its_schedule(make, train):
    """At a rate of almost nothing in the end, the last epoch changes almost nothing."""
    nets = []
    for learning_rate in (1e-9, 0.05):
        net = make()
        before = {k: t.clone() for k, t in net.state_dict().items() if "weight" in k}
        options = OPTIONS | {"learning_rate": learning_rate, "device": "cuda"}
        fine_tune(net, train, trained="backbone", recorded=True, **options)
        moved = max(float((net.state_dict()[k].cpu() - t).abs().max()) for k, t in before.items())
        nets.append(moved)
    assert nets[0] < 1e-5 < 1e-2 < nets[1]


@needs_a_gpu
def test_an_interrupted_recording_goes_on(make, train, tmp_path):
    whole, parts = make(), make()
    options = {"trained": "backbone", "recorded": True, "device": "cuda", **OPTIONS}
    fine_tune(whole, train, **options)

    class Stop:
        def __init__(self):
            self.left = 2 * len(train) // 32

        def start(self, stage, total):
            pass

        def advance(self, count=1, note=""):
            self.left -= count
            if self.left < 0:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(parts, train, directory=tmp_path, **(options | {"progress": Stop()}))
    parts = make()
    fine_tune(parts, train, directory=tmp_path, **options)
    again = make()
    fine_tune(again, train, **options)
    assert _apart(parts, whole) < 3 * _apart(again, whole) + 1e-3


@needs_a_gpu
def test_what_cannot_be_recorded_is_refused(train):
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.LazyLinear(10)

        def forward(self, x):
            x = self.linear(x.flatten(1))
            return x if x.sum() > 0 else -x

    network = Asks()
    inputs, _ = next(iter(train.batches(2)))
    network(inputs)
    with pytest.raises(ValueError, match="recorded=False"):
        train_classifier(network, train, recorded=True, device="cuda", **OPTIONS)
