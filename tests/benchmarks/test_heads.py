"""What heads cost beside a pooled layer: that what is timed does what it says."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn
from torch._inductor.utils import run_and_get_code

from benchmarks import heads
from vinets.heads import PooledHead, ProductsHead, fused
from vinets.latent import LatentReader
from vinets.networks import CutNetwork, Record

CUT = ("resnet18", "layer3.1.bn2")


@pytest.fixture(scope="module")
def group():
    torch.manual_seed(0)
    return heads.networks(*CUT, list(heads.HEADS))


@pytest.mark.parametrize("kind", heads.HEADS)
def test_all_that_is_timed_computes_the_same(group, kind):
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        plain, used = group[f"plain {kind}"](images), group[kind](images)
        pooled, floor = group["pooled"](images), group[f"floor of {kind}"](images)
    torch.testing.assert_close(used, plain, rtol=1e-3, atol=1e-4 * float(plain.abs().max()))
    assert torch.equal(floor, pooled)


def test_plain_really_runs_as_in_training(group, monkeypatch):
    asked = []
    monkeypatch.setattr(fused, "usable", lambda *_: asked.append(1))  # and it is not
    with torch.no_grad():
        group["plain best"](torch.zeros(2, 3, 32, 32))
        assert not asked
        group["best"](torch.zeros(2, 3, 32, 32))
    assert asked


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a compiler")
def test_a_compiled_floor_multiplies_matrices():
    pooled = CutNetwork(nn.Identity(), LatentReader(), PooledHead(4, 3), Record("", {})).eval()
    floor = heads.Floor(pooled, ProductsHead(4, 16, 3, count=8, rank=2).folded()).eval()
    counts = []
    for one in (pooled, floor):
        torch.compiler.reset()
        with torch.no_grad():
            _, (code,) = run_and_get_code(torch.compile(one), torch.randn(2, 4, 4, 4))
        counts.append(code.count("mm("))
    assert counts[1] == counts[0] + 1


def test_ratios_are_medians_over_windows_that_took_turns():
    found = {"pooled": [10.0, 5.0, 20.0], "best": [9.0, 4.0, 19.0], "floor of best": [9.5, 5.0, 19]}
    row = heads.row(*CUT, "best", 64, found)
    assert row["of_pooled"] == 0.9 and row["of_pooled_floor"] == 0.95
    assert "of_pooled_plain" not in row  # nothing was measured
