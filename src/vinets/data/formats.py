"""Load data sets that are written in one string, as on a command line: one class a format."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from vinets.core.checks import DoubtWarning, parameter_error
from vinets.core.progress import Progress
from vinets.core.registry import Registry
from vinets.data.digest import share_repeated
from vinets.data.images import ImageSource
from vinets.data.source import DataSplit

Size: TypeAlias = tuple[int, int] | int | None
"""Height and width of images, one number for both, or None to leave them as they are."""

# Shares of a test part that may be in the training part: more is warned of, or refused.
MAX_UNNOTICED_REPEATS, MAX_REPEATS = 0.05, 0.5

DATA_FORMATS: Registry[type[DataFormat]] = Registry("data format", "vinets.data")


class DataFormat(ABC):
    """One way to write a data set; a subclass with a ``name`` is known to ``load_data``."""

    name: ClassVar[str]
    written: ClassVar[str]  # what users write, shown in help and complaints
    prefixes: ClassVar[tuple[str, ...]] = ()  # "idx" of "idx:DIR"
    rank: ClassVar[int] = 50  # lower is asked first: names and prefixes, then any folder or file
    resizes: ClassVar[bool] = False  # whether load takes all options of load_data, as files need

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" in vars(cls):
            DATA_FORMATS.add(cls.name, cls)

    def matches(self, spec: str) -> bool:
        """Say whether ``spec`` is written in this format; the data may be missing or bad.

        Unless a format says otherwise, it has a prefix or names a folder that is recognised.
        """
        prefixed, path = self.split(spec)
        return prefixed or (bool(spec) and path.is_dir() and self.recognises(path))

    def recognises(self, folder: Path) -> bool:
        """Say whether a folder without a prefix is of this format."""
        return False

    def split(self, spec: str) -> tuple[bool, Path]:
        """Tell whether ``spec`` has a prefix of this format, and which path it names."""
        prefix, colon, behind = spec.partition(":")
        prefixed = bool(colon) and prefix in self.prefixes
        return prefixed, Path(behind if prefixed else spec).expanduser()

    @abstractmethod
    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        """Load the data set; ``seed`` is that of the split, where it has none of its own."""


def load_data(
    spec: str | Path,
    *,
    seed: int = 0,
    size: Size = None,
    resize: str = "squash",
    skip_unreadable: bool = False,
    detail: float = 1.0,
    progress: Progress | str | None = "auto",
) -> DataSplit:
    """Load the data set that ``spec`` names.

    That is ``"digits"``; ``"cifar10:DIR"`` or ``"cifar100:DIR"``; ``"idx:DIR"`` or
    ``"fashion-mnist:DIR"``; ``"text:DIR"``; a folder, in which CIFAR, WebP sheets, IDX files or
    folders of images by class are recognised; ``"X.npy,y.npy"``, of which a part is held
    out, or ``"X.npy,y.npy,Xtest.npy,ytest.npy"``. Other packages may add to these, see
    :class:`vinets.data.DataFormat`. The seed is that of the split, where the data set has none of
    its own; the other options are for folders of images, see :func:`image_folder`. Data of other
    formats are read alike whatever the ``detail``.

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
        load: Callable[..., DataSplit] = format.load
        reading = {"size": size, "resize": resize, "skip_unreadable": skip_unreadable}
        for name, value in () if format.resizes else reading.items():
            if value not in (None, "squash", False):
                only = ", ".join(kind.written for kind in _by_rank() if kind.resizes)
                remedy = f"It is for this only: {only}."
                raise parameter_error("load_data", name, f"left out for {text}", value, remedy)
        more = {**reading, "detail": detail, "progress": progress} if format.resizes else {}
        split = load(text, **{"seed": seed, "size": None, **more})
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
    """Say whether :func:`load_data` takes a size with this data set."""
    return next((k.resizes for k in _by_rank() if k().matches(str(spec))), False)


def _by_rank() -> list[type[DataFormat]]:
    """Return all formats in the order in which they are asked."""
    return sorted(DATA_FORMATS.values(), key=lambda kind: kind.rank)


def written_formats() -> str:
    """Return all ways to write a data set, in one line."""
    return ", ".join(kind.written for kind in _by_rank())
