"""Read MNIST, Fashion-MNIST and other grey images from IDX files, gzipped or not.

An IDX file begins with two zero bytes, the type of its numbers, the count of its axes and, as
big-endian integers, their lengths; the numbers follow.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vinets.core.checks import file_error, format_bytes, reason_of
from vinets.data.formats import DataFormat, Size
from vinets.data.images import Augmentation, image_split
from vinets.data.source import DataSplit, Pair, as_labels

UNSIGNED_BYTE = 8  # a type of numbers, as headers write it
MAX_UNPACKED_BYTES = 1 << 32  # a small archive may unpack to any size
MAX_PACKING_FACTOR = 1_032  # deflate packs no better
READ_BYTES = 1 << 20  # at once
PARTS = ("train", "t10k")
FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
FASHION_PREFIX = "fashion-mnist"


class Idx(DataFormat):
    """IDX files, by a prefix with the folder behind it, or by the folder alone.

    The files of MNIST and of Fashion-MNIST have the same names, so the prefix decides: only
    ``fashion-mnist`` mirrors training images.
    """

    name = "idx"
    prefixes = ("idx", FASHION_PREFIX)
    written = f"'idx:DIR', '{FASHION_PREFIX}:DIR' (mirrored as well), a folder with IDX files"
    rank = 20

    def recognises(self, folder: Path) -> bool:
        return any(_existing(folder, f"{part}-images", 3) for part in PARTS)

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        fashion = spec.startswith(f"{FASHION_PREFIX}:")
        folder = self.split(spec)[1]
        return idx_folder(folder, flip=fashion, classes=FASHION if fashion else None)


def idx_folder(
    directory: str | Path, *, flip: bool = False, classes: tuple[str, ...] | None = None
) -> DataSplit:
    """Read grey images in IDX files, as MNIST and Fashion-MNIST come; nothing is downloaded.

    The folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same for
    ``t10k``, each perhaps with ``.gz`` behind it. Training images are shifted by up to an eighth
    of a side; with ``flip`` they are mirrored, too, which turns digits into something else.
    Without names, the classes are numbered.
    """
    folder = Path(directory)
    train, test = (_read_part(folder, part) for part in PARTS)
    if train[0].shape[1:] != test[0].shape[1:]:
        sides = (" x ".join(map(str, images.shape[2:])) for images, _ in (train, test))
        sizes = "{} to train on and {} to test on".format(*sides)
        raise ValueError(f"{folder} must hold images of one size. Got {sizes}.")
    shifts = Augmentation(padding=min(train[0].shape[2:]) // 8, flip=flip, mode="zero")
    return image_split(folder.resolve().name, train, test, classes=classes, augmentation=shifts)


def _existing(folder: Path, what: str, axes: int) -> list[Path]:
    """List the files of that name; a dot instead of the second dash is common, too."""
    names = (f"{what}{mark}idx{axes}-ubyte{suffix}" for mark in "-." for suffix in ("", ".gz"))
    return [folder / name for name in names if (folder / name).is_file()]


def _read_part(folder: Path, part: str) -> Pair:
    images, _ = _read(folder, f"{part}-images", 3)
    labels, path = _read(folder, f"{part}-labels", 1)
    if len(images) != len(labels):
        accepted = f"as many labels as there are images ({len(images):,})"
        raise file_error(path, accepted, f"{len(labels):,} labels")
    return images.unsqueeze(1), as_labels(f"idx ({path})", labels)


def _read(folder: Path, what: str, axes: int) -> tuple[Tensor, Path]:
    """Read the numbers in a file, exactly as many as its header says; return its path, too."""
    paths = _existing(folder, what, axes)
    if not paths:
        raise FileNotFoundError(
            f"{folder / f'{what}-idx{axes}-ubyte'} is missing, with and without .gz. The folder "
            "must hold images and labels of 'train' and 't10k'."
        )
    path = paths[0]
    length, packed = 4 + 4 * axes, path.suffix == ".gz"
    content = bytearray()  # it grows with what the file holds, whatever the header says
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            begin = file.read(length)
            if len(begin) < length or begin[:4] != bytes((0, 0, UNSIGNED_BYTE, axes)):
                raise ValueError(
                    f"{path} must be an IDX file of unsigned bytes with {axes} axes. Its first "
                    f"bytes are {begin[:4].hex(' ') or 'missing'} instead of 00 00 08 0{axes}."
                )
            shape = struct.unpack(f">{axes}I", begin[4:])
            size, stored = math.prod(shape), path.stat().st_size
            if not size:
                raise ValueError(f"{path} must hold at least one number. Its shape is {shape}.")
            room = MAX_PACKING_FACTOR * stored if packed else stored - length
            if size > min(room, MAX_UNPACKED_BYTES) or (not packed and size != room):
                raise ValueError(
                    f"{path} must hold what its header says, shape {shape} or "
                    f"{format_bytes(size)}, and at most {format_bytes(MAX_UNPACKED_BYTES)}. The "
                    f"file has {format_bytes(stored)}. Download it again."
                )
            # One byte more than there should be shows that there is more.
            while more := file.read(min(READ_BYTES, size + 1 - len(content))):
                content += more
        if len(content) != size:
            got = "more" if len(content) > size else f"{len(content):,}"
            raise EOFError(f"there are {got} bytes where {size:,} should be")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} must be a whole IDX file. It cannot be read: {reason_of(error)}. "
            "Download it again."
        ) from None
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8)).view(shape), path
