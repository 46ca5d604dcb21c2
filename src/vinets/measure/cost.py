"""The cost of a network on any machine: numbers stored, operations, peak memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from vinets.core.device import Inputs, batch_of, call, evaluating
from vinets.latent.paths import counted_kernels

# torch counts products of matrices only; these get shapes.
VECTOR_PRODUCTS = {
    torch.ops.aten.mv: lambda matrix, *_, **__: 2 * prod(matrix),
    torch.ops.aten.dot: lambda vector, *_, **__: 2 * prod(vector),
    torch.ops.aten.addmv: lambda added, matrix, *_, **__: 2 * prod(matrix),
}


@dataclass(frozen=True)
class Sizes:
    """The count of numbers that a network stores."""

    total: int  # all parameters and all floating-point buffers
    parameters: int  # papers usually report this one
    indices: int  # entries of integer and boolean buffers, such as tables of monomials
    by_part: dict[str, int]  # {"network": parameters} if the network names no parts


def sizes(network: nn.Module) -> Sizes:
    """Count what a network stores, as a whole and by part.

    A method ``parts()`` of the network may return, by name, modules or counts of stored numbers.
    Parts need not cover the network.

    Examples
    --------
    >>> sizes(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    Sizes(total=16, parameters=12, indices=1, by_part={'network': 12})
    """
    parameters = sum(t.numel() for t in _stored(network) if isinstance(t, nn.Parameter))
    offered = getattr(network, "parts", None)
    parts: Mapping[str, nn.Module | int] = {"network": parameters}
    if callable(offered) and not isinstance(offered, nn.Module):  # a child may have this name
        parts = offered()
    by_part = {
        name: stored_numbers(part) if isinstance(part, nn.Module) else int(part)
        for name, part in parts.items()
    }
    return Sizes(stored_numbers(network), parameters, stored_indices(network), by_part)


def stored_numbers(module: nn.Module) -> int:
    """Count the entries of all parameters and floating-point buffers, a shared tensor once."""
    stored = _stored(module)
    return sum(t.numel() for t in stored if t.is_floating_point() or t.is_complex())


def stored_indices(module: nn.Module) -> int:
    """Count the entries of all integer and boolean buffers, a shared tensor once."""
    return sum(t.numel() for t in _stored(module)) - stored_numbers(module)


def stored_bytes(module: nn.Module) -> int:
    """Count the bytes of all parameters and buffers, a shared tensor once.

    Examples
    --------
    >>> stored_bytes(nn.Linear(3, 2))
    32
    """
    return sum(t.nbytes for t in _stored(module))


def _stored(module: nn.Module) -> Iterable[Tensor]:
    """Return parameters and buffers; those that show the same memory in the same way once."""
    distinct: dict[Any, Tensor] = {}
    for tensor in chain(module.parameters(), module.buffers()):
        if is_lazy(tensor):
            raise ValueError(
                "The network has parameters without a shape. Run one forward pass before counting."
            )
        # By address: views of one memory that differ in shape or strides are different tensors.
        where = tensor.untyped_storage()._cdata, tensor.storage_offset()
        distinct.setdefault((*where, tensor.shape, tensor.stride(), tensor.dtype), tensor)
    return distinct.values()


def flops(network: nn.Module, example: Inputs) -> int:
    """Count the floating-point operations of one forward pass, per example.

    A matrix product of shapes (m, k) and (k, n) counts ``2 m k n``, a convolution alike; this
    covers attention. Additions of biases, activations, normalisation and pooling count nothing,
    nor do recurrent layers, which run as one kernel. A submodule may state an integer attribute
    ``multiplications``, the element-wise products behind one row of its output: a tensor
    (B, ..., k) has ``numel / (B k)`` rows per example.

    The network runs in eval mode where it lies, as the example does, a batch of inputs. Work that
    does not depend on the batch is shared out.
    """
    batch = batch_of("flops", example)
    stated: list[int] = []

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        if not isinstance(output, Tensor) or not output.ndim:
            raise ValueError(
                f"{type(module).__name__} states its multiplications, so it must return one "
                f"tensor with a row per position. Got {type(output).__name__} instead."
            )
        rows = prod(output.shape[:-1])
        stated.append(round(int(module.multiplications) * rows / batch))  # type: ignore[arg-type]

    counter = FlopCounterMode(display=False, custom_mapping=VECTOR_PRODUCTS)
    with evaluating(network), ExitStack() as stack:
        for module in network.modules():
            if isinstance(getattr(module, "multiplications", None), int):
                stack.enter_context(module.register_forward_hook(hook))  # removed at the end
        stack.enter_context(counted_kernels(network))
        stack.enter_context(counter)
        call(network, example)
    return round(counter.get_total_flops() / batch) + sum(stated)


def peak_bytes(run: Callable[[], Any], held: Iterable[Tensor], device: torch.device) -> int:
    """Measure the most bytes that tensors take at once while ``run()`` works.

    Of what exists before, only ``held`` counts: parameters, buffers and inputs. On a CUDA device
    the count includes the scratch space of kernels, and resets the peak statistics of torch. On
    the CPU it does not see scratch space inside an operation.

    Examples
    --------
    >>> x = torch.zeros(1000)  # 4,000 bytes, then 4,000 for x + 1 and for its square
    >>> peak_bytes(lambda: (x + 1).square(), [x], torch.device("cpu"))
    12000
    """
    if device.type != "cuda":
        # The allocator of the CPU keeps no statistics, and the memory of the process hardly
        # shrinks; so every tensor is followed from its creation to its end.
        with LiveTensors(held) as live:
            run()
        return int(live.peak)
    # Work that is still queued would count as that of the pass.
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    torch.cuda.synchronize(device)
    return LiveTensors(held).bytes + torch.cuda.max_memory_allocated(device) - before


class LiveTensors(TorchDispatchMode):
    """While active, follows the memory of tensors: those ``held``, and what operations return."""

    def __init__(self, held: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.peak = 0  # what they take now, views once, and the most at any time
        self._live: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._follow(held)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        self._follow(t for t in tree_leaves(output) if isinstance(t, Tensor))
        return output

    def _follow(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if tensor.layout != torch.strided:  # others have no single storage
                continue
            storage = tensor.untyped_storage()
            key, count = id(storage), storage.nbytes()
            if key not in self._live:
                # A weak reference, so that following a tensor does not keep its memory alive.
                self._live[key] = weakref.ref(storage, partial(self._release, key, count))
                self.bytes += count
        self.peak = max(self.peak, self.bytes)

    def _release(self, key: int, count: int, _: object) -> None:
        del self._live[key]
        self.bytes -= count
