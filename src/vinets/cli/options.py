"""Options that several commands share, each with its help and its panel in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from vinets.cli.late_help import DATA_FORMATS

__all__ = ["DATA", "OUTPUT", "RUNNING", "Common", "Cut", "Reading", "Shape", "Weights", "option"]

DATA, RUNNING, OUTPUT = "Data", "Running", "Output"


def option(panel: str, *names: str, help: str, **more: Any) -> Any:
    """An option in a panel of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


@dataclass(frozen=True)
class Common:
    """What commands have in common."""

    seed: Annotated[int, option(RUNNING, "--seed", help="Seed of every draw.", min=0)] = 0
    device: Annotated[
        str,
        option(RUNNING, "--device", help="auto (a GPU where there is one), cpu, cuda or cuda:0."),
    ] = "auto"
    quiet: Annotated[bool, option(OUTPUT, "--quiet", "-q", help="No progress on stderr.")] = False
    json: Annotated[
        bool,
        option(OUTPUT, "--json", help="Print one JSON object on stdout, and nothing else there."),
    ] = False


Weights = Annotated[
    Path | None,
    option(DATA, "--weights", help="Weights for a network given by name: FILE.safetensors."),
]


@dataclass(frozen=True)
class Reading:
    """Where data and weights come from; the names are those of :mod:`vinets.pipeline.opening`."""

    data: Annotated[str, option(DATA, "--data", help=f"{DATA_FORMATS}.")]
    weights: Weights = None
    size: Annotated[
        int | None,
        option(
            DATA,
            "--size",
            help="Side to which a folder of images is resized.",
            show_default="that of the first image",
            min=1,
        ),
    ] = None
    split_seed: Annotated[
        int,
        option(
            DATA,
            "--split-seed",
            help="Seed of the test split, where the data has none of its own. Keep it the same for "
            "all commands, or networks are tested on what they were trained on.",
            min=0,
        ),
    ] = 0


Shape = Annotated[
    str | None,
    option(
        DATA,
        "--shape",
        help="Shape of one input, such as 3,32,32.",
        show_default="what the network was made for",
    ),
]
Cut = Annotated[
    str | None,
    option(DATA, "--cut", help="Name or index of a cut (see vinets cuts), or a share: 50%."),
]
