"""A warning before work is wasted on a network that is hardly right, and what may be the cause."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import torch
from scipy.stats import binom
from torch import nn

from vinets.core.checks import DoubtWarning, counted
from vinets.data import ImageSource, Preprocessing, Source
from vinets.data.source import choose_per_class
from vinets.measure import evaluate

FAR = 0.05  # below what was stated, at least
RARE = 0.05  # how often a network that guesses may be right as often, for nothing to be said
DEVIATIONS = 3  # of the share of right answers
HALF = 0.5  # of the way from chance to certainty: below it, other normalisations are tried
AHEAD = 0.1  # that another normalisation has to be, to be named
TRIED_ON = 500  # images

USUAL = (  # means and deviations of pixels in [0, 1] that networks are trained with
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # ImageNet
    ((0.5,), (0.5,)),  # pixels in [-1, 1]
    ((0.0,), (1.0,)),  # pixels as they are
    ((0.0,), (1 / 255,)),  # bytes as they are
)


class AccuracyWarning(DoubtWarning):
    """A network is hardly better than chance, or far below what was stated."""


def low_accuracy_sentence(
    name: str,
    accuracy: float,
    examples: int,
    classes: int,
    stated: float | None = None,
    better: tuple[Preprocessing, float] | None = None,
) -> str | None:
    """A sentence on a network whose accuracy is suspiciously low; None if it is not.

    It is near chance if it is not better, beyond doubt, than 2.5 times chance, or, of few classes,
    than 15 % of the way from chance to certainty. It is far below the accuracy ``stated`` if it is
    so by 5 points and by 3 standard deviations; near chance as it was then, it needs more training.
    Another normalisation that is ``better``, and its accuracy, is always worth a word.

    Examples
    --------
    >>> low_accuracy_sentence("net", 0.187, 1000, 10)[:62]
    'net is right on 18.7 % of 1,000 examples, not far from the 10.'
    >>> low_accuracy_sentence("net", 0.3, 1000, 10) is None
    True
    """
    chance = 1 / classes
    guessing = chance + min(1.5 * chance, 0.15 * (1 - chance))
    right = round(accuracy * examples)
    compared = None
    near_chance = binom.sf(right - 1, examples, guessing) > RARE
    if near_chance:
        compared = f", not far from the {_percent(chance)} of chance"
    elif stated is not None and not _as_stated(accuracy, examples, stated):
        compared = f", far below the {_percent(stated)} that were stated when it was saved"
    if compared is None and better is None:
        return None
    told = (
        f"{name} is right on {_percent(accuracy)} of {counted(examples, 'example')}{compared or ''}"
    )
    if near_chance and _as_stated(accuracy, examples, stated):
        return (
            f"{told}: train it for more --epochs, or with a lower --learning-rate if its loss does "
            "not fall."
        )
    if better is not None:
        mean, std = (_with_commas(values) for values in (better[0].mean, better[0].std))
        return (
            f"{told}, and on {_percent(better[1])} of a part of them with --mean {mean} --std "
            f"{std}: pass these if it was trained so."
        )
    return (
        f"{told}: check that images are normalised as in its training (--mean, --std), and that "
        "weights and classes belong together."
    )


def _as_stated(accuracy: float, examples: int, stated: float | None) -> bool:
    """Whether a network is as good as when it was saved."""
    if stated is None:
        return False
    spread = math.sqrt(stated * (1 - stated) / examples)
    return stated - accuracy <= max(FAR, DEVIATIONS * spread)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def better_normalisation(
    network: nn.Module, source: ImageSource, device: torch.device | str | None = None
) -> tuple[Preprocessing, float] | None:
    """A usual normalisation with which a network is far more often right, and how often.

    They are tried on a few hundred of the images; that of the images themselves is one of them.
    """
    few = choose_per_class(source.labels, -(-TRIED_ON // len(source.classes)), seed=0)
    images, labels, own = source.images[few], source.labels[few], source.preprocessing
    tried = [Preprocessing.from_images(images)]
    for mean, std in USUAL:
        if len(mean) in (1, own.channels):
            times = own.channels // len(mean)
            tried.append(replace(own, mean=mean * times, std=std * times))
    right = {}
    for one in (own, *tried):
        given = ImageSource(images, labels, source.classes, one)
        right[one] = evaluate(network, given, device=device).accuracy
    best = max(right, key=lambda one: right[one])
    noise = DEVIATIONS * math.sqrt(0.25 / len(few))
    return (best, right[best]) if right[best] - right[own] > max(AHEAD, noise) else None


def warn_of_low_accuracy(
    name: str,
    network: nn.Module,
    source: Source,
    accuracy: float,
    stated: float | None = None,
    device: torch.device | str | None = None,
) -> None:
    """Warn of a network that is near chance, far below what was stated, or normalised wrongly.

    ``accuracy`` is what it has on ``source``. Where that is low and another normalisation does far
    better, this is named.
    """
    facts = name, accuracy, len(source), len(source.classes), stated
    sentence, chance = low_accuracy_sentence(*facts), 1 / len(source.classes)
    low = accuracy < chance + HALF * (1 - chance)
    # as good as when it was saved, it was trained with the normalisation that it has
    unclear = not _as_stated(accuracy, len(source), stated)
    if unclear and (low or sentence) and isinstance(source, ImageSource):
        sentence = low_accuracy_sentence(*facts, better_normalisation(network, source, device))
    if sentence is not None:
        warnings.warn(sentence, AccuracyWarning, stacklevel=3)


def _with_commas(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.4g}" for value in values)
