"""Images that lie in a file, of which only those that are asked for are read."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RESIDENT_BYTES = 256 << 20  # stay in memory between two reads of a mapped file
ROWS_AT_ONCE = 1024


class MappedImages:
    """Images (N, C, H, W) of bytes, at the positions ``rows`` of a file that has one after another.

    Like a tensor, they have a shape and an index, which gives tensors. Another process opens the
    file again.
    """

    dtype, device = torch.uint8, torch.device("cpu")

    def __init__(
        self, path: Path, each: tuple[int, int, int], rows: NDArray[np.int64] | None = None
    ) -> None:
        self.path, self.each = path, each
        self._pixels = np.memmap(path, np.uint8, mode="r")
        count = self._pixels.size // math.prod(each)  # what is behind the last one is none
        # A plain array, so that what is taken of it is one, too.
        self._images = np.asarray(self._pixels[: count * math.prod(each)]).reshape(-1, *each)
        self.rows = np.arange(count) if rows is None else rows
        self._touched = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedImages, (self.path, self.each, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), *self.each

    def __getitem__(self, index: Tensor | slice | int) -> Tensor:
        """Read images into memory."""
        rows = self.rows[index.numpy() if isinstance(index, Tensor) else index]
        pixels = torch.from_numpy(np.take(self._images, rows, axis=0))
        self._touched += pixels.nbytes
        if self._touched > RESIDENT_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            # The system would keep all that was ever read, as long as there is memory.
            self._pixels._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
            self._touched = 0
        return pixels

    def split(self, size: int = ROWS_AT_ONCE) -> Iterator[Tensor]:
        """Read all images, some at a time."""
        return (self[i : i + size] for i in range(0, len(self), size))

    def subset(self, index: Tensor) -> MappedImages:
        """Return the images at these positions, without reading them."""
        return MappedImages(self.path, self.each, self.rows[index.numpy()])

    def to(self, device: torch.device | str) -> Tensor | MappedImages:
        """Move the images to a GPU if they take at most half of what is free there."""
        device = torch.device(device)
        size = math.prod(self.shape)
        if device.type != "cuda" or 2 * size > torch.cuda.mem_get_info(device)[0]:
            return self
        images = torch.empty(self.shape, dtype=torch.uint8, device=device)
        for here, part in zip(images.split(ROWS_AT_ONCE), self.split(), strict=True):
            here.copy_(part)
        return images


Pixels = Tensor | MappedImages
"""Images as bytes (N, C, H, W), in memory or in a file."""


def take(images: Pixels, index: Tensor) -> Pixels:
    """Return the images at these positions; those in a file stay there."""
    if isinstance(images, MappedImages):
        return images.subset(index)
    return images[index.to(images.device)]
