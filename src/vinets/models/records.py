"""What a network was made of: the record that is kept with it, and the shapes of its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from vinets.core.device import Inputs

MOST_VALUES = 1 << 24  # values of one input; an image of 2,000 by 2,000 pixels has twelve million


@dataclass(frozen=True)
class Record:
    """What a network was made of, kept with it when it is saved."""

    cut: str  # name of the module behind which the backbone ends
    inputs: dict[str, Any]  # shape (without the batch) and dtype of each; "" names a single one
    source: dict[str, Any] | None = None  # how to make the uncut network; None: a user's own class
    classes: tuple[str, ...] = ()
    preprocessing: dict[str, Any] | None = None  # how an image becomes an input
    notes: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] | None = None  # what it was trained on, as far as is known


def input_fields(inputs: Inputs) -> dict[str, Any]:
    """Shapes and dtypes of a batch of inputs, as plain JSON values."""
    named = {"": inputs} if isinstance(inputs, Tensor) else inputs
    return {
        name: {"shape": list(t.shape[1:]), "dtype": str(t.dtype).removeprefix("torch.")}
        for name, t in named.items()
    }


def example_inputs(
    fields: Mapping[str, Any], batch: int = 1, device: torch.device | str = "cpu"
) -> Tensor | dict[str, Tensor]:
    """A batch of zeros of the shapes that :func:`input_fields` wrote down."""
    named: dict[str, Tensor] = {}
    for name, facts in fields.items():
        dtype = getattr(torch, str(facts["dtype"]), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"unknown dtype {facts['dtype']!r} of input {name!r}.")
        shape = [int(s) for s in facts["shape"]]
        if min(shape, default=1) < 1 or math.prod(shape) > MOST_VALUES:
            raise ValueError(f"input {name!r} must have 1 to {MOST_VALUES:,} values.")
        fill = torch.zeros if dtype.is_floating_point else torch.ones
        named[name] = fill(batch, *shape, dtype=dtype, device=device)
    return named[""] if set(named) == {""} else named
