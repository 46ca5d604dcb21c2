"""Carry out trials: those that share latents together, several processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache

import torch

from vinets.measure import machine
from vinets.pipeline.context import CutContext
from vinets.pipeline.setup import Setup, SetupFiles
from vinets.pipeline.store import Store, TrialRecord
from vinets.pipeline.tasks import measure_speed, run_at_cut
from vinets.pipeline.trial import Trial
from vinets.progress import Progress, progress_of

__all__ = ["run_trials"]


def run_trials(
    trials: Iterable[Trial],
    setups: Mapping[str, Setup | SetupFiles],
    store: Store,
    *,
    device: torch.device | str = "cpu",
    jobs: int = 1,
    progress: Progress | str | None = "auto",
) -> None:
    """Carry out the trials that have no result yet, and keep each result at once.

    First those whose time counts, one after the other; then all others, in several processes if
    there are to be; then the measurements of speed, which need networks that were trained.

    Parameters
    ----------
    trials : iterable of Trial
        What to compute.
    setups : dict
        The uncut networks that trials name, with their data; as files, where ``jobs`` is above 1.
    store : Store
        Where results are kept. Results of other data or weights in it are refused.
    device : torch.device or str, default="cpu"
        Where to compute; a :class:`Setup` has its own.
    jobs : int, default=1
        Processes side by side; small heads leave a GPU idle most of the time.
    """
    wanted = list(dict.fromkeys(trials))
    watch = progress_of(progress)
    crew = _Crew(setups, store, str(device), watch)
    names = {trial.network for trial in wanted}
    with torch.random.fork_rng(devices=[]):  # the caller's draws go on as if nothing had happened
        store.claim(wanted, {name: crew.setup(name).identity for name in sorted(names)})
        missing = store.missing(wanted)
        for alone in (True, False):
            chosen = [t for t in missing if t.alone == alone and t.task != "speed"]
            groups: dict[Hashable, list[Trial]] = {}
            for trial in sorted(chosen, key=_order):
                # behind a backbone of its own there is little to share, and processes to fill
                own = jobs > 1 and trial.tuning.tune != "head"
                groups.setdefault(trial if own else trial.shares, []).append(trial)
            if alone or jobs == 1:
                for group in groups.values():
                    crew.carry_out(group)
            elif groups:
                _side_by_side(list(groups.values()), crew.files(), store, str(device), jobs, watch)
        for trial in missing:
            if trial.task == "speed":
                crew.measure(trial)


def _order(trial: Trial) -> tuple[str, ...]:
    """Trials that share views and generators follow each other."""
    facts = (trial.network, trial.cut, trial.seed, trial.caching, bool(trial.recipe.distill))
    found = (trial.projecting, trial.finding, trial.placing)
    return tuple(map(repr, (*facts, *found)))


@dataclass
class _Crew:
    """The setups of a process, opened when they are first needed."""

    setups: Mapping[str, Setup | SetupFiles]
    store: Store
    device: str
    progress: Progress

    def __post_init__(self) -> None:
        self._opened: dict[str, Setup] = {}

    def setup(self, name: str) -> Setup:
        """The network of that name with all its data."""
        if name not in self._opened:
            if name not in self.setups:
                raise ValueError(
                    f"A trial is about the network {name!r}, and those given are "
                    f"{', '.join(map(repr, self.setups))}."
                )
            given = self.setups[name]
            self._opened[name] = (
                given if isinstance(given, Setup) else given.open(name, torch.device(self.device))
            )
        return self._opened[name]

    def files(self) -> dict[str, SetupFiles]:
        """What other processes can open."""
        found = {n: s for n, s in self.setups.items() if isinstance(s, SetupFiles)}
        if len(found) < len(self.setups):
            raise ValueError("Networks in memory cannot be shared by processes. Pass jobs=1.")
        return found

    def carry_out(self, trials: Sequence[Trial]) -> None:
        """Trials that share latents; each result is written at once."""
        first = trials[0]
        setup = self.setup(first.network).sampled(first.sampling)
        context = CutContext(setup, first, self.progress)
        for trial in trials:
            begin = time.perf_counter()
            result = run_at_cut(context, trial, self.store.folder)
            took = time.perf_counter() - begin
            self.store.write(TrialRecord(trial, result, machine(setup.device), took))
        del context  # its latents and views, before the cache of the GPU is emptied
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # for the processes beside this one

    def measure(self, trial: Trial) -> None:
        """The speed of saved networks."""
        setup = self.setup(trial.network).sampled(trial.sampling)
        self.progress.start("timing", 1)
        begin = time.perf_counter()
        result = measure_speed(setup, trial, self.store.folder)
        took = time.perf_counter() - begin
        device = "cpu" if trial.timing.where == "cpu" else setup.device
        self.store.write(TrialRecord(trial, result, machine(device), took))
        self.progress.advance(1)


# --- processes --------------------------------------------------------------------------------


def _side_by_side(
    groups: list[list[Trial]],
    setups: dict[str, SetupFiles],
    store: Store,
    device: str,
    jobs: int,
    progress: Progress,
) -> None:
    """Several processes; of each network, so that its data is read once, the longest come first."""
    groups = sorted(groups, key=lambda group: (group[0].network, len(group)), reverse=True)
    trials = [trial for group in groups for trial in group]
    progress.start("trials", len(trials))
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    work = _Work(tuple(sorted(setups.items())), store.folder.as_posix(), device)
    done = 0
    with ProcessPoolExecutor(jobs, context, torch.set_num_threads, (threads,)) as pool:
        waiting: set[Future[None]] = {pool.submit(_in_process, work, group) for group in groups}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                ready = len(trials) - len(store.missing(trials))
                progress.advance(ready - done)
                done = ready
        except BaseException:
            for future in waiting:
                future.cancel()
            _stop(pool)
            raise


@dataclass(frozen=True)
class _Work:
    """What a process needs to know; hashable, so that it opens each network once."""

    setups: tuple[tuple[str, SetupFiles], ...]
    folder: str
    device: str


@lru_cache(maxsize=1)
def _crew(work: _Work) -> _Crew:
    return _Crew(dict(work.setups), Store(work.folder), work.device, progress_of(None))


def _in_process(work: _Work, trials: Sequence[Trial]) -> None:
    _crew(work).carry_out(trials)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes now: what they have finished is written."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    time.sleep(0.1)
