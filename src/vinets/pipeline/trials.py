"""Carry out trials: those that share latents together, several processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from vinets.files import slugs
from vinets.locks import locked
from vinets.measure import machine
from vinets.pipeline.context import CutContext
from vinets.pipeline.setup import Setup, SetupFiles
from vinets.pipeline.store import Store, TrialRecord
from vinets.pipeline.tasks import run_at_cut
from vinets.pipeline.trial import Trial
from vinets.progress import Progress, progress_of

LESSONS = ".lessons"  # folder where processes share what teachers say

_crew: _Crew  # of a process beside others, see _begin_process


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
    # the caller's draws go on as if nothing had happened
    with locked(store.folder), torch.random.fork_rng(devices=[]):
        shutil.rmtree(store.folder / LESSONS, ignore_errors=True)  # of a call that was killed
        # what does not belong into the folder is refused before any work is done
        store.claim(wanted, {name: crew.setup(name).identity for name in sorted(names)})
        for name in sorted(names):
            crew.setup(name).refuse_seen()
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
                parts = list(groups.values())
                try:
                    _side_by_side(parts, crew.files(), store, str(device), jobs, watch)
                except BrokenProcessPool:
                    raise OSError(
                        "A process beside this one was ended from outside, perhaps for want of "
                        "memory. Run the same command again to go on, with fewer jobs if it "
                        "happens once more."
                    ) from None
        for trial in missing:
            if trial.task == "speed":
                crew.carry_out([trial])


def _order(trial: Trial) -> tuple[str, ...]:
    """Trials that share views and generators follow each other."""
    # as text, for a cut may be a name or a number and many settings may be None
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
    lessons: Path | None = None  # where processes share what teachers say
    opened: dict[str, Setup] = field(default_factory=dict)

    def setup(self, name: str) -> Setup:
        """The network of that name with all its data."""
        if name not in self.setups:
            raise ValueError(
                f"A trial is about the network {name!r}, and those given are "
                f"{', '.join(map(repr, self.setups))}."
            )
        given = self.setups[name]
        if isinstance(given, Setup):
            return given
        if name not in self.opened:
            self.opened[name] = given.open(name, torch.device(self.device))
        return self.opened[name]

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
        folder = slugs(self.setups)[first.network]
        lessons = None if self.lessons is None else self.lessons / folder
        context = CutContext(setup, first, self.progress, lessons)
        for trial in trials:
            begin = time.perf_counter()
            result = run_at_cut(context, trial, self.store.folder)
            took = time.perf_counter() - begin
            on_cpu = trial.task == "speed" and trial.timing.where == "cpu"
            about = machine("cpu" if on_cpu else setup.device)
            self.store.write(TrialRecord(trial, result, about, took))
        del context  # its latents and views, before the cache of the GPU is emptied
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # for the processes beside this one


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
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    done = 0
    with ExitStack() as stack:
        lessons = stack.enter_context(_shared(store.folder / LESSONS))
        facts = (setups, store.folder, device, threads, lessons)
        pool = stack.enter_context(ProcessPoolExecutor(jobs, context, _begin_process, facts))
        with _unstoppable():
            waiting: set[Future[None]] = {pool.submit(_in_process, group) for group in groups}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()  # raises what went wrong in the process
                # a group is long: its results are counted as they appear in the folder
                ready = len(trials) - len(store.missing(trials))
                progress.advance(ready - done)
                done = ready
        except BaseException:
            for future in waiting:
                future.cancel()
            # End the processes now: what they have finished is written.
            for process in list((pool._processes or {}).values()):
                process.terminate()
            time.sleep(0.1)
            raise


@contextmanager
def _shared(folder: Path) -> Iterator[Path]:
    """A folder for the time being; beside the results, where the next call can remove it, too."""
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _begin_process(
    setups: dict[str, SetupFiles], folder: Path, device: str, threads: int, lessons: Path
) -> None:
    """What a process keeps for all its groups, so that it opens each network once."""
    global _crew
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    _crew = _Crew(setups, Store(folder), device, progress_of(None), lessons)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a process beside others
    parent.join()
    os._exit(1)


@contextmanager
def _unstoppable() -> Iterator[None]:
    """Processes that begin here never see Ctrl-C: the one that started them ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:  # a Ctrl-C from in between arrives now
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_process(trials: Sequence[Trial]) -> None:
    _crew.carry_out(trials)
