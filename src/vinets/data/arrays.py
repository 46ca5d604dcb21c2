"""Read an array from a ``.npy`` file, and refuse in one sentence what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_array"]


def read_array(path: str | Path) -> NDArray[Any]:
    """The array in a ``.npy`` file; objects, and files that are none, are refused."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    try:
        # Mapping checks the length of the file against the header before memory is taken.
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(mapped, np.ndarray):
            mapped.close()
            raise ValueError("it is an archive of several arrays")
        return np.array(mapped)
    except Exception as error:  # a damaged header raises all sorts
        raise ValueError(
            f"{path} must be a .npy file of numbers. It cannot be read: {error}"
        ) from None
