"""Networks by name, and the record from which a network can be made again later.

A record is a plain dict ``{"library": ..., "name": ..., "options": ...}``, to be written as JSON
beside the weights. See :mod:`vinets.models.records` for what it may hold.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from vinets.checks import optional_positive_int, parameter_error
from vinets.models.libraries import (
    build_timm,
    build_torchvision,
    build_transformers,
    import_transformers,
    torchvision_classifiers,
)
from vinets.models.records import Record, checked_record, plain, without_fetching
from vinets.models.resnet import ResNet, resnet18, resnet34
from vinets.models.small import DigitsNet, digits_cnn

__all__ = ["create_model", "rebuild", "source_of"]

OWN: dict[str, Callable[..., nn.Module]] = {
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet": ResNet,
    "digits_cnn": digits_cnn,
}
PREFIXES = {"timm": "timm", "torchvision": "torchvision", "hf": "transformers"}


# --- making -----------------------------------------------------------------------------------


def create_model(spec: str, num_classes: int | None = None, **options: Any) -> nn.Module:
    """Make a network by name, and let it remember how it was made.

    Parameters
    ----------
    spec : str
        ``"resnet18"``, ``"resnet34"`` or ``"digits_cnn"``; ``"timm:NAME"`` and
        ``"torchvision:NAME"``, which need the extra ``vision``; or ``"hf:CLASS"``, a class of
        transformers such as ``"hf:ViTForImageClassification"``, which needs the extra ``hf``.
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
    if library == "transformers":
        config = options.get("config", {})
        if not isinstance(config, dict):
            raise parameter_error("create_model", "config", "a dict", config, "See its to_dict().")
        options["config"] = {**config, **({} if count is None else {"num_labels": count})}
    elif count is not None:
        options["num_classes"] = count
    model = _built({"library": library, "name": name, "options": options})
    kept = plain(without_fetching(options))
    if kept is not None:
        model.vinets_source = {"library": library, "name": name, "options": kept}  # type: ignore[assignment]
    return model


def rebuild(source: dict[str, Any]) -> nn.Module:
    """Make the network that a record describes, with random weights.

    Parameters
    ----------
    source : dict
        A record of :func:`source_of`. It may come from a file that nobody vouches for: it can
        fetch nothing and run no code of its own. It can still ask for a large network.
    """
    record = checked_record(source)
    model = _built(record)
    model.vinets_source = record  # type: ignore[assignment]
    return model


def _parsed(spec: str) -> tuple[str, str]:
    if isinstance(spec, str):
        prefix, colon, name = spec.partition(":")
        if colon and prefix in PREFIXES and name:
            return PREFIXES[prefix], name
        if spec in OWN:
            return "vinets", spec
    near = difflib.get_close_matches(str(spec), OWN, n=2)
    raise parameter_error(
        "create_model",
        "spec",
        f"one of {', '.join(OWN)}, or timm:NAME, torchvision:NAME, hf:CLASS",
        spec,
        f"The nearest names are {', '.join(near)}." if near else "",
    )


def _built(record: Record) -> nn.Module:
    """Build what ``record`` names; whatever a library raises becomes one sentence."""
    try:
        return _build(record)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ValueError(
            f"The network {record['name']!r} of {record['library']} could not be built with "
            f"the options {', '.join(record['options']) or '(none)'}: {reason}."
        ) from error


def _build(record: Record) -> nn.Module:
    name, options = record["name"], copy.deepcopy(record["options"])
    if record["library"] == "timm":
        return build_timm(name, options)
    if record["library"] == "torchvision":
        return build_torchvision(name, options)
    if record["library"] == "transformers":
        return build_transformers(name, options)
    if name not in OWN:
        raise ValueError(f"the name must be one of {', '.join(OWN)}")
    return OWN[name](**options)


# --- describing -------------------------------------------------------------------------------


def source_of(model: nn.Module) -> dict[str, Any] | None:
    """The record from which ``model`` can be made again, without its weights.

    A network that :func:`create_model` or :func:`rebuild` made has kept it. For others of this
    package, timm, torchvision and transformers it is worked out. Every record is tried: it is
    returned only if the network that it makes has the same names and shapes of parameters.

    Returns
    -------
    dict or None
        The record, made of plain JSON values. None means a custom class, or a network that was
        changed after it was made.

    Examples
    --------
    >>> source_of(resnet18(5))["options"]
    {'blocks': [2, 2, 2, 2], 'num_classes': 5, 'maxpool': True}
    >>> source_of(nn.Linear(2, 2)) is None
    True
    """
    shapes = _shapes(model)
    for candidate in _candidates(model):
        try:
            record = checked_record(candidate)
            twin = _twin(record)
        except ValueError:
            continue
        if _shapes(twin) == shapes:
            return record
    return None


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v.shape) for k, v in model.state_dict().items() if isinstance(v, Tensor)}


def _twin(record: Record) -> nn.Module:
    """The network of ``record``, without memory for its weights where that is possible."""
    with torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):
                return _build(record)
        except Exception:  # some networks compute while they are made
            return _built(record)


def _candidates(model: nn.Module) -> Iterator[Any]:
    yield getattr(model, "vinets_source", None)
    library = type(model).__module__.partition(".")[0]
    if type(model) is ResNet:
        yield _own("resnet", model)
    elif type(model) is DigitsNet:
        yield _own("digits_cnn", model)
    elif library == "timm":
        yield from _from_timm(model)
    elif library == "torchvision":
        yield from _from_torchvision(model)
    elif library == "transformers":
        yield from _from_transformers(model)


def _own(name: str, model: ResNet | DigitsNet) -> Record:
    options = dict(model.arguments)
    if isinstance(model.fc, nn.Linear):  # it may have been replaced
        options["num_classes"] = model.fc.out_features
    return {"library": "vinets", "name": name, "options": options}


def _from_timm(model: Any) -> Iterator[Record]:
    settings = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    name = settings.get("architecture") if isinstance(settings, dict) else None
    known: Record = {"num_classes": getattr(model, "num_classes", None)}
    known["in_chans"] = getattr(model, "in_chans", None)
    shaping: Record = {"img_size": getattr(getattr(model, "patch_embed", None), "img_size", None)}
    pool = getattr(model, "global_pool", None)
    shaping["global_pool"] = pool if isinstance(pool, str) else None
    for options in ({**known, **shaping}, known):  # some networks take no image size
        told = {key: value for key, value in options.items() if value is not None}
        yield {"library": "timm", "name": name, "options": told}


def _from_torchvision(model: Any) -> Iterator[Record]:
    file = type(model).__module__
    if file.endswith(".regnet"):  # these take memory to try, and there are fifteen of them
        return
    last = next(reversed(_shapes(model).values()), ())
    options: Record = {"num_classes": last[0]} if last else {}
    if "image_size" in vars(model):  # vision transformers
        options["image_size"] = model.image_size
    for name, home in torchvision_classifiers().items():
        if home == file:
            yield {"library": "torchvision", "name": name, "options": options}


def _from_transformers(model: Any) -> Iterator[Record]:
    transformers = import_transformers()
    name = type(model).__name__
    if name in transformers.__all__ and getattr(transformers, name) is type(model):
        config = without_fetching(model.config.to_dict())
        yield {"library": "transformers", "name": name, "options": {"config": config}}
