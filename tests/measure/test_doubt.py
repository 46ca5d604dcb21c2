from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from vinets.data import ImageSource, Preprocessing
from vinets.measure import evaluate
from vinets.measure.level import (
    AccuracyWarning,
    low_accuracy_sentence,
    warn_of_low_accuracy,
)


@pytest.mark.parametrize(
    ("accuracy", "examples", "classes", "stated", "told"),
    [
        (0.107, 1000, 10, None, "not far from the 10.0 % of chance"),
        (0.0, 1000, 10, 0.9, "not far from"),
        (0.187, 1000, 10, None, "not far from the 10.0 % of chance"),
        (0.3, 1000, 10, None, None),
        (0.2, 20, 10, None, "not far from"),  # so few examples say little
        (0.016, 10_000, 100, None, "not far from the 1.0 % of chance"),
        (0.03, 10_000, 100, None, None),
        (0.55, 1000, 2, None, "not far from the 50.0 % of chance"),
        (0.7, 1000, 2, None, None),
        (0.5, 1000, 10, 0.93, "far below the 93.0 % that were stated"),
        (0.9, 1000, 10, 0.93, None),
        (0.86, 20, 10, 0.93, None),  # within what 20 examples can differ by
        (0.99, 1000, 10, 0.93, None),
        (0.12, 1000, 10, 0.12, "train it for more --epochs"),  # as when it was saved
        (0.12, 1000, 10, 0.93, "check that images are normalised"),
    ],
)
def test_what_is_worth_a_word(accuracy, examples, classes, stated, told):
    found = low_accuracy_sentence("net", accuracy, examples, classes, stated)
    assert found is None if told is None else told in found and found.count(". ") == 0


def images(count=300):
    """Dark and bright images, of which a network tells the class by the sign of their mean."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 4
    noise = torch.randint(0, 40, (count, 3, 4, 4), generator=generator)
    pixels = (noise + 60 * labels[:, None, None, None]).to(torch.uint8)
    return pixels, labels


class Levels(nn.Module):
    """Trained on pixels in [-1, 1]: four levels of brightness."""

    def forward(self, x):
        return -(x.mean((1, 2, 3))[:, None] - torch.linspace(-0.85, 0.56, 4)).abs()


def source(mean, std):
    pixels, labels = images()
    own = Preprocessing(3, (4, 4), mean * 3, std * 3)
    return ImageSource(pixels, labels, list("abcd"), own)


def warned(network, data, stated=None):
    accuracy = evaluate(network, data).accuracy
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_low_accuracy("net", network, data, accuracy, stated)
    return accuracy, [str(one.message) for one in caught if one.category is AccuracyWarning]


def test_a_wrong_normalisation_is_told_with_the_right_one():
    accuracy, (told,) = warned(Levels(), source((0.3,), (1.0,)))
    assert 0.3 < accuracy < 0.7  # beyond chance: only the comparison tells
    assert "on 100.0 % of a part of them with --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5" in told
    assert warned(Levels(), source((0.5,), (0.5,))) == (1.0, [])
    # as good as when it was saved, it was trained with this one
    assert warned(Levels(), source((0.3,), (1.0,)), accuracy) == (accuracy, [])


def test_a_network_that_is_weak_with_every_normalisation_is_left_alone():
    class Weak(Levels):
        def forward(self, x):
            return super().forward(x)[:, [0, 0, 2, 2]] + torch.tensor([0.1, 0, 0.1, 0])

    data = source((0.5,), (0.5,))
    accuracy, told = warned(Weak(), data)
    assert accuracy == 0.5 and told == []


def test_a_doubt_is_a_warning_of_its_own_kind():
    class Constant(nn.Module):
        def forward(self, x):
            return torch.eye(4)[0].expand(len(x), 4)

    accuracy, (told,) = warned(Constant(), source((0.5,), (0.5,)))
    assert accuracy == 0.25 and told.startswith("net is right on 25.0 % of 300 examples, not far")
