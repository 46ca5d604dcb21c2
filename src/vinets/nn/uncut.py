"""The folder of an uncut network: what the network is, and its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from vinets.data.images import Preprocessing
from vinets.files import read_json, write_json
from vinets.models import load_weights, rebuild, save_weights
from vinets.models.records import ModelRecord
from vinets.nn.network import example_inputs

__all__ = ["DESCRIPTION", "UncutNetwork", "read_uncut", "write_uncut"]

FORMAT, VERSION = "vinets.backbone", 1  # a name that is in files, whatever the word is here
DESCRIPTION, WEIGHTS = "network.json", "weights.safetensors"


@dataclass(frozen=True, eq=False)
class UncutNetwork:
    """A whole network with what is needed to use it.

    Parameters
    ----------
    model : Module
        The network.
    source : dict
        How to make it again; see :func:`vinets.models.source_of`.
    inputs : dict
        Shapes and dtypes of its inputs; see :func:`vinets.nn.network.input_fields`.
    classes : tuple of str
        Names of the classes.
    preprocessing : Preprocessing or None
        How an image becomes an input.
    training : dict
        Recipe, data and results, for the record.
    """

    model: nn.Module
    source: ModelRecord
    inputs: dict[str, Any]
    classes: tuple[str, ...]
    preprocessing: Preprocessing | None
    training: dict[str, Any]


def write_uncut(folder: Path, uncut: UncutNetwork) -> None:
    """Write the weights, then the description that makes the folder complete."""
    save_weights(uncut.model, folder / WEIGHTS)
    given = uncut.preprocessing
    description = {
        "format": FORMAT,
        "version": VERSION,
        "source": uncut.source,
        "inputs": uncut.inputs,
        "classes": list(uncut.classes),
        "preprocessing": None if given is None else given.to_dict(),
        "training": uncut.training,
    }
    write_json(folder / DESCRIPTION, description)


def read_uncut(folder: Path) -> UncutNetwork:
    """Read what :func:`write_uncut` wrote; other files are refused in one sentence."""
    path = folder / DESCRIPTION
    values = _read(path)
    try:
        source, inputs, classes = values["source"], values["inputs"], tuple(values["classes"])
        example_inputs(inputs)
        if not all(isinstance(name, str) for name in classes):
            raise ValueError("the classes are no names")
        given = values["preprocessing"]
        preprocessing = None if given is None else Preprocessing.from_dict(given)
        model = rebuild(source)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} does not describe a network that this release can make: {error}"
        ) from None
    load_weights(model, folder / WEIGHTS)
    told = values.get("training")
    training = told if isinstance(told, dict) else {}
    return UncutNetwork(model, source, inputs, classes, preprocessing, training)


def _read(path: Path) -> dict[str, Any]:
    values = read_json(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe a network of vinets.")
    if values.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {values.get('version')!r}; this release reads version {VERSION}."
        )
    return values
