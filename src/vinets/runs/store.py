"""Results of trials on disk: one file per trial, the data and weights they belong to beside them.

A trial that is there is not repeated: this is how an interrupted call goes on, and how several
experiments share what they have in common.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vinets.core.files import read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.runs.setup import Identity
from vinets.runs.trial import Trial, TrialResult

FILE, FOLDER = "store.json", "trials"


@dataclass(frozen=True)
class TrialRecord:
    """A result with how it came about."""

    trial: Trial
    result: TrialResult
    machine: dict[str, Any]  # of vinets.measure.machine
    took: float | None = None  # seconds; what trials share counts for the first of them


@dataclass(frozen=True)
class _Contents:
    """What ``store.json`` holds: the uncut networks, and which trial each folder was saved by."""

    networks: dict[str, Identity] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)


class Store:
    """Results below ``folder/trials``, and networks that trials saved below ``folder``."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, trial: Trial) -> Path:
        """Where the result of a trial is kept."""
        return self.folder / FOLDER / f"{trial.name}.json"

    def missing(self, trials: Iterable[Trial]) -> list[Trial]:
        """Those without a result, each once."""
        return [trial for trial in dict.fromkeys(trials) if not self.path(trial).is_file()]

    def write(self, record: TrialRecord) -> None:
        """Keep the result of a trial."""
        # of the trial what identifies it, for the name of the file is made of this
        values = as_plain(record) | {"trial": record.trial.changes}
        write_json(self.path(record.trial), values)

    def read(self, trial: Trial) -> TrialResult:
        """The result of a trial."""
        return self.record(trial).result

    def record(self, trial: Trial) -> TrialRecord:
        """All that is kept of a trial."""
        return self.load(self.path(trial))

    def load(self, path: Path) -> TrialRecord:
        """What a file of results holds."""
        try:
            return from_plain(TrialRecord, read_json(path, inside=self.folder))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path} does not hold the result of a trial: {error} Delete it, and run again."
            ) from None

    # --- what results belong to ---------------------------------------------------------------

    def claim(self, trials: Iterable[Trial], identities: Mapping[str, Identity]) -> None:
        """Take the folder for these trials; refuse if it holds what does not go with them.

        ``identities`` are those of the uncut networks, by name, as they are now.
        """
        saved: dict[str, dict[str, object]] = {}
        for trial in dict.fromkeys(trials):
            if trial.save and saved.setdefault(trial.save, trial.changes) != trial.changes:
                raise ValueError(
                    f"Two trials save their networks in {trial.save!r}. Give each its own folder."
                )
        self.reserve(saved, identities)

    def reserve(
        self, saved: Mapping[str, Mapping[str, object]], identities: Mapping[str, Identity]
    ) -> None:
        """Note what is going to be saved where (settings by folder), with which data and weights.

        Results of other data or weights are never mixed with these. Nor are saved networks: a
        folder that was saved into with other settings belongs to these.
        """
        path = self.folder / FILE
        contents = (
            from_plain(_Contents, read_json(path, inside=self.folder), str(path))
            if path.is_file()
            else _Contents()
        )
        for name, now in identities.items():
            differ = contents.networks.get(name, now).differences(now)
            if differ:
                raise ValueError(
                    f"{self.folder} holds results of {name or 'a network'} with other "
                    f"{' and other '.join(differ)}. Choose another folder, or delete this one to "
                    "start anew."
                )
        for place, settings in saved.items():
            ours = as_plain(settings)
            theirs = contents.saved.get(place, ours)
            if theirs != ours:
                # what a damaged file has for a name may be endless
                told = textwrap.shorten(", ".join(_differences(theirs, ours)), 200)
                raise ValueError(
                    f"{self.folder} holds a run with other settings: they differ in {told}. "
                    "Choose another folder, or delete this one to start anew."
                )
        merged = _Contents(
            {**contents.networks, **identities}, {**contents.saved, **as_plain(saved)}
        )
        write_json(path, as_plain(merged))


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Names of the settings that differ; what has its default is not among the changes."""
    names: list[str] = []
    for key in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(key), ours.get(key)
        if isinstance(a, dict | None) and isinstance(b, dict | None) and a != b:
            names += _differences(a or {}, b or {}) or [key]
        elif a != b:
            names.append(key)
    return names
