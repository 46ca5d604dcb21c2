"""Data sets stored as lossless WebP sheets: many small images in one picture.

A folder holds ``train_000.webp``, ``train_001.webp`` and so on with ``train_labels.npy``, and the
same for ``test``. A sheet is a grid of 25 columns of 32 x 32 images, read row by row; a full one
has 40 rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from torch import Tensor

from vinets.data.arrays import read_array
from vinets.data.labels import as_labels
from vinets.data.pixels import read_image

__all__ = ["has_sheets", "read_sheets", "sheet_labels"]

COLUMNS, ROWS, SIDE = 25, 40, 32


def has_sheets(folder: Path) -> bool:
    """Whether the folder holds sheets."""
    return (folder / "train_labels.npy").is_file() or (folder / "train_000.webp").is_file()


def read_sheets(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Images (N, 3, 32, 32) and labels (N,) of ``part``, "train" or "test"."""
    paths = sorted(folder.glob(f"{part}_*.webp"))
    if not paths:
        raise FileNotFoundError(f"{folder} must hold sheets {part}_000.webp and on. It has none.")
    labels = sheet_labels(folder, part)
    # Pillow lets go of the interpreter while it decodes, so threads do run side by side.
    sheets = Parallel(n_jobs=-1, prefer="threads")(delayed(_read_sheet)(p) for p in paths)
    images = torch.from_numpy(np.concatenate(list(sheets)))
    if len(labels) != len(images):
        raise ValueError(
            f"{folder / part}_labels.npy must hold one label for each of the {len(images)} images. "
            f"Got {len(labels)} instead."
        )
    return images, labels


def sheet_labels(folder: Path, part: str) -> Tensor:
    """Labels (N,) of ``part``. Of several columns, from coarse to fine, the last one counts."""
    path = folder / f"{part}_labels.npy"
    labels = read_array(path)
    return as_labels(f"read_sheets ({path})", labels[:, -1] if labels.ndim == 2 else labels)


def _read_sheet(path: Path) -> NDArray[np.uint8]:
    sheet = read_image(path, channels=3)
    _, height, width = sheet.shape
    rows = height // SIDE
    if width != COLUMNS * SIDE or height != rows * SIDE or not 1 <= rows <= ROWS:
        raise ValueError(
            f"{path} must be {COLUMNS * SIDE} pixels wide and a multiple of {SIDE} high, up to "
            f"{ROWS * SIDE}. Got {width} x {height} instead."
        )
    grid = sheet.reshape(3, rows, SIDE, COLUMNS, SIDE)
    return np.ascontiguousarray(grid.transpose(1, 3, 0, 2, 4).reshape(-1, 3, SIDE, SIDE))
