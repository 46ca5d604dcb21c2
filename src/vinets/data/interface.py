"""What every source of examples and labels can do.

A :class:`Source` gives batches in any order, as often as asked. Everything random is drawn from
generators that the caller passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from vinets.data.labels import as_positions, positive_int
from vinets.running import Inputs

__all__ = ["DataSplit", "Inputs", "Source", "chunked_order", "first_positions"]


@runtime_checkable
class Source(Protocol):
    """Examples with labels, readable in any order.

    Attributes
    ----------
    labels : Tensor (N,)
        int64, on the CPU.
    classes : tuple of str
        Names of the classes; label k belongs to ``classes[k]``.
    """

    labels: Tensor
    classes: tuple[str, ...]

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
        device: torch.device | str = "cpu",
    ) -> Iterator[tuple[Inputs, Tensor]]:
        """Batches of inputs and labels on ``device``; the last one may be short.

        Parameters
        ----------
        batch_size : int
            Examples per batch.
        order : Tensor or None, default=None
            int64 positions to read, in this order; None reads all from first to last.
        augment : Generator or None, default=None
            A generator on the CPU to draw the augmentation from; None does not augment. Equal
            states give equal batches on any device.
        device : device or str, default="cpu"
            Where the batches go.
        """
        ...

    def example(self, count: int = 1) -> Inputs:
        """The first inputs, not augmented, on the CPU."""
        ...


@dataclass(frozen=True)
class DataSplit:
    """A named data set: what to train on and what to test on."""

    name: str
    train: Source
    test: Source


def chunked_order(
    owner: str, order: Tensor | None, length: int, batch_size: int
) -> tuple[Tensor, ...]:
    """The positions of every batch; None stands for all, from first to last."""
    size = positive_int(owner, "batch_size", batch_size)
    order = torch.arange(length) if order is None else order
    order = as_positions(owner, "order", order, length)
    return tuple(order.split(size)) if len(order) else ()


def first_positions(owner: str, count: int, length: int) -> Tensor:
    """The first ``count`` positions, or all if there are fewer; none at all is an error."""
    if not length:
        raise ValueError(f"{owner} needs at least one example. The source is empty.")
    return torch.arange(min(positive_int(owner, "count", count), length))
