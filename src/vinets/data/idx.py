"""MNIST, Fashion-MNIST and other grey images in IDX files, gzipped or not.

An IDX file begins with two zero bytes, the type of its numbers, the count of its axes and, as
big-endian integers, their lengths; the numbers follow.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from vinets.core.checks import format_bytes, reason_of
from vinets.data.formats import DataFormat, Size, folder_of
from vinets.data.images import Augmentation, image_split
from vinets.data.source import DataSplit, Pair, as_labels

BYTES = 8  # the type code of unsigned bytes
MOST_BYTES = 1 << 32  # a small archive may unpack to any size
MOST_PACKED = 1_032  # deflate makes nothing smaller than by this factor
CHUNK = 1 << 20
PARTS = ("train", "t10k")
FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
FASHION_PREFIX = "fashion-mnist"


class Idx(DataFormat):
    """A prefix with the folder behind it, or the folder alone.

    The files of MNIST and of Fashion-MNIST have the same names, so the prefix decides: only
    ``fashion-mnist`` mirrors training images.
    """

    name = "idx"
    written = f"'idx:DIR', '{FASHION_PREFIX}:DIR' (mirrored as well), a folder with IDX files"
    rank = 20

    def matches(self, spec: str) -> bool:
        return _located(spec) is not None

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        found = _located(spec)
        assert found is not None  # it matches
        folder, fashion = found
        return idx_folder(folder, flip=fashion, classes=FASHION if fashion else None)


def _located(spec: str) -> tuple[Path, bool] | None:
    """The folder that ``spec`` means, and whether it is said to hold Fashion-MNIST."""
    name, colon, behind = spec.partition(":")
    if colon and name in ("idx", FASHION_PREFIX):
        return Path(behind).expanduser(), name == FASHION_PREFIX
    folder = folder_of(spec)
    if folder is None or not any(_candidates(folder, part, "images", 3) for part in PARTS):
        return None
    return folder, False


def idx_folder(
    directory: str | Path, *, flip: bool = False, classes: tuple[str, ...] | None = None
) -> DataSplit:
    """Grey images in IDX files, as MNIST and Fashion-MNIST come; nothing is downloaded.

    The folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same for
    ``t10k``, each perhaps with ``.gz`` behind it. Training images are shifted by up to an eighth
    of a side; with ``flip`` they are mirrored, too, which turns digits into something else.
    Without names, the classes are numbered.
    """
    folder = Path(directory)
    train, test = (_read_part(folder, part) for part in PARTS)
    if train[0].shape[1:] != test[0].shape[1:]:
        raise ValueError(
            f"{folder} must hold images of one size. Got {_sides(train[0])} to train on and "
            f"{_sides(test[0])} to test on."
        )
    sides = train[0].shape[2:]
    shifts = Augmentation(padding=min(sides) // 8, flip=flip, mode="zero")
    return image_split(folder.resolve().name, train, test, classes=classes, augmentation=shifts)


def _sides(images: Tensor) -> str:
    return " x ".join(map(str, images.shape[2:]))


def _candidates(folder: Path, part: str, what: str, axes: int) -> list[Path]:
    """The files that are there for a part; a dot instead of the second dash is common, too."""
    stems = (f"{part}-{what}{mark}idx{axes}-ubyte" for mark in "-.")
    paths = (folder / f"{stem}{suffix}" for stem in stems for suffix in ("", ".gz"))
    return [path for path in paths if path.is_file()]


def _read_part(folder: Path, part: str) -> Pair:
    paths = []
    for what, axes in (("images", 3), ("labels", 1)):
        found = _candidates(folder, part, what, axes)
        if not found:
            raise FileNotFoundError(
                f"{folder / f'{part}-{what}-idx{axes}-ubyte'} is missing, with and without .gz. "
                "The folder must hold images and labels of 'train' and 't10k'."
            )
        paths.append(found[0])
    # both headers are read before any pixel is
    images, labels = (_header(path, axes) for path, axes in zip(paths, (3, 1), strict=True))
    if images.shape[0] != labels.shape[0]:
        raise ValueError(
            f"{paths[1]} must hold as many labels as there are images ({images.shape[0]:,}). "
            f"Got {labels.shape[0]:,} labels instead."
        )
    pixels = _read(paths[0], images).view(images.shape).unsqueeze(1)
    return pixels, as_labels(f"idx ({paths[1]})", _read(paths[1], labels))


class _Header(NamedTuple):
    shape: tuple[int, ...]
    length: int  # of the header in bytes

    @property
    def size(self) -> int:
        """Bytes behind the header."""
        return math.prod(self.shape)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _header(path: Path, axes: int) -> _Header:
    """The lengths of the axes, if the file can hold what it claims to."""
    length = 4 + 4 * axes
    try:
        with _open(path) as file:
            begin = file.read(length)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, str(error)) from None
    if len(begin) < length or begin[:4] != bytes((0, 0, BYTES, axes)):
        raise ValueError(
            f"{path} must be an IDX file of unsigned bytes with {axes} axes. Its first bytes are "
            f"{begin[:4].hex(' ') or 'missing'} instead of 00 00 08 0{axes}."
        )
    header = _Header(struct.unpack(f">{axes}I", begin[4:]), length)
    if not header.size:
        raise ValueError(f"{path} must hold at least one number. Its shape is {header.shape}.")
    stored = path.stat().st_size
    packed = path.suffix == ".gz"
    room = MOST_PACKED * stored if packed else stored - length
    if header.size > min(room, MOST_BYTES) or (not packed and header.size != room):
        raise ValueError(
            f"{path} must hold what its header says, shape {header.shape} or "
            f"{format_bytes(header.size)}, and at most {format_bytes(MOST_BYTES)}. The file has "
            f"{format_bytes(stored)}. Download it again."
        )
    return header


def _read(path: Path, header: _Header) -> Tensor:
    """The bytes behind the header, exactly as many as it says."""
    content = bytearray()  # it grows with what is really there
    try:
        with _open(path) as file:
            file.read(header.length)
            while len(content) <= header.size:
                # one byte more than there should be shows that there is more
                more = file.read(min(CHUNK, header.size + 1 - len(content)))
                if not more:
                    break
                content += more
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, str(error)) from None
    if len(content) != header.size:
        found = "more" if len(content) > header.size else f"{len(content):,}"
        raise _damaged(path, f"there are {found} bytes where {header.size:,} should be")
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8))


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{path} must be a whole IDX file. It cannot be read: {reason_of(reason)}. "
        "Download it again."
    )
