"""Build a network from a description that nobody vouches for: offline, and first without memory.

A few bytes may ask for a network of any size. So it is built once with large tensors on the device
"meta", which has shapes but no numbers, and compared with the weights that there are; only then it
takes memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SMALL = 4_096  # elements that take memory even in a sketch: networks compute with such tensors
SMALL_INDEX = 1 << 20  # of whole numbers: positions and masks, which no file of weights holds
MOST_TENSORS = 20_000  # the largest networks have a few thousand
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")

# Functions that take memory for as many elements as they are told.
CONSTRUCTORS = frozenset(
    {
        *(torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.empty_strided),
        *(torch.rand, torch.randn, torch.randint, torch.randperm),
        *(torch.arange, torch.linspace, torch.logspace, torch.tril_indices, torch.triu_indices),
        *(Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full),
    }
)


class TooManyTensors(ValueError):
    """A network asks for more tensors than any has."""


class Building(TorchFunctionMode):
    """Counts the tensors that are made from nothing while a network is built.

    Parameters
    ----------
    room : int or None, default=None
        Bytes that they may take; more is refused. None makes a sketch: large tensors have shapes
        and no numbers, and take no memory.
    """

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.room = room
        self.left = MOST_TENSORS

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func not in CONSTRUCTORS or "out" in given:
            return func(*args, **given)
        self.left -= 1
        if self.left < 0:
            raise TooManyTensors(f"it has more than {MOST_TENSORS:,} tensors")
        unseeded = {key: value for key, value in given.items() if key != "generator"}
        made: Tensor = func(*args, **{**unseeded, "device": "meta"})
        if self.room is not None:
            self.room -= made.numel() * made.element_size()
            if self.room < 0:
                raise ValueError("it takes far more memory than there are weights for")
        elif made.numel() > (SMALL if made.dtype.is_floating_point else SMALL_INDEX):
            return made
        return func(*args, **given)


def room_for(stored: int) -> int:
    """Bytes that a network may take whose weights take ``stored`` bytes in a file.

    Of a network that is cut, the whole one is made, and only what is in front of the cut is stored.
    """
    return 16 * stored + (128 << 20)


def bytes_of(network: nn.Module) -> int:
    """Bytes of parameters and buffers, whether they have numbers or not."""
    tensors = {id(t): t for t in (*network.parameters(), *network.buffers())}
    return sum(t.numel() * t.element_size() for t in tensors.values())


@contextmanager
def offline() -> Iterator[None]:
    """Let no library fetch anything from the Hugging Face Hub meanwhile."""
    before = {name: os.environ.get(name) for name in OFFLINE}
    # the library reads the variable once, when it is imported
    hub = sys.modules.get("huggingface_hub.constants")
    known = getattr(hub, "HF_HUB_OFFLINE", False)
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    if hub is not None:
        hub.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        imported = sys.modules.get("huggingface_hub.constants")
        if imported is not None:  # perhaps only now, with the variable set
            asked = (before["HF_HUB_OFFLINE"] or "").upper() in ("1", "ON", "YES", "TRUE")
            imported.HF_HUB_OFFLINE = known if hub is not None else asked  # type: ignore[attr-defined]
