"""What accuracies tell: when two networks are level, and when one is hardly right.

There is one rule for every comparison, and a warning before work is wasted on a network that is
hardly better than chance, with the likely cause.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy as np
import torch
from scipy.stats import binom
from scipy.stats import t as student
from torch import nn

from vinets.core.checks import DoubtWarning, counted
from vinets.data import ImageSource, Preprocessing, Source
from vinets.data.source import choose_per_class
from vinets.measure.accuracy import evaluate

BOOTSTRAP_DRAWS = 2_000
CONFIDENCE = 0.95
Wrong = Sequence[int]  # positions of the test images that a network gets wrong

TOLERATED_LOSS = 0.05  # share of right answers below the stated accuracy that is passed over
GUESSING_PROBABILITY = 0.05  # a guessing network may be right as often with a lower probability
DEVIATIONS = 3  # standard deviations of a share of right answers that are passed over
DOUBTED_SHARE = 0.5  # other normalisations are tried below this share of the way from chance to 1
MIN_GAIN = 0.1  # share of right answers that another normalisation must gain to be named
TRIAL_IMAGES = 500

NORMALISATIONS = (  # means and deviations of pixels in [0, 1] that networks are trained with
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # ImageNet
    ((0.5,), (0.5,)),  # pixels in [-1, 1]
    ((0.0,), (1.0,)),  # pixels as they are
    ((0.0,), (1 / 255,)),  # bytes as they are
)


@dataclass(frozen=True)
class Difference:
    """Accuracy of one network less that of another, in points, with its 95 % interval."""

    value: float
    interval: tuple[float, float] | None = None  # None if nothing tells how sure it is

    @property
    def word(self) -> str:
        """Whether the first network is "ahead", "behind", "level" or "not decided"."""
        if self.interval is None:
            return "not decided"
        low, high = self.interval
        return "ahead" if low > 0 else "behind" if high < 0 else "level"

    @property
    def shown(self) -> str:
        """The interval in words."""
        ends = [f"{end:+.2f}".replace("-", "−") for end in self.interval or ()]
        return " to ".join(ends) or "one seed"


def over_images(splits: Sequence[tuple[Wrong, Wrong, int]]) -> Difference:
    """Compare over splits and test images, by a bootstrap in two stages.

    For every split there is what either network gets wrong, and the count of test images. Splits
    are drawn with replacement, then the images of each one that was drawn, which are the same for
    both networks. The generator has a fixed seed, so that the interval depends on the outcomes
    alone. An image counts +1, 0 or −1, so that drawing images is one multinomial draw.

    Examples
    --------
    >>> difference = over_images([((1,), (1, 2, 3, 4, 5, 6, 7), 100)] * 3)
    >>> round(difference.value, 6), difference.word
    (6.0, 'ahead')
    """
    shares = []
    for ours, theirs, count in splits:
        gained, lost = len({*theirs} - {*ours}), len({*ours} - {*theirs})
        shares.append((gained / count, lost / count, 1 - (gained + lost) / count))
    value = 100 * fmean(gained - lost for gained, lost, _ in shares)
    rng, counts = np.random.default_rng(0), np.array([count for *_, count in splits])
    chosen = rng.integers(len(shares), size=(BOOTSTRAP_DRAWS, len(shares)))
    sizes, probabilities = counts[chosen], np.array(shares)[chosen]
    drawn = rng.multinomial(sizes, probabilities)  # (draws, splits, 3)
    gaps = 100 * ((drawn[..., 0] - drawn[..., 1]) / sizes).mean(1)
    low, high = np.quantile(gaps, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Difference(value, (float(low), float(high)))


def over_seeds(gaps: Sequence[float]) -> Difference:
    """Compare over seeds by Student's t, where only accuracies are known.

    One seed says nothing about the spread, so that nothing is decided.

    Examples
    --------
    >>> over_seeds([0.5, 0.6, 0.7]).word, over_seeds([0.5, -0.6, 0.7]).word, over_seeds([9]).word
    ('ahead', 'level', 'not decided')
    """
    value = fmean(gaps)
    if len(gaps) < 2:
        return Difference(value)
    reach = student.ppf((1 + CONFIDENCE) / 2, len(gaps) - 1) * stdev(gaps) / math.sqrt(len(gaps))
    return Difference(value, (float(value - reach), float(value + reach)))


# --- doubts -------------------------------------------------------------------------------------


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
    """Write a sentence on a network whose accuracy is suspiciously low; None if it is not.

    It is near chance if it is not better, beyond doubt, than 2.5 times chance, or, with few
    classes, than 15 % of the way from chance to certainty. It is far below the accuracy ``stated``
    if it is so by 5 points and by 3 standard deviations; near chance as it was then, it needs more
    training. Another normalisation that is ``better``, and its accuracy, is always worth a word.
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
        mean, std = (",".join(f"{v:.4g}" for v in vs) for vs in (better[0].mean, better[0].std))
        return (
            f"{text}, and on {100 * better[1]:.1f} % of a part of them with --mean {mean} --std "
            f"{std}: pass these if it was trained so."
        )
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


def better_normalisation(
    network: nn.Module, source: ImageSource, device: torch.device | str | None = None
) -> tuple[Preprocessing, float] | None:
    """Find a common normalisation with which a network is far more often right, and how often."""
    chosen = choose_per_class(source.labels, -(-TRIAL_IMAGES // len(source.classes)), seed=0)
    images, labels, own = source.images[chosen], source.labels[chosen], source.preprocessing
    candidates = [own, Preprocessing.from_images(images)]
    for mean, std in NORMALISATIONS:
        if len(mean) in (1, own.channels):
            times = own.channels // len(mean)
            candidates.append(replace(own, mean=mean * times, std=std * times))
    right = {}
    for one in candidates:
        normalised = ImageSource(images, labels, source.classes, one)
        # Any examples will do here, also those that the network was trained on.
        right[one] = evaluate(network, normalised, part="train", device=device).accuracy
    best = max(right, key=right.__getitem__)
    least = max(MIN_GAIN, DEVIATIONS * math.sqrt(0.25 / len(chosen)))
    return (best, right[best]) if right[best] - right[own] > least else None


def warn_of_low_accuracy(
    name: str,
    network: nn.Module,
    source: Source,
    accuracy: float,
    stated: float | None = None,
    device: torch.device | str | None = None,
) -> None:
    """Warn of a network that is near chance on ``source``, below what was stated, or misled.

    Where another normalisation does far better, this is named.
    """
    facts = name, accuracy, len(source), len(source.classes), stated
    sentence, chance = low_accuracy_sentence(*facts), 1 / len(source.classes)
    low = accuracy < chance + DOUBTED_SHARE * (1 - chance)
    # A network as good as when it was saved was trained with the normalisation that it has.
    unclear = not _is_as_stated(accuracy, len(source), stated)
    if unclear and (low or sentence) and isinstance(source, ImageSource):
        sentence = low_accuracy_sentence(*facts, better_normalisation(network, source, device))
    if sentence is not None:
        warnings.warn(sentence, AccuracyWarning, stacklevel=3)
