"""What every source of examples and labels can do.

A :class:`Source` gives batches in any order, as often as asked. Everything random is drawn from
generators that the caller passes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs
from vinets.data.labels import brief, positive_int

Device: TypeAlias = torch.device | str

Chunks: TypeAlias = tuple[Tensor, ...]
"""Valid positions, one tensor a batch."""

Batches: TypeAlias = Iterator[tuple[Inputs, Tensor]]
"""Inputs and labels, one pair a batch."""


@runtime_checkable
class Source(Protocol):
    """Examples with labels, readable in any order."""

    labels: Tensor  # int64 (N,), on the CPU
    classes: tuple[str, ...]  # label k belongs to classes[k]

    def __len__(self) -> int: ...

    def subset(self, index: Tensor) -> Source:
        """The examples at the positions ``index`` (int64), in that order."""
        ...

    def batches(
        self,
        batch_size: int,
        *,
        order: Tensor | None = None,
        augment: torch.Generator | None = None,
        device: Device = "cpu",
    ) -> Batches:
        """Batches of inputs and labels on ``device``; the last one may be short.

        ``order`` has the int64 positions to read, None reads all from first to last. The
        augmentation is drawn from the generator ``augment``, which lies on the CPU; None does not
        augment. Equal states give equal batches on any device.
        """
        ...

    def example(self, count: int = 1) -> Inputs:
        """The first inputs, not augmented, on the CPU."""
        ...


class CheckedSource(Source):
    """What the sources of this package share: arguments are checked here, and only here."""

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> Source:
        return self._subset(self._checked_positions("subset", "index", index))

    def batches(
        self,
        batch_size: int,
        *,
        order: Tensor | None = None,
        augment: torch.Generator | None = None,
        device: Device = "cpu",
    ) -> Batches:
        size = positive_int(f"{type(self).__name__}.batches", "batch_size", batch_size)
        order = torch.arange(len(self)) if order is None else order
        order = self._checked_positions("batches", "order", order)
        # Torch splits nothing into one empty part, which would be a batch of no examples.
        chunks = tuple(order.split(size)) if len(order) else ()
        return self._batches(chunks, augment, device)

    def example(self, count: int = 1) -> Inputs:
        owner = f"{type(self).__name__}.example"
        if not len(self):
            raise ValueError(f"{owner} needs at least one example. The source is empty.")
        first = torch.arange(min(positive_int(owner, "count", count), len(self)))
        ((inputs, _),) = self._batches((first,), None, "cpu")
        return inputs

    def _checked_positions(self, method: str, name: str, index: Tensor) -> Tensor:
        owner = f"{type(self).__name__}.{method}"
        accepted = f"a one-dimensional int64 tensor of positions below {len(self)}"
        if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.ndim != 1:
            raise parameter_error(owner, name, accepted, brief(index))
        index = index.cpu()
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(self)):
            got = f"positions from {int(index.min())} to {int(index.max())}"
            raise parameter_error(owner, name, accepted, got)
        return index

    @abstractmethod
    def _subset(self, index: Tensor) -> Source:
        """The examples at positions that are known to be valid."""

    @abstractmethod
    def _batches(self, chunks: Chunks, augment: torch.Generator | None, device: Device) -> Batches:
        """One batch for each chunk."""


@dataclass(frozen=True)
class DataSplit:
    """A named data set: what to train on and what to test on."""

    name: str
    train: Source
    test: Source
    reading: str = ""  # how images are read, where that is not the data's own way


def require_split(owner: str, data: DataSplit) -> None:
    """Raise unless ``data`` is a split of sources, and not of loaders or arrays."""
    accepted = "a DataSplit of sources"
    remedy = 'Loaders, data sets and arrays: DataSplit("mine", as_source(train), as_source(test)).'
    if not isinstance(data, DataSplit):
        raise parameter_error(owner, "data", accepted, type(data).__name__, remedy)
    for part in (data.train, data.test):
        if not isinstance(part, Source):
            raise parameter_error(owner, "data", accepted, type(part).__name__, remedy)
