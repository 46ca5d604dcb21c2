"""The folder of an uncut network: what the network is, and its weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from vinets.core.checks import reason_of
from vinets.core.files import write_json
from vinets.core.plain import as_plain
from vinets.core.tensors import as_note
from vinets.data.images import Preprocessing
from vinets.models import load_weights, rebuild, save_weights
from vinets.models.facts import example_inputs, remember_training
from vinets.models.libraries.file import UnnamedFile
from vinets.models.records import ModelRecord, room_for, sketch, spec_of
from vinets.models.weights import check_weights, read_weights
from vinets.networks.files import check_tied, read_description, tied
from vinets.networks.seen import NOTE

FORMAT, VERSION = "vinets.backbone", 2  # a name that is in files, whatever the word is here
DESCRIPTION, WEIGHTS = "network.json", "weights.safetensors"


@dataclass(frozen=True, eq=False)
class UncutNetwork:
    """A whole network with its inputs, classes and preprocessing."""

    model: nn.Module = field(metadata={"plain": False})  # its weights have a file of their own
    source: ModelRecord  # how to make it again; see vinets.models.source_of
    inputs: dict[str, Any]  # shapes and dtypes; see vinets.networks.network.input_fields
    classes: tuple[str, ...]
    preprocessing: Preprocessing | None  # how an image becomes an input
    training: dict[str, Any]  # recipe, data and results, for the record


def write_uncut(folder: Path, uncut: UncutNetwork) -> None:
    """Write the weights, then the description that makes the folder complete."""
    data = uncut.training.get("data")
    # in the weights, too, which are used without the folder as well
    notes = {NOTE: as_note(data)} if isinstance(data, dict) else {}
    save_weights(uncut.model, folder / WEIGHTS, notes)
    description = {"format": FORMAT, "version": VERSION, **as_plain(uncut)}
    write_json(folder / DESCRIPTION, tied(description, uncut.model.state_dict()))


def architecture_in(folder: Path) -> str | None:
    """Return the name of a network that :func:`write_uncut` wrote, without reading its weights."""
    try:
        return spec_of(read_description(folder / DESCRIPTION, FORMAT, VERSION)["source"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # whoever opens the folder is told what is wrong with it


def read_uncut(folder: Path) -> UncutNetwork:
    """Read what :func:`write_uncut` wrote; other files are refused in one sentence."""
    path = folder / DESCRIPTION
    values = read_description(path, FORMAT, VERSION)
    try:
        source, inputs, classes = values["source"], values["inputs"], tuple(values["classes"])
        example_inputs(inputs)
        if not all(isinstance(name, str) for name in classes):
            raise ValueError("the classes are no names")
        given = values["preprocessing"]
        preprocessing = None if given is None else Preprocessing.from_dict(given)
        # first without memory, for a few bytes of JSON may ask for any amount of it
        room = room_for((folder / WEIGHTS).stat().st_size)
        check_weights(sketch(source, room), folder / WEIGHTS, inside=folder)
        model = rebuild(source, room)
    except UnnamedFile:
        raise  # it says what to do
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
        ArithmeticError,
    ) as error:
        raise ValueError(
            f"{path} does not describe a network that this release can make: {reason_of(error)}."
        ) from None
    load_weights(model, folder / WEIGHTS, inside=folder)
    check_tied(path, values, read_weights(folder / WEIGHTS, inside=folder), VERSION)
    told = values.get("training")
    training = told if isinstance(told, dict) else {}
    remember_training(model, training.get("data"))
    return UncutNetwork(model, source, inputs, classes, preprocessing, training)
