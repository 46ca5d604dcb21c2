"""Warnings before work is wasted on a network that is hardly right, with the likely cause."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace

import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom
from torch import Tensor, nn

from vinets.core.checks import DoubtWarning, counted
from vinets.core.device import logits_of
from vinets.data import ImageSource, Preprocessing, Source
from vinets.data.source import choose_per_class
from vinets.measure.accuracy import evaluate

TOLERATED_LOSS = 0.05  # share of right answers below the stated accuracy that is passed over
GUESSING_PROBABILITY = 0.05  # a guessing network may be right as often with a lower probability
DEVIATIONS = 3  # standard deviations of a share of right answers that are passed over
DOUBTED_SHARE = 0.5  # other normalisations are tried below this share of the way from chance to 1
MIN_GAIN = 0.1  # share of right answers that another normalisation or order must gain to be named
TRIAL_IMAGES = 500

NORMALISATIONS = (  # means and deviations of pixels in [0, 1] that networks are trained with
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # ImageNet
    ((0.5,), (0.5,)),  # pixels in [-1, 1]
    ((0.0,), (1.0,)),  # pixels as they are
    ((0.0,), (1 / 255,)),  # bytes as they are
    ((0.485, 0.458, 0.408), (1 / 255,)),  # Caffe, which has blue in front
)


class AccuracyWarning(DoubtWarning):
    """A network is hardly better than chance, or far below what was stated."""


class MisreadWarning(AccuracyWarning):
    """With another order of classes, or other pixels, a network would be far more often right."""


class _Exchanged(nn.Module):
    """A network that sees the channels of images in the opposite order."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return logits_of(self.network(x.flip(1)))


def low_accuracy_sentence(
    name: str,
    accuracy: float,
    examples: int,
    classes: int,
    stated: float | None = None,
    better: tuple[Preprocessing, bool, float] | None = None,
) -> str | None:
    """Write a sentence on a network whose accuracy is suspiciously low; None if it is not.

    It is near chance if it is not better, beyond doubt, than 2.5 times chance, or, with few
    classes, than 15 % of the way from chance to certainty. It is far below the accuracy ``stated``
    if it is so by 5 points and by 3 standard deviations; near chance as it was then, it needs more
    training. A ``better`` way to read images, of :func:`better_reading`, is always worth a word.
    """
    chance = 1 / classes
    guessing = chance + min(1.5 * chance, 0.15 * (1 - chance))
    right = round(accuracy * examples)
    near_chance = binom.sf(right - 1, examples, guessing) > GUESSING_PROBABILITY
    as_stated = _is_as_stated(accuracy, examples, stated)
    compared = ""
    if near_chance:
        compared = f", not far from the {100 * chance:.1f} % of chance"
    elif stated is not None and not as_stated:
        compared = f", far below the {100 * stated:.1f} % that were stated when it was saved"
    elif better is None:
        return None
    text = f"{name} is right on {100 * accuracy:.1f} % of {counted(examples, 'example')}{compared}"
    if near_chance and as_stated:
        return (
            f"{text}: train it for more --epochs, or with a lower --learning-rate if its loss does "
            "not fall."
        )
    if better is not None:
        reading, exchanged, share = better
        mean, std = (",".join(f"{v:.4g}" for v in vs) for vs in (reading.mean, reading.std))
        options, advice = f"--mean {mean} --std {std}", "pass these if it was trained so"
        if exchanged:
            options += " and red and blue exchanged (BGR)"
            advice = "flip the input channels of its first layer, whose weights are in that order"
            advice += ", and pass these"
        return f"{text}, and on {100 * share:.1f} % of a part of them with {options}: {advice}."
    return (
        f"{text}: check that images are normalised as in its training (--mean, --std), and that "
        "weights and classes belong together."
    )


def _is_as_stated(accuracy: float, examples: int, stated: float | None) -> bool:
    """Tell whether a network is known to be as good as when it was saved."""
    if stated is None:
        return False
    spread = math.sqrt(stated * (1 - stated) / examples)
    return stated - accuracy <= max(TOLERATED_LOSS, DEVIATIONS * spread)


def better_reading(
    network: nn.Module, source: ImageSource, device: torch.device | str | None = None
) -> tuple[Preprocessing, bool, float] | None:
    """Find a way to read images with which a network is far more often right.

    It is a common normalisation, whether red and blue are exchanged, and the share that is right.
    """
    chosen = choose_per_class(source.labels, -(-TRIAL_IMAGES // len(source.classes)), seed=0)
    images, labels, own = source.images[chosen], source.labels[chosen], source.preprocessing
    candidates = [own, Preprocessing.from_images(images)]
    for mean, std in NORMALISATIONS:
        if len(mean) in (1, own.channels):
            mean, std = (v * (own.channels // len(v)) for v in (mean, std))
            candidates.append(replace(own, mean=mean, std=std))
    right = {}
    for exchanged in (False, True)[: 2 if own.channels == 3 else 1]:
        seeing = _Exchanged(network) if exchanged else network
        for one in candidates:
            normalised = ImageSource(images, labels, source.classes, one)
            # Any examples will do here, also those that the network was trained on.
            share = evaluate(seeing, normalised, part="train", device=device).accuracy
            right[one, exchanged] = share
    best = max(right, key=right.__getitem__)
    gain = right[best] - right[own, False]
    return (*best, right[best]) if gain > _least_gain(len(chosen)) else None


def better_order(confusion: Tensor) -> tuple[Tensor, float] | None:
    """Find the outputs of the classes with which a network is far more often right.

    The order is found on one half of the examples in a confusion matrix (K, K), and the share of
    right answers is that on the other half.
    """
    cells = torch.arange(confusion.numel()).repeat_interleave(confusion.flatten().cpu())
    drawn = cells[torch.randperm(len(cells), generator=torch.Generator().manual_seed(0))]
    half, other = (
        torch.bincount(part, minlength=confusion.numel()).view_as(confusion)
        for part in drawn.tensor_split(2)
    )
    right, before = int(other[range(len(other)), _outputs(half)].sum()), int(other.trace())
    count = int(other.sum())
    if right - before <= _least_gain(max(count, 1)) * count:
        return None
    return _outputs(confusion), right / count


def _outputs(confusion: Tensor) -> Tensor:
    """Assign an output to every class; a class without examples keeps its own if it can."""
    gains = confusion.double().cpu() + 1e-3 * torch.eye(len(confusion))
    return torch.from_numpy(linear_sum_assignment(gains.numpy(), maximize=True)[1])


def _least_gain(examples: int) -> float:
    return max(MIN_GAIN, DEVIATIONS * math.sqrt(0.25 / examples))


def _order_sentence(
    name: str, accuracy: float, source: Source, outputs: Tensor, share: float
) -> str:
    """Write a sentence on another order of classes, and the order itself into a file."""
    names = [*source.classes, *(f"other {k}" for k in range(len(outputs) - len(source.classes)))]
    with tempfile.NamedTemporaryFile(
        "w", prefix="vinets-classes-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.writelines(f"{' '.join(names[k].split())}\n" for k in outputs.argsort().tolist())
    return (
        f"{name} is right on {100 * accuracy:.1f} %; with its classes in another order it would be "
        f"right on about {100 * share:.0f} %: check {file.name}, where this order was written, and "
        "pass it by --classes (in Python, relabel the data by it)."
    )


def doubt_accuracy(
    name: str,
    network: nn.Module,
    source: Source,
    confusion: Tensor,
    stated: float | None = None,
    device: torch.device | str | None = None,
    trained: Tensor | int = 0,
) -> AccuracyWarning | None:
    """Return a warning of a network that is near chance, below what was stated, or misled.

    The matrix ``confusion`` is of examples of ``source``; the order of classes is also looked for
    in ``trained``, that of training examples. It is a :class:`MisreadWarning` where another order
    or another way to read images does far better.
    """
    examples, classes = int(confusion.sum()), len(source.classes)
    accuracy = float(confusion.trace()) / examples
    facts = name, accuracy, examples, classes, stated
    sentence, chance = low_accuracy_sentence(*facts), 1 / classes
    low = accuracy < chance + DOUBTED_SHARE * (1 - chance)
    # A network as good as when it was saved was trained with the normalisation that it has.
    unclear = not _is_as_stated(accuracy, examples, stated)
    order = better_order(confusion + trained) if unclear else None
    better = None
    if unclear and (low or sentence or order) and isinstance(source, ImageSource):
        better = better_reading(network, source, device)
    if order is not None and (better is None or order[1] > better[2]):
        return MisreadWarning(_order_sentence(name, accuracy, source, *order))
    sentence = low_accuracy_sentence(*facts, better)
    kind = AccuracyWarning if better is None else MisreadWarning
    return None if sentence is None else kind(sentence)
