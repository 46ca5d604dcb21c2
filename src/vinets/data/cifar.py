"""Read CIFAR-10 and CIFAR-100 from the official archives, or from lossless WebP sheets.

The archives are binary or pickled. A folder of sheets holds
``train_000.webp``, ``train_001.webp`` and so on with ``train_labels.npy``, and the same for
``test``. A sheet is a grid of 25 columns of 32 x 32 images, read row by row; a full one has 40
rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.core.checks import file_error, one_of, reason_of
from vinets.core.files import read_bytes
from vinets.data.formats import DataFormat, Size
from vinets.data.images import Augmentation, Preprocessing, image_split, read_image, read_together
from vinets.data.npy import read_array
from vinets.data.source import MAX_CLASSES, DataSplit, Pair, as_labels

COLUMNS, MAX_ROWS, SIDE = 25, 40, 32
PIXELS = 3 * SIDE * SIDE
# Mean and deviation of the training pixels of CIFAR-10, which is used for both.
PREPROCESSING = Preprocessing(3, (SIDE, SIDE), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
AUGMENTATION = Augmentation(padding=4, flip=True, mode="reflect")
CIFAR10_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CLASSES = {"cifar10": 10, "cifar100": 100}
MAX_BINARY_BYTES = 1 << 30
MAX_PICKLE_BYTES = 1 << 28  # the largest file of the archives has 155 million
MAX_NAMES_BYTES = 1 << 20
# CIFAR-100 has coarse and fine labels: in binary files they stand in front of an image in this
# order, in pickles they have names of their own.
LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
LABEL_KEYS = {"cifar10": "label", "cifar100": "fine_label"}
# Names that the pickles mention, and how they write the type of bytes.
NAMES = (
    *(("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")),
    *(("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")),
)
UINT8 = ("u1", "|u1", b"u1", b"|u1")


class Layout(NamedTuple):
    """Names of the files of an archive; sheets name none."""

    data: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str  # a file with the names of the classes: text, or a pickle next to pickles


_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
_BINARY = tuple(map("{}.bin".format, _BATCHES))
_FINE_NAMES = "fine_label_names.txt"
LAYOUTS = (
    Layout("cifar10", "cifar-10-batches-bin", _BINARY, ("test_batch.bin",), "batches.meta.txt"),
    Layout("cifar10", "cifar-10-batches-py", _BATCHES, ("test_batch",), "batches.meta"),
    Layout("cifar100", "cifar-100-binary", ("train.bin",), ("test.bin",), _FINE_NAMES),
    Layout("cifar100", "cifar-100-python", ("train",), ("test",), "meta"),
    Layout("cifar10", "cifar10_sheets", (), (), "batches.meta.txt"),
    Layout("cifar100", "cifar100_sheets", (), (), _FINE_NAMES),
)


class Cifar(DataFormat):
    """CIFAR by name with the folder behind a colon, or by the folder alone."""

    name = "cifar"
    prefixes = tuple(CLASSES)
    written = "'cifar10:DIR', 'cifar100:DIR', a folder with CIFAR or WebP sheets"
    rank = 10

    def recognises(self, folder: Path) -> bool:
        return bool(_name_of(folder))

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        prefixed, folder = self.split(spec)
        return cifar(folder, spec.partition(":")[0] if prefixed else _name_of(folder))


def _name_of(folder: Path) -> str:
    """Return the name of the data set in a folder, empty if there is none."""
    if _has_sheets(folder):  # the two look alike but for the labels
        labels = _sheet_labels(folder, "train")
        return "cifar100" if len(labels) and int(labels.max()) >= 10 else "cifar10"
    return next((name for name in CLASSES if _layout_of(folder, name)), "")


def cifar(directory: str | Path, name: str = "cifar10") -> DataSplit:
    """Read CIFAR-10, or CIFAR-100 with its fine labels, from a folder; nothing is downloaded.

    The folder is the unpacked archive or the one above it: the official binary or Python version,
    or lossless WebP sheets (:mod:`vinets.data.cifar`).
    """
    one_of("cifar", "name", name, tuple(CLASSES))
    located = _layout_of(Path(directory), name)
    if located is None:
        folders = [layout.folder for layout in LAYOUTS if layout.data == name and layout.train]
        raise FileNotFoundError(
            f"{directory} must hold {name}: {' or '.join(folders)}, or WebP sheets. Download and "
            "unpack one of the archives from https://www.cs.toronto.edu/~kriz/cifar.html."
        )
    folder, layout = located
    if layout.train:
        train, test = (_read_files(folder, files, layout) for files in (layout.train, layout.test))
    else:
        train, test = (_read_sheets(folder, part, name) for part in ("train", "test"))
    names = _class_names(folder / layout.names, name)
    return image_split(
        name, train, test, classes=names, augmentation=AUGMENTATION, preprocessing=PREPROCESSING
    )


def _layout_of(top: Path, name: str) -> tuple[Path, Layout] | None:
    """Return the folder of a data set and its layout."""
    for layout in (one for one in LAYOUTS if one.data == name):
        for folder in (top, top / layout.folder):
            # One file is enough: what else is missing is named when it is read.
            files = [folder / file for file in layout.train + layout.test]
            if any(map(Path.is_file, files)) if files else _has_sheets(folder):
                return folder, layout
    return None


def _class_names(path: Path, name: str) -> tuple[str, ...]:
    """Return the names in the meta file; without one, the known names or numbers."""
    count = CLASSES[name]
    if not path.is_file():
        return CIFAR10_NAMES if count == 10 else tuple(map(str, range(count)))
    if path.suffix == ".txt":
        names: Any = read_bytes(path, MAX_NAMES_BYTES).decode("utf-8", errors="replace").split()
    else:
        names = read_pickle(path).get(f"{LABEL_KEYS[name]}_names")
    listed = names if isinstance(names, list) else []
    decoded = (n.decode("latin1") if isinstance(n, bytes) else n for n in listed)
    texts = tuple(n for n in decoded if isinstance(n, str))
    if len(texts) != count or len(listed) != count:
        raise file_error(path, f"{count} names of classes", len(texts))
    return texts


# --- archives ---------------------------------------------------------------------------------


def _read_files(folder: Path, files: tuple[str, ...], layout: Layout) -> Pair:
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        all_files = f"{layout.folder} must hold {', '.join(layout.train + layout.test)}."
        raise FileNotFoundError(f"{folder / missing[0]} is missing. {all_files}")
    read = _read_binary if files[0].endswith(".bin") else _read_pickled
    images, labels = zip(*(read(folder / file, layout.data) for file in files), strict=True)
    return torch.cat(images).view(-1, 3, SIDE, SIDE), torch.cat(labels)


def _read_binary(path: Path, name: str) -> Pair:
    head = LABEL_BYTES[name]
    record, size = head + PIXELS, path.stat().st_size
    if not 0 < size <= MAX_BINARY_BYTES or size % record:
        raise ValueError(
            f"{path} must have a positive multiple of {record:,} bytes, one record for each image. "
            f"Got {size:,} bytes instead. Download the archive again."
        )
    records = torch.from_numpy(np.fromfile(path, dtype=np.uint8)).view(-1, record)
    labels = as_labels(f"cifar ({path})", records[:, head - 1], below=CLASSES[name])
    return records[:, head:], labels


def _read_pickled(path: Path, name: str) -> Pair:
    content, key = read_pickle(path), f"{LABEL_KEYS[name]}s"
    array, labels = content.get("data"), content.get(key)
    data = array.values if isinstance(array, _Array) else None
    if data is None or data.ndim != 2 or data.shape[1] != PIXELS or not len(data):
        got = type(array).__name__ if data is None else f"shape {data.shape}"
        raise file_error(path, f"'data', a uint8 array (N, {PIXELS})", got)
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError(f"{path} must hold '{key}', a list of integers 0..K-1.")
    checked = as_labels(f"cifar ({path})", labels, len(data), CLASSES[name])
    # A copy, because the array is a read-only view of the bytes in the pickle.
    return torch.from_numpy(data.copy()), checked


# --- pickles ----------------------------------------------------------------------------------


def read_pickle(path: Path) -> dict[str, Any]:
    """Read the dict in a pickle of containers, numbers, texts and arrays of bytes; run nothing."""
    content = read_bytes(path, MAX_PICKLE_BYTES)
    try:
        values = _Unpickler(content).load()
        if not isinstance(values, dict):
            raise pickle.UnpicklingError(f"it holds {type(values).__name__} instead of a dict")
    except Exception as error:  # a damaged pickle raises all sorts
        raise ValueError(
            f"{path} must be a file of the official CIFAR archive. It cannot be read: "
            f"{reason_of(error)}. Download the archive again."
        ) from None
    return {key.decode("latin1") if isinstance(key, bytes) else key: values[key] for key in values}


class _Array:
    """Stand for an array of bytes, or for the type of its items; a pickle sets its state."""

    values: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        if len(state) == 5 and isinstance(state[2], _Array) and isinstance(state[4], bytes):
            flat = np.frombuffer(state[4], dtype=np.uint8)
            self.values = flat.reshape(state[1], order="F" if state[3] is True else "C")


def _push_list(reader: Any, count: int) -> None:
    """Let one list take the place of so many values on the stack."""
    reader.stack[-count:] = [reader.stack[-count:]]


class _Unpickler(pickle._Unpickler):
    """Read what the official files need; what they call is recognised rather than called.

    This is the reader in Python, because that in C takes memory for every position up to the
    largest that a file mentions. Tuples become lists, which have no hash, because a few bytes make
    a tuple that takes years to hash.
    """

    dispatch = pickle._Unpickler.dispatch | {
        pickle.EMPTY_TUPLE[0]: pickle._Unpickler.dispatch[pickle.EMPTY_LIST[0]],
        pickle.TUPLE[0]: pickle._Unpickler.dispatch[pickle.LIST[0]],
        pickle.TUPLE1[0]: partial(_push_list, count=1),
        pickle.TUPLE2[0]: partial(_push_list, count=2),
        pickle.TUPLE3[0]: partial(_push_list, count=3),
    }
    del dispatch[pickle.BYTEARRAY8[0]]  # it takes the memory that it claims before it reads

    def __init__(self, content: bytes) -> None:
        super().__init__(BytesIO(content), encoding="bytes")
        self.room = len(content)  # bytes that texts may still become

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}"[:80])

        def answer(first: Any, *others: Any) -> Any:
            if name == "_reconstruct" or (name == "dtype" and first in UINT8):
                return _Array()
            if name == "encode" and others in ((), ("latin1",)):
                self.room -= len(first)  # one text, encoded again and again, would fill the memory
                if self.room >= 0:
                    return first.encode("latin1")
            raise pickle.UnpicklingError(f"it calls {name} with values that no such file has")

        return answer


# --- sheets -----------------------------------------------------------------------------------


def _has_sheets(folder: Path) -> bool:
    return (folder / "train_labels.npy").is_file() or (folder / "train_000.webp").is_file()


def _read_sheets(folder: Path, part: str, name: str) -> Pair:
    """Read images (N, 3, 32, 32) and labels (N,) of ``part``, "train" or "test"."""
    paths = sorted(folder.glob(f"{part}_*.webp"))
    if not paths:
        raise FileNotFoundError(f"{folder} must hold sheets {part}_000.webp and on. It has none.")
    labels = _sheet_labels(folder, part, CLASSES[name])
    images = torch.from_numpy(np.concatenate(list(read_together(_read_sheet, paths))))
    if len(labels) != len(images):
        accepted = f"one label for each of the {len(images)} images"
        raise file_error(folder / f"{part}_labels.npy", accepted, len(labels))
    return images, labels


def _sheet_labels(folder: Path, part: str, below: int = MAX_CLASSES) -> Tensor:
    """Read the labels (N,) of ``part``, the last of several columns, from coarse to fine."""
    path = folder / f"{part}_labels.npy"
    labels = read_array(path)
    columns = labels.ndim == 2 and labels.shape[1] > 0
    return as_labels(f"cifar ({path})", labels[:, -1] if columns else labels, below=below)


def _read_sheet(path: Path) -> Any:
    sheet = read_image(path, channels=3)
    _, height, width = sheet.shape
    rows = height // SIDE
    if width != COLUMNS * SIDE or height != rows * SIDE or not 1 <= rows <= MAX_ROWS:
        raise ValueError(
            f"{path} must be {COLUMNS * SIDE} pixels wide and a multiple of {SIDE} high, up to "
            f"{MAX_ROWS * SIDE}. Got {width} x {height} instead."
        )
    grid = sheet.reshape(3, rows, SIDE, COLUMNS, SIDE)
    # Rows and columns of the grid go in front, and count the images together.
    return np.ascontiguousarray(grid.transpose(1, 3, 0, 2, 4).reshape(-1, 3, SIDE, SIDE))
