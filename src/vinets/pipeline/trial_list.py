"""Trials in a file, to be carried out by ``python -m vinets.run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vinets.files import read_json, write_json
from vinets.pipeline.setup import SetupFiles
from vinets.pipeline.trial import Trial
from vinets.plain import as_plain, changes, from_plain


@dataclass(frozen=True)
class TrialList:
    """Trials, and where the networks that they name lie."""

    networks: dict[str, SetupFiles]
    trials: tuple[Trial, ...]


def write_list(
    path: str | Path, networks: Mapping[str, SetupFiles], trials: Sequence[Trial]
) -> Path:
    """Write a file that ``python -m vinets.run`` takes."""
    values: dict[str, Any] = {
        "networks": as_plain(networks),
        "trials": [changes(trial, everything=True) for trial in dict.fromkeys(trials)],
    }
    return write_json(path, values)


def read_list(path: str | Path) -> TrialList:
    """Read such a file; what is wrong in it is named with its place."""
    return from_plain(TrialList, read_json(path), str(path))
