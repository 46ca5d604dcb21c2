"""A pretrained network with its data on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from vinets.data import Source, load_data
from vinets.data.sources import choose_per_class
from vinets.experiments.backbones import Backbone
from vinets.experiments.runs import Scale
from vinets.measure import evaluate
from vinets.models import create_model, load_weights
from vinets.pipeline.experiment import resident

__all__ = ["CHUNK", "Folders", "World"]

CHUNK = 2_000  # examples at once where nothing is trained


@dataclass(frozen=True)
class Folders:
    """Where data and weights lie."""

    data: Path
    weights: Path

    def source(self, name: str) -> str:
        """What :func:`vinets.data.load_data` takes: a folder of that name, or the folder itself."""
        inside = self.data / name
        return f"{name}:{inside if inside.is_dir() else self.data}"


class World:
    """A pretrained network and its data on a device.

    Parameters
    ----------
    backbone : Backbone
        Which.
    folders : Folders
        Where its data and weights lie.
    scale : Scale
        How much of the data.
    device : torch.device
        Where to work.
    """

    def __init__(
        self, backbone: Backbone, folders: Folders, scale: Scale, device: torch.device
    ) -> None:
        self.backbone, self.scale, self.device = backbone, scale, device
        split = load_data(folders.source(backbone.data))
        self.train = resident(_part(split.train, scale.train), device)
        self.test = resident(_part(split.test, scale.test), device)
        path = folders.weights / backbone.weights
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is not there. Pass --weights DIR with the weights of {backbone.title}, "
                f"or make them: vinets train {backbone.name} --data {backbone.data}:DIR."
            )
        model = create_model(backbone.name, backbone.classes)
        load_weights(model, path)
        self.model = model.to(device).eval()

    @cached_property
    def accuracy(self) -> float:
        """Of the uncut network on the test data."""
        batches = self.test.batches(CHUNK, device=self.device)
        return evaluate(self.model, batches, device=self.device).accuracy


def _part(source: Source, per_class: int | None) -> Source:
    if per_class is None:
        return source
    return source.subset(choose_per_class(source.labels, per_class, 0))
