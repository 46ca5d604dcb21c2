"""The loop: descent, the best epoch, teachers, and steps that a GPU records."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets.core.settings import TrainingOptions
from vinets.training import fine_tune, train_classifier
from vinets.training.epochs import fit

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(64, 5, generator=GENERATOR)
LABELS = (INPUTS[:, 0] > 0).long() + (INPUTS[:, 1] > 0).long()


class Batches:
    """A feed of fixed batches; the held-out part is given apart."""

    def __init__(self, held=None):
        self.held = held

    def facts(self):
        return {"data": "one batch"}

    def steps(self, batch_size):
        return len(LABELS) // batch_size

    def epoch(self, number, batch_size):
        for index in torch.arange(len(LABELS)).split(batch_size):
            yield INPUTS[index], LABELS[index], None

    def held_out(self, batch_size):
        if self.held is not None:
            yield *self.held, None


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(5, 3)


@pytest.mark.parametrize("nesterov", [False, True])
def test_it_is_plain_stochastic_gradient_descent(nesterov):
    """Against a loop written out by hand, with momentum, decay, schedule and clipping."""
    recipe = TrainingOptions(
        epochs=3, batch_size=16, learning_rate=0.2, clip=0.5, nesterov=nesterov, weight_decay=0.01
    )
    module = linear()
    history = fit(module, Batches(), recipe)
    assert history.best == 3 and not module.training  # nothing is held out: the last epoch
    assert [epoch.epoch for epoch in history.epochs] == [1, 2, 3]
    assert history.epochs[2].loss < history.epochs[0].loss
    own = [p.detach().clone().requires_grad_() for p in linear().parameters()]
    momenta = [torch.zeros_like(p) for p in own]
    for step in range(12):
        index = torch.arange(64).split(16)[step % 4]
        loss = F.cross_entropy(INPUTS[index] @ own[0].T + own[1], LABELS[index])
        grads = torch.autograd.grad(loss, own)
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        grads = [g * min(1.0, 0.5 / (float(norm) + 1e-6)) for g in grads]
        for p, g, v in zip(own, grads, momenta, strict=True):
            g = g + 0.01 * p.detach()
            v.mul_(0.9).add_(g)
            p.data -= recipe.rate(step, 12) * (g + 0.9 * v if nesterov else v)
    for ours, theirs in zip(own, module.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def learn(module, *, held=None, **options):
    """Train a module on the batches, and return the history."""
    recipe = TrainingOptions(**{"batch_size": 16, "learning_rate": 0.3} | options)
    return fit(module, Batches(held), recipe)


def test_the_best_epoch_is_chosen_on_the_held_out_part():
    """Held-out labels contradict the training ones, so that training makes it worse and worse."""
    module = linear()
    held = INPUTS, 2 - LABELS
    history = learn(module, held=held, epochs=8, learning_rate=0.5)
    accuracies = [epoch.validation_accuracy for epoch in history.epochs]
    assert history.best < 8 and accuracies[history.best - 1] == max(accuracies)
    with torch.no_grad():
        logits = module(INPUTS)
    reached = float((logits.argmax(1) == held[1]).float().mean())
    assert reached == pytest.approx(max(accuracies)) and reached > accuracies[-1]
    loss = float(F.cross_entropy(logits, held[1]))
    assert history.kept.validation_loss == pytest.approx(loss, rel=1e-5)


def test_of_equally_accurate_epochs_the_last_one_wins():
    history = learn(linear(), held=(INPUTS[:1], LABELS[:1]), epochs=6)
    top = max(e.validation_accuracy for e in history.epochs)
    assert history.best == max(e.epoch for e in history.epochs if e.validation_accuracy == top)


@pytest.mark.parametrize("clip", [None, 1e30])
def test_a_diverging_training_says_what_to_do(clip):
    with pytest.raises(ValueError, match=r"the training diverged\. Lower learning_rate or pass"):
        learn(linear(), epochs=9, learning_rate=1e30, clip=clip, schedule="constant")


# --- recipes ------------------------------------------------------------------------------------


WRONG = [("epochs", -1), ("epochs", None), ("epochs", 2.5), ("batch_size", -1)]
WRONG += [("learning_rate", -0.1), ("learning_rate", math.nan), ("learning_rate", "fast")]
WRONG += [("momentum", 1.0), ("weight_decay", -1e-4), ("validation", 1.0), ("validation", -0.1)]
WRONG += [("label_smoothing", 1.0), ("distill", 1.1), ("temperature", 0.0), ("clip", -1.0)]
WRONG += [("schedule", "step"), ("precision", "float16")]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_numbers_outside_their_domain_are_named(name, value):
    with pytest.raises(ValueError, match=rf"^The '{name}' parameter of TrainingOptions must "):
        TrainingOptions(**{name: value})


def test_nesterov_needs_momentum():
    with pytest.raises(ValueError, match=r"'momentum'.*above 0 with nesterov"):
        TrainingOptions(nesterov=True, momentum=0.0)


def test_cosine_falls_to_nothing_and_one_cycle_rises_first():
    recipe = TrainingOptions(learning_rate=0.3)
    rates = [recipe.rate(s, 100) for s in range(101)]
    assert (rates[0], rates[50]) == pytest.approx((0.3, 0.15)) and rates[100] < 1e-12
    assert rates == sorted(rates, reverse=True)
    recipe = TrainingOptions(learning_rate=0.2, schedule="one-cycle")
    rates = [recipe.rate(s, 80) for s in range(81)]
    assert rates.index(max(rates)) == 20 and rates[20] == pytest.approx(0.2)
    assert rates[10] == pytest.approx(0.1) and rates[50] == pytest.approx(0.1)
    assert rates[:21] == sorted(rates[:21]) and rates[20:] == sorted(rates[20:], reverse=True)
    assert rates[0] > 0 and rates[80] == 0


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle", "constant"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_the_learning_rate_is_never_exceeded(schedule, steps):
    recipe = TrainingOptions(learning_rate=0.2, schedule=schedule)
    rates = [recipe.rate(s, steps) for s in range(steps)]
    assert all(0 < rate <= 0.2 for rate in rates)
    assert schedule != "constant" or set(rates) == {0.2}


# --- recorded steps -----------------------------------------------------------------------------


OPTIONS = {"epochs": 3, "batch_size": 32, "progress": None, "learning_rate": 0.02}
ON_GPU = OPTIONS | {"trained": "backbone", "recorded": True, "device": "cuda"}
needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_elsewhere_nothing_is_recorded(make, train):
    plain, recorded = make(), make()
    fine_tune(plain, train, trained="backbone", **OPTIONS)
    fine_tune(recorded, train, trained="backbone", recorded=True, **OPTIONS)
    torch.testing.assert_close(recorded.state_dict(), plain.state_dict(), rtol=0, atol=0)


def apart(one: nn.Module, other: nn.Module) -> float:
    """Return the largest distance of a tensor from that of the other, as a share of its size."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return max(float((a - b).norm() / (1e-3 + b.norm())) for a, b in pairs if b.is_floating_point())


@needs_a_gpu
def test_a_recorded_training_is_the_same(make, model, train):
    """As far as two that are not recorded are: a GPU adds in another order every time."""
    losses, nets = [], []
    for recorded in (False, False, True):
        net = make()
        options = ON_GPU | {"teacher": copy.deepcopy(model), "recorded": recorded}
        losses.append([epoch.loss for epoch in fine_tune(net, train, **options).epochs])
        nets.append(net)
    assert losses[2][0] == pytest.approx(losses[0][0], rel=1e-3)
    assert losses[2] == pytest.approx(losses[0], rel=1e-2)
    assert apart(nets[2], nets[0]) < 3 * apart(nets[1], nets[0]) + 1e-3


@needs_a_gpu
def test_the_learning_rate_of_a_recorded_training_follows_its_schedule(make, train):
    """At a rate of almost nothing in the end, the last epoch changes almost nothing."""
    moved = []
    for learning_rate in (1e-9, 0.05):
        net = make()
        before = {k: t.clone() for k, t in net.state_dict().items() if "weight" in k}
        fine_tune(net, train, **ON_GPU | {"learning_rate": learning_rate})
        after = net.state_dict()
        moved.append(max(float((after[k].cpu() - t).abs().max()) for k, t in before.items()))
    assert moved[0] < 1e-5 < 1e-2 < moved[1]


@needs_a_gpu
def test_an_interrupted_recording_goes_on(make, train, tmp_path, stop, interrupted):
    whole, parts, again = make(), make(), make()
    fine_tune(whole, train, **ON_GPU)
    with pytest.raises(interrupted):
        progress = stop(2 * len(train) // 32)
        fine_tune(make(), train, directory=tmp_path, **ON_GPU | {"progress": progress})
    fine_tune(parts, train, directory=tmp_path, **ON_GPU)
    fine_tune(again, train, **ON_GPU)
    assert apart(parts, whole) < 3 * apart(again, whole) + 1e-3


@needs_a_gpu
def test_what_cannot_be_recorded_is_refused(train):
    class Asks(nn.Linear):
        def forward(self, x):
            x = super().forward(x.flatten(1))
            return x if x.sum() > 0 else -x

    with pytest.raises(ValueError, match="recorded=False"):
        train_classifier(Asks(64, 10), train, recorded=True, device="cuda", **OPTIONS)
