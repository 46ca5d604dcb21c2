"""Carry out trials, and keep their results on disk with the data and weights they belong to.

A trial whose result is kept is not repeated: this is how an interrupted call goes on, and how
several experiments share what they have in common. Trials that share latents run together, in this
process or by an executor.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import torch
from joblib import parallel_config

from vinets.core.checks import shortened
from vinets.core.executors import Processes
from vinets.core.files import (
    append_line,
    locked,
    parse_json,
    read_bytes,
    read_json,
    slugs,
    write_json,
    written_aside,
)
from vinets.core.plain import as_plain, from_plain
from vinets.core.progress import Progress, progress_of
from vinets.measure import machine
from vinets.models.libraries.file import FILE_MODULE
from vinets.runs.setup import Cut, Identity, Setup, SetupFiles, views_of
from vinets.runs.tasks import TASKS
from vinets.runs.trial import Trial, TrialResult, trial_from
from vinets.training.epochs import DivergedError

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

FILE, TRIALS = "store.json", "trials.jsonl"
# What commands write beside the file, which a folder without it has from elsewhere.
WRITTEN = (
    *("config.json", "model.safetensors", "network.json", "weights.safetensors"),
    *("results.json", "report.html", "run.toml"),
)
REMEDY = "Choose another folder, or delete this one to start anew."
MAX_BYTES = 1 << 30  # bytes of a file of results
WORKERS = ".workers"  # folder in the store for what workers share, there while they work
Setups: TypeAlias = Mapping[str, Setup | SetupFiles]

_one_group = threading.Lock()  # threads of a worker would draw from one generator


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

    kind: str = ""  # what is in the folder; empty in files of earlier versions
    networks: dict[str, Identity] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)


class Store:
    """Results in ``folder/trials.jsonl``, and networks that trials saved below ``folder``.

    A folder keeps one ``kind`` of results, such as "a search".
    """

    def __init__(self, folder: str | Path, kind: str = "results") -> None:
        self.folder, self.kind = Path(folder), kind
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
        folder that was saved into with other settings belongs to these. The ``identities`` are
        those of the uncut networks, by name, as they are now. The ``settings`` tell, by folder
        inside that of the store, how a network in it is made without a trial.
        """
        saved = dict(settings or {})
        for trial in dict.fromkeys(trials):
            if trial.save and saved.setdefault(trial.save, trial.changes) != trial.changes:
                raise ValueError(
                    f"Two trials save their networks in {trial.save!r}. Give each its own folder."
                )
        contents = self.check_kind()
        for name, now in identities.items():
            if differ := contents.networks.get(name, now).differences(now):
                other = f"{name or 'a network'} with other {' and other '.join(differ)}"
                raise ValueError(f"{self.folder} holds results of {other}. {REMEDY}")
        for place, ours in as_plain(saved).items():
            if differ := _differences(contents.saved.get(place, ours), ours):
                # A damaged file may have endless names.
                other = f"settings: they differ in {textwrap.shorten(', '.join(differ), 200)}"
                raise ValueError(f"{self.folder} holds a run with other {other}. {REMEDY}")
        networks = {**contents.networks, **identities}
        folders: dict[str, Any] = {**contents.saved, **saved}
        write_json(self.folder / FILE, as_plain(_Contents(self.kind, networks, folders)))

    def check_kind(self) -> _Contents:
        """Refuse a folder with other files or results of another kind; return what it holds."""
        path = self.folder / FILE
        if path.is_file():
            contents = from_plain(_Contents, read_json(path, inside=self.folder), str(path))
            if contents.kind not in ("", self.kind):
                theirs = shortened(contents.kind, 60)  # a damaged file may say anything
                raise ValueError(f"{self.folder} holds {theirs}, not {self.kind}. {REMEDY}")
            return contents
        if there := [name for name in WRITTEN if (self.folder / name).exists()]:
            raise ValueError(
                f"{self.folder} holds {there[0]}, which this command did not write. Choose another "
                "folder."
            )
        return _Contents()


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """List the settings that differ; what has its default is not among the changes."""
    names: list[str] = []
    for key in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(key), ours.get(key)
        if a != b:
            nested = isinstance(a, dict | None) and isinstance(b, dict | None)
            names += (_differences(a or {}, b or {}) if nested else []) or [key]
    return names


# --- carrying out -----------------------------------------------------------------------------


def run_trials(
    trials: Iterable[Trial],
    setups: Setups,
    store: Store,
    *,
    device: torch.device | str = "cpu",
    executor: Executor | None = None,
    progress: Progress | str | None = "auto",
) -> None:
    """Carry out the trials that have no result yet, and keep each result at once.

    First come those whose time counts, one after the other; then all others, by the executor if
    there is one; then the measurements of speed, which need networks that were trained. A training
    that diverges is raised when the others of its kind have come to their end. A store with results
    of other data or weights is refused.

    Parameters
    ----------
    setups
        The uncut networks that trials name, with their data. Other processes open files again,
        and are sent what lies in memory.
    device
        Where to compute; a :class:`Setup` has its own.
    executor
        Carries out trials next to each other, because small heads leave a GPU idle most of the
        time, see :func:`vinets.core.executors.open_executor`; None means this process. Its workers
        have to see the folder of the store, and files of setups, under the same names.
    """
    wanted, watch = list(dict.fromkeys(trials)), progress_of(progress)
    names = sorted({trial.network for trial in wanted})
    if unknown := [name for name in names if name not in setups]:
        known = ", ".join(map(repr, setups))
        raise ValueError(
            f"A trial is about the network {unknown[0]!r}, and those given are {known}."
        )
    # The caller's draws go on as if nothing had happened.
    with locked(store.folder), torch.random.fork_rng(devices=[]):
        shutil.rmtree(store.folder / WORKERS, ignore_errors=True)  # left by a call that was killed
        opened = {name: setups[name].open(name, torch.device(device)) for name in names}
        # What does not belong into the folder is refused before any work is done, and a network
        # that was trained on its test examples.
        store.claim(wanted, {name: setup.identity for name, setup in opened.items()})
        phases: dict[str, dict[Hashable, list[Trial]]] = {"alone": {}, "together": {}, "speed": {}}
        for trial in sorted(store.missing(wanted), key=_order):
            others = "alone" if trial.alone else "together"
            phase = "speed" if trial.task == "speed" else others
            # Trials that train a backbone of their own share little, so that each of them may go to
            # another worker.
            apart = phase == "speed" or (executor is not None and trial.recipe.layers != 0)
            phases[phase].setdefault(trial if apart else trial.shares, []).append(trial)
        for phase, groups in phases.items():
            diverged: list[DivergedError] = []
            if executor is not None and groups and phase == "together":
                diverged = _submit([*groups.values()], setups, str(device), store, executor, watch)
            else:
                for group in groups.values():
                    diverged += run_group(group, opened[group[0].network], store, watch)
            if diverged:
                raise diverged[0]


def run_group(
    trials: Sequence[Trial],
    setup: Setup,
    store: Store,
    progress: Progress,
    lessons: Path | None = None,
) -> list[DivergedError]:
    """Carry out trials that share latents, write each result at once, and return what diverged.

    Processes share the answers of teachers in the folder ``lessons``.
    """
    setup = setup.sampled(trials[0].sampling)
    cut, diverged = Cut(setup, trials[0], progress, lessons), []
    for trial in store.missing(trials):  # a worker that was lost has left some results
        begin = time.perf_counter()
        try:
            result = TASKS[trial.task](cut, trial, store.folder)
        except DivergedError as error:
            diverged.append(error)
            continue
        except Exception as error:
            error.add_note(f"This was the trial {trial.name}.")
            raise
        took = time.perf_counter() - begin
        on_cpu = trial.task == "speed" and trial.timing.where == "cpu"
        store.write(TrialRecord(trial, result, machine("cpu" if on_cpu else setup.device), took))
    del cut  # its latents and views, before the cache of the GPU is emptied
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # other processes need the memory
    return diverged


def _order(trial: Trial) -> tuple[str, ...]:
    """Return a key by which trials that share views and generators follow each other."""
    # As text, because a cut may be a name or a number and many settings may be None.
    generators = getattr(trial.options, "like", trial.options)
    views = views_of(trial.recipe)
    return tuple(map(repr, (trial.network, trial.cut, trial.seed, *views, generators)))


# --- other processes --------------------------------------------------------------------------


def _submit(
    groups: list[list[Trial]],
    setups: Setups,
    device: str,
    store: Store,
    executor: Executor,
    progress: Progress,
) -> list[DivergedError]:
    """Let the executor carry out the groups, wait for all of them, and return what diverged."""
    # Groups of one network follow each other, so that its data is read once; long ones come first.
    groups = sorted(groups, key=lambda group: (group[0].network, len(group)), reverse=True)
    trials = [trial for group in groups for trial in group]
    for name, module in list(sys.modules.items()):
        if name.startswith(FILE_MODULE):  # other processes could not import it
            cloudpickle.register_pickle_by_value(module)
    try:
        packed = cloudpickle.dumps(dict(setups))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(
            f"The network or its data cannot be sent to other processes ({error}). Run its "
            "trials in this one, with jobs=1 and no cluster."
        ) from None
    path = store.folder.resolve() / WORKERS / "setups"
    facts = path, hashlib.sha256(packed).hexdigest()
    threads = torch.get_num_threads()  # on which the last bits depend
    shared = isinstance(executor, Processes)  # one disk, on which a teacher's answers are shared
    if isinstance(executor, Processes):
        # A caller that computes in one thread means all of it.
        threads = max(1, min(threads, (os.cpu_count() or 1) // executor.count))
    waiting, diverged = set[Future[list[DivergedError]]](), list[DivergedError]()
    done = 0
    progress.start("trials", len(trials))
    try:
        with written_aside(path) as aside:
            aside.write_bytes(packed)
        for group in groups:
            waiting.add(executor.submit(_run_in_worker, group, facts, device, threads, shared))
        while waiting:
            finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in finished:
                diverged += future.result()
            # A group takes long, so that its results are counted as they appear in the folder.
            ready = len(trials) - len(store.missing(trials))
            progress.advance(ready - done)
            done = ready
    except BrokenExecutor:
        raise OSError(
            "A process beside this one was ended from outside, perhaps for want of memory. Run "
            "the same command again to go on, with fewer jobs if it happens once more."
        ) from None
    finally:
        for future in waiting:
            future.cancel()
        shutil.rmtree(path.parent, ignore_errors=True)
    return diverged


def _run_in_worker(
    trials: Sequence[Trial], facts: tuple[Path, str], device: str, threads: int, shared: bool
) -> list[DivergedError]:
    """Carry out trials in a process of an executor."""
    path, name = facts[0], trials[0].network
    with _one_group, torch.random.fork_rng(devices=[]), parallel_config("sequential"):
        torch.set_num_threads(threads)
        setups = _received(*facts)
        setup = setups[name] = setups[name].open(name, torch.device(device))  # for the next group
        lessons = path.parent / slugs(setups)[name] if shared else None
        return run_group(trials, setup, Store(path.parents[1]), progress_of(None), lessons)


@lru_cache(maxsize=1)
def _received(path: Path, digest: str) -> dict[str, Setup | SetupFiles]:
    """Read the setups of a call; nothing but what the call itself has written is unpickled."""
    if not path.is_file():
        raise OSError(
            f"{path.parents[1]} is not there on {platform.node()}, a worker of the cluster. "
            "Results go into a folder that all workers see, such as one on a network file system."
        )
    packed = path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != digest:
        raise OSError(f"{path} was changed while trials ran. Run the same command again.")
    return dict(cloudpickle.loads(packed))
