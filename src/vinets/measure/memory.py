"""How much memory a forward pass needs at its peak.

On a GPU the allocator of torch knows. On the CPU it does not, and the memory of the process says
little, for it hardly shrinks; so every tensor that an operation returns is followed from its
creation to its end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["LiveTensors", "peak_bytes"]


def peak_bytes(run: Callable[[], Any], held: Iterable[Tensor], device: torch.device) -> int:
    """The most bytes that tensors take at once while ``run()`` works.

    Parameters
    ----------
    held : iterable of Tensor
        What exists before and counts: parameters, buffers and inputs. Other tensors that exist
        already count nothing.
    device : torch.device
        On a CUDA device the count includes the scratch space of kernels, and resets the peak
        statistics of torch. On the CPU it does not see scratch space inside an operation.

    Examples
    --------
    >>> x = torch.zeros(1000)  # 4,000 bytes, then 4,000 for x + 1 and for its square
    >>> peak_bytes(lambda: (x + 1).square(), [x], torch.device("cpu"))
    12000
    """
    if device.type != "cuda":
        with LiveTensors(held) as live:
            run()
        return int(live.peak)
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    torch.cuda.synchronize(device)
    return LiveTensors(held).bytes + torch.cuda.max_memory_allocated(device) - before


class LiveTensors(TorchDispatchMode):
    """While active, follows the memory of the tensors that operations return.

    ``held`` counts from the beginning; ``bytes`` and ``peak`` are what the tensors take now, and
    the most that they took at once. Views share memory, which counts once.
    """

    def __init__(self, held: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0
        self.peak = 0
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
