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
        self.path = self.folder / TRIALS
        self._size = -1  # bytes of the file when it was read
        self._values: dict[str, dict[str, Any]] = {}  # by the name of the trial

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
        append_line(self.path, json.dumps(values, ensure_ascii=False, allow_nan=False))

    def read(self, trial: Trial) -> TrialResult:
        """Return the result of a trial."""
        return self.record(trial).result

    def record(self, trial: Trial) -> TrialRecord:
        """Return all that is kept of a trial."""
        values = self._results().get(trial.name)
        if values is None:
            raise ValueError(f"{self.path} holds no result of the trial {trial.name}. Run it.")
        try:
            result = from_plain(TrialResult, values.get("result"))
            return TrialRecord(trial, result, dict(values.get("machine") or {}), values.get("took"))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.path} does not hold the result of the trial {trial.name}: {error} Delete "
                "its line, and run again."
            ) from None

    def records(self) -> Iterator[TrialRecord]:
        """Give all results, with their trials."""
        for values in self._results().values():
            yield self.record(trial_from(values.get("trial")))

    def claim(
        self,
        trials: Iterable[Trial],
        identities: Mapping[str, Identity],
        settings: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """Take the folder for these trials; refuse if it holds what does not go with them.

        Results of other data or weights are never mixed with these. Nor are saved networks: a
        folder that was saved into with other settings belongs to these.

        Parameters
        ----------
        identities : dict
            Those of the uncut networks, by name, as they are now.
        settings : dict
            By folder inside that of the store, how a network in it is made without a trial.
        """
        saved = dict(settings or {})
        for trial in dict.fromkeys(trials):
            if trial.save and saved.setdefault(trial.save, trial.changes) != trial.changes:
                raise ValueError(
                    f"Two trials save their networks in {trial.save!r}. Give each its own folder."
                )
        path, contents = self.folder / FILE, _Contents()
        if path.is_file():
            contents = from_plain(_Contents, read_json(path, inside=self.folder), str(path))
        for name, now in identities.items():
            if differ := contents.networks.get(name, now).differences(now):
                raise ValueError(
                    f"{self.folder} holds results of {name or 'a network'} with other "
                    f"{' and other '.join(differ)}. Choose another folder, or delete this one to "
                    "start anew."
                )
        for place, ours in as_plain(saved).items():
            theirs = contents.saved.get(place, ours)
            if theirs != ours:
                # A damaged file may have endless names.
                names = textwrap.shorten(", ".join(_differences(theirs, ours)), 200)
                raise ValueError(
                    f"{self.folder} holds a run with other settings: they differ in {names}. "
                    "Choose another folder, or delete this one to start anew."
                )
        networks, folders = {**contents.networks, **identities}, {**contents.saved, **saved}
        write_json(path, as_plain({"networks": networks, "saved": folders}))


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
