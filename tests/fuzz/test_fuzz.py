from __future__ import annotations

import sys

import pytest

INPUTS, SEED = 500, 0  # make fuzz takes 100,000


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_every_reader_names_what_is_wrong_or_reads_it_right():
    from fuzz.harness import fuzz

    report = fuzz(SEED, range(INPUTS))
    print(report)
    assert not report.failures, str(report)
    assert report.inputs == INPUTS
    # both ways are taken: neither everything is refused nor everything read
    assert report.named.total() > INPUTS / 2 and report.accepted.total() > INPUTS / 20
