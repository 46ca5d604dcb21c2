"""The clocks behind the measurements: perf_counter on the CPU, events on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from vinets.measure.memory import peak_bytes
from vinets.measure.running import Setting
from vinets.running import Inputs, call, tensors_of

__all__ = ["Clock", "Runner", "Stopwatch"]


class Clock:
    """Marks moments in the work of a device.

    A mark on a GPU is an event in the current stream: it is taken when the work before it is done,
    and the program does not wait for it.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.on_cuda = device.type == "cuda"

    def mark(self) -> Any:
        """The present moment."""
        if not self.on_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def wait(self) -> None:
        """Return when the device has done its work."""
        if self.on_cuda:
            torch.cuda.synchronize(self.device)

    def between(self, begin: Any, end: Any) -> float:
        """Seconds between two marks; on a GPU, ``wait`` comes first."""
        return float(begin.elapsed_time(end)) / 1e3 if self.on_cuda else float(end - begin)

    def seconds(self, work: Callable[[], Any]) -> float:
        """Seconds until the work is done, from an idle device on."""
        self.wait()
        begin = self.mark()
        work()
        end = self.mark()
        self.wait()
        return self.between(begin, end)


class Stopwatch:
    """Collects the seconds that calls of one module take, as long as the module lives."""

    def __init__(self, module: nn.Module, clock: Clock) -> None:
        self.clock = clock
        self.begun: list[Any] = []
        self.spans: list[tuple[Any, Any]] = []
        module.register_forward_pre_hook(self._begin)
        module.register_forward_hook(self._end)

    def _begin(self, module: nn.Module, args: Any) -> None:
        self.begun.append(self.clock.mark())

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        self.spans.append((self.begun.pop(), self.clock.mark()))

    def take(self) -> float:
        """Seconds in the calls since the last time; on a GPU, ``Clock.wait`` comes first."""
        spans, self.spans = self.spans, []
        return sum(self.clock.between(begin, end) for begin, end in spans)


class Runner:
    """One network with one batch, and what its windows measured.

    Every window adds to ``rates`` its examples per second, and to ``latencies`` the seconds of a
    pass that is waited for; ``peak`` is the peak memory of one pass in bytes.
    """

    def __init__(
        self, network: nn.Module, inputs: Inputs, batch_size: int, setting: Setting, compile: bool
    ) -> None:
        self.plain = network
        self.network = torch.compile(network, dynamic=False) if compile else network
        self.inputs = inputs
        self.batch_size = batch_size
        self.setting = setting
        self.clock = Clock(setting.device)
        self.chunk, self.peak = 1, 0
        self.rates: list[float] = []
        self.latencies: list[float] = []

    def prepare(self, warmup: int, seconds: float) -> None:
        """Warm up, take the peak memory and choose how many passes run between two marks."""
        self._run(warmup)
        held = [*self.plain.parameters(), *self.plain.buffers(), *tensors_of(self.inputs)]
        # What a compiled network allocates on the CPU cannot be followed.
        network = self.network if self.clock.on_cuda else self.plain
        self.peak = peak_bytes(lambda: self._pass(network), held, self.setting.device)
        if self.clock.on_cuda:  # waiting after each pass would leave the GPU idle
            alone = statistics.median(self.clock.seconds(lambda: self._run(1)) for _ in range(3))
            self.chunk = max(1, int(seconds / 4 / max(alone, 1e-6)))

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
            spent += self.clock.seconds(lambda: self._run(chunk))
            passes += chunk
        return spent / passes

    def _run(self, passes: int) -> None:
        for _ in range(passes):
            self._pass(self.network)

    def _pass(self, network: Callable[..., Any]) -> None:
        with self.setting.autocast():  # per pass: inside, cast weights are kept for the next
            call(network, self.inputs)
