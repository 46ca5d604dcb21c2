"""Read data sets of image files, one folder for each class."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from vinets.core.checks import file_error, format_bytes, parameter_error
from vinets.core.files import check_name, locked, slug, written_aside
from vinets.core.progress import Progress, progress_of
from vinets.data.formats import DataFormat, Size
from vinets.data.images import Preprocessing, first_size, image_split, import_pillow, read_images
from vinets.data.mapped import MappedImages, Pixels, take
from vinets.data.source import HELD_OUT, DataSplit, positive_int, split_positions

FILE_VERSION = 1  # is raised when the same files would give other pixels
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
# Photographs that are not read: listed, so that they are named instead of silently passed over.
OTHER_SUFFIXES = {".heic", ".heif", ".avif", ".jxl"}


class ImageFolder(DataFormat):
    """Images, by their folder."""

    name = "images"
    written = "a folder of images by class"
    rank = 90  # takes any folder that no other format knows
    resizes = True

    def recognises(self, folder: Path) -> bool:
        return True

    def load(self, spec: str, *, seed: int, size: Size, **reading: Any) -> DataSplit:
        return image_folder(self.split(spec)[1], size=size, seed=seed, **reading)


def image_folder(
    directory: str | Path,
    *,
    size: Size = None,
    channels: int = 3,
    seed: int = 0,
    memory_limit: int = 64 << 20,
    resize: str = "squash",
    detail: float = 1.0,
    skip_unreadable: bool = False,
    progress: Progress | str | None = "auto",
) -> DataSplit:
    """Read image files, one folder for each class, whose name is that of the folder.

    The classes lie in the subfolders ``train`` and ``test`` (or ``val``), or in ``directory``
    itself; in the latter case a fifth is held out, stratified by class. Files ending in png, jpg,
    jpeg, webp, bmp, gif, tif and tiff are read.

    All images get the size, (H, W) or one number, of the first where there is none, and 3 channels
    or 1 for grey. Images of other proportions are squashed, or cut to these by ``resize="crop"``.
    With a ``detail`` above 1, training images are kept at so many times the size as well, for
    resized crops.

    Pixels beyond ``memory_limit`` bytes lie in a file in :func:`cache_folder`, of which parts are
    read when they are needed. It serves every later call, until one of the images changes.

    All files that cannot be read are named in one error; ``skip_unreadable`` leaves them out, and
    ``skipped`` of the data set counts them.
    """
    roots = _roots(Path(directory))
    listed = [{name: _image_files(root / name) for name in _folders(root)} for root in roots]
    classes = tuple(name for name, files in listed[0].items() if files)
    if len(classes) < 2:
        accepted = "one folder of images for each of two or more classes"
        raise file_error(roots[0], accepted, len(classes))
    paths, numbers, counts = list[Path](), list[int](), list[int]()
    for root, files in zip(roots, listed, strict=True):
        unknown = [name for name, some in files.items() if some and name not in classes]
        if unknown:
            raise file_error(root, "the classes of the training part only", ", ".join(unknown))
        own = [(k, path) for k, name in enumerate(classes) for path in files.get(name, [])]
        if not own:
            raise ValueError(f"{root} must hold images in folders named after the classes.")
        numbers += [k for k, _ in own]
        paths += [path for _, path in own]
        counts.append(len(own))
    pair = first_size(paths) if size is None else size
    sides = tuple(pair) if isinstance(pair, tuple | list) else (pair, pair)
    if len(sides) != 2:
        accepted = "a pair (height, width), one integer or None"
        raise parameter_error("image_folder", "size", accepted, size)
    height, width = (positive_int("image_folder", "size", side) for side in sides)
    # Mean and deviation are known when the images are.
    reading = Preprocessing(channels, (height, width), (0,) * channels, (1,) * channels, resize)
    watch = progress_of(progress, short=True)
    read = partial(_read_once, Path(directory), memory_limit, skip_unreadable, watch)
    images, kept = read(paths, reading)
    labels, first = torch.tensor(numbers)[kept], int((kept < counts[0]).sum())
    positions = torch.arange(len(kept)).split([first, len(kept) - first][: len(roots)])
    empty = [name for k, name in enumerate(classes) if k not in labels[:first]]
    if empty or not all(map(len, positions)):
        accepted = "an image that can be read, of every class to train on and of one to test on"
        raise file_error(directory, accepted, f"none of {', '.join(empty) or 'the test part'}")
    if len(roots) == 1:
        positions = split_positions("image_folder", labels, HELD_OUT, seed)
    parts = [(take(images, part), labels[part]) for part in positions]
    name, reading = Path(directory).resolve().name, Preprocessing.from_images(parts[0][0], resize)
    split = image_split(name, *parts, classes=classes, preprocessing=reading)
    if detail > 1:
        larger = replace(reading, size=(round(detail * height), round(detail * width)))
        some = [paths[i] for i in kept[positions[0]].tolist()]
        large, _ = read(some, larger)
        split = replace(split, train=split.train.changed(large=large))  # type: ignore[attr-defined]
    return replace(split, skipped=len(paths) - len(kept))


def cache_folder() -> Path:
    """Return the folder for decoded images: $VINETS_CACHE, or where the system keeps such files."""
    if own := os.environ.get("VINETS_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vinets"


def _read_once(
    directory: Path,
    memory_limit: int,
    skip_unreadable: bool,
    watch: Progress,
    paths: Sequence[Path],
    reading: Preprocessing,
) -> tuple[Pixels, Tensor]:
    """Read images into memory, or into a file that stays; return them and their positions."""
    each = (reading.channels, *reading.size)
    needed = len(paths) * math.prod(each)

    def write(out: IO[bytes]) -> None:
        """Write the pixels of all images, and then a byte for each that tells if it was read."""
        watch.start("reading images", len(paths))
        readable = bytearray(len(paths))
        for i, pixels in read_images(paths, reading, skip_unreadable):
            out.seek(i * pixels.nbytes)
            out.write(pixels.data)
            readable[i] = 1
            watch.advance()
        out.seek(needed)
        out.write(readable)

    if needed <= memory_limit:
        memory = BytesIO()
        write(memory)
        values = torch.frombuffer(memory.getbuffer(), dtype=torch.uint8)
        kept = values[needed:].nonzero()[:, 0]
        images = values[:needed].view(-1, *each)
        return images if len(kept) == len(paths) else images[kept], kept  # a copy takes as much
    whole = directory.resolve()
    name = hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]
    folder = cache_folder() / f"{slug(whole.name)}-{name}"
    how = [FILE_VERSION, import_pillow().__version__, *each, reading.resize, skip_unreadable]
    key = hashlib.sha256(json.dumps(how).encode()).hexdigest()[:12]
    content = hashlib.sha256()
    for path in paths:
        facts = path.stat()  # a file that is changed or put in the place of another has another
        times = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
        content.update(json.dumps([os.fsdecode(path.relative_to(directory)), *times]).encode())
    file = folder / f"{key}-{content.hexdigest()[:24]}.pixels"
    with locked(folder, wait=True):
        if not file.is_file():
            free = shutil.disk_usage(folder).free
            if needed > free:
                raise ValueError(
                    f"{directory} needs {format_bytes(needed)} for {len(paths)} images of "
                    f"{reading.size[0]} x {reading.size[1]}, and {folder} has {format_bytes(free)} "
                    "left. Pass a smaller size, or name another folder in $VINETS_CACHE."
                )
            with written_aside(file) as aside, aside.open("wb") as out:
                write(out)
            for older in {*folder.glob(f"{key}-*")} - {file}:
                with suppress(OSError):  # another system does not delete what is mapped
                    older.unlink()
        kept = torch.from_numpy(np.fromfile(file, np.uint8, offset=needed)).nonzero()[:, 0]
        return MappedImages(file, each).subset(kept), kept


def _roots(directory: Path) -> tuple[Path, ...]:
    """Return the folders of class folders: one to train and one to test on, or one for both."""
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} does not exist or is not a folder.")
    check_name(directory.resolve())
    train = directory / "train"
    for other in ("test", "val"):
        if train.is_dir() and (directory / other).is_dir():
            return train, directory / other
    # Next to other folders, "train" is a class, of pictures of trains perhaps.
    return (train,) if _folders(directory) == ["train"] else (directory,)


def _folders(root: Path) -> list[str]:
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    for folder in folders:
        check_name(folder)  # which becomes the name of a class
    return [folder.name for folder in folders]


def image_files(path: Path) -> list[Path]:
    """Return the image itself, or the images in a folder and below it, sorted."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"{path} does not exist. Pass an image or a folder of images.")
    files = _image_files(path)
    if not files:
        raise ValueError(f"{path} holds no images. Files may end in {', '.join(sorted(SUFFIXES))}.")
    return files


def _image_files(folder: Path) -> list[Path]:
    known = SUFFIXES | OTHER_SUFFIXES
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in known and p.is_file())
