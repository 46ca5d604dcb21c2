"""Make sources of tensors, arrays, data sets and loaders, and split them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, each, tensors_of
from vinets.data.images import Preprocessing
from vinets.data.source import (
    Batches,
    CheckedSource,
    DataSplit,
    Device,
    Indices,
    Source,
    as_labels,
    choose_per_class,
    split_positions,
)
from vinets.data.transforms import preprocessing_of


class TensorSource(CheckedSource):
    """Inputs in memory, which are not augmented.

    Inputs are a tensor (N, ...) or a dict of such tensors, of any dtype and on any device; labels
    are integers 0..K-1. Without names, the classes are numbered.

    Examples
    --------
    >>> source = TensorSource(torch.eye(3), [0, 1, 1])
    >>> [labels.tolist() for _, labels in source.batches(2)]
    [[0, 1], [1]]
    """

    def __init__(self, inputs: Inputs, labels: Any, classes: Sequence[str] | None = None) -> None:
        shapes = [tuple(t.shape) for t in tensors_of(inputs)]
        if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
            accepted = "tensors of one length, the number of examples"
            raise parameter_error("TensorSource", "inputs", accepted, shapes)
        self.inputs = inputs
        self._label(labels, shapes[0][0], classes)

    def _take(self, index: Tensor, device: Device | None = None) -> tuple[Inputs, Tensor]:
        taken = each(self.inputs, lambda t: t[index.to(t.device)].to(device or t.device))
        return taken, self.labels[index]

    def _subset(self, index: Tensor) -> TensorSource:
        return TensorSource(*self._take(index), self.classes)

    def _batches(self, chunks: Indices, augment: torch.Generator | None, device: Device) -> Batches:
        for chunk in chunks:
            inputs, labels = self._take(chunk, device)
            yield inputs, labels.to(device)


class LoaderSource(CheckedSource):
    """The examples of a map-style data set, read by a :class:`~torch.utils.data.DataLoader`.

    A loader lends its data set, ``collate_fn`` and workers; the order and the batch size are those
    asked for. Batches are pairs (inputs, labels), or mappings with the key
    ``"labels"`` or ``"label"``, of which the rest is the inputs.

    Labels come from ``dataset.targets``, ``dataset.labels`` or the last tensor of a
    ``TensorDataset`` where there is one, and from one pass over the data otherwise.

    The transforms of the data set are its augmentation: they run on every pass, and ``augment`` is
    ignored, except that worker processes are seeded from it. Without names, the classes are those
    of ``dataset.classes``, or numbered.
    """

    def __init__(
        self, data: DataLoader[Any] | Dataset[Any], classes: Sequence[str] | None = None
    ) -> None:
        loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=64)
        if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
            accepted = "a loader over a map-style data set, with a batch size"
            remedy = "as_source(loader) reads any other into memory."
            got = type(loader.dataset).__name__
            raise parameter_error("LoaderSource", "data", accepted, got, remedy)
        self._loader = loader
        self.preprocessing: Preprocessing | None = None  # how image files are read, if known
        with suppress(ValueError, TypeError, AttributeError):  # any object may have the name
            self.preprocessing = preprocessing_of(getattr(loader.dataset, "transform", None))
        count = len(loader.dataset)  # type: ignore[arg-type]
        self._positions = torch.arange(count)
        labels, names = _stored(loader.dataset)
        read = labels is None
        if labels is None:
            chunks = self._positions.split(loader.batch_size or 64) if count else ()
            batches = [_inputs_and_labels(batch)[1] for batch in self._read(chunks, None)]
            labels = torch.cat([self._positions[:0], *batches])
        try:
            self._label(labels, count, names if classes is None else classes)
        except ValueError:
            if classes is not None or names is None:
                raise
            self._label(labels, count, None)  # the data set has something else of that name
        if count and not read:
            self.example()  # stored labels that are not those of the batches show up at once

    def _subset(self, index: Tensor) -> LoaderSource:
        # A shallow copy, because the constructor would read all labels again.
        part = copy.copy(self)
        part._positions, part.labels = self._positions[index], self.labels[index]
        return part

    def _batches(self, chunks: Indices, augment: torch.Generator | None, device: Device) -> Batches:
        for chunk, batch in zip(chunks, self._read(chunks, augment), strict=True):
            inputs, labels = _inputs_and_labels(batch)
            if not torch.equal(labels, self.labels[chunk]):
                raise ValueError(
                    "The labels in the batches of the data set must stay the same on every pass, "
                    "and be those in its 'targets' or 'labels' attribute if it has one. They "
                    "differ. Correct the attribute, or the collate_fn if that changes labels."
                )
            yield each(inputs, lambda tensor: tensor.to(device)), labels.to(device)

    def _read(self, chunks: Indices, augment: torch.Generator | None) -> Iterator[Any]:
        loader = self._loader
        # Processes take longer to start than a batch to read; they are what ``augment`` seeds.
        workers = loader.num_workers if len(chunks) > 1 or augment is not None else 0
        return iter(
            DataLoader(
                loader.dataset,
                batch_sampler=[self._positions[chunk].tolist() for chunk in chunks],
                collate_fn=loader.collate_fn,
                num_workers=workers,
                worker_init_fn=loader.worker_init_fn,
                multiprocessing_context=loader.multiprocessing_context if workers else None,
                # It draws a seed for its workers, which must not come from the global generator.
                generator=torch.Generator().manual_seed(0) if augment is None else augment,
            )
        )


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
            remedy = "Leave it out: the source names its classes."
            raise parameter_error("as_source", "classes", "None for a source", classes, remedy)
        source = data
    elif isinstance(data, tuple | list) and len(data) == 2:
        inputs: Any = data[0]
        if isinstance(inputs, dict):
            inputs = {str(name): _as_tensor(values) for name, values in inputs.items()}
        else:
            inputs = _as_tensor(inputs)
        source = TensorSource(inputs, data[1], classes)
    else:
        # Torch fetches batches by __getitems__; Hugging Face data sets have it, data frames do not.
        if isinstance(data, Dataset) or hasattr(data, "__getitems__"):
            data = DataLoader(data, batch_size=64)
        if not isinstance(data, DataLoader):
            accepted = "a pair (inputs, labels), a DataLoader, a Dataset or a Source"
            remedy = "Pass its part train or test." if isinstance(data, DataSplit) else ""
            raise parameter_error("as_source", "data", accepted, type(data).__name__, remedy)
        once = isinstance(data.dataset, IterableDataset) or data.batch_sampler is None
        source = _read_once(data, classes) if once else LoaderSource(data, classes)
    if not len(source):
        raise parameter_error("as_source", "data", "at least one example", "none")
    return source


def split_source(source: Source, share: float, seed: int) -> tuple[Source, Source]:
    """Split into the rest and a held-out share in [0, 1), stratified by class.

    At least one example of every class stays in the rest. Equal seeds give equal splits.
    """
    rest, held_out = split_positions("split_source", source.labels, share, seed)
    return source.subset(rest), source.subset(held_out)


def draw_from(source: Source, count: int, seed: int) -> Source:
    """Draw ``count`` examples without replacement, or take all if there are no more."""
    if len(source) <= count:
        return source
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))
    return source.subset(order[:count].sort().values)


def limit_source(source: Source, limit: int | None, seed: int) -> Source:
    """Keep at most ``limit`` examples, equally many of each class, at least one; None keeps all."""
    if limit is None:
        return source
    most = max(1, limit // len(source.classes))
    return source.subset(choose_per_class(source.labels, most, seed))


def _inputs_and_labels(batch: Any) -> tuple[Inputs, Tensor]:
    """Split a batch of a loader: a pair, or a mapping with the labels among the inputs."""
    inputs: Any
    if isinstance(batch, Mapping) and ("labels" in batch or "label" in batch):
        key = "labels" if "labels" in batch else "label"
        inputs = {str(name): value for name, value in batch.items() if name != key}
        labels = batch[key]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, labels = batch
    else:
        accepted = "batches (inputs, labels), or mappings with the key 'labels' or 'label'"
        keys = sorted(map(str, batch)) if isinstance(batch, Mapping) else type(batch).__name__
        raise parameter_error("LoaderSource", "data", f"a loader of {accepted}", keys)
    got = f"inputs of type {type(inputs).__name__}"
    remedy = "Convert the examples in the data set or in collate_fn."
    if isinstance(inputs, Mapping) and inputs:
        others = [name for name, value in inputs.items() if not isinstance(value, Tensor)]
        if not others:
            return dict(inputs), as_labels("LoaderSource", labels)
        got = f"no tensor under {', '.join(map(repr, others))}"
        remedy = "Leave such columns out of the data set, or convert them in collate_fn."
    if not isinstance(inputs, Tensor):
        raise parameter_error("LoaderSource", "data", "a loader of tensors", got, remedy)
    return inputs, as_labels("LoaderSource", labels)


def _stored(dataset: Any) -> tuple[Tensor | None, Sequence[str] | None]:
    """Return labels and names of classes that are known without reading the examples."""
    if isinstance(dataset, Subset):
        labels, names = _stored(dataset.dataset)
        return None if labels is None else labels[torch.as_tensor(dataset.indices).long()], names
    names = getattr(dataset, "classes", None)
    names = names if isinstance(names, list | tuple) else None
    values = getattr(dataset, "targets", getattr(dataset, "labels", None))
    if isinstance(dataset, TensorDataset):
        values = dataset.tensors[-1]
    # A transform of torchvision's data sets changes the labels of the batches, not these.
    if values is None or getattr(dataset, "target_transform", None) is not None:
        return None, names
    try:
        return as_labels("LoaderSource", values, count=len(dataset)), names
    except (TypeError, ValueError):  # something else of that name
        return None, names


def _read_once(loader: DataLoader[Any], classes: Sequence[str] | None) -> TensorSource:
    """Read all that one pass over ``loader`` gives into memory; the loader must end."""
    pairs = [_inputs_and_labels(batch) for batch in loader]
    if not pairs:
        raise parameter_error("as_source", "data", "at least one example", "none")
    inputs, labels = zip(*pairs, strict=True)
    try:
        joined = tree_map(lambda *parts: torch.cat(parts), *inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        accepted = "batches of one kind, whose inputs differ in the first dimension only"
        raise parameter_error("as_source", "data", accepted, str(error)) from None
    return TensorSource(joined, torch.cat(labels), classes)


def _as_tensor(values: Any) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    accepted = "a numeric array or tensor with one row for each example"
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # ragged lists
        got = type(values).__name__
        raise parameter_error("as_source", "inputs", accepted, got) from None
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        got = f"{type(values).__name__} of dtype {array.dtype} and shape {array.shape}"
        raise parameter_error("as_source", "inputs", accepted, got)
    # Torch takes neither negative strides nor a foreign byte order, and warns of read-only memory.
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
