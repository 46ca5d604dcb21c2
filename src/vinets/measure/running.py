"""How a network is run while it is measured: its inputs, device and modes, clock and machine."""

from __future__ import annotations

import copy
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, each, resolve_device
from vinets.core.settings import FormatOptions


def batch_of(owner: str, inputs: Any, name: str = "example") -> int:
    """The number of examples in the inputs, at least one; raise for anything else."""
    accepted = "a tensor, or a dict of tensors, with one example a row and at least one row"
    tensors = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    if not tensors or not all(isinstance(t, Tensor) and t.ndim for t in tensors):
        raise parameter_error(owner, name, accepted, type(inputs).__name__)
    counts = {len(t) for t in tensors}
    if len(counts) != 1 or 0 in counts:
        raise parameter_error(owner, name, accepted, [tuple(t.shape) for t in tensors])
    return counts.pop()


def placed(network: nn.Module, device: torch.device) -> nn.Module:
    """The network itself if it lies on ``device``, else a copy that does."""
    tensors = [*network.parameters(), *network.buffers()]
    if all(t.device == device for t in tensors):  # also without any, as for nn.Identity
        return network
    return copy.deepcopy(network).to(device)


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads inside one operation; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Setting:
    """Where and in which formats networks run while they are timed."""

    device: torch.device
    formats: FormatOptions

    def network(self, network: nn.Module) -> nn.Module:
        """A copy of the network in eval mode, on the device and in the memory format."""
        moved = copy.deepcopy(network).to(self.device).eval()
        if self.formats.channels_last:
            moved.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return moved

    def inputs(self, example: Inputs, batch_size: int) -> Inputs:
        """A batch of that size on the device: the rows of the example, over and over."""

        def enlarge(tensor: Tensor) -> Tensor:
            tensor = tensor[torch.arange(batch_size, device=tensor.device) % len(tensor)]
            tensor = tensor.to(self.device)
            if self.formats.channels_last and tensor.ndim == 4:
                tensor = tensor.to(memory_format=torch.channels_last)
            return tensor

        return each(example, enlarge)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of one forward pass."""
        if not self.formats.amp:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def machine(device: str | torch.device = "auto") -> dict[str, Any]:
    """Versions and hardware that a reader needs to judge a number, JSON-able.

    Nothing in it names the host, a user or a path. ``cores`` is how many this process may use,
    ``torch_threads`` the threads inside one operation; ``gpu`` and ``cuda`` are None on the CPU.

    Examples
    --------
    >>> facts = machine("cpu")
    >>> facts["device"], facts["gpu"]
    ('cpu', None)
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
