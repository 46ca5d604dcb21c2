"""One entry for whatever holds examples and labels, and the examples that lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from vinets.checks import parameter_error
from vinets.data.interface import Batches, CheckedSource, Chunks, Device, Inputs, Source
from vinets.data.labels import as_labels, class_names, split_positions
from vinets.data.loaders import LoaderSource, can_be_reread, inputs_and_labels
from vinets.running import each, tensors_of

__all__ = ["TensorSource", "as_source", "draw_from", "split_source"]


class TensorSource(CheckedSource):
    """Inputs in memory, given as they are. There is nothing to augment.

    Inputs are a tensor (N, ...) or a dict of such tensors, of any dtype and on any device; labels
    are integers 0..K-1. Without names, the classes are numbered.

    Examples
    --------
    >>> source = TensorSource(torch.eye(3), [0, 1, 1])
    >>> [labels.tolist() for _, labels in source.batches(2)]
    [[0, 1], [1]]
    """

    def __init__(self, inputs: Inputs, labels: Any, classes: Sequence[str] | None = None) -> None:
        sizes = {t.shape[0] if t.ndim else None for t in tensors_of(inputs)}
        if len(sizes) != 1 or None in sizes:
            accepted = "tensors of one length, the number of examples"
            got = [tuple(t.shape) for t in tensors_of(inputs)]
            raise parameter_error("TensorSource", "inputs", accepted, got)
        self.inputs = inputs
        self.labels = as_labels("TensorSource", labels, count=sizes.pop())
        self.classes = class_names("TensorSource", classes, self.labels)

    def _subset(self, index: Tensor) -> TensorSource:
        return TensorSource(_take(self.inputs, index), self.labels[index], self.classes)

    def _batches(self, chunks: Chunks, augment: torch.Generator | None, device: Device) -> Batches:
        for chunk in chunks:
            taken = each(_take(self.inputs, chunk), lambda tensor: tensor.to(device))
            yield taken, self.labels[chunk].to(device)


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
    source: Source
    if isinstance(data, Source):
        if classes is not None and tuple(classes) != data.classes:
            remedy = "Leave it out, for the source names its classes."
            raise parameter_error("as_source", "classes", "None for a source", classes, remedy)
        source = data
    elif isinstance(data, tuple | list) and len(data) == 2:
        source = TensorSource(_as_inputs("as_source", data[0]), data[1], classes)
    else:
        # Torch fetches batches by __getitems__; Hugging Face data sets have it, data frames do not.
        if isinstance(data, Dataset) or hasattr(data, "__getitems__"):
            data = DataLoader(data, batch_size=64)
        if not isinstance(data, DataLoader):
            accepted = "a pair (inputs, labels), a DataLoader, a Dataset or a Source"
            raise parameter_error("as_source", "data", accepted, type(data).__name__)
        reread = can_be_reread(data)
        source = LoaderSource(data, classes) if reread else _read_once(data, classes)
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


def _read_once(loader: DataLoader[Any], classes: Sequence[str] | None) -> TensorSource:
    """Everything that one pass over ``loader`` gives, in memory. The loader must end."""
    pairs = [inputs_and_labels(batch) for batch in loader]
    if not pairs:
        raise parameter_error("as_source", "data", "at least one example", "none")
    labels = torch.cat([labels for _, labels in pairs])
    accepted = "batches of one kind, whose inputs differ in the first dimension only"
    parts = [{"": inputs} if isinstance(inputs, Tensor) else inputs for inputs, _ in pairs]
    if any(part.keys() != parts[0].keys() for part in parts):
        raise parameter_error("as_source", "data", accepted, "batches of several kinds")
    try:
        joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    except RuntimeError as error:
        raise parameter_error("as_source", "data", accepted, str(error)) from None
    return TensorSource(joined[""] if isinstance(pairs[0][0], Tensor) else joined, labels, classes)


def _as_inputs(owner: str, values: Any) -> Inputs:
    """An array, a tensor or a dict of those as tensors, dtypes kept."""
    if isinstance(values, dict):
        return {str(name): _as_tensor(owner, value) for name, value in values.items()}
    return _as_tensor(owner, values)


def _as_tensor(owner: str, values: Any) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    accepted = "a numeric array or tensor with one row for each example"
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # ragged lists
        raise parameter_error(owner, "inputs", accepted, type(values).__name__) from None
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        got = f"{type(values).__name__} of dtype {array.dtype} and shape {array.shape}"
        raise parameter_error(owner, "inputs", accepted, got)
    # Torch takes neither negative strides nor a foreign byte order, and warns of read-only memory.
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))


def _take(inputs: Inputs, index: Tensor) -> Inputs:
    return each(inputs, lambda tensor: tensor[index.to(tensor.device)])
