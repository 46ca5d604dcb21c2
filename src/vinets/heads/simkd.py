"""The uncut network's own classifier behind a small projector, to compare with (SimKD)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from vinets.core.device import device_of
from vinets.heads.base import Head, HeadOptions
from vinets.heads.pieces import HeadMaps, LinearMap, parameter_count
from vinets.heads.products import ProductsHead, ProductsOptions
from vinets.heads.vanishing import SizeOptions
from vinets.latent.collect import Latents
from vinets.latent.reader import classifier_of, sees_negative
from vinets.models.origin import example_inputs

SIDE = 4  # rows and columns of the map that the projector sees


@dataclass(frozen=True)
class SimKDOptions(SizeOptions):
    """Options of :class:`SimKDHead`."""

    like: HeadOptions = ProductsOptions()


class SimKDHead(Head):
    """Three convolutions that imitate what the classifier of the uncut network sees.

    The map is averaged down, projected 1x1, 3x3 and 1x1 to the ``features`` that the classifier
    sees, with ``width`` channels between the convolutions, and averaged. The classifier is taken
    over and not trained; the loss is the distance of its inputs. Positions that form no square are
    averaged first, and the projector then sees one vector. If the classifier sees negative values,
    too, the head is ``signed``: the last convolution has no ReLU.
    """

    kind, label = "simkd", "SimKD"
    matches_features = True
    Options = SimKDOptions
    training_defaults = ProductsHead.training_defaults

    def __init__(
        self,
        channels: int,
        positions: int,
        classes: int,
        *,
        features: int,
        width: int,
        signed: bool = False,
        normalized: bool = True,
    ) -> None:
        super().__init__()
        self.shape, self.width, self.signed = (channels, positions), width, signed
        side = math.isqrt(positions)
        self.side = side if side * side == positions else 1
        sizes = ((channels, width, 1), (width, width, 3), (width, features, 1))
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, size, padding=size // 2, bias=not normalized) for a, b, size in sizes
        )
        norms = [nn.BatchNorm2d(b) for _, b, _ in sizes]
        self.norms = nn.ModuleList(norms) if normalized else None
        self.classifier = nn.Linear(features, classes).requires_grad_(False)
        self.seen: Tensor | None = None

    @classmethod
    def make(cls, latents: Latents, options: SimKDOptions, seed: int) -> Self:
        example = example_inputs(latents.record.inputs, 2, device_of(latents.uncut))
        classifier = classifier_of(latents.uncut, example)
        features, classes = classifier.in_features, classifier.out_features
        # Solves for the width w of 9 w^2 + (C + D + 2) w + (1 + K) D + K parameters, folded.
        linear = latents.shape[0] + features + 2
        size = options.size(latents, seed)
        room = size - (1 + classes) * features - classes
        width = int((math.sqrt(linear**2 + 36 * max(0, room)) - linear) / 18)
        signed = sees_negative(latents.uncut, example)
        head = cls(*latents.shape, classes, features=features, width=max(1, width), signed=signed)
        bias = torch.zeros(classes) if classifier.bias is None else classifier.bias
        with torch.no_grad():
            head.classifier.weight.copy_(classifier.weight)
            head.classifier.bias.copy_(bias)
        return head

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        return ProductsHead.latent_defaults(options.like)

    def features(self, latents: Tensor) -> Tensor:
        """Return what the classifier sees, (B, D)."""
        if self.side == 1:
            maps = latents.mean(-1)[..., None, None]
        else:
            maps = latents.unflatten(2, (self.side, self.side))
            if self.side > SIDE:
                maps = F.adaptive_avg_pool2d(maps, SIDE)
        for index, layer in enumerate(self.layers):
            maps = layer(maps)
            maps = maps if self.norms is None else self.norms[index](maps)
            if not (self.signed and index == len(self.layers) - 1):
                maps = maps.relu()
        return maps.mean((2, 3))

    def forward(self, latents: Tensor) -> Tensor:
        seen = self.features(latents)
        if self.training:
            self.seen = seen  # for the loss, which follows the forward pass
        return self.classifier(seen)

    def criterion(self, logits: Tensor, labels: Tensor, taught: Tensor | None, _: Any) -> Tensor:
        """Return the distance of what the classifier sees from what it saw in the uncut network."""
        assert taught is not None and self.seen is not None
        seen, self.seen = self.seen, None
        # It is relative to the teacher, so that the learning rate suits other losses as well.
        return (seen.float() - taught).square().mean() / taught.square().mean()

    def folded(self) -> Self:
        plain = copy.deepcopy(self).eval()
        plain.seen = None
        if plain.norms is not None:
            fused: Any = fuse_conv_bn_eval
            plain.layers = nn.ModuleList(map(fused, plain.layers, plain.norms))
            plain.layers.requires_grad_(True)
            plain.norms = None
        return plain

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        first, middle, last = (layer.get_parameter("weight") for layer in self.layers)
        seen = min(self.side, SIDE)
        cells = seen * seen
        every = torch.eye(shape[1]).to(first)
        if self.side == 1:
            pooling = every.mean(0, keepdim=True)
        else:
            maps = every.unflatten(1, (self.side, self.side))[:, None]
            pooling = F.adaptive_avg_pool2d(maps, seen).flatten(1).mT  # (cells, P)
        size = self.width * cells
        units = torch.eye(size).to(first).view(size, self.width, seen, seen)
        dense = F.conv2d(units, middle, padding=1).flatten(1).mT
        before = (
            LinearMap("pooling", pooling, shape[0]),
            LinearMap("projector 1", first.flatten(1), cells),
            LinearMap("projector 2", dense),
            LinearMap("projector 3", last.flatten(1), cells),
        )
        return HeadMaps(before, LinearMap("classifier", self.classifier.weight, averaged=cells))

    def parts(self) -> dict[str, int]:
        projection = parameter_count(self.layers, self.norms)
        return {"projection": projection, "linear": parameter_count(self.classifier)}

    def config(self) -> dict[str, Any]:
        (channels, positions), normalized = self.shape, self.norms is not None
        features, classes = self.classifier.in_features, self.classifier.out_features
        sizes = {"channels": channels, "positions": positions, "classes": classes}
        sizes |= {"features": features, "width": self.width}
        return {**sizes, "signed": self.signed, "normalized": normalized}
