"""Examples that a torch data set gives one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from vinets.checks import parameter_error
from vinets.data.interface import Batches, CheckedSource, Chunks, Device, Inputs
from vinets.data.labels import as_labels, class_names
from vinets.running import each

__all__ = ["LoaderSource", "can_be_reread", "inputs_and_labels"]


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
        if labels is None:
            chunks = self._positions.split(loader.batch_size or 64) if len(self._positions) else ()
            read = [inputs_and_labels(batch)[1] for batch in self._read(chunks, None)]
            joined = torch.cat([self._positions[:0], *read])
            self.labels = as_labels("LoaderSource", joined, count=len(self._positions))
        else:
            self.labels = labels
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

    def _batches(self, chunks: Chunks, augment: torch.Generator | None, device: Device) -> Batches:
        for chunk, batch in zip(chunks, self._read(chunks, augment), strict=True):
            inputs, labels = inputs_and_labels(batch)
            if not torch.equal(labels, self.labels[chunk]):
                raise ValueError(
                    "The labels in the batches of the data set must stay the same on every pass, "
                    "and be those in its 'targets' or 'labels' attribute if it has one. They "
                    "differ. Correct the attribute, or the collate_fn if that changes labels."
                )
            yield each(inputs, lambda tensor: tensor.to(device)), labels.to(device)

    def _read(self, chunks: Chunks, augment: torch.Generator | None) -> Iterator[Any]:
        loader = self._loader
        return iter(
            DataLoader(
                loader.dataset,
                batch_sampler=[self._positions[chunk].tolist() for chunk in chunks],
                collate_fn=loader.collate_fn,
                num_workers=self._workers,
                worker_init_fn=loader.worker_init_fn,
                multiprocessing_context=loader.multiprocessing_context if self._workers else None,
                # It draws a seed for its workers, which must not come from the global generator.
                generator=torch.Generator().manual_seed(0) if augment is None else augment,
            )
        )


def can_be_reread(loader: DataLoader[Any]) -> bool:
    """Whether the loader reads single examples of a data set by their positions."""
    return not isinstance(loader.dataset, IterableDataset) and loader.batch_sampler is not None


def inputs_and_labels(batch: Any) -> tuple[Inputs, Tensor]:
    """A batch of a loader as tensors: a pair, or a mapping with the labels among the inputs."""
    inputs: Any
    if isinstance(batch, Mapping) and ("labels" in batch or "label" in batch):
        key = "labels" if "labels" in batch else "label"
        inputs = {str(name): value for name, value in batch.items() if name != key}
        labels = batch[key]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, labels = batch
    else:
        accepted = "batches (inputs, labels), or mappings with the key 'labels' or 'label'"
        found = sorted(map(str, batch)) if isinstance(batch, Mapping) else type(batch).__name__
        raise parameter_error("LoaderSource", "data", f"a loader of {accepted}", found)
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
        known = names if isinstance(names, list | tuple) else None
        return class_names("LoaderSource", known, labels)
    except ValueError:  # something else of that name
        return None
