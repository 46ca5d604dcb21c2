"""The speed of networks, which take turns while they are timed, and the machine they run on."""

from __future__ import annotations

import copy
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vinets.core.checks import parameter_error
from vinets.core.device import (
    Clock,
    Inputs,
    batch_of,
    call,
    each,
    on_side_stream,
    record_graph,
    resolve_device,
    tensors_of,
)
from vinets.core.options import check_value, flat, whole
from vinets.core.settings import FormatOptions, WindowOptions
from vinets.export import ExportedNetwork
from vinets.measure.cost import peak_bytes


@dataclass(frozen=True)
class Throughput:
    """The speed of a network at one batch size, in examples per second over the windows."""

    batch_size: int
    mean: float
    std: float  # the sample deviation, 0 for one window
    median: float
    rates: tuple[float, ...]  # one for each window, next to those of the other networks
    latency_ms: float  # one forward pass that is waited for; the median over the windows
    peak_memory: int | None  # bytes of weights, inputs, intermediate tensors at the fullest moment
    device: str
    recorded: bool = False  # passes were replayed as a CUDA graph

    def ratio_to(self, reference: Throughput) -> float:
        """Divide by the speed of a network measured in turns; the median over the windows."""
        pairs = zip(self.rates, reference.rates, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)


def throughput(network: nn.Module, example: Inputs, **options: Any) -> list[Throughput]:
    """Measure one network; the options are those of :func:`measure_speed`."""
    (results,) = measure_speed({"": network}, example, **options).values()
    return list(results)


@flat(windows=WindowOptions, formats=FormatOptions)
def measure_speed(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    *,
    batch_sizes: Sequence[int] = (1, 32, 256),
    device: str | torch.device = "auto",
    compile: bool = False,
    memory: bool = True,
    windows: WindowOptions,
    formats: FormatOptions,
) -> dict[str, list[Throughput]]:
    """Time networks whose windows take turns, so that drift hits all alike.

    For each network there is one result per batch size, the number of examples in a forward pass.

    Parameters
    ----------
    networks : dict of str to Module
        By name. They are not changed: copies run, in eval mode without gradients. Exported files
        run on the CPU in their own precision, not compiled, with the threads of torch; their peak
        memory is not known.
    example : Tensor or dict of Tensor
        A batch of inputs; its rows are repeated to fill each batch.
    compile : bool
        Use ``torch.compile`` with fixed shapes. On the CPU the peak memory is then still that of
        the network as it is.
    memory : bool
        Whether to follow the peak memory of a pass.
    windows, formats
        Fields of WindowOptions and FormatOptions are keywords, such as ``repeats=3``, ``amp=True``.
    """
    owner, on = "measure_speed", resolve_device("measure_speed", device)
    modules = named_networks(owner, networks).values()
    if not isinstance(batch_sizes, Sequence) or isinstance(batch_sizes, str) or not batch_sizes:
        raise parameter_error(owner, "batch_sizes", "a list of positive integers", batch_sizes)
    for size in batch_sizes:
        check_value(owner, "batch_sizes", whole(), size)
    if on.type != "cpu" and any(isinstance(network, ExportedNetwork) for network in modules):
        accepted = "'cpu' for exported files, which run there"
        raise parameter_error(owner, "device", accepted, str(on))
    batch_of(owner, example)
    layout = torch.channels_last if formats.channels_last else torch.preserve_format
    copies: dict[str, Any] = {name: copy.deepcopy(one).to(on) for name, one in networks.items()}
    for one in copies.values():
        one.eval().to(memory_format=layout)

    def fill(tensor: Tensor) -> Tensor:
        tensor = tensor[torch.arange(size, device=tensor.device) % len(tensor)].to(on)
        return tensor.to(memory_format=layout) if tensor.ndim == 4 else tensor

    results: dict[str, list[Throughput]] = {name: [] for name in networks}
    compiling: Any = nullcontext()
    if compile:  # torch runs further modules of one class uncompiled beyond this limit
        config = torch._dynamo.config
        limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
        compiling = config.patch({limit: 1000})
    with limited_threads(formats.threads), torch.no_grad(), compiling:
        for size in batch_sizes:
            inputs = each(example, fill)
            # A compiled network is made anew for each batch size, with its shapes.
            options = inputs, size, on, windows, formats, compile, memory
            runners = [_Runner(one, *options) for one in copies.values()]
            for _ in range(windows.repeats):
                for runner in runners:
                    runner.window(windows.seconds)
            for name, runner in zip(copies, runners, strict=True):
                results[name].append(runner.result())
    return results


def named_networks(owner: str, networks: Any) -> Mapping[str, nn.Module]:
    """Return networks by name, at least one, or raise."""
    modules = list(networks.values()) if isinstance(networks, Mapping) else []
    if not modules or not all(isinstance(network, nn.Module) for network in modules):
        got = [type(network).__name__ for network in modules] or type(networks).__name__
        raise parameter_error(owner, "networks", "a dict from names to networks", got)
    return networks


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads inside one operation; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Runner:
    """One network with one batch, warmed up, and the measurements of its windows."""

    def __init__(
        self,
        network: nn.Module,
        inputs: Inputs,
        batch_size: int,
        device: torch.device,
        windows: WindowOptions,
        formats: FormatOptions,
        compile: bool,
        memory: bool,
    ) -> None:
        self.network: Callable[..., Any] = network
        self.inputs, self.batch_size, self.clock = inputs, batch_size, Clock(device)
        self.autocast: Callable[[], Any] = nullcontext
        if formats.amp:
            self.autocast = partial(torch.autocast, device.type, dtype=torch.bfloat16)
        self.chunk = 1  # passes between two marks; on the CPU each one is timed by itself
        self.recorded = formats.recorded and self.clock.on_cuda
        self.peak: int | None = None  # memory of one pass in bytes, if it is known
        self.rates: list[float] = []  # examples per second of every window
        self.latencies: list[float] = []  # seconds of a pass that is waited for
        if isinstance(network, ExportedNetwork):
            self._run(network, max(1, windows.warmup))  # the first pass starts threads
            return
        if compile:
            self.network = torch.compile(network, dynamic=False)
        self._run(self.network, windows.warmup)
        if memory:
            held = [*network.parameters(), *network.buffers(), *tensors_of(inputs)]
            # What a compiled network allocates on the CPU cannot be followed.
            followed = self.network if self.clock.on_cuda else network
            self.peak = peak_bytes(lambda: self._run(followed, 1), held, device)
        if self.recorded:  # a CUDA graph reads where its inputs lie, which stay where they are
            one_pass = partial(self._run, self.network, 1)
            on_side_stream(one_pass)
            graph, _ = record_graph(one_pass, "measure it with recorded=False")
            self.network = lambda *_, **__: graph.replay()
        if self.clock.on_cuda:  # waiting after each pass would leave the GPU idle
            alone = statistics.median(self._seconds_per_pass(1, 0.0) for _ in range(3))
            # A quarter of a window between two marks, so that it ends soon after its time.
            self.chunk = max(1, int(windows.seconds / 4 / max(alone, 1e-6)))

    def window(self, seconds: float) -> None:
        """Run for at least that long; on a GPU then also for a fifth of it pass by pass."""
        alone = per_pass = self._seconds_per_pass(self.chunk, seconds)
        if self.chunk > 1:
            alone = self._seconds_per_pass(1, seconds / 5)
        self.rates.append(self.batch_size / per_pass)
        self.latencies.append(alone)

    def _seconds_per_pass(self, chunk: int, seconds: float) -> float:
        spent, passes = 0.0, 0
        while not passes or spent < seconds:
            spent += self.clock.seconds(lambda: self._run(self.network, chunk))
            passes += chunk
        return spent / passes

    def _run(self, network: Callable[..., Any], passes: int) -> None:
        for _ in range(passes):
            # A context for each pass: inside of one, weights that were cast are kept for the next.
            with self.autocast():
                call(network, self.inputs)

    def result(self) -> Throughput:
        """Summarise the windows."""
        rates, latency = tuple(self.rates), 1e3 * statistics.median(self.latencies)
        std = statistics.stdev(rates) if len(rates) > 1 else 0.0
        known = statistics.fmean(rates), std, statistics.median(rates), rates, latency, self.peak
        return Throughput(self.batch_size, *known, str(self.clock.device), self.recorded)


def machine(device: str | torch.device = "auto") -> dict[str, Any]:
    """List the versions and hardware that a reader needs to judge a number, JSON-able.

    Nothing in it names the host, a user or a path. ``cores`` is how many this process may use,
    ``torch_threads`` the threads inside one operation; ``gpu`` and ``cuda`` are None on the CPU.
    """
    device = resolve_device("machine", device)
    on_cuda = device.type == "cuda"
    info = Path("/proc/cpuinfo")  # Linux alone has it, and names the processor better
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processors = [*models, platform.processor(), platform.machine(), "unknown"]
    usable = getattr(os, "sched_getaffinity", None)  # Linux has it
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        # The package is loaded when this runs; an import from its top would go up the layers.
        "vinets": str(sys.modules[__name__.partition(".")[0]].__version__),
        "processor": next(name for name in processors if name),
        "cores": len(usable(0)) if usable is not None else os.cpu_count() or 1,
        "torch_threads": torch.get_num_threads(),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if on_cuda else None,
        "cuda": torch.version.cuda if on_cuda else None,
    }
