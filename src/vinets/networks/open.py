"""Open a network, from a folder, a file or by its name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets import pretrained
from vinets.core.checks import reason_of
from vinets.core.device import Inputs, check_answers, each
from vinets.core.settings import RECIPES
from vinets.data import Preprocessing
from vinets.models import channel_options, create_model, spec_of, use_file
from vinets.models.libraries.base import UnnamedFile
from vinets.models.origin import Record, example_inputs, remember_training, trained_on
from vinets.models.records import check_options, parse_spec
from vinets.networks.network import CutNetwork, load_trained
from vinets.networks.runtimes import open_exported, suffixes
from vinets.networks.storage import CONFIG, DESCRIPTION, OwnClass, read_uncut


@dataclass(frozen=True, eq=False)
class NamedNetwork:
    """A network in eval mode on the CPU, and what is known about it."""

    name: str  # as in tables
    network: nn.Module  # a folded CutNetwork, an uncut network, or an ExportedNetwork
    architecture: str | None = None  # name of the uncut network, as for create_model
    inputs: Mapping[str, Any] | None = None  # their shapes and dtypes
    classes: tuple[str, ...] = ()  # empty where their names are not known
    preprocessing: Preprocessing | None = None  # how an image becomes an input
    trained: bool = True  # False for random weights
    guessed: str = ""  # in sentences: what nobody said of how data are read for it
    stated: float | None = None  # accuracy on the test part when it was saved


def open_network(
    spec: str | Path,
    weights: str | Path | None = None,
    num_classes: int | None = None,
    channels: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> NamedNetwork:
    """Open a network.

    ``spec`` is a folder that ``vinets train`` or ``save_pretrained`` wrote, an ONNX file (which
    runs as it is, and :func:`in_torch` converts), a network of the package (``"vinets/NAME"``, see
    :mod:`vinets.pretrained`), or a name for :func:`vinets.models.create_model`. A network in a file
    of your own is named again when its folder is opened: ``"out/net@path/file.py:NAME"`` or
    ``"out/net@path/net.onnx"``.

    For a name there may be ``weights``, a file that :func:`vinets.models.load_weights` reads, the
    numbers of classes and channels of the data, None for the default of the network, and
    ``options`` of its constructor, numbers and words, which stand in what is saved.
    """
    folder, name = Path(spec).expanduser(), str(spec)
    before, at, file = name.rpartition("@")
    named = bool(at) and not folder.exists() and Path(before).expanduser().is_dir()
    if named:
        use_file(file)
        folder = Path(before).expanduser()
    listed = pretrained.is_name(name)
    exported = folder.is_file() and folder.suffix.lower() in suffixes()
    if (weights is not None or options) and (listed or exported or folder.is_dir()):
        raise ValueError(f"{spec} has its own weights and options. Leave these out.")
    if listed:
        return _cut(name, name)
    if folder.is_dir():
        try:
            return _open_folder(folder)
        except OwnClass as own:
            if not named:
                raise
            return _cut(folder.resolve().name, folder, create_model(file, own.classes))
        except UnnamedFile as unnamed:
            if not named:
                raise
            use_file(file, known_as=unnamed.name)
            try:
                return _open_folder(folder)
            except ValueError as error:
                raise ValueError(
                    f"{reason_of(error)}. This network is {unnamed.name}, and {file} was named for "
                    "it."
                ) from None
    if exported:
        one = open_exported(folder)
        return _named(folder.name, one, one.record)
    # A name of another library has a colon, hf:org/net a slash as well: other slashes are paths.
    if folder.suffix != ".py" and (folder.exists() or (":" not in name and "/" in name)):
        raise FileNotFoundError(
            f"{spec} is not a folder. Pass one that vinets train or vinets build wrote, "
            f"{' or '.join(pretrained.names())}, or the name of a network with its weights, "
            "which may be path/file.py:CLASS."
        )
    saved = pretrained.names()
    others = f"a folder that vinets train or vinets build wrote, {', '.join(saved)}, or, with its "
    parse_spec(name, "open_network", f"{others}weights, ", saved)
    network = make_network(name, num_classes, channels, options)
    if weights is None:
        return network
    if not Path(weights).is_file():
        recipe = next((recipe for recipe, one in RECIPES.items() if one.model == name), None)
        how = f" To make a trained {name}: vinets train --recipe {recipe} --out out/{recipe}"
        raise FileNotFoundError(
            f"{weights} does not exist or is not a file.{how if recipe else ''}"
        )
    load_trained(network.network, weights)
    return replace(network, trained=True)


def make_network(
    name: str,
    num_classes: int | None,
    channels: int | None,
    options: Mapping[str, Any] | None = None,
) -> NamedNetwork:
    """Make a network by its name, untrained, for that many classes and channels."""
    fitted = {} if channels is None else channel_options(name, channels)
    check_options(name, {**(options or {})})
    model = create_model(name, **{"num_classes": num_classes, **fitted, **(options or {})})
    return NamedNetwork(name, model.eval(), name, trained=False)


def in_torch(opened: NamedNetwork, spec: str | Path) -> NamedNetwork:
    """Return the network of an ONNX file as one of torch, which can be cut and trained."""
    precision = getattr(opened.network, "precision", "float32")
    if precision != "float32":
        raise ValueError(
            f"{spec} is exported in {precision}. Pass a file in float32, or the network that it "
            "was made from."
        )
    model = create_model(str(spec)).eval()
    remember_training(model, trained_on(opened.network))
    return replace(opened, network=model, architecture=str(spec))


def is_saved(spec: str | Path) -> bool:
    """Tell whether :func:`open_network` finds a folder or a file, which need no facts of data."""
    before = str(spec).rpartition("@")[0]
    paths = [Path(path).expanduser() for path in (spec, before) if path]
    return pretrained.is_name(str(spec)) or any(p.exists() and p.suffix != ".py" for p in paths)


def _open_folder(folder: Path) -> NamedNetwork:
    name = folder.resolve().name
    if (folder / CONFIG).is_file():
        return _cut(name, folder)
    if (folder / "cascade.json").is_file():
        raise ValueError(
            f"{folder} is a cascade of vinets 0.2, which later releases do not open. Pass its "
            f"early network, {folder / 'early'}."
        )
    if (folder / DESCRIPTION).is_file():
        uncut = read_uncut(folder)
        test = uncut.record.notes.get("test")
        accuracy = test.get("accuracy") if isinstance(test, Mapping) else None
        return _named(name, uncut.model.eval(), uncut.record, accuracy)
    raise FileNotFoundError(
        f"{folder} holds no network: neither {DESCRIPTION} of vinets train nor {CONFIG} of "
        "vinets build is there."
    )


def _cut(name: str, folder: str | Path, uncut: nn.Module | None = None) -> NamedNetwork:
    network = CutNetwork.from_pretrained(folder, backbone=uncut)
    record = network.record
    # What is stored in half precision computes in single.
    return _named(name, network.folded().float(), record, record.notes.get("accuracy"))


def _named(name: str, network: nn.Module, record: Record, accuracy: Any = None) -> NamedNetwork:
    """Name a network; its accuracy comes from a file that anybody may have written."""
    images = record.preprocessing
    sound = isinstance(accuracy, float | int) and 0 <= accuracy <= 1
    return NamedNetwork(
        name,
        network,
        None if record.source is None else spec_of(record.source),
        record.inputs,
        record.classes,
        None if images is None else Preprocessing.from_dict(images),
        stated=float(accuracy) if sound else None,
    )


def open_cut(folder: str | Path, made_of: NamedNetwork) -> CutNetwork:
    """Open a network that ``vinets build`` wrote, folded.

    Its backbone must have the weights of ``made_of``, or their shapes if it was tuned.
    """
    network = open_network(folder).network
    if not isinstance(network, CutNetwork):
        raise ValueError(f"{folder} is not cut. Pass a folder that vinets build wrote.")
    known, tuned = made_of.network.state_dict(), "tuned" in network.record.notes
    for name, value in network.backbone.state_dict().items():
        original = known.get(name.removeprefix("model."))  # what is not traced is wrapped
        alike = original is not None and original.shape == value.shape
        if not alike or not (tuned or value.equal(original)):
            raise ValueError(
                f"{folder} was made of another network than {made_of.name}: {name} differs."
            )
    return network


def open_side_by_side(
    specs: Sequence[str], shape: tuple[int, ...] | None = None
) -> tuple[dict[str, NamedNetwork], Inputs]:
    """Open networks that take the same inputs, by name or spec, with an example of these.

    The ``shape`` is that of one input; None takes that of the first network that knows its own.
    """
    if len(set(specs)) < len(specs):
        raise ValueError("The same network is given twice. Pass each one once.")
    opened = [open_network(spec) for spec in specs]
    knowing = [network for network in opened if network.inputs is not None]
    example = example_for((knowing or opened)[0], shape)
    for network in opened:
        check_inputs(network, example)
    names = [network.name for network in opened]
    keys = names if len(set(names)) == len(names) else specs
    return dict(zip(keys, opened, strict=True)), example


def channel_count(example: Inputs) -> int | None:
    """Count the channels of a batch of images; None for other inputs."""
    return example.shape[1] if isinstance(example, Tensor) and example.ndim == 4 else None


def check_inputs(opened: NamedNetwork, example: Inputs, classes: int | None = None) -> None:
    """Raise unless the network takes inputs like ``example``, and has ``classes`` outputs."""
    outputs = check_answers(opened.name, opened.network, example)
    if classes is not None and outputs != classes:
        raise ValueError(
            f"{opened.name} has {outputs} outputs, and the data has {classes} classes. Pass the "
            "data that it was trained for, or --classes FILE, which names all classes of its "
            "outputs in their order."
        )


def example_for(opened: NamedNetwork, shape: tuple[int, ...] | None) -> Inputs:
    """Return a batch of one example, of this shape or of the one that the network was made for."""
    if shape is not None:
        example: Inputs = torch.zeros(1, *shape)
    elif opened.inputs is not None:
        example = example_inputs(opened.inputs)
    else:
        raise ValueError(
            f"The shape of the inputs of {opened.name} is not known. Pass the shape of one input "
            "(--shape 3,32,32), or data (--data)."
        )
    check_inputs(opened, example)
    return example


def noise_like(example: Inputs, count: int, seed: int) -> Inputs:
    """Draw ``count`` inputs of noise, shaped as the first example; tokens are repeated."""
    # Equal inputs would flatter: in pooling, a processor learns which of them is the largest.
    generator = torch.Generator().manual_seed(seed)

    def drawn(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor[:1].repeat(count, *[1] * (tensor.ndim - 1))
        return torch.randn(count, *tensor.shape[1:], generator=generator, dtype=tensor.dtype)

    return each(example, drawn)


def require_weights(opened: NamedNetwork, data: str | None = None) -> None:
    """Raise for a network with random weights; trained on ``data``, it would have others."""
    if opened.trained:
        return
    how = "a folder that vinets train wrote."
    if data is not None:
        words = shlex.join(("--model", opened.name, "--data", data, "--out", "out/uncut"))
        how = f"train it and pass out/uncut in place of its name: vinets train {words}"
    raise ValueError(
        f"{opened.name} has random weights. Pass its weights (--weights FILE), or {how}"
    )
