"""The networks of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from torch import nn

from vinets.models.libraries.base import Library, Options
from vinets.models.networks import (
    DigitsNet,
    ResNet,
    TextTransformer,
    VisionTransformer,
    digits_cnn,
    resnet18,
    resnet20,
    resnet32,
    resnet34,
    resnet44,
    resnet56,
)

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet20": resnet20,
    "resnet32": resnet32,
    "resnet44": resnet44,
    "resnet56": resnet56,
    "resnet": ResNet,
    "digits_cnn": digits_cnn,
    "vit": VisionTransformer,
    "text_transformer": TextTransformer,
}
CLASSES = {
    "resnet": ResNet,
    "digits_cnn": DigitsNet,
    "vit": VisionTransformer,
    "text_transformer": TextTransformer,
}


class Own(Library):
    """Called by their names alone."""

    name = "vinets"
    prefix = ""
    written = ", ".join(NETWORKS)

    def names(self) -> Iterable[str]:
        return NETWORKS

    def build(self, name: str, options: Options) -> nn.Module:
        if name not in NETWORKS:
            raise ValueError(f"the name must be one of {', '.join(NETWORKS)}")
        return NETWORKS[name](**options)

    def candidates(self, model: nn.Module) -> Iterator[tuple[str | None, Options]]:
        for name, kind in CLASSES.items():
            if type(model) is kind:  # a subclass may compute something else
                options: Options = dict(cast(Any, model).arguments)
                if isinstance(model.fc, nn.Linear):  # it may have been replaced
                    options["num_classes"] = model.fc.out_features
                yield name, options

    def with_channels(self, name: str, channels: int) -> Options:
        if name == "text_transformer":
            return {}
        return {"channels" if name in ("digits_cnn", "vit") else "inputs": channels}
