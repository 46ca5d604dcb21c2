"""What is kept of a network: inputs, classes, origin, what it was trained on, and its weights.

Weights are in a safetensors file, which holds numbers and cannot run code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from vinets.core.device import Inputs
from vinets.core.tensors import read_file, read_header, write_file

MAX_INPUT_VALUES = 1 << 24  # an image of 2,000 by 2,000 pixels has twelve million
PICKLE_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
NAMES_IN_MESSAGE = 3

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
    for name, facts in fields.items():
        dtype = getattr(torch, str(facts["dtype"]), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"unknown dtype {facts['dtype']!r} of input {name!r}.")
        shape = [int(s) for s in facts["shape"]]
        if min(shape, default=1) < 1 or math.prod(shape) > MAX_INPUT_VALUES:
            raise ValueError(f"input {name!r} must have 1 to {MAX_INPUT_VALUES:,} values.")
        fill = torch.zeros if dtype.is_floating_point else torch.ones
        named[name] = fill(batch, *shape, dtype=dtype, device=device)
    return named[""] if set(named) == {""} else named


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
    if not isinstance(facts, Mapping):
        return
    record = getattr(network, "record", None)
    if isinstance(record, Record):
        changed: Any = network
        changed.record = replace(record, data=dict(facts))
    else:
        _training_data[network] = dict(facts)


# --- weights ------------------------------------------------------------------------------------


def save_weights(
    model: nn.Module, path: str | Path, notes: Mapping[str, str] | None = None
) -> None:
    """Write the parameters and buffers of ``model`` to a safetensors file, with notes."""
    # Copies, because the format refuses tensors that share memory, as tied weights do.
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in _state(model).items()}
    write_file(path, tensors, {"format": "pt", **(notes or {})})


def load_weights(model: nn.Module, path: str | Path, *, inside: Path | None = None) -> None:
    """Fill ``model`` with the weights in a safetensors file; nothing changes on an error.

    The file has a tensor for every parameter and buffer, by the same names and of the same shapes.
    Weights that the network ties together need one name. The network keeps its device and
    its dtypes. A link that leads out of the folder ``inside`` is refused.
    """
    check_weights(model, path, inside=inside)
    # Not strict, because tied weights may lack a name; everything else was checked above.
    model.load_state_dict(read_weights(Path(path), inside=inside), strict=False)


def check_weights(model: nn.Module, path: str | Path, *, inside: Path | None = None) -> None:
    """Raise if the weights in a file are not those of ``model``, which may be a sketch of it.

    Only the header of the file is read.
    """
    refuse_pickled(Path(path))
    found, _ = read_header(path, inside=inside)
    wanted = _state(model)
    present = {_memory(wanted[name]) for name in found if name in wanted}
    missing = [n for n, t in wanted.items() if n not in found and _memory(t) not in present]
    unexpected = [name for name in found if name not in wanted]
    misshapen = [
        f"{name} {form.shape} instead of {tuple(wanted[name].shape)}"
        for name, form in found.items()
        if name in wanted and form.shape != tuple(wanted[name].shape)
    ]
    faults = {"missing": missing, "unexpected": unexpected, "of another shape": misshapen}
    said = []
    for kind, names in faults.items():
        if names:
            more = ", ..." if len(names) > NAMES_IN_MESSAGE else ""
            said.append(f"{len(names)} {kind} ({', '.join(names[:NAMES_IN_MESSAGE])}{more})")
    if said:
        raise ValueError(
            f"{path} does not fit this {type(model).__name__}. Its tensors should have the names "
            f"and shapes of the network. Got {', '.join(said)} instead."
        )


def _state(model: nn.Module) -> dict[str, Tensor]:
    # The tensors themselves, because tied ones are one object, also in a sketch.
    return {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, Tensor)}


def _memory(tensor: Tensor) -> tuple[int, tuple[int, ...]] | int:
    # Empty tensors and those of a sketch have no memory: each counts for itself.
    pointer = 0 if tensor.is_meta else tensor.data_ptr()
    return (pointer, tuple(tensor.shape)) if pointer else id(tensor)


def read_weights(path: Path, *, inside: Path | None = None) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file by name; other files are refused."""
    refuse_pickled(path)
    return read_file(path, inside=inside)[0]


def refuse_pickled(path: Path) -> None:
    """Raise for a file whose name says that reading it could run code."""
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise ValueError(
            f"{path} must be a safetensors file, because a file that ends in {path.suffix} can run "
            "code when it is read. If you trust it, convert it once: "
            "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)."
        )
