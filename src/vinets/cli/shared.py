"""Options that several commands share, and how commands print tables, JSON, notes and progress."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinets.cli.parameters import DATA, OUTPUT, RUNNING, argument
from vinets.core.checks import counted
from vinets.core.files import parse_json
from vinets.core.options import FLAG, PATH, TEXT, Domain, Options, option, whole, words_of
from vinets.core.plain import as_plain
from vinets.core.progress import Bars, Lines, Progress, Silent

if TYPE_CHECKING:
    import torch

    from vinets.data import DataSplit
    from vinets.networks.open import NamedNetwork
    from vinets.report import Table


CUTS = Domain(
    "a name, an index or a share",
    lambda cut: isinstance(cut, str | int),
    lambda written: int(written) if written.lstrip("-").isdecimal() else written,
)
CUT_HELP = "Name or index of a cut (see vinets cuts), or a share: 50%."
SIZES = Domain(
    "positive integers with commas in between, such as 3,32,32",
    lambda sizes: isinstance(sizes, tuple) and all(size >= 1 for size in sizes),
    lambda written: tuple(map(int, written.split(","))),
)
CHANNELS = Domain(
    "numbers with commas in between, one per channel or one for all, such as 0.485,0.456,0.406",
    lambda values: isinstance(values, tuple),
    lambda written: tuple(map(float, written.split(","))),
)
SHARES = Domain(
    "two shares in (0, 1] with a comma in between, the smaller first, such as 0.35,1",
    lambda pair: pair is None or (len(pair) == 2 and 0 < pair[0] <= pair[1] <= 1),
    lambda written: tuple(map(float, written.split(","))),
)
PAIRS = Domain(
    "KEY=VALUE",
    lambda pairs: all("=" in one for one in pairs),
    typed=list[str],
    metavar="KEY=VALUE",
)


def _resize(written: str) -> str:
    from vinets.data.images import share_cut  # which knows what is accepted

    share_cut(written)
    return written


RESIZE = Domain(
    "squash, crop, or crop:SHARE with a share in (0, 1], such as crop:0.875",
    lambda how: True,  # what stands here has been read
    _resize,
)


PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}  # and what JSON has for them

UNCUT = argument("A folder of vinets train, or a network with --weights: {networks}.")
NETWORK = argument(
    "A folder of vinets build or vinets train, or a network with --weights: {networks}."
)
DATA_SET = DATA.option("{data formats}.")
SHAPE = DATA.option(
    "Shape of one input, such as 3,32,32.", None, SIZES, shown="what the network was made for"
)
CUT = DATA.option(CUT_HELP, domain=CUTS)


@dataclass(frozen=True)
class CommonOptions(Options):
    """What every command has."""

    quiet: bool = option(False, FLAG, "No progress on stderr.", panel=OUTPUT, short=("-q",))
    config: Path | None = option(  # read before the others are, see vinets.cli.app
        None, PATH, "Take options from a file, such as the run.toml of a folder.", panel=RUNNING
    )
    json: bool = option(
        False, FLAG, "Print one JSON object on stdout, and nothing else there.", panel=OUTPUT
    )
    seed: int = option(0, whole(0), "Seed of every draw.", panel=RUNNING)
    device: str = option(
        "auto", TEXT, "auto (a GPU where there is one), cpu, cuda or cuda:0.", panel=RUNNING
    )

    def start(self) -> torch.device:
        """Start torch's draws from the seed, and return the device; a wrong one is refused now."""
        import torch

        from vinets.core.device import resolve_device

        torch.manual_seed(self.seed)
        return resolve_device("vinets", self.device)

    def progress(self) -> AbstractContextManager[Progress]:
        """Show progress on stderr: bars for a person, lines for a log, nothing if quiet."""
        if self.quiet:
            return nullcontext(Silent())
        return Bars() if sys.stderr is not None and sys.stderr.isatty() else nullcontext(Lines())

    def note(self, text: str) -> None:
        """Say something on stderr."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def tell_reading(self, data: str, split: DataSplit) -> None:
        """Say how the files of a folder of images became inputs, and how many were left out."""
        from vinets.data import ImageSource
        from vinets.data.formats import takes_size

        if takes_size(data) and isinstance(split.train, ImageSource):
            height, width = split.train.images.shape[2:]
            done, other = "squashed", "crop cuts their middle out"
            if split.train.preprocessing.resize != "squash":
                done, other = "cut around the middle", "squash scales both sides apart"
            said = f"are {done} to {height} × {width} pixels; --resize {other}"
            self.note(f"Images of other shapes {said}.")
        if split.skipped:
            self.note(f"{counted(split.skipped, 'unreadable file')} left out.")

    def show(self, values: Any, *tables: Table) -> bool:
        """Print tables or, with --json, values as one JSON object; return whether it was tables.

        What is not a finite number becomes null.
        """
        if self.json:
            escaped = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
            print(json.dumps(as_plain(values), indent=2, ensure_ascii=escaped, allow_nan=False))
            return False
        from vinets.report import print_table

        for table in tables:
            print_table(table)
        return True


@dataclass(frozen=True)
class FolderOptions(CommonOptions):
    """What commands that fill a folder have in common."""

    wait: bool = option(
        False, FLAG, "Wait while another process writes into the folder.", panel=OUTPUT
    )


@dataclass(frozen=True)
class WorkerOptions(Options):
    """How many processes carry out trials, or which cluster."""

    panel = RUNNING
    jobs: int = option(1, whole(), "Processes side by side on the device.")
    cluster: str | None = option(
        None,
        TEXT,
        "Carry out trials on a cluster: dask://HOST:PORT or ray://HOST:PORT, or, with workers "
        "on this machine, dask://local:WORKERS or ray://local:WORKERS.",
        shown="on this machine",
    )

    @property
    def jobs_or_cluster(self) -> int | str:
        """What Python calls take as ``jobs``."""
        if self.cluster is not None and self.jobs > 1:
            raise ValueError(
                "--jobs is for processes of this machine, and --cluster has workers of its own. "
                "Pass one of them; local:2 behind dask:// starts two workers here."
            )
        return self.cluster or self.jobs


@dataclass(frozen=True)
class ReadingOptions(Options):
    """How data and weights are read; the names are those of :mod:`vinets.runs.on_data`."""

    panel = DATA
    weights: Path | None = option(
        None,
        PATH,
        "Weights for a network given by name: a file of safetensors or torch.save (.pth, .ckpt).",
    )
    model_option: tuple[str, ...] = option(
        (),
        PAIRS,
        "Option of the constructor of a network given by name, such as img_size=64; repeatable.",
        shown="",
    )
    classes: Path | None = option(
        None,
        PATH,
        "Names of the classes in the order of the network's outputs: a file with one a line.",
        shown="those that the network knows, else those of the data",
    )
    size: int | None = option(
        None,
        whole(),
        "Side to which a folder of images is resized.",
        shown="that of the first image",
    )
    split_seed: int = option(
        0,
        whole(0),
        "Seed of the test split, where the data has none of its own. Keep it the same for "
        "all commands, or networks are tested on what they were trained on.",
    )
    mean: tuple[float, ...] | None = option(
        None,
        CHANNELS,
        "Mean of pixels in [0, 1] by which images are normalised, such as 0.485,0.456,0.406.",
        shown="that of the network where it is known, else that of the training images",
    )
    std: tuple[float, ...] | None = option(
        None, CHANNELS, "Their standard deviation.", shown="as for --mean"
    )

    resize: str | None = option(
        None,
        RESIZE,
        "How images get the size: squash scales both sides apart, crop cuts the middle out, "
        "crop:0.875 this share of it.",
        shown="that of a saved network, else squash",
    )
    skip_unreadable: bool = option(False, FLAG, "Leave out images that cannot be read.")

    def keywords(self) -> dict[str, Any]:
        """Return what :func:`vinets.runs.on_data.open_with_data` takes."""
        values, options = dict(vars(self)), dict[str, Any]()
        for pair in values.pop("model_option"):
            key, _, word = pair.partition("=")
            try:  # numbers, bools, None and lists as JSON or Python have them, else words
                options[key] = parse_json(PYTHON_WORDS.get(word, word))
            except ValueError:
                options[key] = word
        return values | {"options": options}

    def words(self, kind: type[ReadingOptions] | None = None) -> tuple[str, ...]:
        """Return the options as they are written, as far as they differ from their defaults.

        With ``kind``, those that a command with fewer options takes, too.
        """
        return tuple(words_of(self, type(self)(), kind))


@dataclass(frozen=True)
class TrainingReadingOptions(ReadingOptions):
    """How data to train on is read, and how it is augmented."""

    flip: bool | None = option(
        None,
        FLAG,
        "Mirror half of the images at random in training.",
        shown="yes for CIFAR and Fashion-MNIST, else no",
    )
    crop: float | None = option(
        None,
        Domain("a number", lambda value: True, typed=float),  # checked where the images are known
        "Shift images in training by up to this share of the shorter side; 0 for no crops.",
        shown="0.125, without --scale",
    )
    scale: tuple[float, float] | None = option(
        None,
        SHARES,
        "Train on crops of random proportions, with these shares of an image's area, resized.",
        shown="no such crops",
    )


def opened_again(out: Path, model: str) -> str:
    """Return how to write the folder of what was made of a network: a file is named again."""
    file = model.rpartition("@")[2]
    return f"{out}@{file}" if ".py:" in file or file.endswith(".onnx") else str(out)


def open_data(
    net: str, data: str, reading: ReadingOptions, common: CommonOptions, *, uncut: bool = False
) -> tuple[NamedNetwork, DataSplit]:
    """Open a network with weights and the data that is named; it is uncut if that is wanted.

    What was guessed is told now, or for an uncut network together with its accuracy.
    """
    from vinets.networks.open import require_weights
    from vinets.runs.on_data import open_uncut, open_with_data

    with common.progress() as progress:
        how = reading.keywords() | {"progress": progress}
        if uncut:
            opened, _, split = open_uncut(net, data, **how)
            assert split is not None  # data is named
        else:
            opened, split = open_with_data(net, data, **how)
    require_weights(opened, data)
    common.tell_reading(data, split)
    if opened.guessed and not uncut:
        common.note(opened.guessed)
    return opened, split
