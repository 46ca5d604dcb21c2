"""Networks that others wrote, without their export: where they are cut, trained and saved."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.zoo import DOZEN, NAMES, NO_CUT, examine


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
@pytest.mark.parametrize("name", DOZEN)
def test_networks_of_others_are_cut_at_the_ends_of_blocks_and_do_all_that_ours_do(name):
    row = examine(name, onnx=False, checked=2)
    if name == "timm:crossvit_9_240":  # its two branches meet in the logits
        assert row["refused"] == NO_CUT
        return
    # no cut in an attention, a gate or the middle of a block
    inner = ("attn", "mlp", "se", "norm1", "norm2", "conv_dw", "conv_pw", "branch")
    assert not any(part in inner for end in row["names"] for part in end.split("."))
    assert row["ends"] >= 10 and 0 < row["kept"] < row["parameters"]
    assert row["folded"] < 1e-5 and row["loaded"] == 0


def test_the_zoo_is_as_large_as_it_says():
    assert len(NAMES) == len(set(NAMES)) and set(DOZEN) <= set(NAMES)
    assert sum(name.startswith("timm:") for name in NAMES) >= 60
