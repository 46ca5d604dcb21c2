"""What a command shows: tables or one JSON object on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from vinets.core.plain import as_plain
from vinets.core.progress import Bars, Lines, Progress, Silent

if TYPE_CHECKING:
    from vinets.data import DataSplit
    from vinets.networks.open import NamedNetwork


@contextmanager
def watching(quiet: bool) -> Iterator[Progress]:
    """Progress on stderr: bars for a person, lines for a log, nothing if quiet."""
    if quiet:
        yield Silent()
    elif sys.stderr is not None and sys.stderr.isatty():
        with Bars() as bars:
            yield bars
    else:
        yield Lines()


def seeded(seed: int) -> None:
    """Start torch's draws, those of weights that are not given among them, from ``seed``."""
    import torch

    torch.manual_seed(seed)


def note(text: str, quiet: bool = False) -> None:
    """Say something on stderr."""
    if not quiet:
        typer.echo(text, err=True)


def note_normalisation(opened: NamedNetwork, data: DataSplit, quiet: bool) -> None:
    """Say how images are normalised, where neither the user nor the folder of a network did."""
    from vinets.data import ImageSource

    if opened.told_by and isinstance(data.train, ImageSource):
        used = data.train.preprocessing
        mean, std = (", ".join(f"{v:g}" for v in values) for values in (used.mean, used.std))
        note(
            f"Images are normalised as {opened.told_by} tells, by mean {mean} and std {std}; "
            "--mean and --std change that.",
            quiet,
        )


def print_json(values: Any) -> None:
    """One JSON object on stdout; what is not a finite number becomes null."""
    escaped = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    typer.echo(json.dumps(as_plain(values), indent=2, ensure_ascii=escaped, allow_nan=False))
