from __future__ import annotations

import pytest


def test_the_slope_is_that_of_the_memory():
    from soak.harness import Report

    assert Report([100.0 + 0.5 * i for i in range(20)]).slope == pytest.approx(0.5)
    assert Report([100.0] * 15 + [104.0] * 5).slope < 0.3  # a step
    assert Report([100.0, 101.0] * 10).slope == pytest.approx(0.0)


@pytest.mark.skipif("not __import__('os').path.exists('/proc/self/statm')", reason="reads memory")
def test_what_is_loaded_predicts_what_was_saved(tmp_path):
    from soak.harness import soak

    assert len(soak(tmp_path, 60, warm=1, iterations=3).memory) == 2
