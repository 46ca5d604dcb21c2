"""Read data sets of image files, one folder for each class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vinets.core.checks import file_error, format_bytes, parameter_error
from vinets.core.files import check_name
from vinets.core.progress import Progress, progress_of
from vinets.data.formats import DataFormat, Size
from vinets.data.images import Preprocessing, first_size, image_split, read_images
from vinets.data.source import HELD_OUT, DataSplit, positive_int, split_pair

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
    memory_limit: int = 8 * 2**30,
    resize: str = "squash",
    skip_unreadable: bool = False,
    progress: Progress | str | None = "auto",
) -> DataSplit:
    """Read image files, one folder for each class.

    The classes lie in the subfolders ``train`` and ``test`` (or ``val``), or in ``directory``
    itself; in the latter case a fifth is held out, stratified by class. Names of folders are names
    of classes, sorted. Files ending in png, jpg, jpeg, webp, bmp, gif, tif and tiff are read.

    All images get the size, (H, W) or one number, of the first where there is none, and 3 channels
    or 1 for grey. Their pixels may take ``memory_limit`` bytes. Images of other proportions are
    squashed, or cut to these by ``resize="crop"``.

    All files that cannot be read are named in one error; ``skip_unreadable`` leaves them out, and
    ``skipped`` of the data set counts them.
    """
    roots = _roots(Path(directory))
    listed = [
        {name: sorted(_image_files(root / name)) for name in _folders(root)} for root in roots
    ]
    classes = tuple(name for name, files in listed[0].items() if files)
    if len(classes) < 2:
        accepted = "one folder of images for each of two or more classes"
        raise file_error(roots[0], accepted, len(classes))
    paths, labels = list[Path](), list[Tensor]()
    for root, files in zip(roots, listed, strict=True):
        unknown = [name for name, some in files.items() if some and name not in classes]
        if unknown:
            raise file_error(root, "the classes of the training part only", ", ".join(unknown))
        own = [files.get(name, []) for name in classes]
        if not any(own):
            raise ValueError(f"{root} must hold images in folders named after the classes.")
        counts = torch.tensor([len(some) for some in own])
        labels.append(torch.arange(len(classes)).repeat_interleave(counts))
        paths += chain.from_iterable(own)
    sides: Any = first_size(paths) if size is None else size
    sides = tuple(sides) if isinstance(sides, tuple | list) else (sides, sides)
    if len(sides) != 2:
        accepted = "a pair (height, width), one integer or None"
        raise parameter_error("image_folder", "size", accepted, size)
    height, width = (positive_int("image_folder", "size", side) for side in sides)
    # Mean and deviation are known when the images are.
    reading = Preprocessing(channels, (height, width), (0,) * channels, (1,) * channels, resize)
    needed = len(paths) * channels * height * width
    if needed > memory_limit:
        raise ValueError(
            f"{directory} needs {format_bytes(needed)} for {len(paths)} images of {height} x "
            f"{width}, and memory_limit allows {format_bytes(memory_limit)}. Pass a smaller "
            "size or a larger limit."
        )
    # One allocation of known size, filled as images come, in the order of the paths.
    images = torch.empty((len(paths), channels, height, width), dtype=torch.uint8)
    watch, kept = progress_of(progress, short=True), list[int]()
    watch.start("reading images", len(paths))
    for i, pixels in read_images(paths, reading, skip_unreadable):
        images[len(kept)] = torch.from_numpy(pixels)
        kept.append(i)
        watch.advance()
    first = sum(i < len(labels[0]) for i in kept)
    labels = list(torch.cat(labels)[kept].split([first, len(kept) - first][: len(roots)]))
    empty = [name for k, name in enumerate(classes) if k not in labels[0]]
    if empty or not all(map(len, labels)):
        accepted = "an image that can be read, of every class to train on and of one to test on"
        raise file_error(directory, accepted, f"none of {', '.join(empty) or 'the test part'}")
    parts = list(zip(images[: len(kept)].split([*map(len, labels)]), labels, strict=True))
    if len(roots) == 1:
        parts = list(split_pair("image_folder", parts[0], HELD_OUT, seed))
    name, reading = Path(directory).resolve().name, Preprocessing.from_images(parts[0][0], resize)
    split = image_split(name, *parts, classes=classes, preprocessing=reading)
    return replace(split, skipped=len(paths) - len(kept))


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
    files = sorted(_image_files(path))
    if not files:
        raise ValueError(f"{path} holds no images. Files may end in {', '.join(sorted(SUFFIXES))}.")
    return files


def _image_files(folder: Path) -> Iterator[Path]:
    known = SUFFIXES | OTHER_SUFFIXES
    return (p for p in folder.rglob("*") if p.suffix.lower() in known and p.is_file())
