"""Every option there is: what it is called, which values it takes, its default, its help.

Nothing here imports torch, so that the command line can show its help at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vinets.core.checks import parameter_error
from vinets.core.options import (
    Domain,
    Options,
    choice,
    count,
    flag,
    gibibytes,
    option,
    optional,
    real,
    share,
    text,
    whole,
)

LATENT_KINDS = ("auto", "map", "pool", "class_token", "mean_token")
"""What is read from a cut; see :class:`vinets.latent.reader.LatentReader`."""

LAYOUTS = ("auto", "contiguous", "channels_last")
"""Of images in memory while a network is trained; auto is channels_last on a GPU."""


@dataclass(frozen=True)
class Collecting(Options):
    """Which latents polynomials are found on."""

    panel: ClassVar[str] = "Latents"
    per_class: int | None = option(512, count(), "Examples of a class to find polynomials on.")
    reuse: bool = option(
        False,
        flag(),
        "Score polynomials on what they were found on, where a class has no other examples.",
    )
    read: str = option(
        "auto", choice(*LATENT_KINDS), "What is read; auto is the mean of tokens, or the map."
    )
    pool: int | None = option(
        None, optional(whole()), "Rows and columns of the map that --read pool makes.", shown=None
    )
    channels_last: bool = option(False, flag(), "Maps have their channels last.")
    batch_size: int = option(
        256, whole(), "Examples at once through the backbone.", flag="--latent-batch", result=False
    )
    memory_limit: int = option(
        4 << 30,
        gibibytes(),
        "Latents to keep in memory; more go into a temporary file.",
        shown="4",
        result=False,
    )


@dataclass(frozen=True)
class Placing(Options):
    """Where polynomials stand, and what stands beside them."""

    panel: ClassVar[str] = "Head"
    placement: str = option(
        "global",
        choice("global", "local", "products"),
        "Polynomials of one point per example, of one at every position of the map, or products of "
        "forms at every position.",
    )
    linear_path: int = option(
        0, whole(0), "Channels of a linear path beside the polynomials; 0 for none."
    )


@dataclass(frozen=True)
class Projecting(Options):
    """From latents to the variables of the polynomials."""

    panel: ClassVar[str] = "Variables"
    components: int | str | None = option(
        "auto",
        count(auto=True),
        "Variables of the polynomials: principal components of the latents.",
        shown="128, or all channels if local",
    )
    order: str = option(
        "tanh-pca", choice("tanh-pca", "pca-tanh"), "Squash or project first (global)."
    )
    pca: str = option(
        "auto", choice("auto", "exact", "randomized", "streaming"), "How components are found."
    )
    train_projection: bool = option(False, flag(), "Train the projection, too.")
    scale: str = option(
        "unit", choice("unit", "none"), "Components have unit variance, or their own (global)."
    )


@dataclass(frozen=True)
class Pruning(Options):
    """Which polynomials and monomials stay."""

    panel: ClassVar[str] = "Pruning"
    keep: int | float | str | None = option(
        "auto",
        share(),
        "Polynomials to keep per class, or a share of them: those with the best score.",
        shown="128, or 512 in all if local",
    )
    monomials: int | str | None = option(
        "auto", count(auto=True), "Monomials to keep, at most.", shown="512, or all if local"
    )
    score: str = option("separation", choice("separation", "normalized"), "Score of a polynomial.")
    sparse: bool = option(False, flag(), "Coefficients that are zero stay zero in training.")

    def counts(self, local: bool, classes: int) -> tuple[int | float | None, int | None]:
        """Polynomials per class and monomials, with what was left open chosen."""
        keep, most = self.keep, self.monomials
        if isinstance(keep, str):
            # a local layer is evaluated at every position, so its size is bounded in all
            keep = max(1, 512 // classes) if local else 128
        if isinstance(most, str):
            most = None if local else 512
        return keep, most


@dataclass(frozen=True)
class Finding(Options):
    """The algorithm that finds polynomials; see ABM, OAVI and VCA."""

    panel: ClassVar[str] = "Ideal"
    algorithm: str = option("abm", text(), "The algorithm: abm, oavi or vca.")
    psi: float = option(
        0.1, real(0, 1), "Largest mean square of a polynomial on its points, in [0, 1)."
    )
    max_degree: int | str | None = option(
        "auto",
        count(auto=True),
        "Largest degree of a polynomial.",
        shown="5; 2 of products; if local 2, or 1 in the channels",
    )
    normalization: str | None = option(
        None,
        optional(choice("unit", "leading")),
        "Coefficients have unit norm, or the leading one is 1 (abm).",
        shown="unit",
    )
    border: str | None = option(
        None,
        optional(choice("groebner", "full")),
        "Terms that are tried: those with all divisors in the order ideal, or more (abm, oavi).",
        shown="groebner",
    )
    variable_order: str | None = option(
        None,
        optional(choice("ascending", "descending", "pearson")),
        "Order of the variables, by their place or by correlation (abm, oavi).",
        shown="ascending",
    )
    oracle: str | None = option(
        None, optional(text()), "The solver: {oracles} or exact (oavi).", shown="bpcg"
    )
    # No bound is a word, because files of results have no number for it.
    tau: float | str | None = option(
        None,
        Domain(
            "a number in [0, inf), 'inf', or None",
            lambda value: value in (None, "inf") or real(0).holds(value),
            lambda given: given if given == "inf" else float(given),
            written="a number in [0, inf), or inf",
            metavar="R|inf",
        ),
        "Largest l1 norm of the coefficients; inf for least squares without a bound (oavi).",
        shown="1000",
    )
    oracle_start: str | None = option(
        None,
        optional(choice("least-squares", "vertex", "zero")),
        "Where the solver starts: at least squares, a vertex of the ball, or its centre (oavi).",
        shown="least-squares",
    )
    oracle_stop: str | None = option(
        None,
        optional(choice("vanishing", "gap")),
        "When the solver stops: once the polynomial vanishes, or near the minimum (oavi).",
        shown="vanishing",
    )

    def degree(self, placing: Placing, projecting: Projecting) -> int | None:
        """The largest degree; left open, the largest that pays.

        Many variables at every position leave no more than lines.
        """
        if self.max_degree is None or isinstance(self.max_degree, int):
            return self.max_degree
        if placing.placement == "global":
            return 5
        if placing.placement == "products":
            return 2  # what two factors can be
        return 1 if projecting.components in (None, "auto") else 2


@dataclass(frozen=True)
class Recipe(Options):
    """Stochastic gradient descent with momentum; the defaults are the paper's for heads."""

    panel: ClassVar[str] = "Training"
    epochs: int = option(
        20, whole(0), "Passes over the data; 0, where a network is built, for a closed form."
    )
    batch_size: int = option(256, whole(), "Examples a step.")
    learning_rate: float = option(0.05, real(0), "Learning rate at its largest.")
    momentum: float = option(0.9, real(0, 1), "Momentum of SGD, in [0, 1).")
    weight_decay: float | None = option(
        None,
        optional(real(0)),
        "Weight decay, of biases and normalisation as well.",
        shown="0.0005, or 0.002 if local",
    )
    nesterov: bool = option(False, flag(), "Nesterov's momentum.")
    schedule: str = option(
        "cosine",
        choice("cosine", "one-cycle", "constant"),
        "Course of the learning rate (one-cycle rises over a quarter).",
    )
    clip: float | None = option(
        None, optional(real(0)), "Largest norm of the gradient.", shown="no limit"
    )
    precision: str = option(
        "float32",
        choice("float32", "tf32", "bfloat16", "auto"),
        "Precision of products (tf32 is for GPUs, bfloat16 by autocast, auto is that on a GPU).",
    )
    validation: float = option(
        0.1, real(0, 1), "Share held out to choose the best epoch; 0 keeps the last."
    )
    augment: bool = option(True, flag(), "Augment: random crops and flips, or what the data does.")
    distill: float | None = option(
        None,
        optional(real(0, 1, high_included=True)),
        "Weight of the uncut network's answers in the loss.",
        shown="0",
    )
    temperature: float = option(2.0, real(0), "Temperature of --distill.")
    standardize: bool = option(
        False,
        flag(),
        "Compare logits of mean 0 and deviation 1 with the uncut network's, not their size.",
    )
    vanish: float = option(
        0.0,
        real(0),
        "Weight of a loss that keeps polynomials small on their class, large elsewhere.",
    )
    label_smoothing: float = option(0.0, real(0, 1), "Label smoothing, in [0, 1).")
    seed: int = option(0, whole(0), "Seed of the order, the augmentation and the held-out part.")

    recorded: bool = option(
        False,
        flag(),
        "On a GPU, record a step of training and replay it; faster for small networks.",
        flag="--record",
        result=False,
    )

    def check(self, owner: str) -> None:
        super().check(owner)
        if not self.temperature:
            raise parameter_error(owner, "temperature", "above 0", self.temperature)
        if self.nesterov and not self.momentum:
            raise parameter_error(owner, "momentum", "above 0 with nesterov", self.momentum)

    def half(self, device: str) -> bool:
        """Whether products on a device of that type are in bfloat16."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device == "cuda")

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
            # a step at rate zero would be lost, so the first one has that of the second
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
"""Recipes of small networks, where they differ from :data:`BACKBONE`."""


@dataclass(frozen=True)
class UncutRecipe:
    """An uncut network that can be made again: which one, on which data, trained how."""

    model: str  # as for vinets.models.create_model
    data: str  # as for vinets.data.load_data
    recipe: Recipe


_CIFAR = replace(BACKBONE, precision="auto", recorded=True)

RECIPES = {
    "digits-cnn": UncutRecipe("digits_cnn", "digits", SMALL["digits_cnn"]),
    "cifar10-resnet18": UncutRecipe("resnet18", "cifar10:data", replace(_CIFAR, epochs=90)),
    "cifar100-resnet34": UncutRecipe("resnet34", "cifar100:data", replace(_CIFAR, epochs=140)),
}
"""The uncut networks for digits and of the paper, by the names that ``vinets train`` takes."""


def _tuned() -> Domain:
    def holds(value: Any) -> bool:
        if not isinstance(value, str):
            return False
        last, _, layers = value.partition(":")
        return value in ("head", "all") or (last == "last" and layers.isdecimal() and layers != "0")

    return Domain("'head', 'all' or 'last:N'", holds, metavar="head|all|last:N")


@dataclass(frozen=True)
class Tuning(Options):
    """What is trained beside the head: nothing, as in the paper, or the backbone, too."""

    panel: ClassVar[str] = "Training"
    tune: str = option(
        "head",
        _tuned(),
        "What is trained: the head, all with it, or it and the last N layers with weights.",
    )
    backbone_rate: float = option(
        0.4, real(0), "Learning rate of the backbone as a multiple of the head's."
    )
    backbone_decay: float = option(5e-4, real(0), "Weight decay of the backbone.")
    norms: str = option(
        "moving",
        choice("moving", "frozen"),
        "Whether statistics of batch normalisation in a tuned backbone follow the data.",
    )
    memory_format: str = option(
        "auto",
        choice(*LAYOUTS),
        "Layout of images while a backbone is tuned.",
        shown="channels_last on a GPU",
    )
    compiled: bool = option(
        False, flag(), "Compile the network before it is tuned.", flag="--compile", result=False
    )

    @property
    def layers(self) -> int | None:
        """How many layers of the backbone are tuned; None is all of them."""
        if self.tune in ("head", "all"):
            return 0 if self.tune == "head" else None
        return int(self.tune.removeprefix("last:"))


@dataclass(frozen=True)
class VanishingOptions(Options):
    """What is trained of a network whose polynomials were found on latents."""

    panel: ClassVar[str] = "Training"
    trained: str = option(
        "coefficients",
        choice("classifier", "coefficients", "backbone"),
        "What is trained: the last linear layer alone, solved to the minimum of its loss; the "
        "coefficients of the polynomials, too; or the backbone with both.",
        flag="--train",
    )


@dataclass(frozen=True)
class Shaping(Options):
    """Size of products of forms; other polynomials take theirs from the ideals."""

    panel: ClassVar[str] = "Head"
    head_parameters: int | None = option(
        None,
        optional(whole()),
        "Parameters that the head may store, at most.",
        shown="those of 512 products; of a baseline, as many as the polynomials",
    )
    factors: int = option(2, whole(1, 5), "Linear forms in a product, 1 to 5.")
    spatial_rank: int | None = option(
        16, count(), "Patterns of weights over the positions that sums share.", shown="16"
    )
    start: str = option(
        "random",
        choice("random", "ideal"),
        "Where products start: at random, or at generators of the classes (2 factors).",
    )
    offset: float = option(
        0.0, real(0), "Where factors but the first start: 0 for pure products, 1 for a line."
    )

    def check(self, owner: str) -> None:
        super().check(owner)
        if self.start == "ideal" and self.factors != 2:
            raise parameter_error(owner, "factors", "2 with start='ideal'", self.factors)


@dataclass(frozen=True)
class Caching(Options):
    """Latents of augmented passes that are kept for all heads and epochs."""

    panel: ClassVar[str] = "Cache"
    views: int | None = option(
        None,
        optional(whole()),
        "Augmented passes whose latents are cached: faster, more memory.",
        shown="no cache",
    )
    dtype: str = option(
        "float32", choice("float32", "float16"), "Precision of cached latents.", flag="--cache"
    )
    projected: bool = option(
        False,
        flag(),
        "Cache what a frozen projection makes of the latents instead.",
        flag="--project-once",
    )


@dataclass(frozen=True)
class Sampling(Options):
    """How much of the data is used."""

    train: int | None = option(None, count(), "Training examples per class.", shown="all")
    test: int | None = option(None, count(), "Test examples per class.", shown="all")


@dataclass(frozen=True)
class Timing(Options):
    """How speed is measured."""

    panel: ClassVar[str] = "Speed"
    batch: int = option(256, whole(), "Examples at once when speed is measured.")
    repeats: int = option(5, whole(), "Windows in which speed is measured.")
    seconds: float = option(0.5, real(0), "Length of a window in seconds.")
    where: str = option(
        "same",
        choice("same", "cpu"),
        "Measure where networks are trained, or on the CPU.",
        flag="--time-on",
    )


@dataclass(frozen=True)
class Windows(Options):
    """The windows of time in which networks are measured side by side."""

    panel: ClassVar[str] = "Running"
    repeats: int = option(5, whole(), "Windows per network and batch size.")
    seconds: float = option(0.5, real(0), "Length of a window in seconds.")
    warmup: int = option(3, whole(0), "Forward passes before the first window.")


@dataclass(frozen=True)
class Searching(Options):
    """How a small network is searched for."""

    panel: ClassVar[str] = "Running"
    epochs: int = option(36, whole(), "Of the last round.")
    cuts: int = option(10, whole(), "How many are tried, at most.")
    limit: int | None = option(
        None, optional(whole()), "Training examples to use.", shown="all of them"
    )
    int8: bool = option(
        True,
        flag(),
        "Measure the uncut and the chosen network in int8, too, where onnxruntime is installed.",
    )


@dataclass(frozen=True)
class Exporting(Options):
    """What is written for another runtime, and what it may lose."""

    panel: ClassVar[str] = "Output"
    format: str | None = option(
        None, optional(text()), "{export formats}.", shown="by the end of the file"
    )
    most_lost: float = option(
        1.0, real(0, 100, high_included=True), "Points of accuracy that the file may lose."
    )
    opset: int | None = option(
        None, optional(whole()), "Operator set of ONNX.", shown="torch's choice"
    )
    calibration: int = option(256, whole(), "Training examples that int8 takes its ranges from.")


@dataclass(frozen=True)
class Formats(Options):
    """In which formats networks run while they are measured."""

    panel: ClassVar[str] = "Running"
    amp: bool = option(False, flag(), "Run in bfloat16 under autocast.")
    channels_last: bool = option(False, flag(), "Channels-last memory format.")
    recorded: bool = option(
        False, flag(), "On a GPU, launch all kernels of a pass at once, as a CUDA graph."
    )
    threads: int | None = option(
        None, optional(whole()), "Threads of torch.", shown="torch's choice"
    )


def _positive() -> Domain:
    return Domain(
        "a positive, finite number", lambda value: real(0).holds(value) and value > 0, typed=float
    )


@dataclass(frozen=True)
class Advising(Options):
    """The head that is wanted, where theory advises on its size."""

    panel: ClassVar[str] = "Advice"
    per_class: int = option(128, whole(), "Polynomials wanted for each class.")
    monomials_wanted: int = option(512, whole(), "Monomials wanted in all.", flag="--monomials")
    tau: float = option(10.0, _positive(), "The l1 norm that coefficients are to keep to.")
    constant: str = option(
        "proved",
        choice("proved", "stated"),
        "Constant of the bound, 2^(d/2) or the theorem's own 2^d.",
    )
    lambda_1: float | None = option(
        None, optional(_positive()), "Bound on the spectral norm of the final layer."
    )
    lambda_2: float | None = option(
        None, optional(real(1)), "Bound on the ratio of norms of the final layer."
    )


@dataclass(frozen=True)
class TrialSettings:
    """All settings of a trial, group by group."""

    collecting: Collecting = Collecting()
    placing: Placing = Placing()
    projecting: Projecting = Projecting()
    pruning: Pruning = Pruning()
    finding: Finding = Finding()
    recipe: Recipe = Recipe()
    tuning: Tuning = Tuning()
    vanishing: VanishingOptions = VanishingOptions()
    shaping: Shaping = Shaping()
    caching: Caching = Caching()
    sampling: Sampling = Sampling()
    timing: Timing = Timing()


BEST = TrialSettings(
    # latents for their shape alone; tokens are positions, of which a mean would leave one
    collecting=Collecting(per_class=8, reuse=True, read="map"),
    placing=Placing(placement="products"),
    recipe=Recipe(
        epochs=24,
        learning_rate=0.1,
        weight_decay=1e-3,
        nesterov=True,
        schedule="one-cycle",
        precision="auto",
        validation=0.0,
        distill=0.7,
    ),
    tuning=Tuning(tune="all"),
)
"""What reached most: products of forms, the backbone tuned with them, distilled."""

PAPER = TrialSettings(
    collecting=Collecting(reuse=True),
    projecting=Projecting(order="pca-tanh", scale="unit"),
    finding=Finding(normalization="leading"),
    recipe=Recipe(weight_decay=2e-3, validation=0.0, vanish=0.1),
)
"""The paper's pipeline: generators of class ideals, found on latents in [-1, 1]^n.

Principal components of unit variance, tanh, ABM with leading coefficient 1, the score of the paper,
the last epoch. Where coefficients are trained, a weight of 0.1 keeps them vanishing, which costs
nothing: see ``vinets reproduce fig-kept``. Where the paper is silent or contradicts itself,
docs/reproduction.md has the other choices and what each of them changes.
"""

PAPER_SIZES: dict[str, dict[str, Any]] = {
    "resnet18": {"components": 128, "psi": 0.1, "max_degree": 5, "keep": 128, "monomials": 512},
    "resnet34": {"components": 128, "psi": 0.1, "max_degree": 5, "keep": 128, "monomials": 512},
    "digits_cnn": {
        **{"components": 16, "psi": 0.01, "max_degree": 2, "keep": 32, "monomials": None},
        **{"trained": "classifier", "augment": False, "weight_decay": 1e-4},
    },
}
"""What :data:`PAPER` becomes for networks by name, where that is not the first row.

Variables n, tolerance and degree as in the paper for CIFAR; on digits, of which there are 1,348 to
train on, what suits so few.
"""
