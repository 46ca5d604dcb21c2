from __future__ import annotations

import getpass
import json
import os
import platform
import socket
import statistics
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import vinets
from vinets.core.plain import as_plain
from vinets.measure import machine, measure_speed, throughput
from vinets.measure.speed import limited_threads

QUICK = {"repeats": 3, "seconds": 0.005, "warmup": 1, "device": "cpu"}


@pytest.fixture(autouse=True, scope="module")
def _short_windows():
    """Windows here last as long as they are told to."""


class Applies(nn.Module):
    """Calls a function on itself and its inputs; copies of the network share the function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs, **named):
        return self.function(self, *inputs, **named)


def test_the_numbers_of_a_result_belong_together():
    results = throughput(nn.Linear(8, 4), torch.zeros(2, 8), batch_sizes=(1, 6), **QUICK)
    assert [r.batch_size for r in results] == [1, 6]
    for r in results:
        assert len(r.rates) == 3 and min(r.rates) > 0 and r.device == "cpu"
        assert r.mean == pytest.approx(sum(r.rates) / 3)
        assert r.std == pytest.approx(statistics.stdev(r.rates))
        assert r.median == sorted(r.rates)[1]
        assert r.latency_ms == pytest.approx(1e3 * r.batch_size / r.median)
        assert r.peak_memory == 4 * (8 * 4 + 4 + r.batch_size * (8 + 4))
        assert json.loads(json.dumps(as_plain(r)))["rates"] == list(r.rates)


def test_windows_last_as_long_as_asked_and_give_the_rate(monkeypatch):
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr("vinets.core.device.time", clock)

    def work(seconds, network, x):  # which alone makes the time pass
        clock.now += seconds
        return x

    def measured(seconds, batch, repeats):
        network, options = Applies(partial(work, seconds)), QUICK | {"seconds": 1.0, "warmup": 3}
        options |= {"repeats": repeats, "batch_sizes": (batch,)}
        return throughput(network, torch.zeros(1, 1), **options)[0]

    result = measured(0.25, 5, repeats=4)
    assert result.rates == (20.0,) * 4 and result.std == 0 and result.latency_ms == 250
    assert clock.now == 3 * 0.25 + 0.25 + 4 * 1.0  # warm-up, memory, windows
    result = measured(8.0, 4, repeats=1)  # one pass is longer than the window
    assert result.rates == (0.5,) and result.std == 0


def test_networks_take_turns():
    log = []

    def record(name, network, x):
        log.append((name, len(x), network.training, torch.is_grad_enabled()))
        return x

    networks = {name: Applies(partial(record, name)) for name in "abc"}
    options = {**QUICK, "seconds": 0.0, "warmup": 2}
    results = measure_speed(networks, torch.zeros(2, 3), batch_sizes=(4, 1), **options)
    assert list(results) == ["a", "b", "c"]
    names = [name for name, size, *_ in log if size == 4]
    assert names == ["a"] * 3 + ["b"] * 3 + ["c"] * 3 + ["a", "b", "c"] * 3  # memory takes a pass
    assert {entry[2:] for entry in log} == {(False, False)}
    assert [size for _, size, *_ in log] == [4] * 18 + [1] * 18


def test_batches_repeat_the_rows_of_the_example():
    seen = []

    def look(network, pixels, mask):
        seen.append((pixels[:, 0].tolist(), mask.tolist()))
        return pixels

    example = {"pixels": torch.tensor([[1.0], [2.0]]), "mask": torch.tensor([3, 4])}
    throughput(Applies(look), example, batch_sizes=(5,), **QUICK)
    assert seen[0] == ([1, 2, 1, 2, 1], [3, 4, 3, 4, 3])


def test_settings_reach_the_network_and_leave_it_alone():
    seen = []

    class Look(nn.Conv2d):
        def forward(self, x):
            y = super().forward(x)
            formats = [t.is_contiguous(memory_format=torch.channels_last) for t in (x, self.weight)]
            seen.append((*formats, y.dtype, torch.get_num_threads()))
            return y

    before = torch.get_num_threads()
    network = Look(3, 4, 3).train()
    options = {**QUICK, "amp": True, "channels_last": True, "threads": 2}
    throughput(network, torch.zeros(1, 3, 8, 8), batch_sizes=(2,), **options)
    assert set(seen) == {(True, True, torch.bfloat16, 2)}
    assert torch.get_num_threads() == before
    assert network.training and network.weight.is_contiguous()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_sizes": ()}, "'batch_sizes' .* a list of positive integers"),
        ({"batch_sizes": (0,)}, "'batch_sizes' .* a positive integer"),
        ({"repeats": 0}, "'repeats' .* a positive integer"),
        ({"threads": 0}, "'threads' .* a positive integer, or None"),
        ({"device": "tpu"}, "'device' .* 'auto', 'cpu' or a CUDA device"),
        ({"device": "cuda:99"}, "'device' .* CUDA devices are available"),
        *(({"networks": n}, "a dict from names to networks") for n in ({}, nn.ReLU(), {"a": 1})),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        measure_speed(
            **{"networks": {"": nn.Linear(2, 2)}, "example": torch.zeros(1, 2)} | QUICK | options
        )


def test_many_networks_of_one_class_are_all_compiled(monkeypatch):
    compiled, by_torch = [], torch.compile

    def count(module, _):
        compiled.append(module)
        return module.forward

    monkeypatch.setattr(torch, "compile", partial(by_torch, backend=count))
    torch.compiler.reset()
    many = {str(size): nn.Sequential(nn.Linear(4, size)) for size in range(1, 13)}
    measure_speed(many, torch.zeros(1, 4), batch_sizes=(1,), compile=True, **QUICK)
    assert len(compiled) == len(many)


def test_threads_come_back_even_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise RuntimeError("stop")
    assert torch.get_num_threads() == before


def test_the_facts_are_those_of_this_machine_and_name_no_host_user_or_path():
    facts = machine("cpu")
    assert facts["vinets"] == vinets.__version__ and facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert facts["torch_threads"] == torch.get_num_threads()
    assert 1 <= facts["cores"] <= os.cpu_count()
    assert facts["processor"] and facts["device"] == "cpu"
    assert facts["gpu"] is None and facts["cuda"] is None
    text = " ".join(map(str, json.loads(json.dumps(machine())).values()))
    assert str(Path.home()) not in text and str(Path.cwd()) not in text
    assert not {socket.gethostname(), getpass.getuser()} & set(text.split())
