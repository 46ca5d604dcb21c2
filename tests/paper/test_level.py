"""When two networks are level: cases that can be checked by hand."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_1samp

from vinets.measure.level import Difference, over_images, over_seeds
from vinets.paper.level import level, level_with_uncut
from vinets.runs.trial import TrainingFacts


def facts(wrong, count=100, uncut=(), kept=True):
    """A network that gets these images wrong."""
    return TrainingFacts(
        accuracy=1 - len(wrong) / count,
        uncut=1 - len(uncut) / count,
        train_accuracy=1.0,
        loss=0.0,
        parts={"backbone": 1},
        seconds=0.0,
        wrong=tuple(wrong) if kept else None,
        uncut_wrong=tuple(uncut) if kept else None,
        tested=count if kept else None,
    )


@pytest.mark.parametrize(
    ("interval", "word"),
    [
        ((0.1, 0.5), "ahead"),
        ((-0.5, -0.1), "behind"),
        ((-0.5, 0.1), "level"),
        ((0.0, 0.5), "level"),  # an end at 0 belongs to the interval
        (None, "not decided"),
    ],
)
def test_the_word_says_where_zero_lies(interval, word):
    assert Difference(0.2, interval).word == word


def test_images_that_both_get_wrong_do_not_count():
    same = [facts(range(50))] * 3
    found = level(same, same)
    assert found == Difference(0.0, (0.0, 0.0)) and found.word == "level"


def test_the_difference_is_the_mean_over_splits():
    ours, theirs = [facts(()), facts(range(4))], [facts(range(2)), facts(())]
    assert level(ours, theirs).value == pytest.approx((2 - 4) / 2)


def test_swapping_the_networks_swaps_the_interval():
    ours, theirs = [facts(range(3))] * 3, [facts(range(2, 15))] * 3
    one, other = level(ours, theirs), level(theirs, ours)
    assert (one.word, other.word) == ("ahead", "behind")
    assert one.interval == pytest.approx((-other.interval[1], -other.interval[0]), abs=0.5)


def test_one_image_decides_nothing():
    assert level([facts(())] * 3, [facts((0,))] * 3).word == "level"


def test_the_interval_is_that_of_the_binomial_where_splits_are_alike():
    """With equal splits only the images vary: a normal interval of 3 times 1,000 images."""
    splits = [(range(100), range(50, 210), 1_000)] * 3  # 110 gained, 50 lost
    found = over_images(splits)
    spread = ((0.11 + 0.05 - 0.06**2) / 3_000) ** 0.5
    assert found.value == pytest.approx(6.0)
    assert found.interval == pytest.approx((6 - 196 * spread, 6 + 196 * spread), abs=0.15)


def test_splits_that_disagree_widen_the_interval():
    alike = over_images([((), range(10), 1_000)] * 3)
    apart = over_images([((), range(30), 1_000), ((), (), 1_000), ((), (), 1_000)])
    assert alike.value == apart.value
    assert alike.word == "ahead" and apart.word == "level"


def test_the_interval_is_always_the_same():
    splits = [(range(3), range(2, 9), 100), (range(5), range(4), 100)]
    assert over_images(splits) == over_images(splits)


def test_uncut_networks_are_compared_with_the_answers_that_were_kept():
    ours = [facts(range(20), uncut=range(2))] * 3
    found = level_with_uncut(ours)
    assert found.value == pytest.approx(-18) and found.word == "behind"


def test_without_answers_seeds_are_compared_by_student():
    ours = [facts(range(n), kept=False) for n in (1, 2, 3, 5)]
    theirs = [facts(range(n), kept=False) for n in (3, 3, 6, 7)]
    gaps = [2.0, 1.0, 3.0, 2.0]
    expected = ttest_1samp(gaps, 0.0).confidence_interval(0.95)
    found = level(ours, theirs)
    assert found.interval == pytest.approx(tuple(expected))
    assert found == over_seeds(gaps) or found.value == pytest.approx(2.0)
    assert found.word == "ahead"


def test_one_seed_without_answers_is_not_decided():
    one = [facts(range(9), kept=False)]
    assert level(one, [facts((), kept=False)]).word == "not decided"
    assert level_with_uncut(one).word == "not decided"
