"""Keep results of trials on disk, a line for each, with the data and weights they belong to.

A trial whose result is kept is not repeated: this is how an interrupted call goes on, and how
several experiments share what they have in common.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vinets.core.files import append_line, parse_json, read_bytes, read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.runs.setup import Identity
from vinets.runs.trial import Trial, TrialResult, trial_from

FILE, TRIALS = "store.json", "trials.jsonl"
MAX_BYTES = 1 << 30  # bytes of a file of results


@dataclass(frozen=True)
class TrialRecord:
    """A trial with its result, and where and how long it ran."""

    trial: Trial
    result: TrialResult
    machine: dict[str, Any]  # see vinets.measure.machine
    took: float | None = None  # seconds; what trials share counts for the first of them


@dataclass(frozen=True)
class _Contents:
    """What ``store.json`` holds: the uncut networks, and which trial each folder was saved by."""

    networks: dict[str, Identity] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)


class Store:
    """Results in ``folder/trials.jsonl``, and networks that trials saved below ``folder``."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if any((self.folder / "trials").glob("*.json")):
            raise ValueError(
                f"{self.folder} holds results of version 0.2, a file for each. Rewrite them with "
                f"python -m benchmarks.convert {self.folder} in the repository of vinets, or "
                "choose another folder."
            )
        self._size = -1  # bytes of the file when it was read
        self._values: dict[str, dict[str, Any]] = {}  # by the name of the trial

    @property
    def path(self) -> Path:
        """The file of the results."""
        return self.folder / TRIALS

    def _results(self) -> dict[str, dict[str, Any]]:
        """Return the lines of the file by name, read again where it has changed."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size != self._size:
            self._values = {}
            text = read_bytes(self.path, MAX_BYTES, inside=self.folder) if size else b""
            for line in text.split(b"\n"):
                try:
                    values = parse_json(line.decode("utf-8"))
                    self._values[values.pop("name")] = values
                except (ValueError, KeyError, AttributeError, TypeError):
                    continue  # a line that was cut short is no result, and the trial is repeated
            self._size = size
        return self._values

    def __len__(self) -> int:
        return len(self._results())

    def missing(self, trials: Iterable[Trial]) -> list[Trial]:
        """Return the trials without a result, each once."""
        known = self._results()
        return [trial for trial in dict.fromkeys(trials) if trial.name not in known]

    def write(self, record: TrialRecord) -> None:
        """Keep the result of a trial; several processes may write at once."""
        # The changes of the trial are kept, because its name is made of these.
        values = {"name": record.trial.name, **as_plain(record), "trial": record.trial.changes}
        line = json.dumps(values, ensure_ascii=False, allow_nan=False)
        append_line(self.path, line)

    def read(self, trial: Trial) -> TrialResult:
        """Return the result of a trial."""
        return self.record(trial).result

    def record(self, trial: Trial) -> TrialRecord:
        """Return all that is kept of a trial."""
        if trial.name not in self._results():
            raise ValueError(f"{self.path} holds no result of the trial {trial.name}. Run it.")
        return self._record(trial.name, trial)

    def records(self) -> Iterator[TrialRecord]:
        """Give all results, with their trials."""
        for name, values in self._results().items():
            yield self._record(name, trial_from(values.get("trial")))

    def _record(self, name: str, trial: Trial) -> TrialRecord:
        values = self._results()[name]
        try:
            result = from_plain(TrialResult, values.get("result"))
            machine, took = (values.get(key) for key in ("machine", "took"))
            return TrialRecord(trial, result, dict(machine or {}), took)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.path} does not hold the result of the trial {name}: {error} Delete its "
                "line, and run again."
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
                # A damaged file may have endless names.
                names = textwrap.shorten(", ".join(_differences(theirs, ours)), 200)
                raise ValueError(
                    f"{self.folder} holds a run with other settings: they differ in {names}. "
                    "Choose another folder, or delete this one to start anew."
                )
        merged = _Contents(
            {**contents.networks, **identities}, {**contents.saved, **as_plain(saved)}
        )
        write_json(path, as_plain(merged))


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """List the settings that differ; what has its default is not among the changes."""
    names: list[str] = []
    for key in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(key), ours.get(key)
        if isinstance(a, dict | None) and isinstance(b, dict | None) and a != b:
            names += _differences(a or {}, b or {}) or [key]
        elif a != b:
            names.append(key)
    return names
