"""CIFAR-10 and CIFAR-100 in the layouts in which they are handed round."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vinets.checks import one_of
from vinets.data.formats import DataFormat, Size, folder_of
from vinets.data.images import Augmentation, Preprocessing, image_split
from vinets.data.interface import DataSplit
from vinets.data.labels import as_labels
from vinets.data.pickles import read_pickle
from vinets.data.sheets import has_sheets, read_sheets, sheet_labels

__all__ = ["Cifar", "cifar", "find_cifar"]

PIXELS = 3 * 32 * 32
PREPROCESSING = Preprocessing(3, (32, 32), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
AUGMENTATION = Augmentation(padding=4, flip=True, mode="reflect")
CIFAR10_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


@dataclass(frozen=True)
class Layout:
    """An archive: its file names, and where the labels stand in a file; sheets name no files."""

    data: str
    classes: int
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    key: str = ""  # of the labels in a pickle; empty for binary files
    names_key: str = ""
    label_bytes: int = 1  # in front of every binary image; the last one counts


_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_BINARY = tuple(f"{name}.bin" for name in _BATCHES)
LAYOUTS = (
    Layout("cifar10", 10, "cifar-10-batches-bin", _BINARY, ("test_batch.bin",), "batches.meta.txt"),
    Layout(
        *("cifar10", 10, "cifar-10-batches-py", _BATCHES, ("test_batch",), "batches.meta"),
        key="labels",
        names_key="label_names",
    ),
    Layout(
        *("cifar100", 100, "cifar-100-binary", ("train.bin",), ("test.bin",)),
        names="fine_label_names.txt",
        label_bytes=2,
    ),
    Layout(
        *("cifar100", 100, "cifar-100-python", ("train",), ("test",), "meta"),
        key="fine_labels",
        names_key="fine_label_names",
    ),
    Layout("cifar10", 10, "cifar10_sheets", (), (), "batches.meta.txt"),
    Layout("cifar100", 100, "cifar100_sheets", (), (), "fine_label_names.txt"),
)
NAMES = ("cifar10", "cifar100")


class Cifar(DataFormat):
    """By name with the folder behind a colon, or the folder alone."""

    name = "cifar"
    written = "'cifar10:DIR', 'cifar100:DIR', a folder with CIFAR or WebP sheets"
    rank = 10

    def matches(self, spec: str) -> bool:
        return _located(spec) is not None

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        found = _located(spec)
        assert found is not None  # it matches
        return cifar(*found)


def _located(spec: str) -> tuple[Path, str] | None:
    """The folder and the name of the data set that ``spec`` means."""
    name, colon, behind = spec.partition(":")
    if colon and name in NAMES:
        return Path(behind).expanduser(), name
    folder = folder_of(spec)
    if folder is None:
        return None
    if has_sheets(folder):  # the two look alike but for the labels
        labels = sheet_labels(folder, "train")
        return folder, "cifar100" if len(labels) and int(labels.max()) >= 10 else "cifar10"
    return next(((folder, name) for name in NAMES if find_cifar(folder, name)), None)


def cifar(directory: str | Path, name: str = "cifar10") -> DataSplit:
    """CIFAR-10, or CIFAR-100 with its fine labels, from a folder on disk; nothing is downloaded.

    The folder is the unpacked archive or the one above it: the official binary or Python version,
    or lossless WebP sheets (:mod:`vinets.data.sheets`).
    """
    one_of("cifar", "name", name, NAMES)
    found = find_cifar(directory, name)
    if found is None:
        folders = [layout.folder for layout in LAYOUTS if layout.data == name and layout.train]
        raise FileNotFoundError(
            f"{directory} must hold {name}: {' or '.join(folders)}, or WebP sheets. "
            "Download and unpack one of the archives from "
            "https://www.cs.toronto.edu/~kriz/cifar.html."
        )
    folder, layout = found
    if layout.train:
        train, test = (_joined(folder, files, layout) for files in (layout.train, layout.test))
    else:
        train, test = read_sheets(folder, "train"), read_sheets(folder, "test")
        for _, labels in (train, test):
            _check_range(folder, labels, layout.classes)
    names = _class_names(folder / layout.names, layout.names_key, layout.classes)
    return image_split(
        name, train, test, classes=names, augmentation=AUGMENTATION, preprocessing=PREPROCESSING
    )


def find_cifar(directory: str | Path, name: str) -> tuple[Path, Layout] | None:
    """Where the data set lies and in which layout."""
    top = Path(directory)
    for layout in LAYOUTS:
        if layout.data == name:
            files = layout.train + layout.test
            for folder in (top, top / layout.folder):
                if any((folder / f).is_file() for f in files) or (not files and has_sheets(folder)):
                    return folder, layout
    return None


Pair = tuple[Tensor, Tensor]


def _joined(folder: Path, files: tuple[str, ...], layout: Layout) -> Pair:
    read = _read_pickled if layout.key else _read_binary
    images, labels = [], []
    for file in files:
        path = folder / file
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing. {layout.folder} must hold "
                f"{', '.join(layout.train + layout.test)}."
            )
        some, those = read(path, layout)
        _check_range(path, those, layout.classes)
        images.append(some)
        labels.append(those)
    return torch.cat(images).view(-1, 3, 32, 32), torch.cat(labels)


def _read_binary(path: Path, layout: Layout) -> Pair:
    record = layout.label_bytes + PIXELS
    size = path.stat().st_size
    if not size or size % record:
        raise ValueError(
            f"{path} must have a positive multiple of {record:,} bytes, one record for each image. "
            f"Got {size:,} bytes instead. Download the archive again."
        )
    records = torch.from_numpy(np.fromfile(path, dtype=np.uint8)).view(-1, record)
    labels = records[:, layout.label_bytes - 1]
    return records[:, layout.label_bytes :], as_labels(f"cifar ({path})", labels)


def _read_pickled(path: Path, layout: Layout) -> Pair:
    content = read_pickle(path)
    data = content.get("data")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != PIXELS:
        got = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(
            f"{path} must hold 'data', a uint8 array (N, {PIXELS}). Got {got} instead."
        )
    if layout.key not in content:
        raise ValueError(f"{path} must hold '{layout.key}'. Got {', '.join(content)} instead.")
    labels = as_labels(f"cifar ({path})", content[layout.key], count=len(data))
    return torch.from_numpy(data.copy()), labels


def _check_range(path: Path, labels: Tensor, classes: int) -> None:
    if not len(labels) or int(labels.max()) >= classes:
        got = int(labels.max()) if len(labels) else "none"
        raise ValueError(f"{path} must hold labels below {classes}. Got {got} instead.")


def _class_names(path: Path, key: str, count: int) -> tuple[str, ...]:
    """Names from the meta file; without one, the known names or numbers."""
    if not path.is_file():
        return CIFAR10_NAMES if count == 10 else tuple(str(k) for k in range(count))
    names: Any
    if key:
        names = read_pickle(path).get(key)
    else:
        names = path.read_text(encoding="utf-8", errors="replace").split()
    if not isinstance(names, list) or len(names) != count:
        got = len(names) if isinstance(names, list) else names
        raise ValueError(f"{path} must hold {count} names of classes. Got {got} instead.")
    return tuple(n.decode("latin1") if isinstance(n, bytes) else str(n) for n in names)
