"""The uncut networks of the experiments, where they are cut, and what the paper prints of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vinets.heads import HEADS
from vinets.models.networks import PRESETS, SIZES

# --- numbers as the paper prints them ---------------------------------------------------------

_TABLE_2 = {
    "VI-Net18-Tiny": (1.86, 0.68, 1.18, 88.62, 100798),
    "VI-Net18-Small": (2.84, 2.18, 0.66, 92.66, 79307),
    "VI-Net18-Medium": (4.35, 3.96, 0.39, 92.92, 71851),
    "VI-Net18-Large": (9.20, 8.81, 0.39, 93.02, 62086),
    "VI-Net34-Tiny": (3.52, 2.85, 0.67, 71.94, 42064),
    "VI-Net34-Small": (5.88, 5.21, 0.67, 74.03, 37611),
    "VI-Net34-Medium": (14.60, 14.20, 0.40, 74.66, 29285),
    "VI-Net34-Large": (19.32, 18.92, 0.40, 74.78, 27862),
}
VARIANTS = {
    name: dict(zip(("total", "base", "head", "accuracy", "speed"), row, strict=True))
    for name, row in _TABLE_2.items()
}
"""Table 2: millions of parameters, accuracy in percent, images per second.

The latter are at batch size 256, on a GPU that the paper does not name.
"""

UNCUT: dict[str, dict[str, float]] = {
    "resnet18": {"total": 11.24, "base": 11.24, "accuracy": 92.89, "speed": 66533},
    "resnet34": {"total": 20.35, "base": 20.35, "accuracy": 74.75, "speed": 28253},
}
"""Table 2: the uncut networks."""

# --- the networks -----------------------------------------------------------------------------

READINGS: dict[str, dict[str, Any]] = {
    "plain components, mean square ≤ 0.1": {},
    "plain components, root mean square ≤ 0.1": {"psi": 0.01},
    "components of unit variance, mean square ≤ 0.1": {"scale": "unit"},
    "components of unit variance, root mean square ≤ 0.1": {"scale": "unit", "psi": 0.01},
}
"""What the paper may mean by ψ and by principal components, as changes to its settings."""

PUBLISHED: dict[str, Any] = {"scale": "unit", "keep": 128, "monomials": 512, "psi": 0.01}
"""Table 2 on CIFAR as it was published: changes to the settings of the figures."""


@dataclass(frozen=True, eq=False)
class Backbone:
    """An uncut network, its data and its cuts, earliest first.

    What the paper prints of it may be missing. The weights lie in a file, or in the folder of
    ``vinets train --recipe RECIPE``; with ``splits``, the data has no test part of its own, and a
    network is trained by the recipe for every split.
    """

    name: str
    title: str
    data: str
    data_title: str
    classes: int
    recipe: str
    variants: Mapping[str, str]  # cuts, smallest network first
    cuts: tuple[str, ...]
    # Cuts of the table of generators, with what the paper prints in its Table 1, if anything; where
    # it is not clear which cut is meant, there are two.
    rows: Mapping[str, Mapping[str, float]]
    chosen: tuple[str, ...]  # variants that the choices are tried on
    choices: Mapping[str, Mapping[str, Any]]
    # How ψ, the components and the rule may be read; the first one changes nothing.
    readings: Mapping[str, Mapping[str, Any]]
    heads: Mapping[str, str]  # kinds of heads of the figure on truncation, with their names there
    splits: bool = False
    # Changes to vinets.paper.plan.PAPER, and further ones for the table of variants.
    settings: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ("abm",)  # algorithms of the figure on pruning
    # Changes to the settings in that figure, where steps of an oracle would take minutes.
    search: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[str, ...] = ()  # cuts of the figure on generators behind every layer
    residual: bool = False  # whether every second layer is behind the sum of a residual block
    baselines: bool = False  # whether it has the figure on baselines over seeds
    undecided: tuple[str, ...] = ()  # cuts where several seeds are needed against random monomials
    studied: str = ""  # the variant that is shown in detail; all have a row in the theory's table

    @property
    def caption(self) -> str:
        """Return the network and its data as the paper heads its tables."""
        return f"{self.data_title} ({self.title})"

    @property
    def weights(self) -> str:
        """Return the name of the file of weights."""
        return f"{self.name}_{self.data}.safetensors"

    def network(self, split: int) -> str:
        """Return the name that the uncut network of a split has in the store."""
        return f"{self.name}-{split}" if self.splits else self.name


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


def _resnet(
    depth: int, classes: int, rows: Mapping[str, tuple[float, ...]], **more: Any
) -> Backbone:
    """Return a network of the paper, whose choices are tried on its two smallest variants.

    ``rows`` are those of Table 1: share removed in percent, monomials, polynomials, seconds.
    """
    name, data = f"resnet{depth}", f"cifar{classes}"
    names = (name, f"ResNet-{depth}", data, f"CIFAR-{classes}")
    variants = {preset: cut for preset, (network, cut) in PRESETS.items() if network == name}
    start = {option: value for option, value in PUBLISHED.items() if option != "psi"}
    choices = {choice: start | changes for choice, changes in _CHOICES.items()}
    heads = {"vanishing": "VI-Net", "linear": "linear head"}  # the names that were published
    heads |= {"random": "random monomials", "mlp": "MLP"}
    printed = ("removed", "monomials", "polynomials", "seconds")
    more["rows"] = {cut: dict(zip(printed, row, strict=True)) for cut, row in rows.items()}
    more |= {"chosen": tuple(variants)[:2], "readings": READINGS, "variant": PUBLISHED}
    recipe = f"{data}-{name}"
    return Backbone(*names, classes, recipe, variants, choices=choices, heads=heads, **more)


RESNET18 = _resnet(
    18,
    10,
    cuts=(
        *("layer2.0", "layer2.1.bn2", "layer3.0.bn2", "layer3.0", "layer3.1.bn1", "layer3.1"),
        *("layer4.0.bn1", "layer4.0", "layer4.1.bn1"),
    ),
    rows={
        "layer2.1.bn2": (64.5, 8386, 53132, 6468.36),
        "layer3.0.bn2": (53.3, 4462, 14297, 245.09),
        "layer3.0": (46.7, 1561, 4346, 11.73),
        "layer4.0.bn1": (26.7, 167, 1319, 7.31),
        "layer4.1.bn1": (6.7, 130, 1280, 6.94),
    },
    undecided=("layer2.0", "layer2.1.bn2", "layer3.0.bn2"),
)
RESNET34 = _resnet(
    34,
    100,
    cuts=(
        *("layer2.2", "layer2.3", "layer3.1.bn1", "layer3.1", "layer3.2", "layer3.3.bn1"),
        *("layer3.5", "layer4.1.bn1", "layer4.1", "layer4.2.bn1"),
    ),
    rows={
        "layer2.2": (75.8, 7625, 188743, 3368.76),
        "layer3.1": (50.1, 5196, 53675, 82.46),
        "layer3.2": (43.9, 1990, 30004, 18.38),
        "layer3.5": (25.1, 196, 12978, 7.46),
        "layer4.1.bn1": (25.1, 196, 12978, 7.46),
        "layer4.1": (7.1, 237, 12997, 8.56),
        "layer4.2.bn1": (7.1, 237, 12997, 8.56),
    },
    algorithms=("abm", "oavi-cg", "oavi-agd"),
    # A cut behind every convolution of a residual block: inside the block, and behind its sum.
    layers=tuple(
        cut
        for stage, blocks in enumerate((3, 4, 6, 3), 1)
        for block in range(blocks)
        for cut in (f"layer{stage}.{block}.bn1", f"layer{stage}.{block}")
    ),
    residual=True,
    baselines=True,
)
_BASELINES = ("linear", "pooled", "components", "random", "same-degrees", "mlp")
_SIZES = ("VI-Net-Tiny", "VI-Net-Small", "VI-Net-Medium", "VI-Net-Large")
_CUTS = ("relu1", "relu2", "pool", "relu3", "relu4")
DIGITS = Backbone(
    *("digits", "small CNN", "digits", "Digits"),
    classes=10,
    recipe="digits-cnn",
    cuts=_CUTS,
    rows={cut: {} for cut in _CUTS},
    splits=True,
    settings={
        **SIZES["digits_cnn"],
        **{"scale": "unit", "normalization": "leading", "per_class": 512},
        **{"batch_size": 64, "dtype": "float32", "views": 1, "seconds": 0.1, "where": "cpu"},
        **{"counting": "layers", "detailed": True},
    },
    variants=dict(zip(_SIZES, _CUTS, strict=False)),
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
    heads={kind: HEADS[kind].label for kind in ("vanishing", *_BASELINES)},
    algorithms=("abm", "cg", "agd", "cg-gap", "agd-gap"),
    search={"psi": 0.1},
    layers=("relu1", "bn2", "relu2", "pool", "bn3", "relu3", "bn4", "relu4", "avgpool"),
    studied="VI-Net-Small",
)
BACKBONES = {backbone.name: backbone for backbone in (RESNET18, RESNET34, DIGITS)}
"""Every uncut network by name."""

PAPER = ("resnet18", "resnet34")
"""Those of the paper, which share their settings and stand in one set of results."""
