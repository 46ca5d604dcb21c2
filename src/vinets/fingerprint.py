"""Tell tensors apart by a short text, so that stored work is not taken for another's."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def fingerprint(*tensors: Tensor) -> str:
    """Sixteen hexadecimal digits of the bytes of ``tensors``, in their order.

    Examples
    --------
    >>> fingerprint(torch.tensor([1, 2])) == fingerprint(torch.tensor([1]), torch.tensor([2]))
    True
    >>> fingerprint(torch.tensor([1, 2])) == fingerprint(torch.tensor([2, 1]))
    False
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().reshape(-1).contiguous()
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
