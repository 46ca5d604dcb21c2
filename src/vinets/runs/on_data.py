"""Open a network with the data that it is used on, and say what images show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vinets.core.device import call, evaluating, logits_of, require_numbers, resolve_device
from vinets.core.files import read_json
from vinets.core.progress import Progress, Silent
from vinets.data import DataSplit, ImageSource, Inputs, load_data
from vinets.data.classes import numbered, read_classes, relabel
from vinets.data.formats import Size, takes_size
from vinets.data.images import (
    CROP_DETAIL,
    augment_by,
    normalise_by,
    printable,
    read_images,
    with_preprocessing,
)
from vinets.data.transforms import preprocessing_of
from vinets.models import normalisation_of
from vinets.models.origin import Record, input_fields, trained_on
from vinets.networks.network import CutNetwork, refuse_seen
from vinets.networks.open import (
    NamedNetwork,
    channel_count,
    check_inputs,
    example_for,
    in_torch,
    is_saved,
    open_network,
    require_weights,
)
from vinets.networks.runtimes import ExportedNetwork, Network, WholeNetwork

READING = ("size", "resize", "mean", "std")  # what says how an image file becomes an input
LABELS = "config.json"  # published networks of transformers have it next to their weights


def open_with_data(
    spec: str | Path,
    data: str | Path,
    *,
    weights: str | Path | None = None,
    options: dict[str, Any] | None = None,
    split_seed: int = 0,
    size: Size = None,
    classes: str | Path | Sequence[str] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    flip: bool | None = None,
    crop: float | None = None,
    scale: tuple[float, float] | None = None,
    resize: str | None = None,
    skip_unreadable: bool = False,
    progress: Progress | str | None = "auto",
) -> tuple[NamedNetwork, DataSplit]:
    """Open a network and the data it is used on, and check that they fit.

    Images are normalised by ``mean`` and ``std``, else as the network knows it from its training,
    else as the library of a network with weights tells, else by the statistics of this data.
    Data get the classes of the network by their names, see :func:`vinets.data.relabel`. What
    nobody said is ``guessed`` in the network that is returned.

    A network is refused that has other classes, does not take such inputs, or was trained on
    another split of this data.

    Parameters
    ----------
    spec, weights, options, data
        As for :func:`open_network` and :func:`vinets.data.load_data`.
    split_seed
        Seed of the test split, where the data has none of its own.
    size, resize
        Size of the images in a folder, and how they get it: ``"squash"``, ``"crop"`` or
        ``"crop:0.875"``, see :func:`vinets.data.images.read_image`. None is what a saved network
        was made for, or else the size of the first image and ``"squash"``.
    classes
        Classes of the outputs of the network, or a file that lists them; None is what it knows.
    mean, std
        Of pixels in [0, 1], one per channel or one for all.
    flip, crop, scale
        See :func:`vinets.data.images.augment_by`; None is what is known of the data.
    """
    names = () if classes is None else read_classes(classes)
    saved = open_network(spec, weights, options=options) if is_saved(spec) else None
    if not names and saved is not None:
        names = saved.classes
    elif not names and weights is not None and (config := Path(weights).parent / LABELS).is_file():
        names = _labels(read_json(config))
    own: dict[str, Any] = {"size": size, "resize": resize or "squash"}
    asked = own
    if saved is not None and saved.preprocessing is not None and takes_size(data):
        own = {"size": saved.preprocessing.size, "resize": saved.preprocessing.resize}
        asked = {"size": size or own["size"], "resize": resize or own["resize"]}
    more: dict[str, Any] = {"skip_unreadable": skip_unreadable, "progress": progress}
    detail = 1.0 if scale is None else CROP_DETAIL
    split = load_data(data, seed=split_seed, detail=detail, **asked, **more)
    example, theirs = split.train.example(), split.train.classes
    count = len(names or theirs)
    opened = saved or open_network(spec, weights, count, channel_count(example), options)
    names = names or _labels(getattr(opened.network, "config", None))
    # Images of another size have other pixels: those that a network knows are as it reads them
    known = split if asked == own else load_data(data, seed=split_seed, **own, **more)
    if names and names != theirs:
        same, split = known is split, relabel(split, names, opened.name)
        known = split if same else relabel(known, names, opened.name)
    refuse_seen(opened.name, opened.network, known)
    guesses, teller = list[str](), "" if mean is not None and std is not None else "the data tells"
    if opened.preprocessing is not None:
        how = resize or opened.preprocessing.resize
        split = with_preprocessing(split, replace(opened.preprocessing, resize=how))
    elif weights is not None and isinstance(split.train, ImageSource):
        usual = normalisation_of(str(spec), opened.network, Path(weights))
        if usual is not None and len(usual[0]) == split.train.preprocessing.channels:
            teller = teller and f"{str(spec).partition(':')[0]} tells"
            mean, std = mean or usual[0], std or usual[1]
    split = augment_by(normalise_by(split, mean, std), flip, crop, scale)
    count = len(split.train.classes)
    check_inputs(opened, split.train.example(), count)  # now that it is normalised for this network
    if opened.preprocessing is None and isinstance(split.train, ImageSource):
        used = split.train.preprocessing
        if size is None and takes_size(data):
            guesses.append(f"images have the size of the first, {used.size[0]} x {used.size[1]}")
        if teller:
            pair = (", ".join(f"{v:.4g}" for v in values) for values in (used.mean, used.std))
            guesses.append(f"images are normalised as {teller}, by mean {' and std '.join(pair)}")
    if split.train.classes != names:
        first = ", ".join(theirs[:3])
        guesses.append(f"classes are in the order of {split.name} ({first}, ...)")
    said = f"Guessed: {'; '.join(guesses)} (--size, --mean, --std, --classes)." if guesses else ""
    if split.train.classes != theirs:
        by = "number" if numbered(theirs) else "name"
        matched = f"{len(theirs)} classes of {split.name} are matched by {by} with the {count}"
        said = f"The {matched} of {opened.name}. {said}".rstrip()
    return replace(opened, classes=names, guessed=said), split


def _labels(config: Any) -> tuple[str, ...]:
    """Return the classes that a config of transformers names; none if they are numbered."""
    try:
        labels = config["id2label"] if isinstance(config, dict) else config.id2label
        named = {int(place): name for place, name in labels.items()}
        names = tuple(named[place].strip() for place in range(len(named)))
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()
    return () if numbered(names) else names


def open_uncut(
    spec: str | Path,
    data: str | Path | None = None,
    shape: tuple[int, ...] | None = None,
    *,
    allow_cut: bool = False,
    **reading: Any,
) -> tuple[NamedNetwork, Inputs, DataSplit | None]:
    """Open an uncut network with an example of its inputs: of data, of ``shape``, or its own.

    The data comes along; it takes the ``reading`` that :func:`open_with_data` takes. A network that
    is cut already is refused, unless ``allow_cut``.
    """
    split = None
    if data is None:
        opened = open_network(spec, reading.get("weights"), options=reading.get("options"))
        example = example_for(opened, shape)
    else:
        opened, split = open_with_data(spec, data, **reading)
        example = split.train.example()
    if isinstance(opened.network, ExportedNetwork):
        opened = in_torch(opened, spec)
    if isinstance(opened.network, CutNetwork) and not allow_cut:
        raise ValueError(f"{spec} is cut already. Pass the network that it was made from.")
    return opened, example, split


def open_to_export(
    spec: str | Path, data: str | Path | None = None, *options: Any, **reading: Any
) -> tuple[Network, DataSplit | None]:
    """Open a network that is cut or whole with what its file should tell, and the data if given.

    The options are those of :func:`open_uncut`.
    """
    opened, example, split = open_uncut(spec, data, *options, allow_cut=True, **reading)
    require_weights(opened, None if data is None else str(data))
    if data is None:
        opened = told_reading(opened, reading)
    if isinstance(opened.network, CutNetwork):
        return opened.network, split
    classes = opened.classes or (() if split is None else split.test.classes)
    images = opened.preprocessing
    if images is None and split is not None:
        images = getattr(split.test, "preprocessing", None)  # only sources of images have one
    known = None if images is None else images.to_dict()
    facts: dict[str, Any] = {"preprocessing": known, "data": trained_on(opened.network)}
    record = Record("", input_fields(example), classes=classes, **facts)
    return WholeNetwork(opened.network, record), split


@dataclass(frozen=True)
class Guess:
    """A class and its probability."""

    name: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The classes of one image, the most probable first."""

    path: str
    classes: tuple[Guess, ...]


def told_reading(opened: NamedNetwork, reading: Mapping[str, Any]) -> NamedNetwork:
    """Return the network with what a reading tells of how images become its inputs."""
    told = {name: reading[name] for name in READING if reading.get(name) is not None}
    if not told:
        return opened
    shape = ((opened.inputs or {}).get("") or {}).get("shape", ())
    if opened.preprocessing is not None:
        known = opened.preprocessing.to_dict()
    elif len(shape) == 3:
        known = {"size": shape[1:], "channels": shape[0]}
    else:
        raise ValueError(f"{opened.name} takes no images: leave out {', '.join(told)}.")
    preprocessing = preprocessing_of(known | told)
    if isinstance(opened.network, CutNetwork):
        opened.network.set_preprocessing(preprocessing)
    return replace(opened, preprocessing=preprocessing)


def predict_images(
    opened: NamedNetwork,
    files: Sequence[str | Path],
    *,
    top: int = 3,
    batch_size: int = 64,
    skip_unreadable: bool = False,
    device: torch.device | str = "auto",
    progress: Progress | None = None,
) -> list[Prediction]:
    """Classify image files, resized and normalised as the network knows it from its training.

    The network moves to ``device``. Of every image the ``top`` most probable classes are told.
    :func:`vinets.data.folders.image_files` lists the images of a folder.
    """
    require_weights(opened)
    if opened.preprocessing is None:
        raise ValueError(
            f"{opened.name} does not tell how an image becomes its input. Pass --mean and --std, "
            "and --size where that is another (net.set_preprocessing in Python)."
        )
    where = resolve_device("predict_images", device)
    network, watch = opened.network.to(where), progress or Silent()
    watch.start("predicting", len(files))
    predictions: list[Prediction] = []
    readable = read_images([Path(file) for file in files], opened.preprocessing, skip_unreadable)
    while some := dict(islice(readable, batch_size)):
        pixels = torch.from_numpy(np.stack(list(some.values())))
        inputs = opened.preprocessing(pixels).to(where)
        # In float32, because probabilities in half precision would not sum to one.
        with evaluating(network):
            shares = logits_of(call(network, inputs)).float().softmax(1)
        require_numbers(opened.name, shares)
        names = opened.classes or tuple(str(k) for k in range(shares.shape[1]))
        if len(names) < shares.shape[1]:
            raise ValueError(
                f"{opened.name} must name a class for each of its {shares.shape[1]} outputs. It "
                f"has {len(names)} names. Save it again with all of them, or with none."
            )
        values, order = shares.topk(min(top, shares.shape[1]), dim=1)
        for i, row, those in zip(some, order.tolist(), values.tolist(), strict=True):
            guesses = tuple(Guess(names[k], p) for k, p in zip(row, those, strict=True))
            predictions.append(Prediction(printable(files[i]), guesses))
        watch.advance(len(some))
    return predictions
