"""The uncut networks of the experiments, where they are cut, and what the paper prints of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vinets.core.plain import from_plain
from vinets.heads import HEADS
from vinets.models.networks import PRESETS, SIZES
from vinets.report.values import Number
from vinets.report.words import read_toml


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
    # Cuts of the table of generators, with what the paper prints in its Table 1, if anything.
    rows: Mapping[str, Mapping[str, Number]]
    tried: Mapping[str, str]  # sizes and cuts of the variants that the choices are tried on
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
    # Changes in the table of oracles that take steps; a network without any has no such table.
    stepping: Mapping[str, Any] = field(default_factory=dict)
    # Cuts of the figure on vanishing after training, and changes to the settings in it.
    kept: tuple[str, ...] = ()
    keeping: Mapping[str, Any] = field(default_factory=dict)
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


PAPER = ("resnet18", "resnet34")
"""Those of the paper, which share their settings and stand in one set of results."""

_KNOWN = read_toml("vinets.paper", "networks.toml")
VARIANTS: dict[str, dict[str, float]] = _KNOWN["variants"]
"""Table 2: millions of parameters, accuracy in percent, images per second."""

UNCUT: dict[str, dict[str, float]] = _KNOWN["uncut"]
"""Table 2: the uncut networks."""

_HEADS_ON_DIGITS = ("vanishing", "linear", "pooled", "components", "random", "same-degrees", "mlp")


def _backbone(name: str) -> Backbone:
    values = {"name": name, **_KNOWN[name]}
    if name in PAPER:
        values |= _KNOWN["cifar"]
        values["variants"] = {
            key: cut for key, (network, cut) in PRESETS.items() if network == name
        }
        # Choices are changes to Table 2 at the tolerance of the figures.
        start = {key: value for key, value in values["variant"].items() if key != "psi"}
        values["choices"] = {key: start | one for key, one in values["choices"].items()}
    else:
        values["settings"] = SIZES["digits_cnn"] | values["settings"]
        values["heads"] = {kind: HEADS[kind].label for kind in _HEADS_ON_DIGITS}
    return from_plain(Backbone, _unlimited(values), "networks.toml")


def _unlimited(value: Any) -> Any:
    """Put None for the word "all", wherever it stands."""
    if isinstance(value, dict):
        return {key: _unlimited(one) for key, one in value.items()}
    return None if value == "all" else value


BACKBONES = {name: _backbone(name) for name in (*PAPER, "digits")}
"""Every uncut network by name."""

RESNET18, RESNET34, DIGITS = BACKBONES.values()
