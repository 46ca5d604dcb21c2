"""Networks on disk: ``config.json`` says what they are, ``model.safetensors`` holds the weights."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets import pretrained
from vinets.core.checks import format_bytes, reason_of
from vinets.core.files import locked, read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.core.registry import UnknownName
from vinets.core.tensors import Form, digest, read_file, read_header
from vinets.heads import HEADS, Head
from vinets.heads.class_distances import ClassDistances
from vinets.latent.cut import truncate
from vinets.latent.reader import LatentReader
from vinets.models.facts import Record, example_inputs
from vinets.models.records import TensorGuard, bytes_of, rebuild, room_for, sketch
from vinets.models.weights import read_weights, save_weights
from vinets.networks.network import CutNetwork, network_of

FORMAT, VERSION = "vinets.network", 3
CONFIG, WEIGHTS = "config.json", "model.safetensors"
# what malformed descriptions make of well-meant code
UNREADABLE = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(RuntimeError, ArithmeticError, MemoryError),
)


def save_network(network: CutNetwork, directory: str | Path) -> None:
    """Write ``network`` into ``directory``, which is created if need be."""
    folder = Path(directory)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "record": as_plain(network.record),
        "reader": network.reader.config(),
        "head": {"kind": network.head.kind, **network.head.config()},
        "parts": network.parts(),
    }
    if network.distances is not None:
        config["distances"] = network.distances.config()
    with locked(folder, wait=True):  # both files of one writer
        save_weights(network, folder / WEIGHTS)
        config = tied(config, network.state_dict())
        write_json(folder / CONFIG, config)  # last, for a folder with it counts as a saved network


def load_network(directory: str | Path, backbone: nn.Module | None = None) -> CutNetwork:
    """Read a network; files that are not one are refused in one sentence.

    One of the package, ``"vinets/NAME"``, is stored in half precision, and computes in single.
    """
    if pretrained.is_name(directory):
        return load_network(pretrained.find(str(directory)), backbone).float()
    folder = Path(directory)
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(
            f"{folder} holds no saved network: {CONFIG} is missing. Save one with save_pretrained."
        )
    config = read_description(folder / CONFIG, FORMAT, VERSION)
    weights = folder / WEIGHTS
    forms, _ = read_header(weights, inside=folder)
    room = room_for(weights.stat().st_size)
    try:
        record = from_plain(Record, config["record"], "record")
        reader = LatentReader(**config["reader"])
        example = example_inputs(record.inputs)
        # First without memory, for a few bytes of JSON may ask for any amount of it. The terms of
        # polynomials are whole numbers, and are read before the rest.
        index, _ = read_file(weights, wanted=_is_index)
        with TensorGuard():
            drawn = nn.ModuleDict(_behind(config, index))
    except UNREADABLE as error:
        raise _not_described(folder, error) from None
    stored = {k: _form(f) for k, f in forms.items() if _of_head(k)}
    _compare(folder, _forms(drawn), stored)
    if backbone is None:
        backbone = _backbone(folder, record, forms, room)
    _refuse_size(folder, drawn, room)
    # clones, for tensors in a file lie unaligned, and kernels then round differently
    state = {k: t.clone() for k, t in read_weights(weights, inside=folder).items()}
    try:
        if record.cut not in dict(backbone.named_modules()):
            raise ValueError(f"the network has no module {record.cut!r} to be cut at")
        cut = truncate(backbone, record.cut, example)
        behind = _behind(config, state)
        head = behind["head"]
        assert isinstance(head, Head)
        network = network_of(cut, reader, head, record)
        distances = behind.get("distances")
        network.distances = distances if isinstance(distances, ClassDistances) else None
    except UNREADABLE as error:
        raise _not_described(folder, error) from None
    _compare(folder, _forms(network), {k: _form(f) for k, f in forms.items()})
    with torch.no_grad():
        network.load_state_dict(state, assign=True)  # keeps the dtypes of the file
    for p in network.backbone.parameters():
        p.requires_grad_(False)
    # last, for what does not fit together at all has a better sentence
    check_tied(folder / CONFIG, config, state, VERSION)
    return network.eval()


def tied(description: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """The description with a digest of itself and of the weights that it goes with."""
    # as it will be read again: a tuple becomes a list
    plain = json.loads(json.dumps(dict(description)))
    return plain | {"digest": digest(sorted(state.items()), plain)}


def check_tied(
    path: Path, description: Mapping[str, Any], state: Mapping[str, Tensor], version: int
) -> None:
    """Raise unless description and weights are as they were written together.

    Files of the version before have no digest.
    """
    plain = {name: value for name, value in description.items() if name != "digest"}
    if description.get("version") == version and description != tied(plain, state):
        raise ValueError(
            f"{path} and the weights beside it were not written together: one of them was changed "
            "or replaced. Take both from the same folder, or save the network again."
        )


def _backbone(folder: Path, record: Record, forms: Mapping[str, Form], room: int) -> nn.Module:
    """The uncut network, made once it is known that the weights are of such a network."""
    if record.source is None:
        raise ValueError(
            f"The backbone in {folder} is of a class of its own. Make the uncut network and "
            "pass it: from_pretrained(directory, backbone=network)."
        )
    drawn = sketch(record.source, room)
    # A network that cannot be traced is kept whole, as "model" of what stops it at the cut.
    whole = {
        f"backbone.{inner}{k}": f for inner in ("", "model.") for k, f in _forms(drawn).items()
    }
    stored = {k: _form(f) for k, f in forms.items() if not _of_head(k)}
    _compare(folder, {k: whole[k] for k in stored if k in whole}, stored)
    _refuse_size(folder, drawn, room)
    return rebuild(record.source, room)


def _refuse_size(folder: Path, network: nn.Module, room: int) -> None:
    size = bytes_of(network)
    if size > room:
        raise ValueError(
            f"{folder / CONFIG} describes a network of {format_bytes(size)}, far more than the "
            f"weights beside it. If you trust it, make the uncut network and pass it: "
            "from_pretrained(directory, backbone=network)."
        )


def read_description(path: Path, format: str, version: int) -> dict[str, Any]:
    """The JSON object in a file, if it is marked with this format and version or the last one."""
    values = read_json(path, inside=path.parent)
    if not isinstance(values, dict) or values.get("format") != format:
        raise ValueError(f"{path} does not describe a network of vinets.")
    if values.get("version") not in (version - 1, version):
        raise ValueError(
            f"{path} has version {reprlib.repr(values.get('version'))}; this release reads version "
            f"{version}."
        )
    return values


def _behind(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """What a network's description puts behind the cut, of the right shapes, without its state."""
    behind: dict[str, nn.Module] = {"head": _head(config["head"], state)}
    if "distances" in config:
        behind["distances"] = ClassDistances.from_config(config["distances"], state, "distances.")
    return behind


def _head(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Head:
    """The head of a network's description, of the right shapes; its state is not loaded yet."""
    arguments = {name: value for name, value in config.items() if name != "kind"}
    own = {k.removeprefix("head."): t for k, t in state.items() if k.startswith("head.")}
    try:
        kind = HEADS[config["kind"]]
    except UnknownName:
        raise ValueError(
            f"there is no head {config['kind']!r}; if it is defined elsewhere, import the module "
            "that defines it first"
        ) from None
    return kind.from_config(arguments, own)


def _not_described(folder: Path, error: Exception) -> ValueError:
    reason = reason_of(f"no {error}" if isinstance(error, KeyError) else error)
    return ValueError(
        f"{folder / CONFIG} does not describe a network that this release can make: {reason}."
    )


def _compare(folder: Path, expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    if expected != found:
        wrong = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
        raise ValueError(
            f"The weights in {folder} do not fit the network of its {CONFIG}: {len(wrong)} tensors "
            f"differ, among them {', '.join(wrong[:3])}."
        )


def _forms(network: nn.Module) -> dict[str, tuple[bool, tuple[int, ...]]]:
    state = network.state_dict()
    return {k: _form(Form(t.dtype, tuple(t.shape))) for k, t in state.items()}


def _form(form: Form) -> tuple[bool, tuple[int, ...]]:
    return form.dtype.is_floating_point, form.shape


def _of_head(name: str) -> bool:
    return name.startswith(("head.", "distances."))


def _is_index(name: str, form: Form) -> bool:
    return _of_head(name) and form.dtype == torch.int64
