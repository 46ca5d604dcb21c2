from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, top_k_accuracy_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from vinets.data import digits
from vinets.data.conversion import as_source
from vinets.measure import evaluate
from vinets.models import digits_cnn


def data(examples, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(examples, classes, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return logits, labels


def batches(logits, labels, size):
    return zip(logits.split(size), labels.split(size), strict=True)


def calibration_error(probabilities, labels):
    """Bin by bin."""
    confidence, predicted = probabilities.max(1), probabilities.argmax(1)
    error = 0.0
    for b in range(15):
        inside = (confidence > b / 15) & (confidence <= (b + 1) / 15)
        if inside.any():
            gap = (predicted[inside] == labels[inside]).mean() - confidence[inside].mean()
            error += inside.mean() * abs(gap)
    return error


@pytest.mark.parametrize(("classes", "size"), [(3, 7), (10, 64), (10, 1000)])
def test_the_metrics_are_those_of_scikit_learn(classes, size):
    logits, labels = data(501, classes)
    result = evaluate(nn.Identity(), batches(logits, labels, size), device="cpu")
    p, y = logits.double().softmax(1).numpy(), labels.numpy()
    every = np.arange(classes)
    confusion = confusion_matrix(y, p.argmax(1), labels=every)
    assert result.examples == 501
    assert result.accuracy == pytest.approx(accuracy_score(y, p.argmax(1)))
    assert result.loss == pytest.approx(log_loss(y, p, labels=every))
    assert result.calibration_error == pytest.approx(calibration_error(p, y))
    assert result.confusion.dtype == torch.int64
    np.testing.assert_array_equal(result.confusion.numpy(), confusion)
    np.testing.assert_allclose(result.per_class, confusion.diagonal() / confusion.sum(1))
    if classes == 10:
        assert result.top5 == pytest.approx(top_k_accuracy_score(y, p, k=5, labels=every))
    else:
        assert result.top5 is None
    assert result.seconds > 0


def test_low_precision_logits_are_widened_first():
    logits, labels = data(300, 8)
    rounded = logits.bfloat16()
    narrow = evaluate(nn.Identity(), [(rounded, labels)], device="cpu")
    wide = evaluate(nn.Identity(), [(rounded.double(), labels)], device="cpu")
    assert narrow.loss == wide.loss and narrow.calibration_error == wide.calibration_error


def test_batches_stream_and_flags_come_back():
    alive = []

    class Flags(nn.Module):
        def forward(self, x):
            alive.append((self.training, torch.is_grad_enabled()))
            return x

    network = nn.Sequential(Flags(), nn.Dropout(0.9)).train()
    network[1].eval()
    logits, labels = data(20, 4)
    asked = []

    def stream():
        for i, pair in enumerate(batches(logits, labels, 5)):
            asked.append((i, len(alive)))
            yield pair

    result = evaluate(network, stream(), device="cpu")
    assert asked == [(i, i) for i in range(4)]  # each batch is used before the next is taken
    assert set(alive) == {(False, False)}
    assert network.training and not network[1].training
    assert result.accuracy == evaluate(nn.Identity(), [(logits, labels)], device="cpu").accuracy


def test_inputs_by_name_and_outputs_with_logits():
    class Model(nn.Module):
        def forward(self, pixels, shift):
            return SimpleNamespace(logits=pixels + shift)

    logits, labels = data(20, 4)
    shift = torch.zeros(20, 4)
    result = evaluate(Model(), [({"pixels": logits, "shift": shift}, labels)], device="cpu")
    assert result.loss == evaluate(nn.Identity(), [(logits, labels)], device="cpu").loss


def test_results_are_json_even_without_numbers():
    logits = torch.tensor([[1.0, math.nan, 0.0], [0.0, 1.0, 0.0]])
    result = evaluate(nn.Identity(), [(logits, torch.tensor([0, 1]))], device="cpu")
    facts = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert facts["loss"] is None and facts["calibration_error"] is None
    assert facts["per_class"] == [0.0, 1.0, None] and facts["examples"] == 2


X = torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "hold no examples"),
        ([X], "pairs of inputs and integer labels.*Got 'Tensor'"),
        ([(X, torch.zeros(4))], "integer labels.*torch.float32"),
        ([(X, torch.zeros(3, dtype=torch.long))], "4 inputs with labels"),
        ([(X, [0, 1, 2, 0])], "4 inputs with list"),
        ([(X, torch.full((4,), 3))], "labels from 0 to 2.*Got 'labels from 3 to 3'"),
        ([(X, torch.full((4,), -1))], "Got 'labels from -1 to -1'"),
        ([("x", torch.zeros(4, dtype=torch.long))], "a tensor, or a dict of tensors"),
        ([(X[..., None], torch.zeros(4, dtype=torch.long))], r"logits of shape \(B, K\)"),
        ([(x, torch.zeros(4, dtype=torch.long)) for x in (X, X[:, :2])], "Got 3, then 2 columns"),
    ],
)
def test_what_cannot_be_evaluated_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        evaluate(nn.Identity(), given, device="cpu")


def test_examples_come_in_any_form():
    draws = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 4, generator=draws)
    labels = torch.randint(4, (50,), generator=draws)
    pairs = TensorDataset(logits, labels)
    forms = [
        (logits, labels),
        pairs,
        DataLoader(pairs, batch_size=7),
        as_source((logits, labels)),
        [(logits[:20], labels[:20]), (logits[20:], labels[20:])],
    ]
    found = [evaluate(nn.Identity(), form, batch_size=16) for form in forms]
    assert {one.examples for one in found} == {50}
    assert len({one.accuracy for one in found}) == 1
    assert found[0].table.rows[0].values["examples"] == 50
    assert len(found[0].by_class.rows) == 4 and "| class |" in str(found[0])
    split = digits()
    assert evaluate(digits_cnn(), split).examples == len(split.test)
    with pytest.raises(ValueError, match="a pair of tensors, or batches"):
        evaluate(nn.Identity(), 3)
