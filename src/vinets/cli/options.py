"""Options that several commands share, with their help and their panel, and how texts are read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

DATA, RUNNING, OUTPUT = "Data", "Running", "Output"


def option(panel: str, help: str, *names: str, **more: Any) -> Any:
    """An option in a panel of the help; its name is that of the parameter if none is given."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


Weights = Annotated[
    Path | None, option(DATA, "Weights for a network given by name: FILE.safetensors.")
]
Shape = Annotated[
    str | None,
    option(
        DATA, "Shape of one input, such as 3,32,32.", show_default="what the network was made for"
    ),
]
Limit = Annotated[
    int | None,
    option(DATA, "Training examples to use.", show_default="all of them", min=1),
]
KNOWN = "that of the network where it is known, else that of the training images"
CUT = "Name or index of a cut (see vinets cuts), or a share: 50%."


@dataclass(frozen=True)
class Common:
    """What commands have in common."""

    seed: Annotated[int, option(RUNNING, "Seed of every draw.", min=0)] = 0
    device: Annotated[
        str, option(RUNNING, "auto (a GPU where there is one), cpu, cuda or cuda:0.")
    ] = "auto"
    quiet: Annotated[bool, option(OUTPUT, "No progress on stderr.", "--quiet", "-q")] = False
    config: Annotated[  # read before the others are, see vinets.cli.late_help
        Path | None,
        option(RUNNING, "Take options from a file, such as the run.toml of a folder."),
    ] = None
    json: Annotated[
        bool, option(OUTPUT, "Print one JSON object on stdout, and nothing else there.")
    ] = False


@dataclass(frozen=True)
class Filling(Common):
    """What commands that fill a folder have in common."""

    wait: Annotated[
        bool, option(OUTPUT, "Wait while another process writes into the folder.", "--wait")
    ] = False


@dataclass(frozen=True)
class Workers:
    """How many processes carry out trials, or which cluster."""

    jobs: Annotated[int, option(RUNNING, "Processes side by side on the device.", min=1)] = 1
    cluster: Annotated[
        str | None,
        option(
            RUNNING,
            "Carry out trials on a cluster: dask://HOST:PORT or ray://HOST:PORT, or, with workers "
            "on this machine, dask://local:WORKERS or ray://local:WORKERS.",
            show_default="on this machine",
        ),
    ] = None

    @property
    def jobs_or_cluster(self) -> int | str:
        """What Python calls take as ``jobs``."""
        if self.cluster is None:
            return self.jobs
        if self.jobs > 1:
            raise ValueError(
                "--jobs is for processes of this machine, and --cluster has workers of its own. "
                "Pass one of them; local:2 behind dask:// starts two workers here."
            )
        return self.cluster


@dataclass(frozen=True)
class Reading:
    """Where data and weights come from; the names are those of :mod:`vinets.runs.open`."""

    data: Annotated[str, option(DATA, "{data formats}.")]
    weights: Weights = None
    size: Annotated[
        int | None,
        option(
            DATA,
            "Side to which a folder of images is resized.",
            show_default="that of the first image",
            min=1,
        ),
    ] = None
    split_seed: Annotated[
        int,
        option(
            DATA,
            "Seed of the test split, where the data has none of its own. Keep it the same for "
            "all commands, or networks are tested on what they were trained on.",
            min=0,
        ),
    ] = 0
    mean: Annotated[
        str | None,
        option(
            DATA,
            "Mean of pixels in [0, 1] by which images are normalised, such as 0.485,0.456,0.406.",
            show_default=KNOWN,
        ),
    ] = None
    std: Annotated[
        str | None, option(DATA, "Their standard deviation.", show_default="as for --mean")
    ] = None

    def keywords(self) -> dict[str, Any]:
        """What :func:`vinets.runs.open.open_with_data` takes."""
        from vinets.runs.open import ImageOptions

        given = vars(self) | {
            "mean": numbers("--mean", self.mean),
            "std": numbers("--std", self.std),
        }
        names = [one.name for one in fields(ImageOptions)]
        images = ImageOptions(**{name: given.pop(name) for name in names if name in given})
        return given | {"images": images}

    def words(self, kind: type[Reading] | None = None) -> tuple[str, ...]:
        """The options as they are written, as far as they differ from their defaults.

        With ``kind``, those that a command with fewer options takes, too.
        """
        found: list[str] = []
        for one in fields(kind or type(self)):
            value, flag = getattr(self, one.name), one.name.replace("_", "-")
            if isinstance(value, bool):
                found.append(f"--{flag}" if value else f"--no-{flag}")
            elif value != one.default:
                found += [f"--{flag}", str(value)]
        return tuple(found)


@dataclass(frozen=True)
class TrainingData(Reading):
    """Where data to train on comes from, and how it is augmented."""

    flip: Annotated[
        bool | None,
        option(
            DATA,
            "Mirror half of the images at random in training.",
            "--flip/--no-flip",
            show_default="yes for CIFAR and Fashion-MNIST, else no",
        ),
    ] = None
    crop: Annotated[
        float | None,
        option(
            DATA,
            "Shift images in training by up to this share of the shorter side; 0 for no crops.",
            show_default="0.125",
        ),
    ] = None


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers with commas in between; None where nothing was given.

    Examples
    --------
    >>> numbers("--mean", "0.5,0.4,0.5")
    (0.5, 0.4, 0.5)
    """
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"{option} must be numbers with commas in between, one per channel or one for all, "
            f"such as 0.485,0.456,0.406. Got {text!r} instead."
        ) from None


def integers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Positive integers with commas in between; None where nothing was given.

    Examples
    --------
    >>> integers("--shape", "3,32,32")
    (3, 32, 32)
    """
    if text is None:
        return None
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise ValueError(
            f"{option} must be positive integers with commas in between, such as 3,32,32. "
            f"Got {text!r} instead."
        )
    return values


def opened_again(out: Path, model: str) -> str:
    """How to write the folder of what was made of a network: a file is named again.

    Examples
    --------
    >>> opened_again(Path("out"), "base@net.py:MyNet"), opened_again(Path("out"), "resnet18")
    ('out@net.py:MyNet', 'out')
    """
    file = model.rpartition("@")[2]
    return f"{out}@{file}" if ".py:" in file else str(out)


def cut_of(text: str) -> str | int:
    """An index into the cut points, a share of layers such as ``50%``, or a name."""
    try:
        return int(text)
    except ValueError:
        return text
