"""A warning before work is wasted on a network that is hardly right, with the likely cause."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace

import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom
from torch import Tensor, nn

from vinets.core.checks import DoubtWarning, counted
from vinets.data import ImageSource, Preprocessing, Source
from vinets.data.source import choose_per_class
from vinets.measure.accuracy import evaluate

TOLERATED_LOSS = 0.05  # share of right answers below the stated accuracy that is passed over
GUESSING_PROBABILITY = 0.05  # a guessing network may be right as often with a lower probability
DEVIATIONS = 3  # standard deviations of a share of right answers that are passed over
DOUBTED_SHARE = 0.5  # other normalisations are tried below this share of the way from chance to 1
MIN_GAIN = 0.1  # share of right answers that another normalisation or order must gain to be named
TRIAL_IMAGES = 500
MAX_ORDERED_CLASSES = 4096  # another order of more is not looked for, which would take minutes

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


def low_accuracy_sentence(
    name: str,
    accuracy: float,
    examples: int,
    classes: int,
    stated: float | None = None,
    better: tuple[str, float] | None = None,
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
        return f"{text}, and on {100 * better[1]:.1f} % of a part of them with {better[0]}."
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
) -> tuple[str, float] | None:
    """Find a way to read images, in words, with which a network is far more often right."""
    chosen = choose_per_class(source.labels, -(-TRIAL_IMAGES // len(source.classes)), seed=0)
    images, labels, own = source.images[chosen], source.labels[chosen], source.preprocessing
    candidates = [own, Preprocessing.from_images(images)]
    for mean, std in NORMALISATIONS:
        if len(mean) in (1, own.channels):
            times = [own.channels // len(values) for values in (mean, std)]
            candidates.append(replace(own, mean=mean * times[0], std=std * times[1]))
    right = {}
    for step in (1, -1) if own.channels == 3 else (1,):
        pixels = images if step == 1 else images.flip(1)
        for one in candidates:
            seen = replace(one, mean=one.mean[::step], std=one.std[::step])
            normalised = ImageSource(pixels, labels, source.classes, seen)
            # Any examples will do here, also those that the network was trained on.
            test = evaluate(network, normalised, part="train", device=device)
            right[one, step < 0] = test.accuracy
    best = max(right, key=right.__getitem__)
    least = max(MIN_GAIN, DEVIATIONS * math.sqrt(0.25 / len(chosen)))
    if right[best] - right[own, False] <= least:
        return None
    shown = [",".join(f"{v:.4g}" for v in values) for values in (best[0].mean, best[0].std)]
    then = ":"
    if best[1]:
        then = " and blue in front of red (BGR): flip the input channels of its first layer, and"
    return f"--mean {shown[0]} --std {shown[1]}{then} pass these if it was trained so", right[best]


def better_order(confusion: Tensor) -> tuple[Tensor, float] | None:
    """Find the outputs of the classes with which a network is far more often right.

    They are found on one half of the examples in a confusion matrix (K, K); the share of right
    answers is that on the other half.
    """
    if len(confusion) > MAX_ORDERED_CLASSES:
        return None
    cells = torch.arange(confusion.numel()).repeat_interleave(confusion.flatten())
    cells = cells[torch.randperm(len(cells), generator=torch.Generator().manual_seed(0))]
    half, other = (
        part.bincount(minlength=confusion.numel()).view_as(confusion)
        for part in cells.tensor_split(2)
    )
    count, before = max(int(other.sum()), 1), int(other.trace())
    right = int(other[range(len(other)), _outputs(half)].sum())
    gains = right - before > max(MIN_GAIN * count, DEVIATIONS * math.sqrt(0.25 * count))
    return (_outputs(confusion), right / count) if gains else None


def _outputs(confusion: Tensor) -> Tensor:
    """Assign an output to every class; one without examples keeps its own where it can."""
    gains = confusion.double() + 1e-3 * torch.eye(len(confusion))
    return torch.from_numpy(linear_sum_assignment(gains.numpy(), maximize=True)[1])


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

    An order of classes that explains the ``confusion`` of ``source``, with that of ``trained``
    examples, is written into a file; it makes a :class:`MisreadWarning`, as other pixels do.
    """
    examples, classes = int(confusion.sum()), len(source.classes)
    accuracy, chance = float(confusion.trace()) / examples, 1 / classes
    facts = name, accuracy, examples, classes, stated
    sentence, order, better = low_accuracy_sentence(*facts), None, None
    low = accuracy < chance + DOUBTED_SHARE * (1 - chance)
    # A network as good as when it was saved was trained with the classes and pixels that it has.
    if not _is_as_stated(accuracy, examples, stated):
        order = better_order(confusion + trained)
        if (low or sentence or order) and isinstance(source, ImageSource):
            better = better_reading(network, source, device)
    if order is None or (better is not None and better[1] >= order[1]):
        sentence = low_accuracy_sentence(*facts, better)
        kind = AccuracyWarning if better is None else MisreadWarning
        return None if sentence is None else kind(sentence)
    names = [*source.classes, *(f"other {k}" for k in range(classes, len(confusion)))]
    with tempfile.NamedTemporaryFile(
        "w", suffix="-classes.txt", encoding="utf-8", delete=False
    ) as file:
        file.writelines(f"{' '.join(names[k].split())}\n" for k in order[0].argsort().tolist())
    return MisreadWarning(
        f"{name} is right on {100 * accuracy:.1f} %; with its classes in another order it would be "
        f"right on about {100 * order[1]:.0f} %: check {file.name}, where this order was written, "
        "and pass it by --classes (in Python, relabel the data by it)."
    )
