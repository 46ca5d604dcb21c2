from __future__ import annotations

import pytest

from vinets.cli.parsing import count_or_all, cut_of, integers, share_or_count


def test_counts_shares_and_cuts_are_read():
    assert integers("--shape", "3, 32,32") == (3, 32, 32)
    assert [share_or_count("--keep", t) for t in ("7", "12.5%", "100%", "all")] == [
        7,
        0.125,
        1.0,
        None,
    ]
    assert [cut_of(t) for t in ("relu2", "50%", "-1", "7")] == ["relu2", "50%", -1, 7]


@pytest.mark.parametrize("text", ["", "3,,4", "3x32", "0,1", "1.5"])
def test_other_shapes_are_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as 3,32,32"):
        integers("--shape", text)


@pytest.mark.parametrize("text", ["0", "-3", "many", "0.5", ""])
def test_other_counts_are_refused(text):
    with pytest.raises(ValueError, match="positive integer or 'all'"):
        count_or_all("--monomials", text)


@pytest.mark.parametrize("text", ["0%", "101%", "x%", "%", "nan%"])
def test_other_shares_are_refused(text):
    with pytest.raises(ValueError, match="up to 100%"):
        share_or_count("--keep", text)
