"""A data set by one string, as on a command line."""

from __future__ import annotations

from pathlib import Path

from vinets.checks import parameter_error
from vinets.data.formats import Size, by_rank, written_formats
from vinets.data.interface import DataSplit

__all__ = ["load_data"]


def load_data(spec: str | Path, *, seed: int = 0, size: Size = None) -> DataSplit:
    """Load the data set that ``spec`` names.

    That is ``"digits"``; ``"cifar10:DIR"`` or ``"cifar100:DIR"``; a folder, in which CIFAR, WebP
    sheets or folders of images by class are recognised; ``"X.npy,y.npy"``, of which a part is held
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
    for format in (kind() for kind in by_rank()):
        if not format.matches(text):
            continue
        if size is not None and not format.resizes:
            resized = ", ".join(kind.written for kind in by_rank() if kind.resizes)
            remedy = f"Only this is resized: {resized}."
            raise parameter_error("load_data", "size", f"None for {text}", size, remedy)
        return format.load(text, seed=seed, size=size)
    raise parameter_error("load_data", "spec", written_formats(), text)
