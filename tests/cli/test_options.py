from __future__ import annotations

import pytest

from vinets.cli.options import cut_of, integers


def test_shapes_and_cuts_are_read():
    assert integers("--shape", "3, 32,32") == (3, 32, 32)
    assert [cut_of(t) for t in ("relu2", "50%", "-1", "7")] == ["relu2", "50%", -1, 7]


@pytest.mark.parametrize("text", ["", "3,,4", "3x32", "0,1", "1.5"])
def test_other_shapes_are_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as 3,32,32"):
        integers("--shape", text)
