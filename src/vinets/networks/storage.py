"""Folders of networks: a description in JSON, and the weights next to it in safetensors.

Neither is trusted. What is described is made without memory first, because a few bytes of
JSON may ask for any amount of it, and takes memory once the weights are known to be of it.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets import pretrained
from vinets.core.checks import format_bytes, reason_of
from vinets.core.files import locked, read_json, refuse_foreign, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.core.registry import UnknownName
from vinets.core.tensors import as_note, digest, read_file, read_header
from vinets.data.images import Preprocessing
from vinets.heads import HEADS
from vinets.heads.class_distances import ClassDistances
from vinets.latent.cut import truncate
from vinets.latent.reader import LatentReader
from vinets.models.libraries.base import UnnamedFile
from vinets.models.origin import Record, example_inputs, remember_training
from vinets.models.records import TensorGuard, bytes_of, forms_of, rebuild, room_for, sketch
from vinets.models.weights import check_weights, load_weights, save_weights
from vinets.networks.network import NOTE, CutNetwork, network_of
from vinets.networks.runtimes import WholeNetwork

FORMAT, VERSION = "vinets.network", 3
CONFIG, MODEL = "config.json", "model.safetensors"
UNCUT_FORMAT, UNCUT_VERSION = "vinets.backbone", 2
DESCRIPTION, WEIGHTS = "network.json", "weights.safetensors"
PASS_ONE = "make the uncut network and pass it: from_pretrained(directory, backbone=network)."
UNREADABLE = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError),
    *(RuntimeError, ArithmeticError, MemoryError),
)


class OwnClass(ValueError):
    """A backbone that was not made by its name: what can be said of it, and its classes."""

    def __init__(self, text: str, classes: int | None) -> None:
        super().__init__(text)
        self.classes = classes


# --- cut networks -----------------------------------------------------------------------------


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
        if (folder / DESCRIPTION).is_file():
            raise ValueError(f"{folder} holds an uncut network. Choose another folder.")
        if not (folder / CONFIG).is_file():  # or the weights have one that says whose they are
            refuse_foreign(folder / MODEL)
        refuse_foreign(folder / CONFIG)
        save_weights(network, folder / MODEL, {"writer": "vinets"})
        config = _tied(config, network.state_dict())
        # last, because a folder with it counts as a saved network
        write_json(folder / CONFIG, config)


def load_network(directory: str | Path, backbone: nn.Module | None = None) -> CutNetwork:
    """Read a network; files that are not one are refused in one sentence.

    One of the package, ``"vinets/NAME"``, is stored in half precision, and computes in single.
    """
    if pretrained.is_name(directory):
        return load_network(pretrained.find(str(directory)), backbone).float()
    folder = Path(directory)
    path, weights = folder / CONFIG, folder / MODEL
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no saved network: {CONFIG} is missing. Save one with save_pretrained."
        )
    config = _read_description(path, FORMAT, VERSION)
    forms, _ = read_header(weights, inside=folder)
    stored = {k: (form.dtype.is_floating_point, form.shape) for k, form in forms.items()}
    room = room_for(weights.stat().st_size)
    with _describing(path):
        record = from_plain(Record, config["record"], "record")
        reader = LatentReader(**config["reader"])
        example = example_inputs(record.inputs)
        # The terms of polynomials are whole numbers, and are read before the rest.
        index, _ = read_file(weights, wanted=lambda k, f: _of_head(k) and f.dtype == torch.int64)
        with TensorGuard():
            drawn = nn.ModuleDict(_behind(config, index))
    _compare(folder, forms_of(drawn), {k: form for k, form in stored.items() if _of_head(k)})
    if backbone is None:
        backbone = _backbone(folder, record, stored, room)
    _refuse_size(path, drawn, room)
    # clones, because tensors in a file lie unaligned, and kernels then round differently
    state = {k: t.clone() for k, t in read_file(weights, inside=folder)[0].items()}
    with _describing(path):
        if record.cut not in dict(backbone.named_modules()):
            raise ValueError(f"the network has no module {record.cut!r} to be cut at")
        cut = truncate(backbone, record.cut, example)
        behind = _behind(config, state)
        network = network_of(cut, reader, behind["head"], record)
        network.distances = behind.get("distances")
    _compare(folder, forms_of(network), stored)
    with torch.no_grad():
        network.load_state_dict(state, assign=True)  # keeps the dtypes of the file
    if wrong := [k for k, t in state.items() if t.is_floating_point() and bool(t.isnan().any())]:
        raise ValueError(f"{weights} holds what is no number (NaN), in {wrong[0]}. Train it again.")
    for p in network.backbone.parameters():
        p.requires_grad_(False)
    # last, because what does not fit together at all has a better sentence
    _check_tied(path, config, state, VERSION)
    return network.eval()


def _behind(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Make what a description puts behind the cut, of the right shapes, without its state."""
    arguments = dict(config["head"])
    own = {k.removeprefix("head."): t for k, t in state.items() if k.startswith("head.")}
    try:
        kind = HEADS[arguments.pop("kind")]
    except UnknownName:
        raise ValueError(
            f"there is no head {config['head']['kind']!r}; if it is defined elsewhere, import the "
            "module that defines it first"
        ) from None
    behind: dict[str, Any] = {"head": kind.from_config(arguments, own)}
    if "distances" in config:
        behind["distances"] = ClassDistances.from_config(config["distances"], state, "distances.")
    return behind


def _backbone(folder: Path, record: Record, stored: Mapping[str, Any], room: int) -> nn.Module:
    """Make the uncut network once it is known that the weights are of such a network."""
    if record.source is None:
        raise OwnClass(
            f"The backbone in {folder} is of a class of its own. Write {folder}@path/file.py:CLASS "
            f"for the folder, or {PASS_ONE}",
            len(record.classes) or None,
        )
    drawn = sketch(record.source, room)
    # A network that cannot be traced is kept whole, as "model" of what stops it at the cut.
    whole = {
        f"backbone.{inner}{k}": f for inner in ("", "model.") for k, f in forms_of(drawn).items()
    }
    stored = {k: form for k, form in stored.items() if not _of_head(k)}
    _compare(folder, {k: whole[k] for k in stored if k in whole}, stored)
    _refuse_size(folder / CONFIG, drawn, room)
    return rebuild(record.source, room)


def _refuse_size(path: Path, network: nn.Module, room: int) -> None:
    size = bytes_of(network)
    if size > room:
        raise ValueError(
            f"{path} describes a network of {format_bytes(size)}, far more than the weights beside "
            f"it. If you trust it, {PASS_ONE}"
        )


def _compare(folder: Path, expected: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    if expected != stored:
        names = expected.keys() | stored.keys()
        wrong = sorted(k for k in names if expected.get(k) != stored.get(k))
        raise ValueError(
            f"The weights in {folder} do not fit the network of its {CONFIG}: {len(wrong)} tensors "
            f"differ, among them {', '.join(wrong[:3])}."
        )


def _of_head(name: str) -> bool:
    return name.startswith(("head.", "distances."))


# --- uncut networks ---------------------------------------------------------------------------


UNCUT_FIELDS = ("source", "inputs", "classes", "preprocessing")  # in record and description


def write_uncut(folder: Path, model: nn.Module, record: Record) -> None:
    """Write the weights, then the description that makes the folder complete.

    The notes of the record are recipe, data and results of the training.
    """
    data = record.notes.get("data")
    # in the weights, too, which are used without the folder as well
    save_weights(model, folder / WEIGHTS, {NOTE: as_note(data)} if isinstance(data, dict) else {})
    plain = as_plain(record)
    description = {"format": UNCUT_FORMAT, "version": UNCUT_VERSION}
    description |= {name: plain[name] for name in UNCUT_FIELDS} | {"training": plain["notes"]}
    write_json(folder / DESCRIPTION, _tied(description, model.state_dict()))


def read_uncut(folder: Path) -> WholeNetwork:
    """Read what :func:`write_uncut` wrote; other files are refused in one sentence."""
    path, weights = folder / DESCRIPTION, folder / WEIGHTS
    values = _read_description(path, UNCUT_FORMAT, UNCUT_VERSION)
    training = values.get("training")
    notes = training if isinstance(training, dict) else {}
    with _describing(path):
        known = {name: values[name] for name in UNCUT_FIELDS}
        record = from_plain(Record, {"cut": "", "notes": notes, **known})
        example_inputs(record.inputs)
        if record.preprocessing is not None:
            Preprocessing.from_dict(record.preprocessing)
        room = room_for(weights.stat().st_size)
        check_weights(sketch(known["source"], room), weights, inside=folder)
        model = rebuild(known["source"], room)
    load_weights(model, weights, inside=folder)
    _check_tied(path, values, read_file(weights, inside=folder)[0], UNCUT_VERSION)
    remember_training(model, notes.get("data"))
    return WholeNetwork(model, record)


# --- descriptions -----------------------------------------------------------------------------


def _tied(description: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the description with a digest of itself and of the weights that it goes with."""
    # As it will be read again: a tuple becomes a list.
    plain = json.loads(json.dumps({k: v for k, v in description.items() if k != "digest"}))
    return plain | {"digest": digest(sorted(state.items()), plain)}


def _check_tied(
    path: Path, description: Mapping[str, Any], state: Mapping[str, Tensor], version: int
) -> None:
    """Raise unless both are as they were written; files of the version before have no digest."""
    if description.get("version") == version and description != _tied(description, state):
        raise ValueError(
            f"{path} and the weights beside it were not written together: one of them was changed "
            "or replaced. Take both from the same folder, or save the network again."
        )


def _read_description(path: Path, format: str, version: int) -> dict[str, Any]:
    """Read the JSON object in a file, if it is marked with this format and version or the last."""
    values = read_json(path, inside=path.parent)
    if not isinstance(values, dict) or values.get("format") != format:
        raise ValueError(f"{path} does not describe a network of vinets.")
    if values.get("version") not in (version - 1, version):
        raise ValueError(
            f"{path} has version {reprlib.repr(values.get('version'))}; this release reads version "
            f"{version}."
        )
    return values


@contextmanager
def _describing(path: Path) -> Iterator[None]:
    """Turn what malformed descriptions make of well-meant code into one sentence."""
    try:
        yield
    except UnnamedFile:
        raise  # it says what to do
    except UNREADABLE as error:
        reason = reason_of(f"no {error}" if isinstance(error, KeyError) else error)
        raise ValueError(
            f"{path} does not describe a network that this release can make: {reason}."
        ) from None
