"""The two pretrained networks of the paper, and where they are cut."""

from __future__ import annotations

from dataclasses import dataclass

from vinets.models.presets import PRESETS


@dataclass(frozen=True)
class Backbone:
    """A pretrained network, its data and its cuts, earliest first.

    ``rows`` are the cuts of the paper's table of generators, with the share in percent that it
    prints; where it is not clear which cut is meant, there are two. ``blocks`` counts the residual
    blocks of the four stages. The weights lie in a file of that name, or in the folder of ``vinets
    train --recipe RECIPE``.
    """

    name: str
    title: str
    data: str
    data_title: str
    classes: int
    weights: str
    recipe: str
    cuts: tuple[str, ...]
    rows: tuple[tuple[str, float], ...]
    blocks: tuple[int, ...]

    @property
    def caption(self) -> str:
        """As the paper heads its tables."""
        return f"{self.data_title} ({self.title})"

    @property
    def per_class(self) -> int:
        """Training images of a class, of which both data sets have 50,000 in all."""
        return 50_000 // self.classes

    @property
    def variants(self) -> dict[str, str]:
        """Cut of every preset of the paper, smallest network first."""
        return {p.name: p.cut for p in PRESETS.values() if p.backbone == self.name}

    @property
    def layers(self) -> tuple[str, ...]:
        """A cut behind every convolution of a residual block: inside it, and behind the sum."""
        places = (
            f"layer{stage}.{block}"
            for stage, count in enumerate(self.blocks, 1)
            for block in range(count)
        )
        return tuple(cut for place in places for cut in (f"{place}.bn1", place))


RESNET18 = Backbone(
    name="resnet18",
    title="ResNet-18",
    data="cifar10",
    data_title="CIFAR-10",
    classes=10,
    weights="resnet18_cifar10.safetensors",
    recipe="cifar10-resnet18",
    cuts=(
        *("layer2.0", "layer2.1.bn2", "layer3.0.bn2", "layer3.0", "layer3.1.bn1", "layer3.1"),
        *("layer4.0.bn1", "layer4.0", "layer4.1.bn1"),
    ),
    rows=(
        ("layer2.1.bn2", 64.5),
        ("layer3.0.bn2", 53.3),
        ("layer3.0", 46.7),
        ("layer4.0.bn1", 26.7),
        ("layer4.1.bn1", 6.7),
    ),
    blocks=(2, 2, 2, 2),
)
RESNET34 = Backbone(
    name="resnet34",
    title="ResNet-34",
    data="cifar100",
    data_title="CIFAR-100",
    classes=100,
    weights="resnet34_cifar100.safetensors",
    recipe="cifar100-resnet34",
    cuts=(
        *("layer2.2", "layer2.3", "layer3.1.bn1", "layer3.1", "layer3.2", "layer3.3.bn1"),
        *("layer3.5", "layer4.1.bn1", "layer4.1", "layer4.2.bn1"),
    ),
    rows=(
        ("layer2.2", 75.8),
        ("layer3.1", 50.1),
        ("layer3.2", 43.9),
        ("layer3.5", 25.1),
        ("layer4.1.bn1", 25.1),
        ("layer4.1", 7.1),
        ("layer4.2.bn1", 7.1),
    ),
    blocks=(3, 4, 6, 3),
)
BACKBONES = {backbone.name: backbone for backbone in (RESNET18, RESNET34)}
