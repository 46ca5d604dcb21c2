"""Facts of a network: its inputs, classes and origin, and the examples that it was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from vinets.core.checks import MAX_INPUT_VALUES
from vinets.core.device import Inputs

_training_data: WeakKeyDictionary[nn.Module, dict[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Record:
    """The origin of a cut network, kept with it when it is saved."""

    cut: str  # name of the module behind which the backbone ends
    inputs: dict[str, Any]  # shape (without the batch) and dtype of each; "" names a single one
    source: dict[str, Any] | None = None  # how to make the uncut network; None: a user's own class
    classes: tuple[str, ...] = ()
    preprocessing: dict[str, Any] | None = None  # how an image becomes an input
    notes: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] | None = None  # what it was trained on, as far as is known


def input_fields(inputs: Inputs) -> dict[str, Any]:
    """Return shapes and dtypes of a batch of inputs, as plain JSON values."""
    named = {"": inputs} if isinstance(inputs, Tensor) else inputs
    return {
        name: {"shape": list(t.shape[1:]), "dtype": str(t.dtype).removeprefix("torch.")}
        for name, t in named.items()
    }


def example_inputs(
    fields: Mapping[str, Any], batch: int = 1, device: torch.device | str = "cpu"
) -> Tensor | dict[str, Tensor]:
    """Make a batch of zeros of the shapes that :func:`input_fields` wrote down."""
    named: dict[str, Tensor] = {}
    room = MAX_INPUT_VALUES
    for name, facts in fields.items():
        dtype = getattr(torch, str(facts["dtype"]), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"unknown dtype {facts['dtype']!r} of input {name!r}.")
        shape = [int(s) for s in facts["shape"]]
        room -= math.prod(shape)
        if min(shape, default=1) < 1 or room < 0:
            raise ValueError(f"input {name!r} must have 1 to {MAX_INPUT_VALUES:,} values.")
        fill = torch.zeros if dtype.is_floating_point else torch.ones
        named[name] = fill(batch, *shape, dtype=dtype, device=device)
    return named[""] if set(named) == {""} else named


def code_of(network: nn.Module) -> str:
    """Return a digest of the file of a network and of what it imports there; "" for any other."""
    digests = {vars(part).get("vinets_code", "") for part in network.modules()}
    return "-".join(sorted(digests - {""}))


def trained_on(network: nn.Module, *, then: str = "") -> dict[str, Any] | None:
    """Return what is known of the examples that a network was trained on.

    These are plain values of :attr:`vinets.runs.setup.Setup.facts`, or the digest of its last
    training examples alone. With the digest ``then`` of more examples, it is what will be known
    once the network was trained on these, too.
    """
    record = getattr(network, "record", None)
    known = record.data if isinstance(record, Record) else _training_data.get(network)
    return {**(known or {}), "training": then} if then else known


def remember_training(network: nn.Module, facts: Any) -> None:
    """Note what a network was trained on; what is no object, of a file perhaps, is nothing."""
    record = getattr(network, "record", None)
    if isinstance(facts, Mapping) and isinstance(record, Record):
        changed: Any = network
        changed.record = replace(record, data=dict(facts))
    elif isinstance(facts, Mapping):
        _training_data[network] = dict(facts)
