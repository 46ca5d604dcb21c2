"""A data set by one string, as on a command line."""

from __future__ import annotations

from pathlib import Path

from vinets.checks import parameter_error
from vinets.data.cifar import cifar, find_cifar
from vinets.data.digits import digits
from vinets.data.files import image_folder, npy_pair
from vinets.data.interface import DataSplit
from vinets.data.sheets import has_sheets, sheet_labels

__all__ = ["load_data"]

ACCEPTED = (
    "'digits', 'cifar10:DIR', 'cifar100:DIR', a folder (CIFAR, WebP sheets or images by class), "
    "'X.npy,y.npy' or 'X.npy,y.npy,Xtest.npy,ytest.npy'"
)


def load_data(
    spec: str | Path, *, seed: int = 0, size: tuple[int, int] | int | None = None
) -> DataSplit:
    """Load the data set that ``spec`` names.

    Parameters
    ----------
    spec : str or Path
        ``"digits"``; ``"cifar10:DIR"`` or ``"cifar100:DIR"``; a folder, in which CIFAR, WebP
        sheets or folders of images by class are recognised; ``"X.npy,y.npy"``, of which a part is
        held out, or ``"X.npy,y.npy,Xtest.npy,ytest.npy"``.
    seed : int, default=0
        Seed of the split, where the data set has none of its own.
    size : (H, W), int or None, default=None
        Size for folders of images, the only ones that are resized.

    Examples
    --------
    >>> data = load_data("digits")
    >>> data.name, data.train.classes[:3]
    ('digits', ('0', '1', '2'))
    """
    text = str(spec)
    name, colon, place = text.partition(":")
    folder = Path(text).expanduser()
    known = None
    if colon and name in ("cifar10", "cifar100"):
        known, folder = name, Path(place).expanduser()
    elif text not in ("", "digits") and folder.is_dir():
        known = _known_name(folder)
        if known is None:
            return image_folder(folder, size=size, seed=seed)
    if size is not None:
        remedy = "Only folders of images by class are resized."
        raise parameter_error("load_data", "size", f"None for {text}", size, remedy)
    if known is not None:
        return cifar(folder, known)
    if text == "digits":
        return digits(seed=seed)
    paths = [Path(part.strip()).expanduser() for part in text.split(",")]
    if len(paths) in (2, 4) and all(path.suffix == ".npy" for path in paths):
        return npy_pair(*paths, seed=seed)
    raise parameter_error("load_data", "spec", ACCEPTED, text)


def _known_name(folder: Path) -> str | None:
    """``"cifar10"`` or ``"cifar100"`` where the folder holds one of them, else None."""
    if has_sheets(folder):  # the two look alike but for the labels
        labels = sheet_labels(folder, "train")
        return "cifar100" if len(labels) and int(labels.max()) >= 10 else "cifar10"
    for name in ("cifar10", "cifar100"):
        if find_cifar(folder, name) is not None:
            return name
    return None
