from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets.core.files import read_bytes
from vinets.data import DataSplit, ImageSource, Preprocessing, TensorSource, relabel
from vinets.measure import evaluate
from vinets.measure.doubt import (
    AccuracyWarning,
    MisreadWarning,
    better_order,
    doubt_accuracy,
    low_accuracy_sentence,
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


class Levels(nn.Module):
    """Trained on pixels in [-1, 1]: four levels of brightness."""

    def forward(self, x):
        return -(x.mean((1, 2, 3))[:, None] - torch.linspace(-0.85, 0.56, 4)).abs()


def source(mean, std):
    """Dark and bright images, whose class is their level of brightness."""
    generator, labels = torch.Generator().manual_seed(0), torch.arange(300) % 4
    noise = torch.randint(0, 40, (300, 3, 4, 4), generator=generator)
    pixels = (noise + 60 * labels[:, None, None, None]).to(torch.uint8)
    return ImageSource(pixels, labels, list("abcd"), Preprocessing(3, (4, 4), mean * 3, std * 3))


def doubted(network, data, stated=None):
    result = evaluate(network, data)
    return result.accuracy, doubt_accuracy("net", network, data, result.confusion, stated)


def test_a_wrong_normalisation_is_told_with_the_right_one():
    accuracy, told = doubted(Levels(), source((0.3,), (1.0,)))
    assert 0.3 < accuracy < 0.7  # beyond chance: only the comparison tells
    assert "on 100.0 % of a part of them with --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5: " in str(told)
    assert isinstance(told, MisreadWarning)
    assert doubted(Levels(), source((0.5,), (0.5,))) == (1.0, None)
    # as good as when it was saved, it was trained with this one
    assert doubted(Levels(), source((0.3,), (1.0,)), accuracy) == (accuracy, None)


def test_a_network_that_is_weak_with_every_normalisation_is_left_alone():
    class Weak(Levels):
        def forward(self, x):
            return super().forward(x)[:, [0, 0, 2, 2]] + torch.tensor([0.1, 0, 0.1, 0])

    assert doubted(Weak(), source((0.5,), (0.5,))) == (0.5, None)


def test_a_doubt_is_a_warning_of_its_own_kind():
    class Constant(nn.Module):
        def forward(self, x):
            return torch.eye(4)[0].expand(len(x), 4)

    accuracy, told = doubted(Constant(), source((0.5,), (0.5,)))
    assert accuracy == 0.25 and type(told) is AccuracyWarning
    assert str(told).startswith("net is right on 25.0 % of 300 examples, not far")


def test_channels_in_another_order_are_told():
    labels = torch.arange(300) % 3  # blue, green, red
    colours = 20 + 100 * torch.eye(3, dtype=torch.uint8)[2 - labels]
    pixels = colours[:, :, None, None].expand(-1, -1, 4, 4)
    own = Preprocessing(3, (4, 4), (0.0,) * 3, (1.0,) * 3)
    # which of them is the brightest, on images that have blue in front
    brightest = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    told = doubted(brightest, ImageSource(pixels, labels, list("bgr"), own))[1]
    assert isinstance(told, MisreadWarning)
    assert "100.0 % of a part of them with --mean 0,0,0 --std 1,1,1 and blue in front" in str(told)


class Fixed(nn.Module):
    """Answers with the outputs that its inputs (B, 1) name, of ``count``."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        return nn.functional.one_hot(x[:, 0].long(), self.count).float()


@pytest.mark.parametrize("background", [False, True])
def test_another_order_of_classes_is_written_down_and_can_be_applied(background):
    classes = ("b", "c", "a")
    labels = torch.arange(300) % 3
    answers = labels + 1 if background else torch.tensor([1, 2, 0])[labels]
    answers[:30] = 0  # not right on all
    data = TensorSource(answers[:, None].float(), labels, classes)
    network = Fixed(3 + background)
    accuracy, told = doubted(network, data)
    assert accuracy < 0.2 and isinstance(told, MisreadWarning)
    assert "in another order it would be right on about 9" in str(told)
    file = str(told).partition("check ")[2].partition(",")[0]
    lines = read_bytes(file, 99).decode().splitlines()
    assert lines == (["other 3", "b", "c", "a"] if background else ["a", "b", "c"])
    again = relabel(DataSplit("", data, data), file).test
    assert doubted(network, again)[0] >= 0.9 and doubted(network, again)[1] is None


def test_an_order_counts_only_if_it_helps_on_examples_that_it_was_not_found_on():
    guesses = torch.randint(0, 40, (40, 40), generator=torch.Generator().manual_seed(0)) // 39
    assert better_order(guesses) is None  # one half alone would be right on many more
    weak = 10 * torch.eye(10, dtype=torch.int64) + 3
    assert better_order(weak) is None
    assert better_order(torch.tensor([[0, 1], [0, 0]])) is None
    outputs, share = better_order(weak[torch.arange(9, -1, -1)])
    assert outputs.tolist() == list(range(9, -1, -1)) and share > 0.25
