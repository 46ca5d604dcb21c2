"""Run any network: its inputs, device and logits, CUDA graphs, and a clock for each device."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from vinets.core.checks import first_reason_of, parameter_error

# A process that was forked has no threads of OpenMP and would wait for them for ever, unless it
# asks for none; torch's own workers do the same.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))

Inputs: TypeAlias = Tensor | Mapping[str, Tensor]
"""A tensor, or tensors by the name of the argument of a network; the batch comes first."""

R = TypeVar("R")


def call(network: Callable[..., Any], inputs: Inputs) -> Any:
    """Run the network on a tensor, or on tensors by name."""
    return network(inputs) if isinstance(inputs, Tensor) else network(**inputs)


def logits_of(output: Any) -> Tensor:
    """Return the logits in the output of a classifier: a tensor, or an object that has them."""
    if isinstance(output, Mapping):
        output = output.get("logits", output)
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor):
        raise ValueError(
            "A classifier must return a tensor of logits, or a dict or an object that has them as "
            f"logits. Got {type(logits).__name__} instead."
        )
    return logits


def uncompiled(network: nn.Module) -> nn.Module:
    """Return the network that torch.compile was given, whose modules have the names of its code."""
    return getattr(network, "_orig_mod", network)


def check_answers(owner: str, network: nn.Module, example: Inputs, classes: int = 0) -> int:
    """Return how many classes a network tells apart, at least so many, on such an example."""
    try:
        with evaluating(network):
            logits = logits_of(call(network, example))
    # Layers raise these for a shape that they do not take; anything else is no matter of shapes.
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        shapes = ", ".join(str(tuple(t.shape[1:])) for t in tensors_of(example))
        raise ValueError(
            f"{owner} does not take inputs of shape {shapes}: {first_reason_of(error)}."
        ) from None
    if logits.ndim != 2:
        raise ValueError(
            f"{owner} must classify: return logits of shape (examples, classes). Its output has "
            f"the shape {tuple(logits.shape)}."
        )
    if classes > logits.shape[1]:
        raise ValueError(
            f"{owner} has {logits.shape[1]} outputs, and labels go up to {classes - 1}. Number "
            "classes from 0, or pass a network with as many outputs."
        )
    return logits.shape[1]


def require_numbers(owner: str, answers: Tensor) -> None:
    """Raise if an answer of a network is no number, because no class would follow from it."""
    if bool(answers.isnan().any()):
        raise ValueError(
            f"{owner} answers with what is no number (NaN). Check its weights, and that inputs are "
            "normalised as in its training."
        )


def each(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Change every tensor of the inputs."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    return {name: change(tensor) for name, tensor in inputs.items()}


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """List the tensors of the inputs."""
    return [inputs] if isinstance(inputs, Tensor) else list(inputs.values())


def batch_of(owner: str, inputs: Any, name: str = "example") -> int:
    """Count the examples in the inputs, at least one; raise for anything else."""
    accepted = "a tensor, or a dict of tensors, with one example a row and at least one row"
    tensors = tensors_of(inputs) if isinstance(inputs, Tensor | Mapping) else []
    if not tensors or not all(isinstance(t, Tensor) and t.ndim for t in tensors):
        raise parameter_error(owner, name, accepted, type(inputs).__name__)
    counts = {len(t) for t in tensors}
    if len(counts) != 1 or 0 in counts:
        raise parameter_error(owner, name, accepted, [tuple(t.shape) for t in tensors])
    return counts.pop()


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network; the CPU if it has neither parameters nor buffers."""
    tensors = [*network.parameters(), *network.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Run in eval mode without gradients; every module gets its own training flag back."""
    # Calling network.train() afterwards would wake modules that were frozen in eval mode.
    flags = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in flags:
            module.training = training


def take_channels_last(networks: Iterable[nn.Module], example: Tensor, half: bool) -> bool:
    """Return whether networks take an example with channels last; many view maps as vectors."""
    example = example.to(memory_format=torch.channels_last)
    for network in networks:
        network.to(example.device)
        with evaluating(network), suppress(RuntimeError):
            with torch.autocast(example.device.type, torch.bfloat16, enabled=half):
                network(example)
            continue
        return False
    return True


def resolve_device(owner: str, device: Any) -> torch.device:
    """Return the device meant by ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or a torch.device.

    ``"auto"`` is the current CUDA device where there is one, and the CPU elsewhere.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        chosen = torch.device(("cuda" if count else "cpu") if device == "auto" else device)
    except (RuntimeError, TypeError, ValueError):
        chosen = torch.device("meta")  # which is refused
    kind, index, remedy = chosen.type, chosen.index, ""
    if kind == "cpu":  # "cpu:0" is the same, and would not compare equal
        return torch.device("cpu")
    if kind == "cuda":
        if (index or 0) < count:
            return torch.device("cuda", torch.cuda.current_device() if index is None else index)
        remedy = f"{count} CUDA devices are available here; use 'auto' to take what there is."
    accepted = "'auto', 'cpu' or a CUDA device such as 'cuda:0'"
    raise parameter_error(owner, "device", accepted, str(device), remedy)


# --- CUDA graphs ------------------------------------------------------------------------------


class RecordingError(ValueError):
    """A network that cannot be recorded."""


def cpu_multiplies_bfloat16() -> bool:
    """Return whether the CPU has instructions for it; without, autocast is slower than float32."""
    known = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def on_side_stream(work: Callable[[], R]) -> R:
    """Do the work on a separate CUDA stream, as torch asks for before it is recorded."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        results = work()
    main.wait_stream(side)
    return results


def record_graph(work: Callable[[], R], remedy: str) -> tuple[torch.cuda.CUDAGraph, R]:
    """Record the work as a CUDA graph, without doing it; every replay fills the same results."""
    graph = torch.cuda.CUDAGraph()
    try:
        # Threads that load data may use the GPU meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            results = work()
    except RuntimeError as error:
        raise RecordingError(
            "this network cannot be recorded as a CUDA graph, because every pass reads values "
            f"from the GPU: {remedy}. ({error})"
        ) from error
    return graph, results


class Clock:
    """Marks moments in the work of a device: by perf_counter on the CPU, by events on a GPU.

    A mark on a GPU is taken when the work before it in the current stream is done, and the program
    does not wait for it.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.on_cuda = device, device.type == "cuda"

    def mark(self) -> Any:
        """Mark the present moment."""
        if not self.on_cuda:
            return time.perf_counter()
        return torch.cuda.current_stream(self.device).record_event(
            torch.cuda.Event(enable_timing=True)
        )

    def wait(self) -> None:
        """Return when the device has done its work."""
        if self.on_cuda:
            torch.cuda.synchronize(self.device)

    def between(self, begin: Any, end: Any) -> float:
        """Return the seconds between two marks; on a GPU, ``wait`` comes first."""
        return float(begin.elapsed_time(end)) / 1e3 if self.on_cuda else float(end - begin)

    def seconds(self, work: Callable[[], Any]) -> float:
        """Return the seconds that the work takes, from an idle device on."""
        self.wait()
        begin = self.mark()
        work()
        end = self.mark()
        self.wait()
        return self.between(begin, end)
