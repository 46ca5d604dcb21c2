from __future__ import annotations

import pytest

from vinets.report.numbers import difference, number


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (float("inf"), ".2f", "–"),
        (10**400, ".2f", "–"),
        ("10.5M", ",", "10.5M"),
        (3.0, ",d", "3"),
        (0.123, "+.1%", "+12.3%"),
        (-1.5, "10^.1f", "10^−1.5"),
        (1234.56, ",.1f×", "1,234.6×"),
        ([1], ".1f", "[1]"),
    ],
)
def test_odd_values_are_shown_as_they_can_be(value, spec, text):
    assert number(value, spec) == text
    assert difference(value, None, spec) == difference(None, value, spec) == ""
