"""Data sets in plain files: folders of images, and ``.npy`` arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor

from vinets.checks import format_bytes, parameter_error
from vinets.data.arrays import read_array
from vinets.data.images import Augmentation, image_split
from vinets.data.interface import DataSplit
from vinets.data.labels import as_labels, positive_int, split_positions
from vinets.data.pixels import image_size, read_image
from vinets.data.tensors import TensorSource

__all__ = ["image_folder", "npy_pair"]

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"}


def image_folder(
    directory: str | Path,
    *,
    size: tuple[int, int] | int | None = None,
    channels: int = 3,
    seed: int = 0,
    test_share: float = 0.2,
    augmentation: Augmentation | None = None,
    memory_limit: int = 8 * 2**30,
    progress: Callable[[int, int], None] | None = None,
) -> DataSplit:
    """Image files, one folder for each class.

    The classes lie in the subfolders ``train`` and ``test`` (or ``val``), or in ``directory``
    itself; in the latter case a part is held out, stratified by class. Names of folders are names
    of classes, sorted.

    Parameters
    ----------
    directory : str or Path
        Where to look. Files ending in png, jpg, jpeg, webp, bmp and gif are read.
    size : (H, W), int or None, default=None
        All images are resized to it; None takes the size of the first one.
    channels : int, default=3
        3 for red, green and blue, 1 for grey.
    seed : int, default=0
        Seed of the split.
    test_share : float, default=0.2
        Share to hold out where there is no folder to test on.
    augmentation : Augmentation or None, default=None
        None takes :meth:`Augmentation.for_size`.
    memory_limit : int, default=8 GiB
        Most bytes that the pixels may take.
    progress : callable or None, default=None
        Called as ``progress(done, total)`` after every image.
    """
    roots = _roots(Path(directory))
    classes = _class_folders(roots[0])
    listed = [_listed(root, classes) for root in roots]
    total = sum(len(paths) for paths, _ in listed)
    wanted = _checked_size(size) or image_size(listed[0][0][0])
    needed = total * channels * wanted[0] * wanted[1]
    if needed > memory_limit:
        raise ValueError(
            f"{directory} needs {format_bytes(needed)} for {total} images of {wanted[0]} x "
            f"{wanted[1]}, and memory_limit allows {format_bytes(memory_limit)}. Pass a smaller "
            "size or a larger limit."
        )
    parts, done = [], 0
    for paths, labels in listed:
        report = None if progress is None else _counted(progress, done, total)
        parts.append((_read_images(paths, channels, wanted, report), labels))
        done += len(paths)
    train, test = (
        parts if len(parts) == 2 else _held_out("image_folder", parts[0], test_share, seed)
    )
    augmentation = augmentation or Augmentation.for_size(wanted)
    name = Path(directory).resolve().name
    return image_split(name, train, test, classes=classes, augmentation=augmentation)


def npy_pair(
    inputs: str | Path,
    labels: str | Path,
    test_inputs: str | Path | None = None,
    test_labels: str | Path | None = None,
    *,
    seed: int = 0,
    test_share: float = 0.2,
    augmentation: Augmentation | None = None,
) -> DataSplit:
    """Inputs and labels of ``.npy`` files.

    Parameters
    ----------
    inputs : str or Path
        uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels, or floating
        features (N, ...), which become float32.
    labels : str or Path
        Integers 0..K-1, shape (N,).
    test_inputs, test_labels : str, Path or None, default=None
        What to test on; None holds out a part of the examples, stratified by class.
    seed : int, default=0
        Seed of the split.
    test_share : float, default=0.2
        Share to hold out.
    augmentation : Augmentation or None, default=None
        For images; None takes :meth:`Augmentation.for_size`.
    """
    if (test_inputs is None) != (test_labels is None):
        raise ValueError("npy_pair needs both test_inputs and test_labels, or neither.")
    train = _read_pair(inputs, labels)
    if test_inputs is not None and test_labels is not None:
        test = _read_pair(test_inputs, test_labels)
    else:
        train, test = _held_out("npy_pair", train, test_share, seed)
    if train[0].shape[1:] != test[0].shape[1:] or train[0].dtype != test[0].dtype:
        raise ValueError(
            f"{test_inputs} must hold the same kind of inputs as {inputs}. "
            f"Got {_kind(test[0])} and {_kind(train[0])}."
        )
    name = Path(inputs).stem
    if train[0].dtype == torch.uint8:
        height, width = train[0].shape[2:]
        augmentation = augmentation or Augmentation.for_size((height, width))
        return image_split(name, train, test, classes=None, augmentation=augmentation)
    training = TensorSource(*train)
    return DataSplit(name, training, TensorSource(*test, training.classes))


def _roots(directory: Path) -> tuple[Path, ...]:
    """The folders that hold the class folders: one to train and one to test on, or one for both."""
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} does not exist or is not a folder.")
    train = directory / "train"
    for other in ("test", "val"):
        if train.is_dir() and (directory / other).is_dir():
            return train, directory / other
    return (train,) if _folders(directory) == ["train"] else (directory,)


def _class_folders(root: Path) -> tuple[str, ...]:
    names = [name for name in _folders(root) if any(_image_files(root / name))]
    if len(names) < 2:
        raise ValueError(
            f"{root} must hold one folder of images for each of two or more classes. "
            f"Got {len(names)} such folders."
        )
    return tuple(names)


def _folders(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _image_files(folder: Path) -> Iterator[Path]:
    return (p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def _listed(root: Path, classes: tuple[str, ...]) -> tuple[list[Path], Tensor]:
    """Image files below ``root`` in a fixed order, and their labels."""
    unknown = [n for n in _folders(root) if n not in classes and any(_image_files(root / n))]
    if unknown:
        raise ValueError(
            f"{root} must hold the classes of the training part only. "
            f"Got {', '.join(unknown)} besides."
        )
    files = [sorted(_image_files(root / name)) for name in classes]
    if not any(files):
        raise ValueError(f"{root} must hold images in folders named after the classes.")
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([len(f) for f in files]))
    return [path for some in files for path in some], labels


def _checked_size(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        accepted = "a pair (height, width), one integer or None"
        raise parameter_error("image_folder", "size", accepted, size)
    height, width = (positive_int("image_folder", "size", side) for side in sides)
    return height, width


def _read_images(
    paths: list[Path],
    channels: int,
    size: tuple[int, int],
    report: Callable[[int], None] | None,
) -> Tensor:
    images = torch.empty((len(paths), channels, *size), dtype=torch.uint8)
    # Pillow lets go of the interpreter while it decodes, so threads do run side by side.
    reading = Parallel(n_jobs=-1, prefer="threads", return_as="generator")(
        delayed(read_image)(path, channels, size) for path in paths
    )
    for i, pixels in enumerate(reading):
        images[i] = torch.from_numpy(pixels)
        if report is not None:
            report(i + 1)
    return images


def _counted(
    progress: Callable[[int, int], None], before: int, total: int
) -> Callable[[int], None]:
    return lambda done: progress(before + done, total)


def _held_out(
    owner: str, pair: tuple[Tensor, Tensor], share: float, seed: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    values, labels = pair
    rest, held = split_positions(owner, labels, share, seed, "test_share")
    return (values[rest], labels[rest]), (values[held], labels[held])


def _read_pair(inputs: str | Path, labels: str | Path) -> tuple[Tensor, Tensor]:
    array = read_array(inputs)
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        values = _as_images(inputs, torch.from_numpy(array))
    elif array.dtype.kind == "f" and array.ndim >= 2:
        values = torch.from_numpy(array.astype(np.float32))
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{inputs} must hold finite float32 numbers. Some are not.")
    else:
        raise ValueError(
            f"{inputs} must hold uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W), or "
            f"floating features (N, ...). Got {array.dtype} of shape {array.shape} instead."
        )
    return values, as_labels(f"npy_pair ({labels})", read_array(labels), count=len(values))


def _as_images(path: str | Path, array: Tensor) -> Tensor:
    if array.ndim == 3:
        return array.unsqueeze(1)
    if array.shape[1] in (1, 3):
        return array
    if array.shape[3] in (1, 3):
        return array.permute(0, 3, 1, 2).contiguous()
    raise ValueError(f"{path} must hold images of 1 or 3 channels. Got {_kind(array)} instead.")


def _kind(values: Tensor) -> str:
    return f"{values.dtype} of shape {tuple(values.shape)}"
