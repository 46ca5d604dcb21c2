"""Examples that lie in memory as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vinets.checks import parameter_error
from vinets.data.interface import Inputs, Source, chunked_order, first_positions
from vinets.data.labels import as_labels, as_positions, class_names

__all__ = ["TensorSource", "as_inputs", "move"]


class TensorSource(Source):
    """Inputs in memory, given as they are. There is nothing to augment.

    Parameters
    ----------
    inputs : Tensor (N, ...) or dict of such tensors
        Any dtype and device.
    labels : array-like (N,)
        Integers 0..K-1.
    classes : sequence of str or None, default=None
        Names of the classes; None numbers them.

    Examples
    --------
    >>> source = TensorSource(torch.eye(3), [0, 1, 1])
    >>> [labels.tolist() for _, labels in source.batches(2)]
    [[0, 1], [1]]
    """

    def __init__(self, inputs: Inputs, labels: Any, classes: Sequence[str] | None = None) -> None:
        sizes = {t.shape[0] if t.ndim else None for t in _tensors(inputs)}
        if len(sizes) != 1 or None in sizes:
            accepted = "tensors of one length, the number of examples"
            got = [tuple(t.shape) for t in _tensors(inputs)]
            raise parameter_error("TensorSource", "inputs", accepted, got)
        self.inputs = inputs
        self.labels = as_labels("TensorSource", labels, count=sizes.pop())
        self.classes = class_names("TensorSource", classes, self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> TensorSource:
        index = as_positions("TensorSource.subset", "index", index, len(self))
        return TensorSource(_take(self.inputs, index), self.labels[index], self.classes)

    def batches(
        self,
        batch_size: int,
        *,
        order: Tensor | None = None,
        augment: torch.Generator | None = None,
        device: torch.device | str = "cpu",
    ) -> Iterator[tuple[Inputs, Tensor]]:
        chunks = chunked_order("TensorSource.batches", order, len(self), batch_size)
        return (
            (move(_take(self.inputs, chunk), device), self.labels[chunk].to(device))
            for chunk in chunks
        )

    def example(self, count: int = 1) -> Inputs:
        first = first_positions("TensorSource.example", count, len(self))
        return move(_take(self.inputs, first), "cpu")


def as_inputs(owner: str, values: Any) -> Inputs:
    """An array, a tensor or a dict of those as tensors, dtypes kept."""
    if isinstance(values, dict):
        return {str(name): _as_tensor(owner, value) for name, value in values.items()}
    return _as_tensor(owner, values)


def _take(inputs: Inputs, index: Tensor) -> Inputs:
    """The examples at ``index``."""
    if isinstance(inputs, Tensor):
        return inputs[index.to(inputs.device)]
    return {name: tensor[index.to(tensor.device)] for name, tensor in inputs.items()}


def move(inputs: Inputs, device: torch.device | str) -> Inputs:
    """The inputs on ``device``."""
    if isinstance(inputs, Tensor):
        return inputs.to(device)
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def _tensors(inputs: Inputs) -> list[Tensor]:
    return [inputs] if isinstance(inputs, Tensor) else list(inputs.values())


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
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(array if array.flags.writeable else array.copy())
