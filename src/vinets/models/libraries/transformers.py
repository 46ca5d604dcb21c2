"""Networks of transformers, made from a config."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from vinets.checks import parameter_error
from vinets.files import read_json
from vinets.models.libraries.base import (
    Library,
    Normalisation,
    Options,
    imported,
    pair_of,
    unknown,
)
from vinets.models.libraries.torchvision import import_torchvision
from vinets.models.sources import nested_items, without_fetching

PROCESSOR = "preprocessor_config.json"  # lies beside the weights of a published network


class Transformers(Library):
    """``hf:CLASS`` with one option, the dict ``config``; it needs the extra ``hf``."""

    name = "transformers"
    prefix = "hf"
    written = "hf:CLASS"

    def names(self) -> Iterable[str]:
        known = import_transformers().__all__
        return [name for name in known if "For" in name or name.endswith("Model")]

    def build(self, name: str, options: Options) -> nn.Module:
        if set(options) - {"config"} or not isinstance(options.get("config", {}), dict):
            raise ValueError("a network of transformers takes one option, config, which is a dict")
        transformers = import_transformers()
        # In the list, a name is public; in capitals, it is no module, which this would import.
        listed = name in transformers.__all__ and name[:1].isupper()
        cls: Any = getattr(transformers, name) if listed else None
        is_class = isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)
        if not is_class or cls.config_class is None:  # None: a base class
            raise unknown(self, name)
        asked = options.get("config", {})
        own = {"model_type": cls.config_class.model_type}
        _without_others(name, {"class": own, "asked": asked})
        config = cls.config_class.from_dict(asked)
        _without_others(name, config.to_dict())  # the defaults may name others too
        return cls(config)

    def candidates(self, model: Any) -> Iterator[tuple[str | None, Options]]:
        if not self.defines(model):
            return
        transformers = import_transformers()
        name = type(model).__name__
        if name in transformers.__all__ and getattr(transformers, name) is type(model):
            yield name, {"config": without_fetching(model.config.to_dict())}

    def with_classes(self, options: Options, count: int) -> Options:
        config = options.get("config", {})
        if not isinstance(config, dict):
            raise parameter_error("create_model", "config", "a dict", config, "See its to_dict().")
        return {**options, "config": {**config, "num_labels": count}}

    def normalisation(self, model: nn.Module, weights: Path | None) -> Normalisation | None:
        beside = None if weights is None else weights.parent / PROCESSOR
        if beside is None or not beside.is_file():
            return None
        told = read_json(beside)
        if not isinstance(told, dict) or told.get("do_normalize") is False:
            return None
        return pair_of(told.get("image_mean"), told.get("image_std"))


def _without_others(name: str, config: Options) -> None:
    """Refuse a config that names another network, for that name may be an address."""
    for key, value in nested_items(config):
        if key in ("backbone", "backbone_config") and value is not None:
            raise ValueError(f"{name} is built on another backbone, which is not supported")
        if key == "model_type" and str(value).startswith("timm"):
            raise ValueError(f"{name} wraps a network of timm; use timm:NAME instead")


def import_transformers() -> ModuleType:
    """Import transformers; it uses torchvision where that is installed."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision("transformers")
    return imported("transformers", "Networks of transformers need", extra="hf")
