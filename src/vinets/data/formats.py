"""Load data sets that are written in one string, as on a command line: one class a format."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from vinets.core.checks import DoubtWarning, parameter_error
from vinets.core.registry import Registry
from vinets.data.digest import share_repeated
from vinets.data.images import Augmentation, ImageSource, image_split
from vinets.data.source import DataSplit, as_labels, split_pair

Size: TypeAlias = tuple[int, int] | int | None
"""Height and width of images, one number for both, or None to leave them as they are."""

# Shares of a test part that may be in the training part: more is warned of, or refused.
MAX_UNNOTICED_REPEATS, MAX_REPEATS = 0.05, 0.5

DATA_FORMATS: Registry[type[DataFormat]] = Registry("data format", "vinets.data")


class DataFormat(ABC):
    """One way to write a data set; a subclass with a ``name`` is known to ``load_data``."""

    name: ClassVar[str]
    written: ClassVar[str]  # what users write, shown in help and complaints
    rank: ClassVar[int] = 50  # lower is asked first: names and prefixes, then any folder or file
    resizes: ClassVar[bool] = False  # whether it takes a size

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" in vars(cls):
            DATA_FORMATS.add(cls.name, cls)

    @abstractmethod
    def matches(self, spec: str) -> bool:
        """Say whether ``spec`` is written in this format; the data may be missing or bad."""

    @abstractmethod
    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        """Load the data set; ``seed`` is that of the split, where it has none of its own."""


def load_data(spec: str | Path, *, seed: int = 0, size: Size = None) -> DataSplit:
    """Load the data set that ``spec`` names.

    That is ``"digits"``; ``"cifar10:DIR"`` or ``"cifar100:DIR"``; ``"idx:DIR"`` or
    ``"fashion-mnist:DIR"``; ``"text:DIR"``; a folder, in which CIFAR, WebP sheets, IDX files or
    folders of images by class are recognised; ``"X.npy,y.npy"``, of which a part is held
    out, or ``"X.npy,y.npy,Xtest.npy,ytest.npy"``. Other packages may add to these, see
    :class:`vinets.data.DataFormat`. The seed is that of the split, where the data set has none of
    its own; the size is for folders of images, the only ones that are resized.

    Examples
    --------
    >>> data = load_data("digits")
    >>> data.name, data.train.classes[:3]
    ('digits', ('0', '1', '2'))
    """
    text = str(spec)
    # The first that matches is asked alone: its complaint is about the data that was meant.
    for format in (kind() for kind in _by_rank()):
        if not format.matches(text):
            continue
        if size is not None and not format.resizes:
            resized = ", ".join(kind.written for kind in _by_rank() if kind.resizes)
            remedy = f"Only this is resized: {resized}."
            raise parameter_error("load_data", "size", f"None for {text}", size, remedy)
        split = format.load(text, seed=seed, size=size)
        share = share_repeated(split)
        said = f"{share:.0%} of the test examples of {split.name} are among its training examples"
        # Other examples than images may well be the same: a few numbers, or few words.
        if share > MAX_REPEATS and isinstance(split.test, ImageSource):
            raise ValueError(f"{said}. Pass data whose test part is its own.")
        if share > MAX_UNNOTICED_REPEATS:
            warnings.warn(f"{said}: accuracy on them says little.", RepeatedWarning, stacklevel=2)
        return split
    remedy = "" if Path(text).expanduser().exists() else "There is no such file or folder."
    raise UnknownData(str(parameter_error("load_data", "spec", written_formats(), text, remedy)))


class UnknownData(ValueError):
    """No format knows the data set that was written."""


class RepeatedWarning(DoubtWarning):
    """Some examples of a test part are in the training part, too."""


def takes_size(spec: str | Path) -> bool:
    """Say whether :func:`load_data` takes a size with this data set.

    Examples
    --------
    >>> takes_size("digits")
    False
    """
    return next((k.resizes for k in _by_rank() if k().matches(str(spec))), False)


def _by_rank() -> list[type[DataFormat]]:
    """Return all formats in the order in which they are asked."""
    return sorted(DATA_FORMATS.values(), key=lambda kind: kind.rank)


def written_formats() -> str:
    """Return all ways to write a data set, in one line."""
    return ", ".join(kind.written for kind in _by_rank())


def folder_of(spec: str) -> Path | None:
    """Return the folder that ``spec`` names, if there is one."""
    folder = Path(spec).expanduser()
    return folder if spec and folder.is_dir() else None


# --- the digits of scikit-learn, small and always at hand ---------------------------------------


class Digits(DataFormat):
    """Digits, by their name."""

    name = "digits"
    written = "'digits'"
    rank = 0  # asked before folders, one of which may have that name

    def matches(self, spec: str) -> bool:
        return spec == "digits"

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        return digits(seed=seed)


def digits(seed: int = 0, test_share: float = 0.25) -> DataSplit:
    """Return 1,797 digits of 1 x 8 x 8 pixels in ten classes, split by class with a seed.

    Examples
    --------
    >>> data = digits()
    >>> len(data.train), len(data.test)
    (1348, 449)
    """
    from sklearn.datasets import load_digits

    raw = load_digits()
    grey = np.rint(raw.images * (255 / 16)).astype(np.uint8)  # the levels are 0..16
    images = torch.from_numpy(grey).unsqueeze(1)
    labels = as_labels("digits", raw.target)
    train, test = split_pair("digits", (images, labels), test_share, seed)
    crops = Augmentation(padding=1, flip=False, mode="zero")
    return image_split("digits", train, test, augmentation=crops)
