"""Examples that lie in memory as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vinets.checks import parameter_error
from vinets.data.interface import Batches, CheckedSource, Chunks, Device, Inputs
from vinets.data.labels import as_labels, class_names
from vinets.running import each, tensors_of

__all__ = ["TensorSource", "as_inputs"]


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


def as_inputs(owner: str, values: Any) -> Inputs:
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
