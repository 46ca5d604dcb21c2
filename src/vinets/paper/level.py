"""When two heads are level, by the rule of :mod:`vinets.measure.level`."""

from __future__ import annotations

from collections.abc import Sequence

from vinets.measure.level import Difference, over_images, over_seeds
from vinets.runs.trial import TrainingFacts


def level(ours: Sequence[TrainingFacts], theirs: Sequence[TrainingFacts]) -> Difference:
    """Compare two heads over the same splits or seeds, pair by pair.

    They are level if the paired 95 % interval of the difference in accuracy contains 0. The
    interval is that of :func:`over_images` where results keep which test images were answered
    wrongly, and otherwise that of :func:`over_seeds`.
    """
    pairs = list(zip(ours, theirs, strict=True))
    if all(a.wrong is not None and b.wrong is not None and a.tested for a, b in pairs):
        # The conditions above, which a type checker does not follow into the list.
        return over_images([(a.wrong or (), b.wrong or (), a.tested or 0) for a, b in pairs])
    return over_seeds([100 * (a.accuracy - b.accuracy) for a, b in pairs])


def level_with_uncut(ours: Sequence[TrainingFacts]) -> Difference:
    """Compare a head with the uncut networks of its splits, by the rule of :func:`level`."""
    if all(a.wrong is not None and a.uncut_wrong is not None and a.tested for a in ours):
        return over_images([(a.wrong or (), a.uncut_wrong or (), a.tested or 0) for a in ours])
    return over_seeds([100 * (a.accuracy - a.uncut) for a in ours])
