"""One rule for every comparison of accuracies: when two networks are level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from scipy.stats import t as student

BOOTSTRAP_DRAWS = 2_000
CONFIDENCE = 0.95
Wrong = Sequence[int]  # positions of the test images that a network gets wrong


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
