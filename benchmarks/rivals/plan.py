"""Which rivals there are, and how each is trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.tuning import JOINT
from vinets.core.checks import one_of
from vinets.core.files import slug
from vinets.core.plain import changes
from vinets.core.settings import BACKBONE, SampleOptions, TrainingOptions

CLASSIC = ("resnet20", "resnet32", "resnet44")
SIZES = (150_000, 400_000, 800_000, 2_300_000)  # parameters, about
SCOPES = ("uniform", "global")

FIRST = replace(BACKBONE, epochs=24, precision="bfloat16", distill=0.7)  # before choices
SCRATCH = replace(FIRST, learning_rate=0.4)
# Weights that were trained before decay as they do in the backbone of a product head. A whole
# network has no head to be trained with it.
TUNED = replace(JOINT, weight_decay=5e-4, trained=TrainingOptions.trained)
RECIPES = {
    "uncut": TrainingOptions(),
    "classic": SCRATCH,
    "narrow": SCRATCH,
    "pruned": TUNED,
    "tuned": TUNED,
}
"""By kind; all but ``uncut`` learn from the given network."""
WARM = frozenset({("resnet18", "classic"), ("resnet18", "pruned")})
"""Given networks and kinds whose rivals are better with temperature 4, on held-out images."""


SCRATCH_CHOICES: dict[str, dict[str, Any]] = {
    **{f"learning rate {rate}": {"learning_rate": rate} for rate in (0.1, 0.2, 0.4, 0.8)},
    "0.2, standardised logits": {"standardize": True},
    "0.4, temperature 4": {"learning_rate": 0.4, "temperature": 4.0},
}
PRUNED_CHOICES: dict[str, dict[str, Any]] = {
    **{f"learning rate {rate}": {"learning_rate": rate} for rate in (0.05, 0.1, 0.2)},
    "0.1, temperature 4": {"learning_rate": 0.1, "temperature": 4.0},
}


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A whole network to replace a given one.

    Parameters
    ----------
    given : str
        The network to replace; it is the teacher, and brings the data.
    kind : str
        ``uncut``, the given network as it is, or ``tuned`` further; ``classic``, another network
        from scratch; ``narrow``, the given one with fewer channels, from scratch; ``pruned``, the
        given one less the channels of the smallest norm.
    model : str
        Name of a classic network.
    size : int
        Parameters of a narrow or pruned network, about.
    scope : {"uniform", "global"}
        Whether pruning takes the same share of every layer or ranks channels of all layers.
    """

    given: str
    kind: str
    model: str = ""
    size: int = 0
    scope: str = "uniform"
    recipe: TrainingOptions = TrainingOptions()
    sampling: SampleOptions = SampleOptions()
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("Rival", "kind", self.kind, tuple(RECIPES))
        one_of("Rival", "scope", self.scope, SCOPES)

    @property
    def architecture(self) -> str:
        """What speed depends on."""
        if self.kind == "classic":
            return self.model
        if self.kind in ("uncut", "tuned"):
            return self.given
        how = f"{self.kind}, {self.scope}" if self.kind == "pruned" else self.kind
        return f"{self.given} {how}, {self.size / 1e6:.2f}M"

    @property
    def name(self) -> str:
        """Name of its file: readable, with a digest of everything."""
        digest = hashlib.sha256(json.dumps(changes(self), sort_keys=True).encode()).hexdigest()
        return slug(f"{slug(f'{self.given} {self.kind} {self.architecture}')}-{digest[:12]}")


def recipe_for(given: str, kind: str) -> TrainingOptions:
    """How rivals of this kind are trained in place of a given network."""
    recipe = RECIPES[kind]
    return replace(recipe, temperature=4.0) if (given, kind) in WARM else recipe


def rival(given: str, kind: str, **more: Any) -> Rival:
    """One with the recipe of its kind."""
    return Rival(given=given, kind=kind, recipe=recipe_for(given, kind), **more)


def _classic(given: str, sizes: Iterable[int]) -> list[Rival]:
    return [rival(given, "classic", model=model) for model in CLASSIC]


def _narrow(given: str, sizes: Iterable[int]) -> list[Rival]:
    return [rival(given, "narrow", size=size) for size in sizes]


def _pruned(given: str, sizes: Iterable[int]) -> list[Rival]:
    return [rival(given, "pruned", size=size, scope=scope) for scope in SCOPES for size in sizes]


TRIED: dict[str, tuple[Rival, dict[str, dict[str, Any]]]] = {
    "ResNet-20": (Rival(given="", kind="classic", model=CLASSIC[0]), SCRATCH_CHOICES),
    "narrow, 0.40M": (Rival(given="", kind="narrow", size=SIZES[1]), SCRATCH_CHOICES),
} | {
    f"pruned, {scope}, 0.40M": (
        Rival(given="", kind="pruned", size=SIZES[1], scope=scope),
        PRUNED_CHOICES,
    )
    for scope in SCOPES
}
"""What recipes are chosen with: a network of every kind, and what is tried with it."""


def choice(given: str, network: str, label: str) -> Rival:
    """One of the choices."""
    one, changed = TRIED[network]
    start = TUNED if one.kind == "pruned" else FIRST
    return replace(one, given=given, recipe=replace(start, **changed[label]))


def _choices(given: str, sizes: Iterable[int]) -> list[Rival]:
    """Recipes of every kind, and scopes of pruning, at one size."""
    return [
        choice(given, network, label)
        for network, (_, changed) in TRIED.items()
        for label in changed
    ]


PLANS: dict[str, Callable[[str, Iterable[int]], list[Rival]]] = {
    "uncut": lambda given, sizes: [rival(given, "uncut"), rival(given, "tuned")],
    "classic": _classic,
    "narrow": _narrow,
    "pruned": _pruned,
    "choices": _choices,
}
"""Rivals of a given network, narrow and pruned ones at these sizes."""
