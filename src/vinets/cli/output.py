"""What a command shows: tables or one JSON object on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from vinets.plain import as_plain
from vinets.progress import Bars, Lines, Progress, Silent


@contextmanager
def watching(quiet: bool) -> Iterator[Progress]:
    """Progress on stderr: bars for a person, lines for a log, nothing if quiet."""
    if quiet:
        yield Silent()
    elif sys.stderr.isatty():
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


def print_json(values: Any) -> None:
    """One JSON object on stdout; what is not a finite number becomes null."""
    typer.echo(json.dumps(as_plain(values), indent=2, ensure_ascii=False, allow_nan=False))
