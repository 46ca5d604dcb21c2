"""Where the positions of latents are, and what they see of an image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.data import Preprocessing, Source
from vinets.latent.reader import LatentReader
from vinets.networks.network import CutNetwork

Picture = NDArray[np.float64] | None


def preprocessing_of(net: CutNetwork) -> Preprocessing:
    """How an image becomes an input of the network; refused where that is not known."""
    if net.record.preprocessing is None:
        raise ValueError(
            "The network has no preprocessing on record, so that it is not known how an image "
            "becomes its input. Train or build it on images, or pass a tensor."
        )
    return Preprocessing.from_dict(net.record.preprocessing)


def grid_of(reader: LatentReader, output: Any, positions: int) -> tuple[int, int] | None:
    """Height and width of the positions; None where there is only one."""
    if positions == 1:
        return None
    if reader.pool is not None:
        return reader.pool, reader.pool
    shape = reader.describe(output)
    if shape.height > 1:
        return shape.height, shape.width
    # tokens of square patches, perhaps with others before them
    side = math.isqrt(positions)
    return (side, side) if positions - side * side <= 2 else (1, positions)


def seen_by(net: CutNetwork, inputs: Tensor, grid: tuple[int, int]) -> tuple[int, int] | None:
    """Height and width of the pixels that the latents in the middle depend on; None without any.

    Found by gradients at noise: at the image itself, a ReLU may hide some.
    """
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(8, *inputs.shape[1:], generator=draw).to(inputs).requires_grad_()
    latents = net.latents(noise)
    height, width = grid
    first = latents.shape[2] - height * width  # tokens outside of the grid come before it
    middle = latents[:, :, first + (height // 2) * width + width // 2]
    (gradient,) = torch.autograd.grad(middle.sum(), noise)
    reached = (gradient != 0).any(1).any(0)
    rows, columns = (reached.any(d).nonzero()[:, 0] for d in (1, 0))
    if not len(rows):
        return None
    return tuple(int(i.max() - i.min()) + 1 for i in (rows, columns))  # type: ignore[return-value]


def rows_of(values: Tensor, grid: tuple[int, int]) -> tuple[tuple[float, ...], ...]:
    """The last values, one a position of the grid, row by row."""
    rows = values[len(values) - math.prod(grid) :].view(grid).tolist()
    return tuple(tuple(row) for row in rows)


def picture_of(net: CutNetwork, source: Source, inputs: Tensor) -> Picture:
    """The image as pixels in [0, 1], (H, W, 1 or 3), where it has so many channels."""
    known = net.record.preprocessing is not None
    used = preprocessing_of(net) if known else getattr(source, "preprocessing", None)
    if used is None or inputs.shape[1] not in (1, 3):
        return None
    mean, std = (inputs.new_tensor(m)[:, None, None] for m in (used.mean, used.std))
    pixels = (inputs[0] * std + mean).clamp(0, 1)
    return pixels.permute(1, 2, 0).cpu().double().numpy()
