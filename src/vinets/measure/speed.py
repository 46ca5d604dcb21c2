"""How fast networks are, alone and side by side with others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from vinets.core.checks import parameter_error
from vinets.core.device import (
    Clock,
    Inputs,
    call,
    on_side_stream,
    record_graph,
    resolve_device,
    tensors_of,
)
from vinets.core.options import check_value, flat, whole
from vinets.core.settings import FormatOptions, WindowOptions
from vinets.export import ExportedNetwork
from vinets.measure.cost import peak_bytes
from vinets.measure.running import Setting, batch_of, limited_threads


@dataclass(frozen=True)
class Throughput:
    """The speed of a network at one batch size, in examples per second over the windows."""

    batch_size: int
    mean: float
    std: float  # the sample deviation, 0 for one window
    median: float
    rates: tuple[float, ...]  # of each window, in compare next to those of the other networks
    latency_ms: float  # of one forward pass that is waited for; the median over the windows
    peak_memory: int | None  # bytes of weights, inputs, intermediate tensors at the fullest moment
    device: str
    recorded: bool = False  # whether passes were replayed as a CUDA graph

    def ratio_to(self, reference: Throughput) -> float:
        """How many times as fast as a network measured beside it; the median over the windows."""
        pairs = zip(self.rates, reference.rates, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)


def throughput(network: nn.Module, example: Inputs, **options: Any) -> list[Throughput]:
    """Measure one network; the options are those of :func:`compare`.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    >>> fast = throughput(net, torch.zeros(1, 8), batch_sizes=(4,), seconds=0.01, device="cpu")
    >>> fast[0].batch_size, len(fast[0].rates), fast[0].peak_memory  # 288 + 3 * 128
    (4, 5, 672)
    """
    measured: list[Throughput] = compare({"network": network}, example, **options)["network"]
    return measured


@flat(windows=WindowOptions, formats=FormatOptions)
def compare(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    *,
    batch_sizes: Sequence[int] = (1, 32, 256),
    device: str | torch.device = "auto",
    compile: bool = False,
    windows: WindowOptions,
    formats: FormatOptions,
) -> dict[str, list[Throughput]]:
    """Measure networks side by side: their windows take turns, so that drift hits all alike.

    For each network there is one result per batch size, the number of examples in a forward pass.

    Parameters
    ----------
    networks : dict of str to Module
        The networks by name. They are not changed: copies run, in eval mode without gradients.
        Exported files, of :func:`vinets.export.open_exported`, run on the CPU in their own
        precision, not compiled, with the threads of torch; their peak memory is not known.
    example : Tensor or dict of Tensor
        A batch of inputs; its rows are repeated to fill each batch.
    compile : bool
        Use ``torch.compile`` with fixed shapes. On the CPU the peak memory is then still that of
        the network as it is.
    windows, formats
        Objects of WindowOptions and FormatOptions of :mod:`vinets.core.settings`; their fields are
        keywords here, such as ``repeats=3`` and ``amp=True``.
    """
    setting = Setting(resolve_device("compare", device), formats)
    found = networks.values() if isinstance(networks, Mapping) else ()
    if not found or not all(isinstance(network, nn.Module) for network in found):
        got = [type(n).__name__ for n in found] or type(networks).__name__
        raise parameter_error("compare", "networks", "a dict from names to networks", got)
    if not isinstance(batch_sizes, Sequence) or isinstance(batch_sizes, str) or not batch_sizes:
        accepted = "a list of positive integers"
        raise parameter_error("compare", "batch_sizes", accepted, batch_sizes)
    for size in batch_sizes:
        check_value("compare", "batch_sizes", whole(), size)
    if setting.device.type != "cpu" and any(isinstance(n, ExportedNetwork) for n in found):
        accepted = "'cpu' for exported files, which run there"
        raise parameter_error("compare", "device", accepted, str(setting.device))
    batch_of("compare", example)
    results: dict[str, list[Throughput]] = {name: [] for name in networks}
    compiling = _compiling() if compile else nullcontext()
    with limited_threads(formats.threads), torch.no_grad(), compiling:
        # One copy for all batch sizes; a compiled network is made anew for each, with its shapes.
        copies = {name: setting.network(network) for name, network in networks.items()}
        for batch_size in batch_sizes:
            inputs = setting.inputs(example, batch_size)
            runners = {
                name: _Runner(network, inputs, batch_size, setting, compile)
                for name, network in copies.items()
            }
            for runner in runners.values():
                runner.prepare(windows.warmup, windows.seconds)
            for _ in range(windows.repeats):
                for runner in runners.values():
                    runner.window(windows.seconds)
            for name, runner in runners.items():
                results[name].append(runner.result())
    return results


def _compiling() -> AbstractContextManager[Any]:
    """Raises the limit after which torch runs further modules of one class uncompiled."""
    config = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # 2.6
    changed: AbstractContextManager[Any] = config.patch({limit: 1000})
    return changed


class _Runner:
    """One network with one batch, and what its windows measured.

    Every window adds to ``rates`` its examples per second, and to ``latencies`` the seconds of a
    pass that is waited for; ``peak`` is the peak memory of one pass in bytes, if it is known.
    """

    def __init__(
        self, network: nn.Module, inputs: Inputs, batch_size: int, setting: Setting, compile: bool
    ) -> None:
        self.plain = network
        self.exported = isinstance(network, ExportedNetwork)
        compiled = compile and not self.exported
        self.network = torch.compile(network, dynamic=False) if compiled else network
        self.inputs = inputs
        self.batch_size = batch_size
        self.setting = setting
        self.clock = Clock(setting.device)
        self.chunk = 1  # on the CPU each pass is timed by itself
        self.recorded = setting.formats.recorded and self.clock.on_cuda
        self.peak: int | None = None
        self.rates: list[float] = []
        self.latencies: list[float] = []

    def prepare(self, warmup: int, seconds: float) -> None:
        """Warm up, take the peak memory and choose how many passes run between two marks."""
        self._run(self.network, max(1, warmup) if self.exported else warmup)  # it starts threads
        if self.exported:
            return
        held = [*self.plain.parameters(), *self.plain.buffers(), *tensors_of(self.inputs)]
        # What a compiled network allocates on the CPU cannot be followed.
        network = self.network if self.clock.on_cuda else self.plain
        self.peak = peak_bytes(lambda: self._run(network, 1), held, self.setting.device)
        if self.recorded:
            self.network = self._as_graph()
        if self.clock.on_cuda:  # waiting after each pass would leave the GPU idle
            alone = statistics.median(self._seconds_per_pass(1, 0.0) for _ in range(3))
            # A quarter of a window between two marks, so that it ends soon after its time.
            self.chunk = max(1, int(seconds / 4 / max(alone, 1e-6)))

    def _as_graph(self) -> Callable[..., None]:
        """A pass as a CUDA graph. It reads where its inputs lie, which stay where they are."""
        one_pass = partial(self._run, self.network, 1)
        on_side_stream(one_pass)
        graph, _ = record_graph(one_pass, "measure it with recorded=False")
        return lambda *_, **__: graph.replay()

    def window(self, seconds: float) -> None:
        """Run for at least that long; on a GPU then also for a fifth of it pass by pass."""
        per_pass = self._seconds_per_pass(self.chunk, seconds)
        self.rates.append(self.batch_size / per_pass)
        if self.chunk > 1:
            per_pass = self._seconds_per_pass(1, seconds / 5)
        self.latencies.append(per_pass)

    def _seconds_per_pass(self, chunk: int, seconds: float) -> float:
        spent, passes = 0.0, 0
        while not passes or spent < seconds:
            spent += self.clock.seconds(lambda: self._run(self.network, chunk))
            passes += chunk
        return spent / passes

    def _run(self, network: Callable[..., Any], passes: int) -> None:
        for _ in range(passes):
            # A context for each pass: inside of one, weights that were cast are kept for the next.
            with self.setting.autocast():
                call(network, self.inputs)

    def result(self) -> Throughput:
        """Statistics of the windows."""
        return Throughput(
            self.batch_size,
            statistics.fmean(self.rates),
            statistics.stdev(self.rates) if len(self.rates) > 1 else 0.0,
            statistics.median(self.rates),
            tuple(self.rates),
            1e3 * statistics.median(self.latencies),
            self.peak,
            str(self.setting.device),
            self.recorded,
        )
