"""Networks of transformers, made from a config."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from vinets.core.files import read_json
from vinets.models.libraries.base import Library, Options, import_optional
from vinets.models.libraries.torchvision import import_torchvision
from vinets.models.records import nested_items, without_fetching

# Fields by which a config names a network that is fetched or defined elsewhere.
OTHER_NETWORKS = frozenset({"architecture", "backbone", "backbone_config", "quantization_config"})
PROCESSOR = "preprocessor_config.json"  # published networks have it next to their weights


class Transformers(Library):
    """``hf:CLASS`` with a dict ``config``, or its entries; it needs the extra ``hf``."""

    name = "transformers"
    prefix = "hf"
    written = "hf:CLASS"

    def names(self) -> Iterable[str]:
        known = import_transformers().__all__
        return [name for name in known if "For" in name or name.endswith("Model")]

    def build(self, name: str, options: Options) -> nn.Module:
        asked = _config(options)
        cls = self._class(name)
        for key in options.keys() - {"config", "num_labels"} - _fields(cls.config_class):
            raise TypeError(f"its config has no {key!r}")
        _without_others(name, {"model_type": cls.config_class.model_type, "asked": asked})
        config = cls.config_class.from_dict(asked)
        _without_others(name, config.to_dict())  # the defaults may name others too
        return cls(config)

    def maker(self, name: str) -> Callable[..., Any]:
        return self._class(name).config_class

    def known_options(self, name: str, options: Options) -> Options:
        try:
            return {"config": _known(name, self._class(name).config_class, _config(options))}
        except ValueError as error:
            text = f"The network {name!r} of transformers could not be built: {error}."
            raise ValueError(text) from None

    def _class(self, name: str) -> Any:
        """Return the class of that name, if it is one of networks."""
        transformers = import_transformers()
        # In the list, a name is public; in capitals, it is no module, which this would import.
        listed = name in transformers.__all__ and name[:1].isupper()
        cls: Any = getattr(transformers, name) if listed else None
        is_class = isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)
        if not is_class or cls.config_class is None:  # None: a base class
            raise self.unknown(name)
        return cls

    def candidates(self, model: Any) -> Iterator[tuple[str | None, Options]]:
        if not self.defines(model):
            return
        transformers = import_transformers()
        name = type(model).__name__
        if name in transformers.__all__ and getattr(transformers, name) is type(model):
            yield name, {"config": without_fetching(model.config.to_dict())}

    def with_classes(self, options: Options, count: int) -> Options:
        return {**options, "num_labels": count}

    def normalisation(self, model: nn.Module, weights: Path | None) -> tuple[Any, Any] | None:
        path = weights and weights.parent / PROCESSOR
        facts = read_json(path) if path and path.is_file() else None
        if not isinstance(facts, dict) or facts.get("do_normalize") is False:
            return None
        return facts.get("image_mean"), facts.get("image_std")


def _config(options: Options) -> Options:
    config = options.get("config", {})
    if not isinstance(config, dict):
        raise ValueError("a network of transformers takes the option config, which is a dict")
    return config | {key: value for key, value in options.items() if key != "config"}


def _fields(kind: Any) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return set(inspect.signature(kind.__init__).parameters)  # before release 5


def _known(name: str, kind: Any, config: Options) -> Options:
    """Return what a config says that its class knows about, parts of their own included.

    Other keys can rename those that are refused, or be read by code that expects to be trusted.
    """
    _without_others(name, {"model_type": kind.model_type, "asked": config})
    parts = kind.sub_configs
    fields = _fields(kind)
    if OTHER_NETWORKS & fields or not all(hasattr(part, "model_type") for part in parts.values()):
        raise ValueError(f"{name} is built on another network, which is not supported")
    usual = fields | kind().to_dict().keys()
    known = {key: value for key, value in config.items() if key in usual | {"num_labels"}}
    if known.get("model_type", kind.model_type) != kind.model_type:
        raise ValueError(f"its config is of type {known['model_type']!r}, not {kind.model_type!r}")
    for key, part in parts.items():
        if isinstance(known.get(key), dict):
            known[key] = _known(name, part, known[key])
        elif known.get(key) is not None:
            raise ValueError(f"{key} of its config is no object")
    return known


def _without_others(name: str, config: Options) -> None:
    """Refuse a config that names another network, because that name may be an address."""
    for key, value in nested_items(config):
        if key in ("backbone", "backbone_config") and value is not None:
            raise ValueError(f"{name} is built on another backbone, which is not supported")
        if key == "model_type" and str(value).startswith("timm"):
            raise ValueError(f"{name} wraps a network of timm; use timm:NAME instead")


def import_transformers() -> ModuleType:
    """Import transformers; it uses torchvision where that is installed."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision("transformers")
    return import_optional("transformers", "Networks of transformers need", extra="hf")
