"""Run a network on its inputs as it is used, and leave it as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

__all__ = ["Inputs", "call", "device_of", "each", "evaluating"]

Inputs: TypeAlias = Tensor | Mapping[str, Tensor]
"""What a network takes: one tensor, or tensors by the name of the argument."""


def call(network: Callable[..., Any], inputs: Inputs) -> Any:
    """Run the network on a tensor, or on tensors by name."""
    return network(inputs) if isinstance(inputs, Tensor) else network(**inputs)


def each(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """The inputs with every tensor changed."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    return {name: change(tensor) for name, tensor in inputs.items()}


def device_of(network: nn.Module) -> torch.device:
    """Where the network lies; the CPU if it has neither parameters nor buffers."""
    tensors = [*network.parameters(), *network.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; every module gets its own training flag back."""
    flags = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in flags:
            module.training = training
