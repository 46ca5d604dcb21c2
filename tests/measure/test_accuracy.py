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
from vinets.measure.accuracy import Difference, over_images
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
    top5 = top_k_accuracy_score(y, p, k=5, labels=every) if classes == 10 else None
    assert result.top5 == pytest.approx(top5)
    assert result.seconds > 0


def test_low_precision_logits_are_widened_first():
    logits, labels = data(300, 8)
    rounded = logits.bfloat16()
    narrow = evaluate(nn.Identity(), [(rounded, labels)], device="cpu")
    wide = evaluate(nn.Identity(), [(rounded.double(), labels)], device="cpu")
    assert narrow.loss == wide.loss and narrow.calibration_error == wide.calibration_error


def test_batches_stream_and_flags_come_back():
    alive, asked = [], []
    network = nn.Sequential(nn.Identity(), nn.Dropout(0.9)).train()
    network[0].register_forward_hook(
        lambda module, *_: alive.append((module.training, torch.is_grad_enabled()))
    )
    network[1].eval()
    logits, labels = data(20, 4)

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
    inputs = {"pixels": logits, "shift": torch.zeros(20, 4)}
    result = evaluate(Model(), [(inputs, labels)], device="cpu")
    assert result.loss == evaluate(nn.Identity(), [(logits, labels)], device="cpu").loss


def test_results_are_json_even_without_numbers():
    logits = torch.tensor([[-math.inf, 1.0, 0.0], [0.0, 1.0, 0.0]])
    result = evaluate(nn.Identity(), [(logits, torch.tensor([0, 1]))], device="cpu")
    facts = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert facts["loss"] is None  # the class was held to be impossible
    assert facts["per_class"] == [0.0, 1.0, None] and facts["examples"] == 2


X, ZEROS = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "hold no examples"),
        ([X], "pairs of inputs and integer labels.*Got 'Tensor'"),
        ([(X, torch.zeros(4))], "integer labels.*torch.float32"),
        ([(X, ZEROS[:3])], "4 inputs with labels"),
        ([(X, [0, 1, 2, 0])], "4 inputs with list"),
        ([(X, ZEROS + 3)], "labels from 0 to 2.*Got 'labels from 3 to 3'"),
        ([(X, ZEROS - 1)], "Got 'labels from -1 to -1'"),
        ([("x", ZEROS)], "a tensor, or a dict of tensors"),
        ([(X[..., None], ZEROS)], r"logits of shape \(B, K\)"),
        ([(x, ZEROS) for x in (X, X[:, :2])], "Got 3, then 2 columns"),
        (3, "a pair of tensors, or batches"),
    ],
)
def test_what_cannot_be_evaluated_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        evaluate(nn.Identity(), given, device="cpu")


def test_examples_come_in_any_form():
    pair = data(50, 4)
    pairs = TensorDataset(*pair)
    loader = DataLoader(pairs, batch_size=7)
    forms = [pair, pairs, loader, as_source(pair), [*batches(*pair, 20)]]
    found = [evaluate(nn.Identity(), form, batch_size=16) for form in forms]
    assert {one.examples for one in found} == {50}
    assert len({one.accuracy for one in found}) == 1
    assert found[0].table.rows[0].values["examples"] == 50
    assert len(found[0].by_class.rows) == 4 and "| class |" in str(found[0])
    split = digits()
    assert evaluate(digits_cnn(), split).examples == len(split.test)


# --- comparisons: cases that can be checked by hand -------------------------------------------


@pytest.mark.parametrize(
    ("interval", "word"),
    [
        ((0.1, 0.5), "ahead"),
        ((-0.5, -0.1), "behind"),
        ((0.0, 0.5), "level"),  # an end at 0 belongs to the interval
        (None, "not decided"),
    ],
)
def test_the_word_says_where_zero_lies(interval, word):
    assert Difference(0.2, interval).word == word


def test_the_interval_is_that_of_the_binomial_where_splits_are_alike():
    """With equal splits only the images vary: a normal interval of 3 times 1,000 images."""
    splits = [(range(100), range(50, 210), 1_000)] * 3  # 110 gained, 50 lost
    difference = over_images(splits)
    spread = ((0.11 + 0.05 - 0.06**2) / 3_000) ** 0.5
    assert difference.value == pytest.approx(6.0)
    assert difference.interval == pytest.approx((6 - 196 * spread, 6 + 196 * spread), abs=0.15)
    assert over_images(splits) == difference  # the draws are always the same


def test_splits_that_disagree_widen_the_interval():
    alike = over_images([((), range(10), 1_000)] * 3)
    apart = over_images([((), range(30), 1_000), ((), (), 1_000), ((), (), 1_000)])
    assert alike.value == apart.value
    assert alike.word == "ahead" and apart.word == "level"
