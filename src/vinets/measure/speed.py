"""How fast networks are: alone, side by side with others, and which part takes the time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from vinets.checks import bounded_float, optional_positive_int, parameter_error
from vinets.measure.running import Setting, batch_of, limited_threads
from vinets.measure.timing import Clock, Runner, Stopwatch
from vinets.running import Inputs, call

__all__ = ["Throughput", "compare", "throughput", "time_share"]


@dataclass(frozen=True)
class Throughput:
    """The speed of a network at one batch size.

    Attributes
    ----------
    batch_size : int
        Examples per forward pass.
    mean, std, median : float
        Examples per second over the windows; ``std`` is the sample deviation, 0 for one window.
    rates : tuple of float
        Examples per second of each window. In :func:`compare` the windows of the same position lie
        next to each other in time, so their ratios are fair.
    latency_ms : float
        Milliseconds of one forward pass that is waited for; the median over the windows.
    peak_memory : int
        Bytes of parameters, buffers, inputs and intermediate tensors at the fullest moment of one
        pass; see :func:`vinets.measure.memory.peak_bytes`.
    device : str
        Where it ran.
    """

    batch_size: int
    mean: float
    std: float
    median: float
    rates: tuple[float, ...]
    latency_ms: float
    peak_memory: int
    device: str

    def ratio_to(self, reference: Throughput) -> float:
        """How many times as fast as a network measured beside it; the median over the windows."""
        pairs = zip(self.rates, reference.rates, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return {**asdict(self), "rates": list(self.rates)}


def throughput(
    network: nn.Module,
    example: Inputs,
    *,
    batch_sizes: Sequence[int] = (1, 32, 256),
    repeats: int = 5,
    seconds: float = 0.5,
    warmup: int = 3,
    device: str | torch.device = "auto",
    channels_last: bool = False,
    amp: str | None = None,
    compile: bool = False,
    threads: int | None = None,
) -> list[Throughput]:
    """Measure one network; the parameters are those of :func:`compare`.

    Returns
    -------
    list of Throughput
        One per batch size.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    >>> fast = throughput(net, torch.zeros(1, 8), batch_sizes=(4,), seconds=0.01, device="cpu")
    >>> fast[0].batch_size, len(fast[0].rates), fast[0].peak_memory  # 288 + 3 * 128
    (4, 5, 672)
    """
    measured = compare(
        {"network": network},
        example,
        batch_sizes=batch_sizes,
        repeats=repeats,
        seconds=seconds,
        warmup=warmup,
        device=device,
        channels_last=channels_last,
        amp=amp,
        compile=compile,
        threads=threads,
    )
    return measured["network"]


def compare(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    *,
    batch_sizes: Sequence[int] = (1, 32, 256),
    repeats: int = 5,
    seconds: float = 0.5,
    warmup: int = 3,
    device: str | torch.device = "auto",
    channels_last: bool = False,
    amp: str | None = None,
    compile: bool = False,
    threads: int | None = None,
) -> dict[str, list[Throughput]]:
    """Measure networks side by side: their windows take turns, so that drift hits all alike.

    Parameters
    ----------
    networks : dict of str to Module
        The networks by name. They are not changed: copies run, in eval mode without gradients.
    example : Tensor or dict of Tensor
        A batch of inputs; its rows are repeated to fill each batch.
    batch_sizes : sequence of int
        Examples per forward pass.
    repeats, seconds : int, float
        Windows per batch size, and how long each lasts at least.
    warmup : int
        Forward passes before the first window.
    device : str or torch.device, default="auto"
        ``"auto"`` takes a CUDA device where there is one.
    channels_last : bool
        Use the channels-last memory format for networks and images.
    amp : {None, "bfloat16"}
        Precision under autocast; None runs the network as it is.
    compile : bool
        Use ``torch.compile`` with fixed shapes. On the CPU the peak memory is then still that of
        the network as it is.
    threads : int or None
        Threads of torch during the measurement; None keeps the setting.

    Returns
    -------
    dict of str to list of Throughput
        For each network one entry per batch size.
    """
    setting = Setting.checked("compare", device, channels_last, amp)
    _check_networks(networks)
    _check_batch_sizes(batch_sizes)
    _check_counts("compare", repeats, warmup, threads)
    seconds = bounded_float("compare", "seconds", seconds, 0, float("inf"))
    batch_of("compare", example)
    results: dict[str, list[Throughput]] = {name: [] for name in networks}
    with limited_threads(threads), torch.no_grad():
        copies = {name: setting.network(network) for name, network in networks.items()}
        for batch_size in batch_sizes:
            inputs = setting.inputs(example, batch_size)
            runners = {
                name: Runner(network, inputs, batch_size, setting, compile)
                for name, network in copies.items()
            }
            for runner in runners.values():
                runner.prepare(warmup, seconds)
            for _ in range(repeats):
                for runner in runners.values():
                    runner.window(seconds)
            for name, runner in runners.items():
                results[name].append(_summary(runner))
    return results


def time_share(
    network: nn.Module,
    example: Inputs,
    part: nn.Module,
    reference: nn.Module,
    *,
    repeats: int = 20,
    warmup: int = 3,
    device: str | torch.device = "auto",
    channels_last: bool = False,
    amp: str | None = None,
    threads: int | None = None,
) -> float:
    """Time in one part of a network relative to the time in another.

    Both are timed inside complete forward passes: what the part finds in the caches and in the
    queue of the GPU is what it finds in use.

    Parameters
    ----------
    network : Module
        It is not changed: a copy runs, in eval mode without gradients.
    example : Tensor or dict of Tensor
        The batch that runs.
    part, reference : Module
        Modules inside ``network``, or the network itself. Several calls in a pass are added up.
    repeats : int
        Forward passes that count, after ``warmup`` others.
    device, channels_last, amp, threads
        As in :func:`compare`.

    Returns
    -------
    float
        Seconds in ``part`` divided by seconds in ``reference``; the median over the passes.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    >>> 0 < time_share(net, torch.zeros(4, 8), net[1], net) < 1
    True
    """
    setting = Setting.checked("time_share", device, channels_last, amp)
    _check_counts("time_share", repeats, warmup, threads)
    inputs = setting.inputs(example, batch_of("time_share", example))
    names = {"part": _name_in(network, part, "part")}
    names["reference"] = _name_in(network, reference, "reference")
    shares = []
    with limited_threads(threads), torch.no_grad():
        clock = Clock(setting.device)
        running = setting.network(network)
        watches = {role: Stopwatch(running.get_submodule(n), clock) for role, n in names.items()}
        for turn in range(warmup + repeats):
            with setting.autocast():
                call(running, inputs)
            clock.wait()
            for role, watch in watches.items():
                if not watch.spans:
                    accepted = "a module that the forward pass calls"
                    raise parameter_error("time_share", role, accepted, names[role])
            share = watches["part"].take() / watches["reference"].take()
            if turn >= warmup:
                shares.append(share)
    return statistics.median(shares)


def _summary(runner: Runner) -> Throughput:
    return Throughput(
        runner.batch_size,
        statistics.fmean(runner.rates),
        statistics.stdev(runner.rates) if len(runner.rates) > 1 else 0.0,
        statistics.median(runner.rates),
        tuple(runner.rates),
        1e3 * statistics.median(runner.latencies),
        runner.peak,
        str(runner.setting.device),
    )


def _name_in(network: nn.Module, module: nn.Module, role: str) -> str:
    for name, candidate in network.named_modules():
        if candidate is module:
            return str(name)
    got = type(module).__name__
    raise parameter_error("time_share", role, "a module inside the network", got)


def _check_networks(networks: Any) -> None:
    found = networks.values() if isinstance(networks, Mapping) else ()
    if not found or not all(isinstance(network, nn.Module) for network in found):
        got = [type(n).__name__ for n in found] or type(networks).__name__
        raise parameter_error("compare", "networks", "a dict from names to networks", got)


def _check_batch_sizes(sizes: Any) -> None:
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or not sizes or None in sizes:
        accepted = "a list of positive integers"
        raise parameter_error("compare", "batch_sizes", accepted, sizes)
    for size in sizes:
        optional_positive_int("compare", "batch_sizes", size)


def _check_counts(owner: str, repeats: Any, warmup: Any, threads: Any) -> None:
    if optional_positive_int(owner, "repeats", repeats) is None:
        raise parameter_error(owner, "repeats", "a positive integer", repeats)
    if not isinstance(warmup, int) or warmup < 0:
        raise parameter_error(owner, "warmup", "an integer of at least 0", warmup)
    optional_positive_int(owner, "threads", threads)
