"""Open a network, from a folder or by name, and the data that it is used on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets import pretrained
from vinets.core.checks import parameter_error, reason_of
from vinets.core.device import call, each, evaluating, logits_of, tensors_of
from vinets.core.plain import nearest
from vinets.core.settings import RECIPES
from vinets.data import DataSplit, ImageSource, Inputs, Preprocessing, load_data
from vinets.data.formats import Size, takes_size
from vinets.data.images import augment_by, normalise_by, with_preprocessing
from vinets.export import ExportedNetwork, Network, WholeNetwork, open_exported, suffixes
from vinets.models import (
    channel_options,
    create_model,
    libraries,
    normalisation_of,
    spec_of,
    use_file,
)
from vinets.models.facts import Record, example_inputs, input_fields, trained_on
from vinets.models.libraries.file import UnnamedFile
from vinets.models.weights import refuse_pickled
from vinets.networks.files import CONFIG, DESCRIPTION, read_uncut
from vinets.networks.network import CutNetwork
from vinets.networks.seen import load_trained, refuse_seen


@dataclass(frozen=True)
class Imaging:
    """How images are normalised and augmented; None is what is known of network and data."""

    mean: tuple[float, ...] | None = None  # of pixels in [0, 1], one per channel or one for all
    std: tuple[float, ...] | None = None
    flip: bool | None = None  # see vinets.data.images.augment_by
    crop: float | None = None


@dataclass(frozen=True, eq=False)
class Opened:
    """A network in eval mode on the CPU, and what is known about it."""

    name: str  # for tables
    network: nn.Module  # a folded CutNetwork, an uncut network, or an ExportedNetwork
    architecture: str | None = None  # of the uncut network, as for create_model
    inputs: Mapping[str, Any] | None = None  # their shapes and dtypes
    classes: tuple[str, ...] = ()  # empty where their names are not known
    preprocessing: Preprocessing | None = None  # how an image becomes an input
    trained: bool = True  # False for random weights
    told_by: str = ""  # the library that told how images are normalised, where none was given
    stated: float | None = None  # accuracy on the test part when it was saved


def open_network(
    spec: str | Path,
    weights: str | Path | None = None,
    num_classes: int | None = None,
    channels: int | None = None,
) -> Opened:
    """Open a network.

    Parameters
    ----------
    spec : str or Path
        A folder that ``vinets train`` or ``save_pretrained`` wrote, a file that ``vinets export``
        wrote, a network of the package (``"vinets/NAME"``, see :mod:`vinets.pretrained`), or a name
        for :func:`vinets.models.create_model`. A network in a file of your own is
        named again when its folder is opened, ``"out/net@path/file.py:NAME"``: folders have no
        file run.
    weights : str, Path or None, default=None
        A safetensors file, for a name.
    num_classes, channels : int or None, default=None
        Of the data, for a name; None leaves the default of the network.
    """
    folder, name = Path(spec).expanduser(), str(spec)
    before, at, file = name.rpartition("@")
    named = bool(at) and not folder.exists() and Path(before).expanduser().is_dir()
    if named:
        use_file(file)
        folder = Path(before).expanduser()
    listed = pretrained.is_name(name)
    exported = folder.is_file() and folder.suffix.lower() in suffixes()
    if weights is not None and (listed or exported or folder.is_dir()):
        raise ValueError(f"{spec} has its own weights. Leave out the weights.")
    if listed:
        return _opened(name, CutNetwork.from_pretrained(name))
    if folder.is_dir():
        try:
            return _open_folder(folder)
        except UnnamedFile as unnamed:
            if not named:
                raise
            return _open_renamed(folder, file, unnamed.name)
    if exported:
        return _open_file(folder)
    _refuse_code_without_a_class(folder)
    # a name of another library has a colon, hf:org/net a slash as well: other slashes are paths
    if folder.exists() or (":" not in name and "/" in name):
        raise FileNotFoundError(
            f"{spec} is not a folder. Pass one that vinets train or vinets build wrote, "
            f"{' or '.join(pretrained.names())}, or the name of a network with its weights, "
            "which may be path/file.py:CLASS."
        )
    if all(library.parse(name) is None for library in libraries()):
        raise _unknown(name)
    made = make_network(name, num_classes, channels)
    if weights is None:
        return made
    _require_file(weights, name)
    load_trained(made.network, weights)
    return replace(made, trained=True)


def make_network(name: str, num_classes: int | None, channels: int | None) -> Opened:
    """A network by its name, untrained, for that many classes and channels."""
    _refuse_code_without_a_class(Path(name).expanduser())
    fitted = {} if channels is None else channel_options(name, channels)
    model = create_model(name, num_classes, **fitted)
    return Opened(name, model.eval(), name, trained=False)


def _refuse_code_without_a_class(path: Path) -> None:
    if path.suffix == ".py" and path.is_file():
        raise ValueError(f"{path} is a file. Name the class in it as well, as {path}:CLASS.")


def _unknown(name: str) -> ValueError:
    known, saved = libraries(), pretrained.names()
    plain = [one for library in known if not library.prefix for one in library.names()]
    accepted = (
        f"a folder that vinets train or vinets build wrote, {', '.join(saved)}, or, with its "
        f"weights, one of {', '.join(library.written for library in known)}"
    )
    hint = nearest(name, [*saved, *plain]).lstrip()
    return parameter_error("open_network", "spec", accepted, name, hint)


def _require_file(weights: str | Path, name: str) -> None:
    refuse_pickled(Path(weights))  # there or not, it would not be read
    if Path(weights).is_file():
        return
    recipe = next((recipe for recipe, made in RECIPES.items() if made.model == name), None)
    how = f" To make a trained {name}: vinets train --recipe {recipe} --out out/{recipe}"
    raise FileNotFoundError(f"{weights} does not exist or is not a file.{how if recipe else ''}")


def is_saved(spec: str | Path) -> bool:
    """Whether :func:`open_network` finds a folder or a file, which need no facts of the data."""
    before = str(spec).rpartition("@")[0]
    paths = [Path(path).expanduser() for path in (spec, before) if path]
    return pretrained.is_name(str(spec)) or any(p.exists() and p.suffix != ".py" for p in paths)


def _open_folder(folder: Path) -> Opened:
    name = folder.resolve().name
    if (folder / CONFIG).is_file():
        return _opened(name, CutNetwork.from_pretrained(folder))
    if (folder / "cascade.json").is_file():
        raise ValueError(
            f"{folder} is a cascade of vinets 0.2, which later releases do not open. Pass its "
            f"early network, {folder / 'early'}."
        )
    if (folder / DESCRIPTION).is_file():
        uncut = read_uncut(folder)
        test = uncut.training.get("test")
        return Opened(
            name,
            uncut.model.eval(),
            spec_of(uncut.source),
            uncut.inputs,
            uncut.classes,
            uncut.preprocessing,
            stated=_share(test.get("accuracy") if isinstance(test, Mapping) else None),
        )
    raise FileNotFoundError(
        f"{folder} holds no network: neither {DESCRIPTION} of vinets train nor {CONFIG} of "
        "vinets build is there."
    )


def _open_renamed(folder: Path, file: str, record: str) -> Opened:
    """Open a folder with a file that its record knows by another name."""
    use_file(file, known_as=record)
    try:
        return _open_folder(folder)
    except ValueError as error:
        raise ValueError(
            f"{reason_of(error)}. This network is {record}, and {file} was named for it."
        ) from None


def _opened(name: str, network: CutNetwork) -> Opened:
    record, given = network.record, network.record.preprocessing
    preprocessing = None if given is None else Preprocessing.from_dict(given)
    known = None if record.source is None else spec_of(record.source)
    facts = record.inputs, record.classes, preprocessing
    stated = _share(record.notes.get("accuracy"))
    # what is stored in half precision computes in single, for which every kernel is made
    return Opened(name, network.folded().float(), known, *facts, stated=stated)


def _share(value: Any) -> float | None:
    """A number in [0, 1] of a file that nobody vouches for, else None."""
    sound = isinstance(value, float | int) and 0 <= value <= 1
    return float(value) if sound else None


def _open_file(path: Path) -> Opened:
    network = open_exported(path)
    classes, preprocessing = network.classes, network.preprocessing
    return Opened(path.name, network, None, network.inputs, classes, preprocessing)


def open_with_data(
    spec: str | Path,
    data: str | Path,
    *,
    weights: str | Path | None = None,
    split_seed: int = 0,
    size: Size = None,
    images: Imaging = Imaging(),  # noqa: B008 - frozen
) -> tuple[Opened, DataSplit]:
    """Open a network and the data it is used on, and check that they fit.

    Images are normalised as ``images`` say, else as the network knows it from its training,
    else as the library of a network with weights tells, else by the statistics of this data.

    Parameters
    ----------
    spec, weights
        As for :func:`open_network`.
    data : str or Path
        A data set, as for :func:`vinets.data.load_data`.
    split_seed : int, default=0
        Seed of the test split, where the data has none of its own.
    size : (H, W), int or None, default=None
        Size of the images in a folder; None is what a saved network was made for.
    images : Imaging
        How images are normalised and augmented.

    Raises
    ------
    ValueError
        If the network has other classes, does not take such inputs, or was trained on another
        split of this data.
    """
    saved = open_network(spec, weights) if is_saved(spec) else None
    own = size
    if saved is not None and saved.preprocessing is not None and takes_size(data):
        own = saved.preprocessing.size
        size = own if size is None else size
    split = load_data(data, seed=split_seed, size=size)
    mean, std = images.mean, images.std
    example = split.train.example()
    count = len(split.train.classes)
    opened = saved or open_network(spec, weights, count, channel_count(example))
    if opened.classes and len(opened.classes) != count:
        raise ValueError(
            f"{opened.name} knows {len(opened.classes)} classes, and {split.name} has {count}. "
            "Pass the data that it was trained for."
        )
    # images of another size have other pixels: those that a network knows are of its own size
    known = split if size == own else load_data(data, seed=split_seed, size=own)
    refuse_seen(opened.name, opened.network, known)
    if opened.preprocessing is not None:
        split = with_preprocessing(split, opened.preprocessing)
    elif weights is not None and isinstance(split.train, ImageSource):
        told = normalisation_of(str(spec), opened.network, Path(weights))
        if told is not None and len(told[0]) == split.train.preprocessing.channels:
            if mean is None and std is None:
                opened = replace(opened, told_by=str(spec).partition(":")[0])
            mean, std = mean or told[0], std or told[1]
    split = augment_by(normalise_by(split, mean, std), images.flip, images.crop)
    check_inputs(opened, split.train.example(), count)  # now that it is normalised for this network
    return opened, split


def _open(
    spec: str | Path,
    data: str | Path | None,
    shape: tuple[int, ...] | None,
    weights: str | Path | None,
    reading: Mapping[str, Any],
) -> tuple[Opened, Inputs, DataSplit | None]:
    """A network with an example of its inputs: of data, which come along, of ``shape``, its own."""
    if data is not None:
        opened, split = open_with_data(spec, data, weights=weights, **reading)
        return opened, split.train.example(), split
    opened = open_network(spec, weights)
    return opened, example_for(opened, shape), None


def open_uncut(
    spec: str | Path,
    data: str | Path | None = None,
    shape: tuple[int, ...] | None = None,
    *,
    weights: str | Path | None = None,
    **reading: Any,
) -> tuple[Opened, Inputs, DataSplit | None]:
    """Open an uncut network with an example of its inputs: of data, of ``shape``, or its own.

    The data comes along; it takes the ``reading`` that :func:`open_with_data` takes.
    """
    opened, example, split = _open(spec, data, shape, weights, reading)
    if isinstance(opened.network, CutNetwork):
        raise ValueError(f"{spec} is cut already. Pass the network that it was made from.")
    if isinstance(opened.network, ExportedNetwork):
        raise ValueError(f"{spec} is exported. Pass the network that it was made from.")
    return opened, example, split


def open_to_export(
    spec: str | Path,
    data: str | Path | None = None,
    shape: tuple[int, ...] | None = None,
    *,
    weights: str | Path | None = None,
    **reading: Any,
) -> tuple[Network, DataSplit | None]:
    """Open a network that is cut or whole with what its file should tell, and the data if given.

    The shape of an input is that of the data, or ``shape``, or what the network was made for.
    """
    opened, example, split = _open(spec, data, shape, weights, reading)
    require_weights(opened, None if data is None else str(data))
    if isinstance(opened.network, ExportedNetwork):
        raise ValueError(f"{spec} is exported already. Pass the network that it was made from.")
    if isinstance(opened.network, CutNetwork):
        return opened.network, split
    classes = opened.classes or (() if split is None else split.test.classes)
    known = opened.preprocessing
    if known is None and split is not None:
        known = getattr(split.test, "preprocessing", None)  # only sources of images have one
    told = None if known is None else known.to_dict()
    fields, seen = input_fields(example), trained_on(opened.network)
    record = Record("", fields, classes=classes, preprocessing=told, data=seen)
    return WholeNetwork(opened.network, record), split


def open_cut(folder: str | Path, made_of: Opened | None = None) -> CutNetwork:
    """Open a network that ``vinets build`` wrote, folded.

    Where an uncut network is given, ``made_of``, the backbone must have the weights of that one, or
    their shapes if it was tuned.
    """
    network = open_network(folder).network
    if not isinstance(network, CutNetwork):
        raise ValueError(f"{folder} is not cut. Pass a folder that vinets build wrote.")
    if made_of is not None:
        known = made_of.network.state_dict()
        tuned = "tuned" in network.record.notes
        for name, value in network.backbone.state_dict().items():
            original = known.get(name.removeprefix("model."))  # of networks without a trace
            if (
                original is None
                or original.shape != value.shape
                or not (tuned or original.equal(value))
            ):
                raise ValueError(
                    f"{folder} was made of another network than {made_of.name}: {name} differs."
                )
    return network


def open_side_by_side(
    specs: Sequence[str], shape: tuple[int, ...] | None = None
) -> tuple[dict[str, Opened], Inputs]:
    """Open networks that take the same inputs, with an example of these.

    The ``shape`` is that of one input; None takes that of the first network that knows its own.
    The networks are told by name, or by the whole of ``specs`` where names are the same.
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
    """Channels of a batch of images; None for other inputs."""
    return example.shape[1] if isinstance(example, torch.Tensor) and example.ndim == 4 else None


def check_inputs(opened: Opened, example: Inputs, classes: int | None = None) -> None:
    """Raise unless the network takes inputs like ``example``, and has ``classes`` outputs."""
    try:
        with evaluating(opened.network):
            output = call(opened.network, example)
    # what layers raise for a shape that they do not take; anything else is no matter of shapes
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        shapes = ", ".join(str(tuple(t.shape[1:])) for t in tensors_of(example))
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(
            f"{opened.name} does not take inputs of shape {shapes}: {reason}."
        ) from None
    if classes is not None and logits_of(output).shape[-1] != classes:
        raise ValueError(
            f"{opened.name} has {logits_of(output).shape[-1]} outputs, and the data has {classes} "
            "classes. Pass the data that it was trained for."
        )


def example_for(opened: Opened, shape: tuple[int, ...] | None) -> Inputs:
    """A batch of one example: of the given shape, or of the one that the network was made for."""
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
    """``count`` inputs of noise, shaped as the first example; tokens are repeated.

    Equal inputs would flatter: in pooling, a processor learns which of them is the largest.
    """
    generator = torch.Generator().manual_seed(seed)

    def drawn(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor[:1].repeat(count, *[1] * (tensor.ndim - 1))
        return torch.randn(count, *tensor.shape[1:], generator=generator, dtype=tensor.dtype)

    return each(example, drawn)


def require_weights(opened: Opened, data: str | None = None) -> None:
    """Raise for a network with random weights; trained on ``data``, it would have others."""
    if opened.trained:
        return
    how = "a folder that vinets train wrote."
    if data is not None:
        words = shlex.join(("--model", opened.name, "--data", data, "--out", "out/uncut"))
        how = f"train it and pass out/uncut in place of its name: vinets train {words}"
    raise ValueError(
        f"{opened.name} has random weights. Pass its weights, a .safetensors file, or {how}"
    )
