"""CIFAR-10 and CIFAR-100 in the layouts in which they are handed round.

These are the official archives, binary and pickled, and lossless WebP sheets: a folder holds
``train_000.webp``, ``train_001.webp`` and so on with ``train_labels.npy``, and the same for
``test``. A sheet is a grid of 25 columns of 32 x 32 images, read row by row; a full one has 40
rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor

from vinets.core.checks import one_of
from vinets.core.files import read_bytes
from vinets.data.formats import DataFormat, Size, folder_of
from vinets.data.images import Augmentation, Preprocessing, image_split, read_image
from vinets.data.interface import DataSplit
from vinets.data.labels import Pair, as_labels
from vinets.data.npy import read_array
from vinets.data.pickles import read_pickle

COLUMNS, ROWS, SIDE = 25, 40, 32
PIXELS = 3 * SIDE * SIDE
# Mean and deviation of the training pixels of CIFAR-10, which is used for both.
PREPROCESSING = Preprocessing(3, (SIDE, SIDE), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
AUGMENTATION = Augmentation(padding=4, flip=True, mode="reflect")
CIFAR10_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CLASSES = {"cifar10": 10, "cifar100": 100}
MOST_BYTES = 1 << 30  # of a file
MOST_NAMES = 1 << 20  # bytes of a file with names of classes
# CIFAR-100 has coarse and fine labels: in binary files they stand in front of an image in this
# order, in pickles they have names of their own.
LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
LABEL_KEYS = {"cifar10": "label", "cifar100": "fine_label"}


class Layout(NamedTuple):
    """An archive; sheets name no files."""

    data: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str  # a file with the names of the classes: text, or a pickle beside pickles


_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_BINARY = tuple(f"{name}.bin" for name in _BATCHES)
_FINE = "fine_label_names.txt"
LAYOUTS = (
    Layout("cifar10", "cifar-10-batches-bin", _BINARY, ("test_batch.bin",), "batches.meta.txt"),
    Layout("cifar10", "cifar-10-batches-py", _BATCHES, ("test_batch",), "batches.meta"),
    Layout("cifar100", "cifar-100-binary", ("train.bin",), ("test.bin",), _FINE),
    Layout("cifar100", "cifar-100-python", ("train",), ("test",), "meta"),
    Layout("cifar10", "cifar10_sheets", (), (), "batches.meta.txt"),
    Layout("cifar100", "cifar100_sheets", (), (), _FINE),
)


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
    if colon and name in CLASSES:
        return Path(behind).expanduser(), name
    folder = folder_of(spec)
    if folder is None:
        return None
    if _has_sheets(folder):  # the two look alike but for the labels
        labels = _sheet_labels(folder, "train")
        return folder, "cifar100" if len(labels) and int(labels.max()) >= 10 else "cifar10"
    return next(((folder, name) for name in CLASSES if _found(folder, name)), None)


def cifar(directory: str | Path, name: str = "cifar10") -> DataSplit:
    """CIFAR-10, or CIFAR-100 with its fine labels, from a folder on disk; nothing is downloaded.

    The folder is the unpacked archive or the one above it: the official binary or Python version,
    or lossless WebP sheets (:mod:`vinets.data.cifar`).
    """
    one_of("cifar", "name", name, tuple(CLASSES))
    found = _found(Path(directory), name)
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
        train, test = (_read_sheets(folder, part, name) for part in ("train", "test"))
    names = _class_names(folder / layout.names, name)
    return image_split(
        name, train, test, classes=names, augmentation=AUGMENTATION, preprocessing=PREPROCESSING
    )


def _found(top: Path, name: str) -> tuple[Path, Layout] | None:
    """Where the data set lies and in which layout."""
    for layout in (one for one in LAYOUTS if one.data == name):
        for folder in (top, top / layout.folder):
            # One file is enough: what else is missing is named when it is read.
            files = [folder / file for file in layout.train + layout.test]
            there = any(map(Path.is_file, files)) if files else _has_sheets(folder)
            if there:
                return folder, layout
    return None


def _class_names(path: Path, name: str) -> tuple[str, ...]:
    """Names from the meta file; without one, the known names or numbers."""
    count = CLASSES[name]
    if not path.is_file():
        return CIFAR10_NAMES if count == 10 else tuple(map(str, range(count)))
    names: Any
    if path.suffix == ".txt":
        names = read_bytes(path, MOST_NAMES).decode("utf-8", errors="replace").split()
    else:
        names = read_pickle(path).get(f"{LABEL_KEYS[name]}_names")
    if not isinstance(names, list) or len(names) != count:
        got = len(names) if isinstance(names, list) else type(names).__name__
        raise ValueError(f"{path} must hold {count} names of classes. Got {got} instead.")
    texts = tuple(n.decode("latin1") if isinstance(n, bytes) else n for n in names)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path} must hold {count} names of classes. Some are no text.")
    return texts


# --- archives ---------------------------------------------------------------------------------


def _joined(folder: Path, files: tuple[str, ...], layout: Layout) -> Pair:
    pairs = []
    for path in (folder / file for file in files):
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing. {layout.folder} must hold "
                f"{', '.join(layout.train + layout.test)}."
            )
        read = _read_binary if path.suffix == ".bin" else _read_pickled
        pairs.append(_in_range(path, read(path, layout.data), layout.data))
    images, labels = zip(*pairs, strict=True)
    return torch.cat(images).view(-1, 3, SIDE, SIDE), torch.cat(labels)


def _in_range(path: Path, pair: Pair, name: str) -> Pair:
    labels = pair[1]
    if not len(labels) or int(labels.max()) >= CLASSES[name]:
        got = int(labels.max()) if len(labels) else "none"
        raise ValueError(f"{path} must hold labels below {CLASSES[name]}. Got {got} instead.")
    return pair


def _read_binary(path: Path, name: str) -> Pair:
    head = LABEL_BYTES[name]
    record, size = head + PIXELS, path.stat().st_size
    if not 0 < size <= MOST_BYTES or size % record:
        raise ValueError(
            f"{path} must have a positive multiple of {record:,} bytes, one record for each image. "
            f"Got {size:,} bytes instead. Download the archive again."
        )
    records = torch.from_numpy(np.fromfile(path, dtype=np.uint8)).view(-1, record)
    return records[:, head:], as_labels(f"cifar ({path})", records[:, head - 1])


def _read_pickled(path: Path, name: str) -> Pair:
    content, key = read_pickle(path), f"{LABEL_KEYS[name]}s"
    data = content.get("data")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != PIXELS:
        got = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(
            f"{path} must hold 'data', a uint8 array (N, {PIXELS}). Got {got} instead."
        )
    if key not in content:
        raise ValueError(f"{path} must hold '{key}'. Got {', '.join(content)} instead.")
    given = content[key]
    if not isinstance(given, list) or not all(type(label) is int for label in given):
        raise ValueError(f"{path} must hold '{key}', a list of integers 0..K-1.")
    labels = as_labels(f"cifar ({path})", given, count=len(data))
    # A copy, for the array is a read-only view of the bytes in the pickle.
    return torch.from_numpy(data.copy()), labels


# --- sheets -----------------------------------------------------------------------------------


def _has_sheets(folder: Path) -> bool:
    return (folder / "train_labels.npy").is_file() or (folder / "train_000.webp").is_file()


def _read_sheets(folder: Path, part: str, name: str) -> Pair:
    """Images (N, 3, 32, 32) and labels (N,) of ``part``, "train" or "test"."""
    paths = sorted(folder.glob(f"{part}_*.webp"))
    if not paths:
        raise FileNotFoundError(f"{folder} must hold sheets {part}_000.webp and on. It has none.")
    labels = _sheet_labels(folder, part)
    # Pillow lets go of the interpreter while it decodes, so threads do run side by side.
    sheets = Parallel(n_jobs=-1, prefer="threads")(delayed(_read_sheet)(p) for p in paths)
    images = torch.from_numpy(np.concatenate(list(sheets)))
    if len(labels) != len(images):
        raise ValueError(
            f"{folder / part}_labels.npy must hold one label for each of the {len(images)} images. "
            f"Got {len(labels)} instead."
        )
    return _in_range(folder, (images, labels), name)


def _sheet_labels(folder: Path, part: str) -> Tensor:
    """Labels (N,) of ``part``. Of several columns, from coarse to fine, the last one counts."""
    path = folder / f"{part}_labels.npy"
    labels = read_array(path)
    columns = labels.ndim == 2 and labels.shape[1] > 0
    return as_labels(f"cifar ({path})", labels[:, -1] if columns else labels)


def _read_sheet(path: Path) -> Any:
    sheet = read_image(path, channels=3)
    _, height, width = sheet.shape
    rows = height // SIDE
    if width != COLUMNS * SIDE or height != rows * SIDE or not 1 <= rows <= ROWS:
        raise ValueError(
            f"{path} must be {COLUMNS * SIDE} pixels wide and a multiple of {SIDE} high, up to "
            f"{ROWS * SIDE}. Got {width} x {height} instead."
        )
    grid = sheet.reshape(3, rows, SIDE, COLUMNS, SIDE)
    # Rows and columns of the grid go in front, and count the images together.
    return np.ascontiguousarray(grid.transpose(1, 3, 0, 2, 4).reshape(-1, 3, SIDE, SIDE))
