"""The networks of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from torch import nn

from vinets.models.libraries.base import Library, Options
from vinets.models.resnet import ResNet, resnet18, resnet20, resnet32, resnet34, resnet44, resnet56
from vinets.models.small import DigitsNet, digits_cnn

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet20": resnet20,
    "resnet32": resnet32,
    "resnet44": resnet44,
    "resnet56": resnet56,
    "resnet": ResNet,
    "digits_cnn": digits_cnn,
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
        for name, kind in (("resnet", ResNet), ("digits_cnn", DigitsNet)):
            if type(model) is kind:  # a subclass may compute something else
                options = dict(model.arguments)
                if isinstance(model.fc, nn.Linear):  # it may have been replaced
                    options["num_classes"] = model.fc.out_features
                yield name, options

    def with_channels(self, name: str, channels: int) -> Options:
        return {"channels": channels} if name == "digits_cnn" else {}
