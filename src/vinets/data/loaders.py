"""Examples that a torch data set gives one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from vinets.checks import parameter_error
from vinets.data.interface import Batches, CheckedSource, Inputs
from vinets.data.labels import as_labels, class_names
from vinets.data.tensors import TensorSource
from vinets.running import each

__all__ = ["LoaderSource", "can_be_reread", "read_once"]

ACCEPTED_BATCH = "batches (inputs, labels), or mappings with the key 'labels' or 'label'"


class LoaderSource(CheckedSource):
    """The examples of a map-style data set, read by a :class:`~torch.utils.data.DataLoader`.

    Of a loader given, the data set, ``collate_fn`` and the workers are used; the order and the
    batch size are those asked for. Batches are pairs (inputs, labels), or mappings with the key
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
        if not can_be_reread(loader):
            accepted = "a loader over a map-style data set, with a batch size"
            remedy = "as_source(loader) reads any other into memory."
            got = type(loader.dataset).__name__
            raise parameter_error("LoaderSource", "data", accepted, got, remedy)
        self._loader, self._workers = loader, loader.num_workers
        self._positions = torch.arange(len(loader.dataset))  # type: ignore[arg-type]
        labels = _stored_labels(loader.dataset)
        self.labels = self._read_labels() if labels is None else labels
        names = _stored_classes(loader.dataset, self.labels) if classes is None else classes
        self.classes = class_names("LoaderSource", names, self.labels)
        if labels is not None and len(labels):
            self.example()  # stored labels that are not those of the batches show up at once

    def _subset(self, index: Tensor) -> LoaderSource:
        part = copy.copy(self)
        part._positions, part.labels = self._positions[index], self.labels[index]
        return part

    def example(self, count: int = 1) -> Inputs:
        alone = copy.copy(self)
        alone._workers = 0  # processes take longer to start than a batch to read
        return super(LoaderSource, alone).example(count)

    def _batches(
        self,
        chunks: tuple[Tensor, ...],
        augment: torch.Generator | None,
        device: torch.device | str,
    ) -> Batches:
        for chunk, batch in zip(chunks, self._read(chunks, augment), strict=True):
            inputs, labels = _inputs_and_labels(batch)
            if not torch.equal(labels, self.labels[chunk]):
                raise ValueError(
                    "The labels in the batches of the data set must stay the same on every pass, "
                    "and be those in its 'targets' or 'labels' attribute if it has one. They "
                    "differ. Correct the attribute, or the collate_fn if that changes labels."
                )
            yield each(inputs, lambda tensor: tensor.to(device)), labels.to(device)

    def _read_labels(self) -> Tensor:
        chunks = self._positions.split(self._loader.batch_size or 64)
        batches = self._read(chunks if len(self._positions) else (), None)
        parts = [_inputs_and_labels(batch)[1] for batch in batches]
        labels = torch.cat([self._positions[:0], *parts])
        return as_labels("LoaderSource", labels, count=len(self._positions))

    def _read(self, chunks: tuple[Tensor, ...], augment: torch.Generator | None) -> Iterator[Any]:
        # The loader draws a seed for its workers. Its own generator keeps the global one still.
        seeds = torch.Generator().manual_seed(0) if augment is None else augment
        loader = self._loader
        return iter(
            DataLoader(
                loader.dataset,
                batch_sampler=[self._positions[chunk].tolist() for chunk in chunks],
                collate_fn=loader.collate_fn,
                num_workers=self._workers,
                worker_init_fn=loader.worker_init_fn,
                multiprocessing_context=loader.multiprocessing_context if self._workers else None,
                generator=seeds,
            )
        )


def can_be_reread(loader: DataLoader[Any]) -> bool:
    """Whether the loader reads single examples of a data set by their positions."""
    return not isinstance(loader.dataset, IterableDataset) and loader.batch_sampler is not None


def read_once(loader: DataLoader[Any], classes: Sequence[str] | None = None) -> TensorSource:
    """Everything that one pass over ``loader`` gives, in memory. The loader must end."""
    pairs = [_inputs_and_labels(batch) for batch in loader]
    if not pairs:
        raise parameter_error("as_source", "data", "at least one example", "none")
    labels = torch.cat([labels for _, labels in pairs])
    return TensorSource(_joined([inputs for inputs, _ in pairs]), labels, classes)


def _joined(parts: list[Inputs]) -> Inputs:
    accepted = "batches of one kind, whose inputs differ in the first dimension only"
    named = [{"": part} if isinstance(part, Tensor) else part for part in parts]
    if any(part.keys() != named[0].keys() for part in named):
        raise parameter_error("as_source", "data", accepted, "batches of several kinds")
    try:
        joined = {name: torch.cat([part[name] for part in named]) for name in named[0]}
    except RuntimeError as error:
        raise parameter_error("as_source", "data", accepted, str(error)) from None
    return joined[""] if isinstance(parts[0], Tensor) else joined


def _inputs_and_labels(batch: Any) -> tuple[Inputs, Tensor]:
    if isinstance(batch, Mapping):
        key = "labels" if "labels" in batch else "label"
        if key in batch:
            inputs: Any = {str(k): value for k, value in batch.items() if k != key}
            return _checked_inputs(inputs), as_labels("LoaderSource", batch[key])
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        return _checked_inputs(batch[0]), as_labels("LoaderSource", batch[1])
    found = sorted(map(str, batch)) if isinstance(batch, Mapping) else type(batch).__name__
    raise parameter_error("LoaderSource", "data", f"a loader of {ACCEPTED_BATCH}", found)


def _checked_inputs(inputs: Any) -> Inputs:
    if isinstance(inputs, Tensor):
        return inputs
    got = f"inputs of type {type(inputs).__name__}"
    remedy = "Convert the examples in the data set or in collate_fn."
    if isinstance(inputs, Mapping) and inputs:
        others = [name for name, value in inputs.items() if not isinstance(value, Tensor)]
        if not others:
            return dict(inputs)
        got = f"no tensor under {', '.join(map(repr, others))}"
        remedy = "Leave such columns out of the data set, or convert them in collate_fn."
    raise parameter_error("LoaderSource", "data", "a loader of tensors", got, remedy)


def _stored_labels(dataset: Any) -> Tensor | None:
    """Labels that can be had without reading the examples, or None."""
    if isinstance(dataset, Subset):
        whole = _stored_labels(dataset.dataset)
        return None if whole is None else whole[torch.as_tensor(dataset.indices).long()]
    values = getattr(dataset, "targets", getattr(dataset, "labels", None))
    if isinstance(dataset, TensorDataset):
        values = dataset.tensors[-1]
    if values is None or getattr(dataset, "target_transform", None) is not None:
        return None
    try:
        return as_labels("LoaderSource", values, count=len(dataset))
    except (TypeError, ValueError):  # something else of that name
        return None


def _stored_classes(dataset: Any, labels: Tensor) -> Sequence[str] | None:
    if isinstance(dataset, Subset):
        return _stored_classes(dataset.dataset, labels)
    names = getattr(dataset, "classes", None)
    try:
        return (
            class_names("LoaderSource", names, labels) if isinstance(names, list | tuple) else None
        )
    except ValueError:  # something else of that name
        return None
