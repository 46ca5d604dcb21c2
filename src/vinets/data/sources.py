"""One entry for whatever holds examples and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from vinets.checks import parameter_error
from vinets.data.interface import Source
from vinets.data.labels import split_positions
from vinets.data.loaders import LoaderSource, can_be_reread, read_once
from vinets.data.tensors import TensorSource, as_inputs

__all__ = ["as_source", "draw_from", "split_source"]


def as_source(data: Any, classes: Sequence[str] | None = None) -> Source:
    """Make a source of a pair (inputs, labels), a DataLoader or a Dataset; or return a source.

    Inputs may be an array, a tensor or a dict of those. Of a loader, the data set, ``collate_fn``
    and workers are used, not its order. A loader over an
    :class:`~torch.utils.data.IterableDataset` is read into memory once, so it must end. Without
    names, the classes are those of the data set, or numbered.

    Examples
    --------
    >>> import numpy as np
    >>> source = as_source((np.zeros((4, 2)), [0, 1, 0, 1]), classes=("cat", "dog"))
    >>> len(source), source.classes
    (4, ('cat', 'dog'))
    """
    source = _convert(data, classes)
    if not len(source):
        raise parameter_error("as_source", "data", "at least one example", "none")
    return source


def split_source(source: Source, share: float, seed: int) -> tuple[Source, Source]:
    """Split into the rest and a held-out share in [0, 1), stratified by class.

    At least one example of every class stays in the rest. Equal seeds give equal splits.

    Examples
    --------
    >>> import torch
    >>> rest, held_out = split_source(TensorSource(torch.zeros(8, 2), [0, 1] * 4), 0.25, seed=0)
    >>> rest.labels.bincount().tolist(), held_out.labels.bincount().tolist()
    ([3, 3], [1, 1])
    """
    rest, held_out = split_positions("split_source", source.labels, share, seed)
    return source.subset(rest), source.subset(held_out)


def draw_from(source: Source, count: int, seed: int) -> Source:
    """So many examples, drawn without replacement: classes may lie in a row; or all there are."""
    if len(source) <= count:
        return source
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))
    return source.subset(order[:count].sort().values)


def _convert(data: Any, classes: Sequence[str] | None) -> Source:
    if isinstance(data, Source):
        if classes is not None and tuple(classes) != data.classes:
            remedy = "Leave it out, for the source names its classes."
            raise parameter_error("as_source", "classes", "None for a source", classes, remedy)
        return data
    if isinstance(data, tuple | list) and len(data) == 2:
        return TensorSource(as_inputs("as_source", data[0]), data[1], classes)
    # Torch fetches batches by __getitems__; Hugging Face data sets have it, data frames do not.
    if isinstance(data, Dataset) or hasattr(data, "__getitems__"):
        data = DataLoader(data, batch_size=64)
    if isinstance(data, DataLoader):
        return LoaderSource(data, classes) if can_be_reread(data) else read_once(data, classes)
    accepted = "a pair (inputs, labels), a DataLoader, a Dataset or a Source"
    raise parameter_error("as_source", "data", accepted, type(data).__name__)
