"""The measurements on a GPU, where there is one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets.measure import evaluate, flops, measure_speed, throughput

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

QUICK = {"repeats": 3, "seconds": 0.02, "device": "cuda"}


def test_peak_memory_is_that_of_a_known_chain():
    network = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.ReLU())
    x = torch.zeros(1, 2**20)  # 4 MiB an example: the blocks of the allocator do not matter
    (result,) = throughput(network, x, batch_sizes=(4,), **QUICK)
    assert result.peak_memory == pytest.approx(3 * 4 * 2**22, rel=0.01)
    beside = torch.zeros(2**26, device="cuda")  # what others hold does not count
    (again,) = throughput(network, x, batch_sizes=(4,), **QUICK)
    assert again.peak_memory == result.peak_memory and beside.is_cuda


def test_longer_work_takes_longer():
    # the GPU works on after the call returned; a clock that does not wait would not see it
    x = torch.randn(4096, 4096)
    one, ten = (nn.Sequential(*[nn.Linear(4096, 4096)] * n) for n in (1, 10))
    (fast,), (slow,) = measure_speed(
        {"one": one, "ten": ten}, x, batch_sizes=(4096,), **QUICK
    ).values()
    assert 5 < fast.median / slow.median < 20
    assert 5 < slow.latency_ms / fast.latency_ms < 20


def test_a_recorded_pass_takes_no_longer_and_what_cannot_be_recorded_is_refused():
    deep = nn.Sequential(*[nn.Linear(16, 16) for _ in range(100)])  # all launches
    x = torch.randn(1, 16)
    plain, recorded = (
        throughput(deep, x, batch_sizes=(16,), recorded=way, **QUICK)[0] for way in (False, True)
    )
    assert recorded.median > plain.median

    class Asks(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(ValueError, match="recorded=False"):
        throughput(Asks(), x, batch_sizes=(16,), recorded=True, **QUICK)


def test_cpu_and_gpu_agree():
    network = nn.Linear(6, 8)
    logits, labels = torch.randn(64, 6), torch.randint(8, (64,))
    here = evaluate(network, [(logits, labels)], device="cpu")
    there = evaluate(network, [(logits, labels)], device="cuda")
    assert here.loss == pytest.approx(there.loss, rel=1e-3)
    assert torch.equal(here.confusion, there.confusion) and network.weight.device.type == "cpu"
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    x = torch.zeros(2, 5, 16)
    assert flops(layer, x) == flops(layer.cuda(), x.cuda())
