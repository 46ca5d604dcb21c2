"""Define what a source of labelled examples can do, and draw from its classes with a seed.

A :class:`Source` gives batches in any order, as often as asked. Everything random is drawn from
generators or seeds that the caller passes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from vinets.core.checks import bounded_float, optional_positive_int, parameter_error
from vinets.core.device import Inputs
from vinets.core.options import check_value, whole

Device: TypeAlias = torch.device | str

Indices: TypeAlias = tuple[Tensor, ...]
"""Valid positions, one tensor a batch."""

Batches: TypeAlias = Iterator[tuple[Inputs, Tensor]]
"""Inputs and labels, one pair a batch."""

Pair: TypeAlias = tuple[Tensor, Tensor]
"""Inputs (N, ...) with labels (N,)."""

HELD_OUT = 0.2  # share of files that have no test part of their own
MAX_CLASSES = 2**20  # a larger label is an identifier that was passed by mistake


@runtime_checkable
class Source(Protocol):
    """Examples with labels, readable in any order."""

    labels: Tensor  # int64 (N,), on the CPU
    classes: tuple[str, ...]  # label k belongs to classes[k]

    def __len__(self) -> int: ...

    def subset(self, index: Tensor) -> Source:
        """Return the examples at the positions ``index`` (int64), in that order."""
        ...

    def batches(
        self,
        batch_size: int,
        *,
        order: Tensor | None = None,
        augment: torch.Generator | None = None,
        device: Device = "cpu",
    ) -> Batches:
        """Give batches of inputs and labels on ``device``; the last one may be short.

        ``order`` has the int64 positions to read, None reads all from first to last. The
        augmentation is drawn from the generator ``augment``, which lies on the CPU; None does not
        augment. Equal states give equal batches on any device.
        """
        ...

    def example(self, count: int = 1) -> Inputs:
        """Return the first inputs, not augmented, on the CPU."""
        ...


class CheckedSource(Source):
    """A source that checks what it is made of and asked for, so that subclasses need not."""

    def _label(self, labels: Any, count: int, classes: Sequence[str] | None) -> None:
        """Take the labels of ``count`` examples, and names of the classes, or number these."""
        owner = type(self).__name__
        self.labels = as_labels(owner, labels, count)
        needed = int(self.labels.max()) + 1 if count else 0
        names = tuple(map(str, range(needed))) if classes is None else tuple(classes)
        if isinstance(classes, str) or not all(isinstance(name, str) for name in names):
            raise parameter_error(owner, "classes", "a sequence of strings", _brief(classes))
        if len(names) < needed:
            accepted = f"at least {needed} names, because the largest label is {needed - 1}"
            raise parameter_error(owner, "classes", accepted, f"{len(names)} names")
        self.classes = names

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
            raise parameter_error(owner, name, accepted, _brief(index))
        index = index.cpu()
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(self)):
            got = f"positions from {int(index.min())} to {int(index.max())}"
            raise parameter_error(owner, name, accepted, got)
        return index

    @abstractmethod
    def _subset(self, index: Tensor) -> Source:
        """Return the examples at positions that are known to be valid."""

    @abstractmethod
    def _batches(self, chunks: Indices, augment: torch.Generator | None, device: Device) -> Batches:
        """Give one batch for each tensor of positions."""


@dataclass(frozen=True)
class DataSplit:
    """A named data set: what to train on and what to test on."""

    name: str
    train: Source
    test: Source
    reading: str = ""  # how images are read, where that is not the data's own way
    skipped: int = 0  # files that were left out, because they cannot be read


def require_split(owner: str, data: DataSplit) -> None:
    """Raise unless ``data`` is a split of sources, and not of loaders or arrays."""
    remedy = 'Loaders, data sets and arrays: DataSplit("mine", as_source(train), as_source(test)).'
    parts = [data.train, data.test] if isinstance(data, DataSplit) else []
    wrong = [part for part in parts if not isinstance(part, Source)] if parts else [data]
    for got in map(type, wrong):
        raise parameter_error(owner, "data", "a DataSplit of sources", got.__name__, remedy)


def as_labels(
    owner: str, values: Any, count: int | None = None, below: int = MAX_CLASSES
) -> Tensor:
    """Return labels as an int64 tensor (N,) on the CPU; refuse all but integers from 0 up.

    There must be ``count`` of them, the number of examples, where that is known.
    """
    last = "K-1" if below == MAX_CLASSES else below - 1
    accepted = f"a list of integers 0..{last}, one for each example"
    remedy = "Encode the classes as 0, 1, 2 and so on."
    try:
        if not isinstance(values, Tensor):
            array = np.asarray(values)
            # Torch reads no foreign byte order, and does little with wide unsigned integers.
            dtype = array.dtype.newbyteorder("=") if array.dtype.kind != "u" else np.int64
            values = torch.from_numpy(array.astype(dtype))
        labels = values.detach()
    except (TypeError, ValueError):
        raise parameter_error(owner, "labels", accepted, _brief(values), remedy) from None
    if labels.ndim != 1:
        raise parameter_error(owner, "labels", accepted, f"shape {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise parameter_error(owner, "labels", accepted, labels.dtype, remedy)
    labels = labels.to("cpu", torch.int64)
    if count not in (None, len(labels)):
        accepted = f"as many as the examples ({count})"
        raise parameter_error(owner, "labels", accepted, f"{len(labels)} labels")
    low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
    if low < 0 or high >= below:
        raise parameter_error(owner, "labels", accepted, f"labels from {low} to {high}", remedy)
    return labels


def positive_int(owner: str, name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` as a positive int, or one of at least ``least``, or raise."""
    check_value(owner, name, whole(least), value)
    return int(value)


def choose_per_class(labels: Tensor, count: int | None, seed: int) -> Tensor:
    """Choose positions of at most ``count`` examples of each class, sorted; None keeps all.

    The draw for one class depends on the seed, the class and its examples only, and a smaller
    ``count`` draws a part of what a larger one draws.
    """
    limit = optional_positive_int("choose_per_class", "count", count)
    seed = positive_int("choose_per_class", "seed", seed, least=0)
    labels = as_labels("choose_per_class", labels)
    if limit is None:
        return torch.arange(len(labels))
    drawn = [members[:limit] for members in _shuffled(labels, seed)]
    return torch.cat([labels[:0], *drawn]).sort().values  # labels[:0] where there are none


def split_positions(owner: str, labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return positions of the rest and of the held-out part, both sorted, stratified by class.

    ``round(share * N)`` of N examples are held out: ``floor(share * N_k)`` of the N_k of class k,
    and one more where the remainder is among the largest. A class never gives its last example.
    """
    share = bounded_float(owner, "share", share, 0, 1)
    seed = positive_int(owner, "seed", seed, least=0)
    shuffled = _shuffled(labels, seed)
    sizes = np.array([len(members) for members in shuffled], dtype=np.int64)
    exact = share * sizes
    quotas = np.floor(exact).astype(np.int64)
    missing = round(share * int(sizes.sum())) - int(quotas.sum())
    by_remainder = np.argsort(quotas - exact, kind="stable")
    candidates = [k for k in by_remainder if quotas[k] + 1 < sizes[k]]
    quotas[candidates[: max(0, missing)]] += 1
    if share > 0 and not quotas.sum():
        remedy = f"{share:g} of {len(labels)} examples holds out none."
        raise parameter_error(owner, "share", "large enough for one example", share, remedy)
    held = torch.zeros(len(labels), dtype=torch.bool)
    for members, quota in zip(shuffled, quotas.tolist(), strict=True):
        held[members[:quota]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def split_pair(owner: str, pair: Pair, share: float, seed: int) -> tuple[Pair, Pair]:
    """Split a pair into two: the rest, and a held-out part."""
    rest, held = split_positions(owner, pair[1], share, seed)
    return (pair[0][rest], pair[1][rest]), (pair[0][held], pair[1][held])


def _shuffled(labels: Tensor, seed: int) -> list[Tensor]:
    counts = torch.bincount(labels).tolist()
    by_class = torch.argsort(labels, stable=True).split(counts) if counts else ()
    # A stream for each class: what is drawn of it does not depend on the other classes.
    orders = [np.random.default_rng([seed, k]).permutation(n) for k, n in enumerate(counts)]
    return [members[order] for members, order in zip(by_class, orders, strict=True)]


def _brief(value: Any) -> Any:
    """Return a value as a message names it: itself if short, else its type."""
    return value if len(repr(value)) <= 60 else type(value).__name__
