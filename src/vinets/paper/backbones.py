"""The uncut networks of the experiments, where they are cut, and which panels each one has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vinets.heads import HEADS, VanishingHead
from vinets.models.networks import PRESETS, SIZES

READINGS: dict[str, dict[str, Any]] = {
    "plain components, mean square ≤ 0.1": {},
    "plain components, root mean square ≤ 0.1": {"psi": 0.01},
    "components of unit variance, mean square ≤ 0.1": {"scale": "unit"},
    "components of unit variance, root mean square ≤ 0.1": {"scale": "unit", "psi": 0.01},
}
"""What the paper may mean by ψ and by principal components, as changes to its settings."""

PUBLISHED_HEADS = {
    "vanishing": "VI-Net",
    "linear": "linear head",
    "random": "random monomials",
    "mlp": "MLP",
}
"""Heads of the figures on CIFAR, by the names that they were published with."""

PUBLISHED: dict[str, Any] = {"scale": "unit", "keep": 128, "monomials": 512, "psi": 0.01}
"""Table 2 on CIFAR as it was published: changes to the settings of the figures."""


@dataclass(frozen=True)
class Backbone:
    """An uncut network, its data and its cuts, earliest first.

    What the paper prints of it is in :mod:`vinets.paper.paper`, by its name, and may be
    missing. The weights lie in a file of the name ``weights``, or in the folder of ``vinets train
    --recipe RECIPE``; with ``splits``, the data has no test part of its own, and a network is
    trained by the recipe for every split.
    """

    name: str
    title: str
    data: str
    data_title: str
    classes: int
    recipe: str
    cuts: tuple[str, ...]
    # Cuts of the table of generators, with the share in percent that the paper prints; where it is
    # not clear which cut is meant, there are two.
    rows: tuple[tuple[str, float | None], ...]
    weights: str = ""
    splits: bool = False
    # Changes to vinets.paper.plan.PAPER, and further ones for the table of variants.
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    variant: Mapping[str, Any] = field(default_factory=dict, hash=False)
    variants: Mapping[str, str] = field(default_factory=dict, hash=False)  # cuts, smallest first
    # How ψ, the components and the rule may be read; the first one changes nothing.
    readings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: READINGS, hash=False)
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    chosen: tuple[str, ...] = ()  # variants that the choices are tried on
    # Kinds of heads of the figure on truncation, with their names there.
    heads: Mapping[str, str] = field(default_factory=lambda: PUBLISHED_HEADS, hash=False)
    algorithms: tuple[str, ...] = ("abm",)  # algorithms of the figure on pruning
    # Changes to the settings in that figure, where steps of an oracle would take minutes.
    search: Mapping[str, Any] = field(default_factory=dict, hash=False)
    layers: tuple[str, ...] = ()  # cuts of the figure on generators behind every layer
    residual: bool = False  # whether every second layer is behind the sum of a residual block
    baselines: bool = False  # whether it has the figure on baselines over seeds
    undecided: tuple[str, ...] = ()  # cuts where several seeds are needed against random monomials
    studied: str = ""  # the variant that is shown in detail; all have a row in the theory's table

    @property
    def caption(self) -> str:
        """As the paper heads its tables."""
        return f"{self.data_title} ({self.title})"

    @property
    def per_class(self) -> int:
        """Training images of a class, of which both CIFAR data sets have 50,000 in all."""
        return 50_000 // self.classes


def _layers(*blocks: int) -> tuple[str, ...]:
    """A cut behind every convolution of residual blocks: inside each one, and behind its sum."""
    places = (f"layer{i}.{block}" for i, count in enumerate(blocks, 1) for block in range(count))
    return tuple(cut for place in places for cut in (f"{place}.bn1", place))


def _presets(name: str) -> dict[str, str]:
    """Cut of every preset of the paper, smallest network first."""
    return {preset: cut for preset, (network, cut) in PRESETS.items() if network == name}


_CHOICES: dict[str, dict[str, Any]] = {
    "components of unit variance, ψ = 0.1": {},
    "ψ = 0.03": {"psi": 0.03},
    "ψ = 0.01": {"psi": 0.01},
    "tanh before PCA": {"order": "tanh-pca"},
    "weight decay 5e-4": {"weight_decay": 5e-4},
    "weight decay 5e-3": {"weight_decay": 5e-3},
    "learning rate 0.02": {"learning_rate": 0.02},
    "40 epochs": {"epochs": 40},
    "score divided by the class's own": {"score": "normalized"},
    "32 polynomials a class": {"keep": 32},
    "all monomials": {"monomials": None},
    "nothing pruned": {"keep": None, "monomials": None},
    "zero coefficients stay zero": {"sparse": True},
    "256 components": {"components": 256},
    "degree 2": {"max_degree": 2},
    "projection trained": {"train_projection": True},
    "distilled from the uncut network": {"distill": 0.7},
    "plain components": {"scale": "none"},
    "plain components, ψ = 0.01": {"scale": "none", "psi": 0.01},
}
_START = {name: value for name, value in PUBLISHED.items() if name != "psi"}

RESNET18 = Backbone(
    name="resnet18",
    title="ResNet-18",
    data="cifar10",
    data_title="CIFAR-10",
    classes=10,
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
    weights="resnet18_cifar10.safetensors",
    variant=PUBLISHED,
    variants=_presets("resnet18"),
    choices={name: _START | changes for name, changes in _CHOICES.items()},
    chosen=("VI-Net18-Tiny", "VI-Net18-Small"),
    undecided=("layer2.0", "layer2.1.bn2", "layer3.0.bn2"),
)
RESNET34 = Backbone(
    name="resnet34",
    title="ResNet-34",
    data="cifar100",
    data_title="CIFAR-100",
    classes=100,
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
    weights="resnet34_cifar100.safetensors",
    variant=PUBLISHED,
    variants=_presets("resnet34"),
    choices={name: _START | changes for name, changes in _CHOICES.items()},
    chosen=("VI-Net34-Tiny", "VI-Net34-Small"),
    algorithms=("abm", "oavi-cg", "oavi-agd"),
    layers=_layers(3, 4, 6, 3),
    residual=True,
    baselines=True,
)
DIGITS = Backbone(
    name="digits",
    title="small CNN",
    data="digits",
    data_title="Digits",
    classes=10,
    recipe="digits-cnn",
    cuts=("relu1", "relu2", "pool", "relu3", "relu4"),
    rows=(("relu1", None), ("relu2", None), ("pool", None), ("relu3", None), ("relu4", None)),
    splits=True,
    settings={
        **SIZES["digits_cnn"],
        **{"scale": "unit", "normalization": "leading", "per_class": 512},
        **{"batch_size": 64, "dtype": "float32", "views": 1, "seconds": 0.1, "where": "cpu"},
        **{"counting": "layers", "detailed": True},
    },
    variants={
        "VI-Net-Tiny": "relu1",
        "VI-Net-Small": "relu2",
        "VI-Net-Medium": "pool",
        "VI-Net-Large": "relu3",
    },
    readings={
        "unit variance, leading coefficient 1, mean square ≤ 0.01": {},
        "the same, mean square ≤ 0.1": {"psi": 0.1},
        "the same, coefficients of unit norm": {"normalization": "unit"},
        "plain components, leading coefficient 1, mean square ≤ 0.01": {"scale": "none"},
    },
    choices={
        "as everywhere": {},
        "ψ = 0.1": {"psi": 0.1},
        "ψ = 0.03": {"psi": 0.03},
        "coefficients of unit norm": {"normalization": "unit"},
        "coefficients of unit norm, ψ = 0.1": {"normalization": "unit", "psi": 0.1},
        "plain components": {"scale": "none"},
        "tanh before PCA": {"order": "tanh-pca"},
        "score divided by the class's own": {"score": "normalized"},
        "16 polynomials a class": {"keep": 16},
        "nothing pruned": {"keep": None},
        "8 components": {"components": 8},
        "32 components": {"components": 32},
        "degree 1": {"max_degree": 1},
        "degree 3": {"max_degree": 3},
    },
    chosen=("VI-Net-Tiny",),
    heads={
        "vanishing": VanishingHead.label,
        **{
            kind: HEADS[kind].label
            for kind in ("linear", "pooled", "components", "random", "same-degrees", "mlp")
        },
    },
    algorithms=("abm", "cg", "agd", "cg-gap", "agd-gap"),
    search={"psi": 0.1},
    layers=("relu1", "bn2", "relu2", "pool", "bn3", "relu3", "bn4", "relu4", "avgpool"),
    studied="VI-Net-Small",
)
BACKBONES = {backbone.name: backbone for backbone in (RESNET18, RESNET34, DIGITS)}
"""Every uncut network by name."""

PAPER = ("resnet18", "resnet34")
"""Those of the paper, which share their settings and stand in one set of results."""
