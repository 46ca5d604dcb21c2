"""The optional libraries of networks: imported when first needed, and asked only for known names.

Each builder takes a name and plain options and returns a network. Names are looked up in the
registry of the library, so that a name never becomes a path, an address or an arbitrary attribute.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import nn

from vinets.models.records import nested_items

__all__ = [
    "build_timm",
    "build_torchvision",
    "build_transformers",
    "import_timm",
    "import_torchvision",
    "import_transformers",
    "torchvision_classifiers",
]


# --- imports ----------------------------------------------------------------------------------


def import_torchvision() -> ModuleType:
    """Import torchvision, also where its compiled operators do not fit this build of torch.

    Such a torchvision stops with "operator torchvision::nms does not exist". The networks need
    none of these operators, so it is enough to declare them.
    """
    try:
        return _imported("torchvision", extra="vision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    _declare_operators()
    return importlib.import_module("torchvision")


@cache  # the declaration lasts as long as the object, and may be made once only
def _declare_operators() -> torch.library.Library:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def import_timm() -> ModuleType:
    """Import timm; it needs torchvision."""
    import_torchvision()
    return _imported("timm", extra="vision")


def import_transformers() -> ModuleType:
    """Import transformers; it uses torchvision where that is installed."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()
    return _imported("transformers", extra="hf")


def _imported(name: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Networks of {name} need {error.name}, which is not installed. "
            f'Install it with: pip install "vinets[{extra}]".'
        ) from None


# --- builders ---------------------------------------------------------------------------------


def build_timm(name: str, options: dict[str, Any]) -> nn.Module:
    """Build a network of timm, with random weights unless ``options`` ask for others."""
    timm = import_timm()
    if ":" in name or "/" in name or not timm.is_model(name):
        raise _unknown("timm", name, timm.list_models())
    return timm.create_model(name, **{"pretrained": False, **options})


def build_torchvision(name: str, options: dict[str, Any]) -> nn.Module:
    """Build a classifier of torchvision, with random weights unless ``options`` ask for others."""
    known = torchvision_classifiers()
    if name not in known:
        raise _unknown("torchvision", name, known)
    models = importlib.import_module("torchvision.models")
    return models.get_model(name, **{"weights": None, **options})


def torchvision_classifiers() -> dict[str, str]:
    """Names of the classifiers of torchvision, each with the module that defines it.

    Networks for detection and segmentation are left out: they fetch the weights of a backbone.
    """
    import_torchvision()
    models = importlib.import_module("torchvision.models")
    names = models.list_models(module=models)
    return {name: models.get_model_builder(name).__module__ for name in names}


def build_transformers(name: str, options: dict[str, Any]) -> nn.Module:
    """Build a network of transformers from ``options["config"]``, with random weights."""
    if set(options) - {"config"} or not isinstance(options.get("config", {}), dict):
        raise ValueError("a network of transformers takes one option, config, which is a dict")
    cls, asked = _transformers_class(name), options.get("config", {})
    _without_others(name, {"class": {"model_type": cls.config_class.model_type}, "asked": asked})
    config = cls.config_class.from_dict(asked)
    _without_others(name, config.to_dict())  # the defaults may name others too
    return cls(config)


def _without_others(name: str, config: dict[str, Any]) -> None:
    """Refuse a config that names another network, for that name may be an address."""
    for key, value in nested_items(config):
        if key in ("backbone", "backbone_config") and value is not None:
            raise ValueError(f"{name} is built on another backbone, which is not supported")
        if key == "model_type" and str(value).startswith("timm"):
            raise ValueError(f"{name} wraps a network of timm; use timm:NAME instead")


def _transformers_class(name: str) -> Any:
    transformers = import_transformers()
    if name in transformers.__all__ and name[:1].isupper():
        found: Any = getattr(transformers, name)
        is_class = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
        if is_class and found.config_class is not None:  # None: a base class
            return found
    known = (n for n in transformers.__all__ if "For" in n or n.endswith("Model"))
    raise _unknown("transformers", name, known)


def _unknown(library: str, name: str, known: Iterable[str]) -> ValueError:
    near = difflib.get_close_matches(name, list(known), n=3)
    hint = f"; the nearest names are {', '.join(near)}" if near else ""
    return ValueError(f"{library} has no network of that name{hint}")
