"""Networks by name, and the record from which a network can be made again later.

A record is a plain dict ``{"library": ..., "name": ..., "options": ...}``, to be written as JSON
beside the weights. See :mod:`vinets.models.records` for what it may hold.
"""

from __future__ import annotations

import copy
import difflib
from typing import Any

import torch
from torch import Tensor, nn

from vinets.checks import optional_positive_int, parameter_error
from vinets.models.libraries import LIBRARIES, Library, libraries
from vinets.models.records import ModelRecord, checked_record, plain, without_fetching

__all__ = ["channel_options", "create_model", "rebuild", "source_of", "spec_of"]


def create_model(spec: str, num_classes: int | None = None, **options: Any) -> nn.Module:
    """Make a network by name, and let it remember how it was made.

    Parameters
    ----------
    spec : str
        ``"resnet18"``, ``"resnet34"`` or ``"digits_cnn"``; ``"timm:NAME"`` and
        ``"torchvision:NAME"``, which need the extra ``vision``; or ``"hf:CLASS"``, a class of
        transformers such as ``"hf:ViTForImageClassification"``, which needs the extra ``hf``.
        Other packages may add to these, see :class:`vinets.models.Library`.
    num_classes : int or None, default=None
        Outputs of the last layer; None leaves the default of the network.
    **options
        Arguments of the network, such as ``maxpool=False`` or ``img_size=32``; for ``hf``, one
        dict ``config``. Weights are random unless the options ask for others, such as
        ``pretrained=True`` for timm.

    Examples
    --------
    >>> model = create_model("digits_cnn", num_classes=3)
    >>> source_of(model)
    {'library': 'vinets', 'name': 'digits_cnn', 'options': {'num_classes': 3}}
    """
    library, name = _parsed(spec)
    count = optional_positive_int("create_model", "num_classes", num_classes)
    if count is not None:
        options = library.with_classes(options, count)
    record = {"library": library.name, "name": name, "options": options}
    model = _built(record)
    kept = plain(without_fetching(options))
    if kept is not None:
        model.vinets_source = {**record, "options": kept}  # type: ignore[assignment]
    return model


def channel_options(spec: str, channels: int) -> dict[str, Any]:
    """Options for :func:`create_model` that fit a network to grey or coloured images.

    Empty where the network has no such option.

    Examples
    --------
    >>> channel_options("timm:resnet18", 1), channel_options("resnet18", 1)
    ({'in_chans': 1}, {})
    """
    library, name = _parsed(spec)
    return library.with_channels(name, channels)


def spec_of(source: ModelRecord) -> str:
    """The name for :func:`create_model` of the network that a record describes.

    Examples
    --------
    >>> spec_of({"library": "transformers", "name": "ViTModel", "options": {}})
    'hf:ViTModel'
    """
    return LIBRARIES[source["library"]]().spec(source["name"])


def rebuild(source: ModelRecord) -> nn.Module:
    """Make the network that a record of :func:`source_of` describes, with random weights.

    The record may come from a file that nobody vouches for: it can fetch nothing and run no code of
    its own. It can still ask for a large network.
    """
    record = checked_record(source)
    model = _built(record)
    model.vinets_source = record  # type: ignore[assignment]
    return model


def _parsed(spec: str) -> tuple[Library, str]:
    known = libraries()
    by_name = [library for library in known if not library.prefix]
    if isinstance(spec, str):
        prefix, _, name = spec.partition(":")
        for library in known:
            if name and library.prefix == prefix:
                return library, name
        for library in by_name:
            if spec in library.names():
                return library, spec
    names = [name for library in by_name for name in library.names()]
    near = difflib.get_close_matches(str(spec), names, n=2)
    hint = f"The nearest names are {', '.join(near)}." if near else ""
    accepted = ", ".join(library.written for library in known)
    raise parameter_error("create_model", "spec", f"one of {accepted}", spec, hint)


def _built(record: ModelRecord) -> nn.Module:
    """Build what ``record`` names; whatever a library raises becomes one sentence."""
    library = LIBRARIES[record["library"]]()
    try:
        # A copy, for some libraries put their defaults into the options they are given.
        return library.build(record["name"], copy.deepcopy(record["options"]))
    except ModuleNotFoundError:
        raise  # it says what to install
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ValueError(
            f"The network {record['name']!r} of {record['library']} could not be built with "
            f"the options {', '.join(record['options']) or '(none)'}: {reason}."
        ) from error


def source_of(model: nn.Module) -> ModelRecord | None:
    """The record from which ``model`` can be made again, without its weights.

    A network that :func:`create_model` or :func:`rebuild` made has kept it. For others of this
    package, timm, torchvision and transformers it is worked out. Every record is tried: it is
    returned only if the network that it makes has the same names and shapes of parameters. None
    means a custom class, or a network that was changed after it was made.

    Examples
    --------
    >>> from vinets.models import resnet18
    >>> source_of(resnet18(5))["options"]
    {'blocks': [2, 2, 2, 2], 'num_classes': 5, 'maxpool': True}
    >>> source_of(nn.Linear(2, 2)) is None
    True
    """
    shapes = _shapes(model)
    candidates: list[Any] = [getattr(model, "vinets_source", None)]
    for library in libraries():
        for name, options in library.candidates(model):
            candidates.append({"library": library.name, "name": name, "options": options})
    for candidate in candidates:
        try:
            record = checked_record(candidate)
            with torch.random.fork_rng(devices=[]):
                try:
                    with torch.device("meta"):  # no memory for the weights
                        twin = _built(record)
                except ValueError:  # some networks compute while they are made
                    twin = _built(record)
        except ValueError:
            continue
        if _shapes(twin) == shapes:
            return record
    return None


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v.shape) for k, v in model.state_dict().items() if isinstance(v, Tensor)}
