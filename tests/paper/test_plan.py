"""What experiments share: verdicts over splits, and series over cuts."""

from __future__ import annotations

from statistics import stdev

import pytest
from scipy.stats import ttest_1samp

from vinets.measure.accuracy import Difference
from vinets.paper.plan import EXPERIMENTS, Plan, level, series_of
from vinets.report.values import Series
from vinets.runs.trial import TrainingFacts


def facts(wrong, count=100, uncut=(), kept=True):
    """Return results of a network that gets these images wrong."""
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


def test_images_that_both_get_wrong_do_not_count_and_one_image_decides_nothing():
    same = [facts(range(50))] * 3
    assert level(same, same) == Difference(0.0, (0.0, 0.0))
    assert level([facts(())] * 3, [facts((0,))] * 3).word == "level"


def test_the_difference_is_the_mean_over_splits_and_changes_sides_with_the_networks():
    ours, theirs = [facts(()), facts(range(4))], [facts(range(2)), facts(())]
    assert level(ours, theirs).value == pytest.approx((2 - 4) / 2)
    ours, theirs = [facts(range(3))] * 3, [facts(range(2, 15))] * 3
    one, other = level(ours, theirs), level(theirs, ours)
    assert (one.word, other.word) == ("ahead", "behind")
    assert one.interval == pytest.approx((-other.interval[1], -other.interval[0]), abs=0.5)


def test_uncut_networks_are_compared_with_the_answers_that_were_kept():
    difference = level([facts(range(20), uncut=range(2))] * 3)
    assert difference.value == pytest.approx(-18) and difference.word == "behind"


def test_without_answers_seeds_are_compared_by_student():
    ours = [facts(range(n), kept=False) for n in (1, 2, 3, 5)]
    theirs = [facts(range(n), kept=False) for n in (3, 3, 6, 7)]
    expected = ttest_1samp([2.0, 1.0, 3.0, 2.0], 0.0).confidence_interval(0.95)
    difference = level(ours, theirs)
    assert difference.interval == pytest.approx(tuple(expected))
    assert difference.value == pytest.approx(2.0) and difference.word == "ahead"
    assert level(ours[:1], theirs[:1]).word == level(ours[:1]).word == "not decided"


def test_series_have_a_point_for_every_cut_with_the_mean_over_seeds():
    points = {("a", "early", 0): (9, 1.0), ("a", "late", 0): (5, 3.0), ("a", "late", 1): (6, 4.0)}
    assert series_of(points | {("b", "late"): (5, 7)}) == (
        Series("a", (9, 5), (1.0, 3.5), ("early", "late"), (None, stdev((3, 4)))),
        Series("b", (5,), (7,), ("late",)),
    )


def test_quick_and_full_results_are_kept_apart():
    plans = (Plan(), Plan(seeds=2, quick=True, backbones=("resnet18",)))
    names = [{t.name for t in EXPERIMENTS["fig-truncation"].trials(plan)} for plan in plans]
    assert not names[0] & names[1]
