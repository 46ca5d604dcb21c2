"""How a network is run while it is measured: its inputs, its device and its modes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vinets.checks import parameter_error
from vinets.running import Inputs, each
from vinets.settings import Formats

__all__ = ["Setting", "batch_of", "placed"]


def batch_of(owner: str, inputs: Any, name: str = "example") -> int:
    """The number of examples in the inputs, at least one; raise for anything else.

    Examples
    --------
    >>> batch_of("flops", {"pixels": torch.zeros(4, 3, 8, 8)})
    4
    """
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
    if all(t.device == device for t in tensors):
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
    formats: Formats

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
