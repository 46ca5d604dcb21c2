"""When two networks are level: cases that can be checked by hand."""

from __future__ import annotations

import pytest

from vinets.measure.accuracy import Difference, over_images


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
