"""Every option there is: what it is called, which values it takes, its default, its help.

Nothing here imports torch, so that the command line can show its help at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from vinets.checks import parameter_error
from vinets.options import (
    Options,
    choice,
    count,
    flag,
    gibibytes,
    option,
    optional,
    path,
    real,
    share,
    text,
    whole,
)

__all__ = [
    "BACKBONE",
    "SMALL",
    "Caching",
    "Collecting",
    "Finding",
    "Placing",
    "Projecting",
    "Pruning",
    "Recipe",
    "Sampling",
    "Timing",
]


@dataclass(frozen=True)
class Collecting(Options):
    """Which latents polynomials are found on."""

    per_class: int | None = option(512, count(), "Examples per class to fit on, or all.")
    reuse: bool = option(
        False, flag(), "Where a class has no more examples than that, score on those fitted to."
    )
    read: str = option("auto", text(), "What is read from the cut; see LatentReader.")
    pool: int | None = option(
        None, optional(whole()), "Pool the map to so many rows and columns.", shown="as it is"
    )
    channels_last: bool = option(False, flag(), "The map has its channels last.")
    batch_size: int = option(256, whole(), "Examples at once.", flag="--latent-batch", result=False)
    memory_limit: int = option(
        4 << 30, gibibytes(), "GiB of latents to keep in memory.", shown="4", result=False
    )
    directory: str | Path | None = option(
        None,
        path(),
        "Folder for latents that exceed the memory limit.",
        flag="--latents",
        shown="none",
        result=False,
    )


@dataclass(frozen=True)
class Placing(Options):
    """Where polynomials stand, and what stands beside them."""

    placement: str = option(
        "global", choice("global", "local"), "global: a point an example; local: one a position."
    )
    linear_path: int = option(0, whole(0), "Channels of a linear path beside; 0: none.")


@dataclass(frozen=True)
class Projecting(Options):
    """From latents to the variables of the polynomials."""

    components: int | str | None = option(
        "auto",
        count(auto=True),
        "Variables of the polynomials, by principal component analysis, or all.",
        shown="128, or all channels if local",
    )
    order: str = option(
        "tanh-pca", choice("tanh-pca", "pca-tanh"), "Squash or project first (global)."
    )
    pca: str = option(
        "auto",
        choice("auto", "exact", "randomized", "streaming"),
        "How components are found: auto, exact, randomized or streaming.",
    )
    train_projection: bool = option(False, flag(), "Training changes the projection too.")
    scale: str = option(
        "unit", choice("unit", "none"), "Give components unit variance, or none (global)."
    )


@dataclass(frozen=True)
class Pruning(Options):
    """Which polynomials and monomials stay."""

    keep: int | float | str | None = option(
        "auto",
        share(),
        "Polynomials per class by their score, a share such as 50%, or all.",
        shown="128, or 512 in all if local",
    )
    monomials: int | str | None = option(
        "auto", count(auto=True), "The most monomials, or all.", shown="512, or all if local"
    )
    score: str = option(
        "separation", choice("separation", "normalized"), "Score: separation or normalized."
    )
    sparse: bool = option(False, flag(), "Coefficients that are zero stay zero in training.")

    def counts(self, local: bool, classes: int) -> tuple[int | float | None, int | None]:
        """Polynomials per class and monomials, with what was left open chosen."""
        keep, most = self.keep, self.monomials
        if isinstance(keep, str):
            keep = max(1, 512 // classes) if local else 128
        if isinstance(most, str):
            most = None if local else 512
        return keep, most


@dataclass(frozen=True)
class Finding(Options):
    """The algorithm that finds polynomials; see ABM, OAVI and VCA."""

    algorithm: str = option("abm", text(), "abm, oavi or vca.")
    psi: float = option(0.1, real(0, 1), "Tolerance on the mean square, in [0, 1).")
    max_degree: int | str | None = option(
        "auto",
        count(auto=True),
        "Largest degree, or all.",
        shown="5; if local 2, or 1 in the channels",
    )
    normalization: str | None = option(
        None, optional(choice("unit", "leading")), "unit or leading (abm).", shown="unit"
    )
    border: str | None = option(
        None,
        optional(choice("groebner", "full")),
        "groebner or full (abm, oavi).",
        shown="groebner",
    )
    variable_order: str | None = option(
        None,
        optional(choice("ascending", "descending", "pearson")),
        "ascending, descending or pearson (abm, oavi).",
        shown="ascending",
    )
    oracle: str | None = option(None, optional(text()), "{oracles} or exact (oavi).", shown="bpcg")
    tau: float | None = option(
        None, optional(real(0)), "Bound on the l1 norm (oavi).", shown="1000"
    )

    def degree(self, placing: Placing, projecting: Projecting) -> int | None:
        """The largest degree; left open, the largest that pays.

        Many variables at every position leave no more than lines.
        """
        if self.max_degree is None or isinstance(self.max_degree, int):
            return self.max_degree
        if placing.placement == "global":
            return 5
        return 1 if projecting.components in (None, "auto") else 2


@dataclass(frozen=True)
class Recipe(Options):
    """Stochastic gradient descent with momentum; the defaults are the paper's for heads."""

    epochs: int = option(20, whole(), "Passes over the data.")
    batch_size: int = option(256, whole(), "Examples a step.")
    learning_rate: float = option(0.05, real(0), "The largest one.")
    momentum: float = option(0.9, real(0, 1), "Of SGD.")
    weight_decay: float | None = option(
        None,
        optional(real(0)),
        "Of SGD; biases and normalisation are decayed as well.",
        shown="0.0005, or 0.002 if local",
    )
    nesterov: bool = option(False, flag(), "Nesterov's momentum.")
    schedule: str = option(
        "cosine",
        choice("cosine", "one-cycle", "constant"),
        "Of the learning rate: cosine, one-cycle (up over a quarter, then down) or constant.",
    )
    clip: float | None = option(
        None, optional(real(0)), "Largest norm of the gradient.", shown="no limit"
    )
    precision: str = option(
        "float32",
        choice("float32", "tf32", "bfloat16"),
        "float32, tf32 (products rounded, on a GPU) or bfloat16 (by autocast).",
    )
    validation: float = option(
        0.1, real(0, 1), "Share held out to choose the best epoch; 0 keeps the last."
    )
    augment: bool = option(True, flag(), "Random crops and flips, or what the data does.")
    distill: float | None = option(
        None,
        optional(real(0, 1, high_included=True)),
        "Weight of the uncut network's answers in the loss.",
        shown="0",
    )
    temperature: float = option(2.0, real(0), "Of the distillation.")
    label_smoothing: float = option(0.0, real(0, 1), "Of the cross-entropy.")
    seed: int = option(0, whole(0), "Of the order, the augmentation and the held-out part.")

    def check(self, owner: str) -> None:
        super().check(owner)
        if not self.temperature:
            raise parameter_error(owner, "temperature", "above 0", self.temperature)
        if self.nesterov and not self.momentum:
            raise parameter_error(owner, "momentum", "above 0 with nesterov", self.momentum)

    @property
    def decay(self) -> float:
        """The weight decay, or the paper's where it was left open."""
        return 5e-4 if self.weight_decay is None else self.weight_decay

    def rate(self, step: int, steps: int) -> float:
        """Learning rate at ``step`` of ``steps``."""
        done = step / max(1, steps)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        if self.schedule == "one-cycle":
            rising, falling = max(done, 1 / max(1, steps)) / 0.25, (1 - done) / 0.75
            return self.learning_rate * min(rising, falling, 1.0)
        return self.learning_rate


BACKBONE = Recipe(
    epochs=90,
    batch_size=256,
    learning_rate=0.2,
    weight_decay=5e-4,
    nesterov=True,
    schedule="one-cycle",
    validation=0.0,
)
"""The recipe for CIFAR backbones from scratch."""

SMALL = {"digits_cnn": replace(BACKBONE, epochs=15, batch_size=64, learning_rate=0.1)}
"""What small networks train by, where that is not :data:`BACKBONE`."""


@dataclass(frozen=True)
class Caching(Options):
    """Latents of augmented passes that are kept for all heads and epochs."""

    views: int | None = option(
        None,
        optional(whole()),
        "Cache the latents of so many augmented passes: faster, more memory.",
        shown="no cache",
    )
    dtype: str = option(
        "float32", choice("float32", "float16"), "Keep them in float32 or float16.", flag="--cache"
    )
    projected: bool = option(
        False, flag(), "Keep what a frozen projection makes of them instead.", flag="--project-once"
    )


@dataclass(frozen=True)
class Sampling(Options):
    """How much of the data is used."""

    train: int | None = option(None, count(), "Training images a class, or all.", shown="all")
    test: int | None = option(None, count(), "Test images a class, or all.", shown="all")


@dataclass(frozen=True)
class Timing(Options):
    """How speed is measured."""

    batch: int = option(256, whole(), "Batch size of the speed measurement.")
    repeats: int = option(5, whole(), "Windows of the speed measurement.")
    seconds: float = option(0.5, real(0), "Length of a window in seconds.")
    where: str = option(
        "same",
        choice("same", "cpu"),
        "Measure where networks are trained, or on the cpu.",
        flag="--time-on",
    )
