"""Whether a network does what it should: a loud word before work is wasted on one that does not."""

from __future__ import annotations

import math
import warnings

from scipy.stats import binom

FAR = 0.05  # below what was stated, at least
RARE = 0.05  # how often a network that guesses may be right as often, for nothing to be said
DEVIATIONS = 3  # of the share of right answers


class AccuracyWarning(UserWarning):
    """A network is hardly better than chance, or far below what was stated."""


def doubt_about(
    name: str, accuracy: float, examples: int, classes: int, stated: float | None = None
) -> str | None:
    """One sentence on a network whose accuracy is no good sign, else None.

    It is near chance if it is not better, beyond doubt, than about 1.5 times chance; of few classes
    a smaller excess will do. It is far below the accuracy ``stated`` if it is so by 5 points and by
    3 standard deviations.

    Examples
    --------
    >>> doubt_about("net", 0.107, 1000, 10)[:62]
    'net is right on 10.7 % of 1,000 examples, hardly more than the'
    >>> doubt_about("net", 0.3, 1000, 10) is None
    True
    """
    chance = 1 / classes
    guessing = chance + chance * (1 - chance) / 2
    right = round(accuracy * examples)
    compared = None
    if binom.sf(right - 1, examples, guessing) > RARE:
        compared = f"hardly more than the {_percent(chance)} of chance"
    elif stated is not None:
        spread = math.sqrt(stated * (1 - stated) / examples)
        if stated - accuracy > max(FAR, DEVIATIONS * spread):
            compared = f"far below the {_percent(stated)} that were stated when it was saved"
    if compared is None:
        return None
    told = f"{name} is right on {_percent(accuracy)} of {examples:,} examples, {compared}"
    return (
        f"{told}: check that images are normalised as in its training (--mean, --std), and that "
        "weights and classes belong together."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def warn_of_doubt(
    name: str, accuracy: float, examples: int, classes: int, stated: float | None = None
) -> None:
    """Warn where :func:`doubt_about` has something to say."""
    doubt = doubt_about(name, accuracy, examples, classes, stated)
    if doubt is not None:
        warnings.warn(doubt, AccuracyWarning, stacklevel=3)
