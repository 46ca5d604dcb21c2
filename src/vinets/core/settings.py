"""Options of every part but the heads: names, values that they take, defaults, help.

Nothing here imports torch, so that the command line can show its help at once.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import ClassVar

from vinets.core.checks import parameter_error
from vinets.core.options import FLAG, TEXT, Domain, Options, choice, count, option, real, whole

LATENT_KINDS = ("auto", "map", "pool", "class_token", "mean_token")
"""What is read from a cut; see :class:`vinets.latent.reader.LatentReader`."""

LAYOUTS = ("auto", "contiguous", "channels_last")
"""Of images in memory while a network is trained; auto is channels_last where that is faster."""


# No bound is a word, because files of results have no number for it.
L1_BOUND = Domain(
    "a number in [0, inf), 'inf', or None",
    lambda value: value in (None, "inf") or real(0).holds(value),
    lambda text: text if text == "inf" else float(text),
    written="a number in [0, inf), or inf",
    metavar="R|inf",
)
TRAINED = Domain(
    "'classifier', 'coefficients', 'backbone' or 'last:N'",
    lambda value: (
        isinstance(value, str)
        and bool(re.fullmatch("classifier|coefficients|backbone|last:[0-9]*[1-9][0-9]*", value))
    ),
    metavar="classifier|coefficients|backbone|last:N",
)
POSITIVE = Domain(
    "a positive, finite number", lambda value: real(0).holds(value) and value > 0, typed=float
)
BYTES = Domain(
    "a number of bytes",
    whole(0).holds,
    lambda text: int(float(text) * 2**30),
    written="a number of GiB",
    metavar="GiB",
)


@dataclass(frozen=True)
class LatentOptions(Options):
    """Which latents polynomials are found on."""

    panel: ClassVar[str] = "Latents"
    per_class: int | None = option(512, count(), "Examples of a class to find polynomials on.")
    reuse: bool = option(False, FLAG, "Score on the same examples where there are no others.")
    read: str = option(
        "auto", choice(*LATENT_KINDS), "What is read; auto is the mean of tokens, or the map."
    )
    pool: int | None = option(None, whole(), "Rows and columns for --read pool.", shown=None)
    channels_last: bool | None = option(
        None, FLAG, "Maps have their channels last.", shown="as their sizes tell"
    )
    batch_size: int = option(
        256, whole(), "Examples at once through the backbone.", flag="--latent-batch", result=False
    )
    memory_limit: int = option(
        4 << 30, BYTES, "Latents in memory; more go into a file.", shown="4", result=False
    )


@dataclass(frozen=True)
class IdealOptions(Options):
    """The algorithm that finds polynomials; see ABM, OAVI and VCA."""

    panel: ClassVar[str] = "Ideal"
    algorithm: str = option("abm", TEXT, "The algorithm: abm, oavi or vca.")
    psi: float = option(0.1, real(0, 1), "Largest mean square of polynomials on points, in [0, 1).")
    max_degree: int | None = option(5, count(), "Largest degree of a polynomial.")
    normalization: str | None = option(
        None, choice("unit", "leading"), "Norm 1, or a leading coefficient 1 (abm).", shown="unit"
    )
    border: str | None = option(
        None,
        choice("groebner", "full"),
        "Terms that are tried: those with all divisors in the order ideal, or more (abm, oavi).",
        shown="groebner",
    )
    variable_order: str | None = option(
        None,
        choice("ascending", "descending", "pearson"),
        "Order of the variables, by their place or by correlation (abm, oavi).",
        shown="ascending",
    )
    oracle: str | None = option(None, TEXT, "Solver: {oracles} or exact (oavi).", shown="bpcg")
    tau: float | str | None = option(
        None,
        L1_BOUND,
        "Largest l1 norm of the coefficients; inf for least squares without a bound (oavi).",
        shown="1000",
    )
    oracle_start: str | None = option(
        None,
        choice("least-squares", "vertex", "zero"),
        "Where the solver starts: at least squares, a vertex of the ball, or its centre (oavi).",
        shown="least-squares",
    )
    oracle_stop: str | None = option(
        None,
        choice("vanishing", "gap"),
        "When the solver stops: once the polynomial vanishes, or near the minimum (oavi).",
        shown="vanishing",
    )


@dataclass(frozen=True)
class TrainingOptions(Options):
    """How a network is trained: by stochastic gradient descent with momentum.

    The defaults are the paper's for heads; a head may bring its own, see
    :attr:`vinets.heads.Head.training_defaults`.
    """

    panel: ClassVar[str] = "Training"
    epochs: int = option(20, whole(), "Passes over the data.")
    batch_size: int = option(256, whole(), "Examples a step.")
    learning_rate: float = option(0.05, real(0), "Learning rate at its largest.")
    momentum: float = option(0.9, real(0, 1), "Momentum of SGD, in [0, 1).")
    weight_decay: float = option(5e-4, real(0), "Weight decay, of biases and norms as well.")
    nesterov: bool = option(False, FLAG, "Nesterov's momentum.")
    schedule: str = option(
        "cosine",
        choice("cosine", "one-cycle", "constant"),
        "Course of the learning rate (one-cycle rises over a quarter).",
    )
    clip: float | None = option(None, real(0), "Largest norm of the gradient.", shown="no limit")
    precision: str = option(
        "float32",
        choice("float32", "tf32", "bfloat16", "auto"),
        "Precision of products (tf32 is for GPUs, bfloat16 by autocast; auto is that on a GPU, and "
        "for images from 64 pixels on where a CPU has instructions for it).",
    )
    validation: float = option(0.1, real(0, 1), "Share held out to choose an epoch; 0 is the last.")
    augment: bool = option(True, FLAG, "Augment: random crops and flips, or what the data does.")
    distill: float | None = option(
        None, real(0, 1, high_included=True), "Weight of the uncut network's answers.", shown="0"
    )
    temperature: float = option(2.0, POSITIVE, "Temperature of --distill.")
    standardize: bool = option(
        False, FLAG, "Learn the uncut network's logits at mean 0 and deviation 1, not their size."
    )
    vanish: float = option(
        0.0, real(0), "Weight of a loss: polynomials small on their class, large elsewhere."
    )
    label_smoothing: float = option(0.0, real(0, 1), "Label smoothing, in [0, 1).")
    seed: int = option(0, whole(0), "Seed of the order, the augmentation and the held-out part.")
    recorded: bool = option(
        False,
        FLAG,
        "On a GPU, record a step of training and replay it; faster for small networks.",
        flag="--record",
        result=False,
    )
    trained: str = option(
        "coefficients",
        TRAINED,
        "What is trained: the last linear layer alone, solved to the minimum of its loss; the "
        "coefficients of the head, too; the backbone with both; or its last N layers.",
        flag="--train",
    )
    backbone_rate: float = option(0.4, real(0), "Rate of the backbone as a multiple of the head's.")
    backbone_decay: float = option(5e-4, real(0), "Weight decay of the backbone.")
    norms: str = option(
        "moving",
        choice("moving", "frozen"),
        "Whether statistics of batch normalisation in a tuned backbone follow the data.",
    )
    memory_format: str = option(
        "auto",
        choice(*LAYOUTS),
        "Layout of images in tuning.",
        shown="channels_last on a GPU, and on a CPU from 64 pixels on, if the network bears it",
    )
    compiled: bool = option(
        False, FLAG, "Compile the network before it is tuned.", flag="--compile", result=False
    )
    views: int | None = option(
        None, whole(), "Augmented passes whose latents are cached, for speed.", shown="no cache"
    )
    dtype: str = option(
        "float32", choice("float32", "float16"), "Precision of cached latents.", flag="--cache"
    )
    projected: bool = option(
        False, FLAG, "Cache what a frozen projection makes of latents.", flag="--project-once"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            owner, accepted = type(self).__name__, "above 0 with nesterov"
            raise parameter_error(owner, "momentum", accepted, self.momentum)

    def half(self, device: str) -> bool:
        """Whether products on a device of that type are in bfloat16."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device == "cuda")

    @property
    def layers(self) -> int | None:
        """How many layers of the backbone are trained; None is all of them."""
        if self.trained.startswith("last:"):
            return int(self.trained.removeprefix("last:"))
        return None if self.trained == "backbone" else 0

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


BACKBONE = TrainingOptions(
    epochs=90, learning_rate=0.2, nesterov=True, schedule="one-cycle", validation=0.0
)
"""The recipe for CIFAR backbones from scratch."""

SMALL_RECIPES = {"digits_cnn": replace(BACKBONE, epochs=15, batch_size=64, learning_rate=0.1)}
"""Recipes of small networks, where they differ from :data:`BACKBONE`."""


@dataclass(frozen=True)
class UncutRecipe:
    """An uncut network that can be made again: which one, on which data, trained how."""

    model: str  # as for vinets.models.create_model
    data: str  # as for vinets.data.load_data
    recipe: TrainingOptions


_CIFAR = replace(BACKBONE, precision="auto", recorded=True)

RECIPES = {
    "digits-cnn": UncutRecipe("digits_cnn", "digits", SMALL_RECIPES["digits_cnn"]),
    "cifar10-resnet18": UncutRecipe("resnet18", "cifar10:data", replace(_CIFAR, epochs=90)),
    "cifar100-resnet34": UncutRecipe("resnet34", "cifar100:data", replace(_CIFAR, epochs=140)),
}
"""The uncut networks for digits and of the paper, by the names that ``vinets train`` takes."""


@dataclass(frozen=True)
class SampleOptions(Options):
    """How much of the data is used."""

    train: int | None = option(None, count(), "Training examples per class.", shown="all")
    test: int | None = option(None, count(), "Test examples per class.", shown="all")


@dataclass(frozen=True)
class SpeedOptions(Options):
    """How speed is measured."""

    panel: ClassVar[str] = "Speed"
    batch: int = option(256, whole(), "Examples at once when speed is measured.")
    repeats: int = option(5, whole(), "Windows in which speed is measured.")
    seconds: float = option(0.5, real(0), "Length of a window in seconds.")
    where: str = option(
        "same",
        choice("same", "cpu"),
        "Measure on the same device, or on the CPU.",
        flag="--time-on",
    )


@dataclass(frozen=True)
class WindowOptions(Options):
    """The windows of time in which networks are measured side by side."""

    panel: ClassVar[str] = "Running"
    repeats: int = option(5, whole(), "Windows per network and batch size.")
    seconds: float = option(0.5, real(0), "Length of a window in seconds.")
    warmup: int = option(3, whole(0), "Forward passes before the first window.")


@dataclass(frozen=True)
class SearchOptions(Options):
    """How a small network is searched for."""

    panel: ClassVar[str] = "Running"
    epochs: int = option(36, whole(), "Of the last round.")
    cuts: int = option(10, whole(), "How many are tried, at most.")
    limit: int | None = option(None, whole(), "Training examples to use.", shown="all of them")
    int8: bool = option(
        True, FLAG, "Measure the uncut and the chosen network in int8, too, by onnxruntime."
    )
    despite_doubt: bool = option(
        False,
        FLAG,
        "Go on where another order of classes or other pixels explain the accuracy of the network.",
        result=False,
    )


@dataclass(frozen=True)
class ExportOptions(Options):
    """What is written for another runtime, and what it may lose."""

    panel: ClassVar[str] = "Output"
    format: str | None = option(None, TEXT, "{export formats}.", shown="by the end of the file")
    most_lost: float = option(
        1.0, real(0, 100, high_included=True), "Points of accuracy that the file may lose."
    )
    opset: int | None = option(None, whole(), "Operator set of ONNX.", shown="torch's choice")
    calibration: int = option(256, whole(), "Training examples that int8 takes its ranges from.")


@dataclass(frozen=True)
class FormatOptions(Options):
    """In which formats networks run while they are measured."""

    panel: ClassVar[str] = "Running"
    amp: bool = option(False, FLAG, "Run in bfloat16 under autocast.")
    channels_last: bool = option(False, FLAG, "Channels-last memory format.")
    recorded: bool = option(False, FLAG, "On a GPU, launch a pass at once, as a CUDA graph.")
    threads: int | None = option(None, whole(), "Threads of torch.", shown="torch's choice")


@dataclass(frozen=True)
class AdviceOptions(Options):
    """The head that is wanted, where theory advises on its size."""

    panel: ClassVar[str] = "Advice"
    per_class: int = option(128, whole(), "Polynomials wanted for each class.")
    monomials_wanted: int = option(512, whole(), "Monomials wanted in all.", flag="--monomials")
    tau: float = option(10.0, POSITIVE, "The l1 norm that coefficients are to keep to.")
    constant: str = option(
        "proved", choice("proved", "stated"), "Constant: 2^(d/2), or the theorem's own 2^d."
    )
    lambda_1: float | None = option(None, POSITIVE, "Bound on the spectral norm of the last layer.")
    lambda_2: float | None = option(None, real(1), "Bound on the ratio of norms of the last layer.")
