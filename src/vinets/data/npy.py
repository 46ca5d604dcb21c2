"""Read inputs and labels from ``.npy`` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.core.checks import file_error, reason_of
from vinets.data.conversion import TensorSource
from vinets.data.formats import DataFormat, Size
from vinets.data.images import image_split
from vinets.data.source import HELD_OUT, DataSplit, Pair, as_labels, split_pair


class NpyFiles(DataFormat):
    """Arrays by their files: ``X.npy,y.npy``, perhaps with ``Xtest.npy,ytest.npy`` behind them."""

    name = "npy"
    written = "'X.npy,y.npy' or 'X.npy,y.npy,Xtest.npy,ytest.npy'"
    rank = 95  # asked after folders, which may have commas in their names

    def matches(self, spec: str) -> bool:
        paths = _paths(spec)
        return len(paths) in (2, 4) and all(path.suffix == ".npy" for path in paths)

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        return npy_pair(*_paths(spec), seed=seed)


def _paths(spec: str) -> list[Path]:
    return [Path(part.strip()).expanduser() for part in spec.split(",")]


def npy_pair(
    inputs: str | Path,
    labels: str | Path,
    test_inputs: str | Path | None = None,
    test_labels: str | Path | None = None,
    *,
    seed: int = 0,
) -> DataSplit:
    """Read ``.npy`` files; without files to test on, a fifth is held out by class.

    Inputs are uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels, or
    floating features (N, ...), which become float32. Labels are integers 0..K-1, shape (N,).
    """
    train = _read_pair(inputs, labels)
    if test_inputs is not None and test_labels is not None:
        test = _read_pair(test_inputs, test_labels)
    elif test_inputs is None and test_labels is None:
        train, test = split_pair("npy_pair", train, HELD_OUT, seed)
    else:
        raise ValueError("npy_pair needs both test_inputs and test_labels, or neither.")
    if train[0].shape[1:] != test[0].shape[1:] or train[0].dtype != test[0].dtype:
        accepted = f"the same kind of inputs as {inputs}, {_kind(train[0])}"
        raise file_error(test_inputs, accepted, _kind(test[0]))
    name = Path(inputs).stem
    if train[0].dtype == torch.uint8:  # bytes are images; everything else became float32
        return image_split(name, train, test)
    training = TensorSource(*train)
    return DataSplit(name, training, TensorSource(*test, training.classes))


def _read_pair(inputs: str | Path, labels: str | Path) -> Pair:
    array = read_array(inputs)
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        values = torch.from_numpy(array)
        if values.ndim == 3:
            values = values.unsqueeze(1)
        elif values.shape[1] not in (1, 3):
            if values.shape[3] not in (1, 3):
                raise file_error(inputs, "images of 1 or 3 channels", _kind(values))
            values = values.permute(0, 3, 1, 2).contiguous()
    elif array.dtype.kind == "f" and array.ndim >= 2:
        values = torch.from_numpy(array.astype(np.float32))
        # The conversion comes first, because large numbers overflow in it.
        if not bool(torch.isfinite(values).all()):
            raise file_error(inputs, "finite float32 numbers", "some that are not")
    else:
        images = "uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W)"
        raise file_error(inputs, f"{images}, or floating features (N, ...)", _kind(array))
    return values, as_labels(f"npy_pair ({labels})", read_array(labels), count=len(values))


def _kind(values: Tensor | NDArray[Any]) -> str:
    return f"{values.dtype} of shape {tuple(values.shape)}"


def read_array(path: str | Path) -> NDArray[Any]:
    """Read the array in a ``.npy`` file; objects, and files that are none, are refused."""
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
            f"{path} must be a .npy file of numbers. It cannot be read: {reason_of(error)}."
        ) from None
