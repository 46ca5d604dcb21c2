from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets.core.settings import TrainingOptions
from vinets.training.loop import Group, fit

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(64, 5, generator=GENERATOR)
LABELS = (INPUTS[:, 0] > 0).long() + (INPUTS[:, 1] > 0).long()


class Given:
    """A feed of fixed batches; the held-out part is given apart."""

    def __init__(self, held=None, teacher_logits=None):
        self.held, self.teacher_logits = held, teacher_logits

    def facts(self):
        return {"data": "one batch"}

    def steps(self, batch_size):
        return len(LABELS) // batch_size

    def epoch(self, number, batch_size):
        for index in torch.arange(len(LABELS)).split(batch_size):
            taught = None if self.teacher_logits is None else self.teacher_logits[index]
            yield INPUTS[index], LABELS[index], taught

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
    fit(module, Given(), recipe)
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


def test_training_reduces_the_loss_and_says_so():
    module = linear()
    history = fit(module, Given(), TrainingOptions(epochs=30, batch_size=16, learning_rate=0.3))
    losses = [epoch.loss for epoch in history.epochs]
    assert losses[-1] < 0.5 * losses[0]
    with torch.no_grad():
        accuracy = float((module(INPUTS).argmax(1) == LABELS).float().mean())
    assert accuracy > 0.85 and history.epochs[-1].accuracy == pytest.approx(accuracy, abs=0.1)
    assert [epoch.epoch for epoch in history.epochs] == list(range(1, 31))
    assert history.best == 30 and not module.training  # nothing held out: the last one


def test_the_best_epoch_is_chosen_on_the_held_out_part():
    """Held-out labels contradict the training ones, so that training makes it worse and worse."""
    module = linear()
    held = INPUTS, 2 - LABELS
    history = fit(module, Given(held), TrainingOptions(epochs=8, batch_size=16, learning_rate=0.5))
    accuracies = [epoch.validation_accuracy for epoch in history.epochs]
    assert history.best < 8 and accuracies[history.best - 1] == max(accuracies)
    with torch.no_grad():
        logits = module(INPUTS)
    reached = float((logits.argmax(1) == held[1]).float().mean())
    assert reached == pytest.approx(max(accuracies)) and reached > accuracies[-1]
    best = history.epochs[history.best - 1]
    assert best.validation_loss == pytest.approx(float(F.cross_entropy(logits, held[1])), rel=1e-5)


def test_of_equally_accurate_epochs_the_last_one_wins():
    held = INPUTS[:1], LABELS[:1]
    module = linear()
    history = fit(module, Given(held), TrainingOptions(epochs=6, batch_size=16, learning_rate=0.3))
    top = max(e.validation_accuracy for e in history.epochs)
    assert history.best == max(e.epoch for e in history.epochs if e.validation_accuracy == top)


def test_distillation_moves_towards_the_teacher():
    teacher_logits = INPUTS @ torch.randn(5, 3, generator=torch.Generator().manual_seed(2))

    def gap(module):
        with torch.no_grad():
            logs = F.log_softmax(module(INPUTS), 1)
        return float(F.kl_div(logs, F.softmax(teacher_logits, 1), reduction="batchmean"))

    recipe = TrainingOptions(epochs=80, batch_size=16, learning_rate=0.1, weight_decay=0.0)
    taught, alone = linear(), linear()
    before = gap(taught)
    fit(taught, Given(teacher_logits=teacher_logits), replace(recipe, distill=1.0))
    fit(alone, Given(teacher_logits=teacher_logits), recipe)  # a weight of 0 does not listen
    assert gap(taught) < 0.02 * before < gap(alone)


@pytest.mark.parametrize("clip", [None, 1e30])
def test_a_diverging_training_says_what_to_do(clip):
    recipe = TrainingOptions(
        epochs=9, batch_size=16, learning_rate=1e30, clip=clip, schedule="constant"
    )
    with pytest.raises(ValueError, match=r"the training diverged\. Lower learning_rate or pass"):
        fit(linear(), Given(), recipe)


def test_bfloat16_learns_as_well():
    module = linear()
    recipe = TrainingOptions(epochs=30, batch_size=16, learning_rate=0.3, precision="bfloat16")
    history = fit(module, Given((INPUTS, LABELS)), recipe)
    assert history.epochs[-1].validation_accuracy > 0.85
    assert module.weight.dtype == torch.float32


def test_only_the_given_parameters_are_trained():
    module = nn.Sequential(linear(0), nn.ReLU(), nn.Linear(3, 3))
    before = module[0].weight.detach().clone()
    fit(
        module,
        Given(),
        TrainingOptions(epochs=1, batch_size=16),
        groups=[Group(module[2].parameters())],
    )
    assert torch.equal(module[0].weight, before)
