r"""CPU or GPU: small ideals are faster on a CPU, whatever the GPU.

The size of a problem is :math:`m n^2`, for :math:`m` points of all classes in :math:`n` variables:
it counts the values of a border of degree 2. Steps on a GPU take the same time up to a large size,
those on a CPU grow with it, so that one size divides the two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vinets.core.device import resolve_device

MIN_GPU_SIZE = 5e5  # from here on an H200 was faster than 16 cores, see benchmarks/devices.py


def choose_device(owner: str, device: Any, points: Tensor) -> torch.device:
    """Return where to fit ideals of ``points`` (m, n), all classes together.

    ``"auto"`` is the CPU where there is no GPU or the problem is small; anything else is what it is
    for a network.
    """
    found = resolve_device(owner, device)
    if device != "auto" or found.type == "cpu":
        return found
    if len(points) * points.shape[1] ** 2 < MIN_GPU_SIZE:
        return torch.device("cpu")
    return points.device if points.is_cuda else found
