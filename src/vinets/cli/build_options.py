"""The options of ``vinets build`` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from vinets.cli.options import IDEAL, RUNNING, TRAINING, option

__all__ = [
    "Augment",
    "Baselines",
    "BatchSize",
    "ChannelsLast",
    "Components",
    "Cut",
    "Distill",
    "Epochs",
    "HeadDegree",
    "Keep",
    "LatentBatch",
    "LatentFolder",
    "LearningRate",
    "LinearPath",
    "MemoryLimit",
    "Monomials",
    "Pca",
    "PerClass",
    "Placement",
    "Pool",
    "Precision",
    "PresetName",
    "ProjectionOrder",
    "Read",
    "Schedule",
    "Score",
    "Sparse",
    "Temperature",
    "TimedBatch",
    "TrainProjection",
    "Validation",
    "Views",
    "WeightDecay",
    "WindowSeconds",
    "Windows",
]

CUT, LATENTS, HEAD = "Cut", "Latents", "Head"

Cut = Annotated[
    str | None,
    option(CUT, "--cut", help="Name or index of a place (see vinets cuts), or a share: 50%."),
]
PresetName = Annotated[
    str | None,
    option(
        CUT,
        "--preset",
        help="A VI-Net of the paper, such as VI-Net18-Small: its network, cut, components, "
        "polynomials and monomials. Other options override it.",
    ),
]
PerClass = Annotated[
    str, option(LATENTS, "--per-class", help="Examples per class to fit on, or all.")
]
Read = Annotated[
    str, option(LATENTS, "--read", help="What is read from the cut; see LatentReader.")
]
Pool = Annotated[
    int | None,
    option(LATENTS, "--pool", help="Pool the map to so many rows and columns.", min=1),
]
ChannelsLast = Annotated[
    bool, option(LATENTS, "--channels-last", help="The map has its channels last.")
]
LatentBatch = Annotated[int, option(LATENTS, "--latent-batch", help="Examples at once.", min=1)]
MemoryLimit = Annotated[
    float, option(LATENTS, "--memory-limit", help="GiB of latents to keep in memory.", min=0)
]
LatentFolder = Annotated[
    Path | None,
    option(LATENTS, "--latents", help="Folder for latents that exceed the memory limit."),
]
Placement = Annotated[
    str,
    option(HEAD, "--placement", help="global (a point an example) or local (a point a position)."),
]
Components = Annotated[
    str | None,
    option(
        HEAD,
        "--components",
        help="Variables of the polynomials, or all.",
        show_default="128, or all channels if local",
    ),
]
ProjectionOrder = Annotated[
    str, option(HEAD, "--order", help="tanh-pca or pca-tanh: squash or project first.")
]
Pca = Annotated[str, option(HEAD, "--pca", help="auto, exact, randomized or streaming.")]
TrainProjection = Annotated[
    bool, option(HEAD, "--train-projection", help="Training changes the projection too.")
]
Keep = Annotated[
    str | None,
    option(
        HEAD,
        "--keep",
        help="Polynomials per class, a share such as 50%, or all.",
        show_default="128, or 512 in all if local",
    ),
]
Monomials = Annotated[
    str | None,
    option(
        HEAD,
        "--monomials",
        help="The most monomials, or all.",
        show_default="512, or all if local",
    ),
]
HeadDegree = Annotated[
    int | None,
    option(
        IDEAL,
        "--max-degree",
        help="Largest degree; 0 is no limit.",
        show_default="5; if local 2, or 1 in the channels",
        min=0,
    ),
]
Score = Annotated[str, option(HEAD, "--score", help="Pruning score: separation or normalized.")]
Sparse = Annotated[bool, option(HEAD, "--sparse", help="Coefficients that are zero stay zero.")]
LinearPath = Annotated[
    int,
    option(HEAD, "--linear-path", help="Channels of a linear path beside; 0: none.", min=0),
]
Epochs = Annotated[int, option(TRAINING, "--epochs", help="Passes over the data.", min=1)]
BatchSize = Annotated[int, option(TRAINING, "--batch-size", help="Examples a step.", min=1)]
LearningRate = Annotated[float, option(TRAINING, "--learning-rate", help="The largest one.")]
WeightDecay = Annotated[
    float | None,
    option(TRAINING, "--weight-decay", help="Of SGD.", show_default="0.0005, or 0.002 if local"),
]
Schedule = Annotated[str, option(TRAINING, "--schedule", help="cosine, one-cycle or constant.")]
Precision = Annotated[str, option(TRAINING, "--precision", help="float32 or bfloat16.")]
Validation = Annotated[
    float,
    option(TRAINING, "--validation", help="Share held out to choose the best epoch."),
]
Augment = Annotated[
    bool, option(TRAINING, "--augment/--no-augment", help="Random crops and flips.")
]
Views = Annotated[
    int | None,
    option(
        TRAINING,
        "--views",
        help="Cache the latents of so many augmented passes: faster, more memory.",
        show_default="no cache",
        min=1,
    ),
]
Distill = Annotated[
    float, option(TRAINING, "--distill", help="Weight of what the uncut network says.")
]
Temperature = Annotated[float, option(TRAINING, "--temperature", help="Of the distillation.")]
Baselines = Annotated[
    bool,
    option(RUNNING, "--baselines/--no-baselines", help="Train and measure the other heads too."),
]
TimedBatch = Annotated[
    int, option(RUNNING, "--batch", help="Batch size of the speed measurement.", min=1)
]
Windows = Annotated[
    int, option(RUNNING, "--repeats", help="Windows of the speed measurement.", min=1)
]
WindowSeconds = Annotated[
    float, option(RUNNING, "--seconds", help="Length of a window in seconds.", min=0)
]
