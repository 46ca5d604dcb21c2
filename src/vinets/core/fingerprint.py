"""Tell contents apart by a short text, so that stored work is not taken for another's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

FORMAT = 2  # of digest; other rules give other digests
BLOCK = 64 << 20  # bytes that are copied at once, from a device or out of a view


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Sixteen hexadecimal digits of the bytes of ``tensors``, in their order.

    Names, shapes and dtypes do not count; stores of results hold such fingerprints.

    Examples
    --------
    >>> fingerprint([torch.tensor([1, 2])]) == fingerprint(torch.tensor([[1], [2]]))
    True
    >>> fingerprint([torch.tensor([1, 2])]) == fingerprint([torch.tensor([2, 1])])
    False
    """
    found = hashlib.sha256()
    for tensor in tensors:
        _feed(found, tensor)
    return found.hexdigest()[:16]


def digest(named: Iterable[tuple[str, Tensor]], facts: Any = None) -> str:
    """Thirty-two hexadecimal digits of tensors with their names, dtypes and shapes, and of facts.

    The facts are plain values; the order of keys in them does not matter.

    Examples
    --------
    >>> flat = torch.arange(6)
    >>> digest([("x", flat)]) == digest([("x", flat.view(2, 3))])
    False
    """
    # sha256 has instructions of its own on current processors, where it is the fastest
    found = hashlib.sha256(json.dumps([FORMAT, facts], sort_keys=True).encode())
    for name, tensor in named:
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        _feed(found, tensor)
    return found.hexdigest()[:32]


def _feed(found: Any, tensor: Tensor) -> None:
    """Add the bytes of a tensor, block by block where they have to be copied."""
    flat = tensor.detach().reshape(-1)  # a view of what is contiguous
    for part in flat.split(max(1, BLOCK // flat.element_size())):
        found.update(part.contiguous().cpu().view(torch.uint8).numpy().data)
