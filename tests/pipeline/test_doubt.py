from __future__ import annotations

import warnings

import pytest

from vinets.pipeline.doubt import AccuracyWarning, doubt_about, warn_of_doubt


@pytest.mark.parametrize(
    ("accuracy", "examples", "classes", "stated", "told"),
    [
        (0.107, 1000, 10, None, "hardly more than the 10.0 % of chance"),
        (0.0, 1000, 10, 0.9, "hardly more"),
        (0.2, 1000, 10, None, None),
        (0.2, 20, 10, None, "hardly more"),  # so few examples say little
        (0.016, 10_000, 100, None, "hardly more than the 1.0 % of chance"),
        (0.03, 10_000, 100, None, None),
        (0.55, 1000, 2, None, "hardly more than the 50.0 % of chance"),
        (0.7, 1000, 2, None, None),
        (0.5, 1000, 10, 0.93, "far below the 93.0 % that were stated"),
        (0.9, 1000, 10, 0.93, None),
        (0.86, 20, 10, 0.93, None),  # within what 20 examples can differ by
        (0.99, 1000, 10, 0.93, None),
    ],
)
def test_what_is_worth_a_word(accuracy, examples, classes, stated, told):
    found = doubt_about("net", accuracy, examples, classes, stated)
    assert found is None if told is None else told in found and found.count(". ") == 0


def test_a_doubt_is_a_warning_of_its_own_kind():
    with pytest.warns(AccuracyWarning, match="net is right on 10"):
        warn_of_doubt("net", 0.1, 100, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_doubt("net", 0.9, 100, 10)
