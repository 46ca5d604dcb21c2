"""Networks by name, and the records from which they can be made again later.

A model record is a plain dict ``{"library": ..., "name": ..., "options": ...}``, kept as JSON next
to the weights. It may come from a file that nobody vouches for: the name is a word that a library
looks up in its own list, or among the files that were named in this process, and options that would
fetch weights or code are refused. A few bytes may still ask for a network of any size. So it is
sketched first, with large tensors on the device "meta", which has shapes but no numbers, and
compared with its weights; only then it takes memory.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import os
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vinets.core.checks import optional_positive_int, parameter_error, reason_of
from vinets.core.files import parse_json
from vinets.core.plain import nearest
from vinets.models.libraries.base import LIBRARIES, Library, harmless, libraries, record_error

ModelRecord: TypeAlias = dict[str, Any]
"""The keys library, name and options; plain JSON values."""

MAX_LAYERS = 10_000
MAX_CLASSES = 2**20
CLASS_COUNTS = ("num_classes", "num_labels", "classes")  # options
MAX_TENSORS = 20_000  # the largest networks have a few thousand
# Tensors up to these sizes take memory even in a sketch, because networks compute with them while
# they are made. Whole numbers are positions and masks, which no file of weights holds.
MAX_SKETCHED_FLOATS, MAX_SKETCHED_INTEGERS = 4_096, 1 << 20
HUB = "huggingface_hub.constants"
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")

# Options that name weights, files or code to fetch. They shape no network: records go without.
FETCHING = {
    *("weights", "weights_backbone", "progress", "checkpoint_path", "cache_dir", "model_args"),
    *("backbone", "use_pretrained_backbone", "use_timm_backbone", "backbone_kwargs"),
    *("auto_map", "trust_remote_code", "name_or_path", "_name_or_path"),
    *("quantization_config", "attn_implementation", "_attn_implementation"),
    *("experts_implementation", "_experts_implementation"),
}
# Functions that take memory for as many elements as they are told.
CONSTRUCTORS = {
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.empty_strided),
    *(torch.rand, torch.randn, torch.randint, torch.randperm),
    *(torch.arange, torch.linspace, torch.logspace, torch.tril_indices, torch.triu_indices),
    *(Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full),
}


# --- by name ----------------------------------------------------------------------------------


def create_model(spec: str, /, num_classes: int | None = None, **options: Any) -> nn.Module:
    """Make a network by name, and let it remember how it was made.

    ``spec`` is ``"resnet18"``, ``"resnet34"``, ``"resnet20"``, 32, 44 and 56, ``"digits_cnn"``,
    ``"vit"`` or ``"text_transformer"``; ``"timm:NAME"`` and ``"torchvision:NAME"``, which need the
    extra ``vision``; ``"hf:CLASS"``, a class of transformers such as
    ``"hf:ViTForImageClassification"``, which needs the extra ``hf``; ``"path/file.py:NAME"``, a
    class or function in a file of your own, which is run, with ``num_classes`` if it takes that; or
    ``"path/net.onnx"``, which needs the extra ``onnx`` and has its weights. See
    :class:`vinets.models.Library` for others.

    The last layer has ``num_classes`` outputs, or the default number. Options are arguments of the
    network, such as ``maxpool=False`` or ``img_size=32``; for ``hf``, a dict ``config``, or its
    entries. Weights are random unless these ask for others, such as ``pretrained=True`` for timm.

    Examples
    --------
    >>> model = create_model("digits_cnn", num_classes=3)
    >>> source_of(model)
    {'library': 'vinets', 'name': 'digits_cnn', 'options': {'num_classes': 3}}
    """
    library, name = parse_spec(spec)
    count = optional_positive_int("create_model", "num_classes", num_classes)
    if count is not None:
        options = library.with_classes(options, count)
    record = {"library": library.name, "name": name, "options": options}
    try:
        model = _build(record)
    except ValueError as error:
        if not isinstance(error.__cause__, TypeError) or not options:
            raise
        raise ValueError(f"{error} {_known_options(library, name)}") from error.__cause__
    # Pretrained weights may be asked for here, but the record goes without such options.
    kept = _plain(without_fetching(options))
    if kept is not None:
        model.vinets_source = {**record, "options": kept}  # type: ignore[assignment]
    return model


def check_options(spec: str, options: dict[str, Any]) -> None:
    """Raise for options of a network that its record may not hold, so that it opens again."""
    library, name = parse_spec(spec)
    known = library.shape_options
    for key, value in options.items():
        if _fetches(key) or not harmless(value) or (known is not None and key not in known):
            raise ValueError(
                f"{spec} may not have the option {key}={value}. {_known_options(library, name)}"
            )


def _known_options(library: Library, name: str) -> str:
    known, taken = library.shape_options, inspect.signature(library.maker(name)).parameters
    names = ", ".join(one for one in taken if known is None or one in known)
    return f"Its options are numbers, words or lists of these: {names}."


def channel_options(spec: str, channels: int) -> dict[str, Any]:
    """Return options for :func:`create_model` that fit a network to grey or coloured images.

    Empty where the network has no such option.

    Examples
    --------
    >>> channel_options("timm:resnet18", 1), channel_options("text_transformer", 1)
    ({'in_chans': 1}, {})
    """
    library, name = parse_spec(spec)
    return library.with_channels(name, channels)


def normalisation_of(
    spec: str, model: nn.Module, weights: Path | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return mean and deviation of pixels in [0, 1] that weights of a network were made for.

    None where its library does not tell.
    """
    mean, std = parse_spec(spec)[0].normalisation(model, weights) or ((), ())
    try:
        pair = tuple(map(float, mean)), tuple(map(float, std))
    except (TypeError, ValueError):  # it comes from a file, perhaps
        return None
    return pair if len(pair[0]) == len(pair[1]) > 0 else None


def spec_of(source: ModelRecord) -> str:
    """Return the name for :func:`create_model` of the network that a record describes.

    Examples
    --------
    >>> spec_of({"library": "transformers", "name": "ViTModel", "options": {}})
    'hf:ViTModel'
    """
    return LIBRARIES[source["library"]]().spec(source["name"])


def parse_spec(
    spec: str, owner: str = "create_model", others: str = "", saved: Iterable[str] = ()
) -> tuple[Library, str]:
    """Return the library that a network is written for, and the name that it has there.

    The error is the ``owner``'s, which also takes ``others``, in words, and the names ``saved``.
    """
    known = libraries()
    for library in known if isinstance(spec, str) else ():
        name = library.parse(spec)
        if name is not None:
            return library, name
    plain = [name for library in known if not library.prefix for name in library.names()]
    accepted = f"{others}one of {', '.join(library.written for library in known)}"
    hint = nearest(str(spec), [*saved, *plain]).lstrip()
    raise parameter_error(owner, "spec", accepted, spec, hint)


def _build(record: ModelRecord) -> nn.Module:
    """Build what ``record`` names; whatever a library raises becomes one sentence."""
    library = LIBRARIES[record["library"]]()
    try:
        # A copy, because some libraries put their defaults into the options they are given.
        return library.build(record["name"], copy.deepcopy(record["options"]))
    except ModuleNotFoundError:
        raise  # it says what to install
    except Exception as error:
        raise ValueError(
            f"The network {record['name']!r} of {record['library']} could not be built with "
            f"the options {reason_of(', '.join(record['options']) or '(none)')}: "
            f"{reason_of(error)}."
        ) from error


# --- made again -------------------------------------------------------------------------------


def source_of(model: nn.Module) -> ModelRecord | None:
    """Return the record from which ``model`` can be made again, without its weights.

    A network that :func:`create_model` or :func:`rebuild` made has kept it. For others of this
    package, timm, torchvision and transformers it is worked out. Every record is tried: it is
    returned only if the network that it makes has the same names and shapes of parameters. None
    means a custom class, or a network that was changed after it was made.

    Examples
    --------
    >>> from vinets.models import resnet18
    >>> source_of(resnet18(5))["options"]
    {'blocks': [2, 2, 2, 2], 'num_classes': 5, 'maxpool': True, 'channels': 64, 'inputs': 3}
    >>> source_of(nn.Linear(2, 2)) is None
    True
    """

    def candidates() -> Iterator[Any]:
        yield getattr(model, "vinets_source", None)
        for library in libraries():
            for name, options in library.candidates(model):
                yield {"library": library.name, "name": name, "options": options}

    forms, room = forms_of(model), room_for(bytes_of(model))
    for candidate in candidates():
        with contextlib.suppress(ValueError):
            if forms_of(sketch(candidate, room)) == forms:
                return _checked(candidate)
    return None


def rebuild(source: ModelRecord, room: int | None = None) -> nn.Module:
    """Make the network that a record of :func:`source_of` describes, with random weights.

    The record may come from a file that nobody vouches for: it can fetch nothing and run no code of
    its own. It can still ask for a large network, unless it has to do with ``room`` bytes.
    """
    record = _checked(source)
    with offline(), contextlib.nullcontext() if room is None else TensorGuard(room):
        model = _build(record)
    model.vinets_source = record  # type: ignore[assignment]
    return model


def sketch(source: ModelRecord, room: int) -> nn.Module:
    """Make the network of a record without numbers in its large tensors, at no cost.

    Networks that compute with these while they are made have them, within ``room`` bytes.
    """
    record = _checked(source)
    with offline(), torch.random.fork_rng(devices=[]):  # initial weights must not move the seed
        try:
            with TensorGuard():
                return _build(record)
        except ValueError as error:
            if isinstance(error.__cause__, TooManyTensors):
                raise
            with TensorGuard(room):
                return _build(record)


def _checked(source: Any) -> ModelRecord:
    """Return a copy of ``source`` if it is a record that may be built, else raise one sentence."""
    if not isinstance(source, dict) or set(source) != {"library", "name", "options"}:
        accepted = "of the keys library, name and options alone"
        raise record_error(accepted, source, "See source_of(model).")
    library, name, options = source["library"], source["name"], source["options"]
    if not isinstance(library, str) or library not in LIBRARIES:
        known = ", ".join(each.name for each in libraries())
        raise record_error(f"whose library is one of {known}", library)
    made_by = LIBRARIES[library]()
    made_by.check(name)
    kept = _plain(options)
    if not isinstance(kept, dict):
        raise record_error("whose options are a dict of plain JSON values", options)
    for key, value in nested_items(kept):
        if _fetches(key) and value:
            raise record_error("without options that fetch weights or code", key)
        several = value if isinstance(value, list) else [value]
        deep = any(isinstance(one, int) and one > MAX_LAYERS for one in several)
        if deep and re.search("layer|depth|block", key):  # libraries make lists of that length
            raise record_error(f"with {reprlib.repr(key)} of at most {MAX_LAYERS}", value)
        if key in CLASS_COUNTS and isinstance(value, int) and value > MAX_CLASSES:
            raise record_error(f"with {key} below 2**20", value)
    return {"library": library, "name": name, "options": made_by.known_options(name, kept)}


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON gives it back; None where JSON cannot hold it."""
    try:
        return parse_json(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


def _fetches(key: Any) -> bool:
    return isinstance(key, str) and (key in FETCHING or key.startswith("pretrained"))


def without_fetching(value: Any) -> Any:
    """Return ``value`` less the options, at any depth, that :func:`rebuild` refuses."""
    if isinstance(value, dict):
        return {k: without_fetching(inner) for k, inner in value.items() if not _fetches(k)}
    if isinstance(value, list | tuple):
        return [without_fetching(inner) for inner in value]
    return value


def nested_items(value: Any) -> Iterator[tuple[str, Any]]:
    """Give every key and value of nested dicts and lists, from the outside in."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from nested_items(inner)
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(nested_items, value))


# --- built offline, and first without memory --------------------------------------------------


class TooManyTensors(ValueError):
    """A network asks for more tensors than any has."""


class TensorGuard(TorchFunctionMode):
    """Counts the tensors that are made from nothing while a network is built.

    They may take ``room`` bytes. None makes a sketch: large tensors have shapes and no numbers.
    """

    def __init__(self, room: int | None = None) -> None:
        super().__init__()
        self.room = room
        self.left = MAX_TENSORS

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        if func not in CONSTRUCTORS or "out" in options:
            return func(*args, **options)
        self.left -= 1
        if self.left < 0:
            raise TooManyTensors(f"it has more than {MAX_TENSORS:,} tensors")
        if func is torch.arange and all(type(value) is int for value in args):
            # Counted here, because on "meta" it imports sympy, which takes a quarter of a second.
            dtype = options.get("dtype", torch.int64)
            shaped = torch.empty(len(range(*args)), dtype=dtype, device="meta")
        else:
            unseeded = {key: value for key, value in options.items() if key != "generator"}
            shaped = func(*args, **{**unseeded, "device": "meta"})
        most = MAX_SKETCHED_FLOATS if shaped.dtype.is_floating_point else MAX_SKETCHED_INTEGERS
        if self.room is not None:
            self.room -= shaped.nbytes
            if self.room < 0:
                raise ValueError("it takes far more memory than there are weights for")
        elif shaped.numel() > most:
            return shaped
        return func(*args, **options)


def room_for(stored: int) -> int:
    """Return the bytes that a network may take whose weights in a file take ``stored`` bytes.

    These may be the weights in front of a cut alone, and the whole network is made before it.
    """
    return 16 * stored + (640 << 20)  # a VGG-19 takes 548 MiB


def forms_of(network: nn.Module) -> dict[str, tuple[bool, tuple[int, ...]]]:
    """Return of every parameter and buffer whether it holds floats, and its shape."""
    tensors = {k: t for k, t in network.state_dict().items() if isinstance(t, Tensor)}
    return {k: (t.is_floating_point(), tuple(t.shape)) for k, t in tensors.items()}


def bytes_of(network: nn.Module) -> int:
    """Count the bytes of parameters and buffers, whether they have numbers or not."""
    return sum(t.nbytes for t in (*network.parameters(), *network.buffers()))


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Let no library fetch anything from the Hugging Face Hub meanwhile."""
    before = {name: os.environ[name] for name in OFFLINE if name in os.environ}
    asked = before.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    # The library reads the variable once, when it is imported: before, or only meanwhile.
    known = getattr(sys.modules.get(HUB), "HF_HUB_OFFLINE", asked)
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    if HUB in sys.modules:
        vars(sys.modules[HUB])["HF_HUB_OFFLINE"] = True
    try:
        yield
    finally:
        for name in OFFLINE:
            os.environ.pop(name, None)
        os.environ.update(before)
        if HUB in sys.modules:
            vars(sys.modules[HUB])["HF_HUB_OFFLINE"] = known
