"""Carry out trials: those that share latents together, several processes side by side."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import platform
import shutil
import signal
import sys
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from joblib import parallel_config
from torch import nn

from vinets.core import ranks
from vinets.core.executors import Cluster, cloudpickle
from vinets.core.files import slugs
from vinets.core.locks import locked
from vinets.core.progress import Progress, progress_of
from vinets.data import DataSplit
from vinets.measure import machine
from vinets.models.libraries.file import FILE_MODULE
from vinets.runs.context import CutContext
from vinets.runs.setup import Setup, SetupFiles
from vinets.runs.store import Store, TrialRecord
from vinets.runs.tasks import run_at_cut
from vinets.runs.trial import Trial
from vinets.training.loop import DivergedError

LESSONS = ".lessons"  # folder where processes share what teachers say

_crew: _Crew  # of a process beside others, see _begin_process and _on_worker
_crew_of: tuple[str, Path, str] | None = None  # what it was made of, on a worker of a cluster
_one_at_a_time = threading.Lock()


def run_trials(
    trials: Iterable[Trial],
    setups: Mapping[str, Setup | SetupFiles],
    store: Store,
    *,
    device: torch.device | str = "cpu",
    jobs: int | Cluster = 1,
    progress: Progress | str | None = "auto",
) -> None:
    """Carry out the trials that have no result yet, and keep each result at once.

    First those whose time counts, one after the other; then all others, in several processes if
    there are to be; then the measurements of speed, which need networks that were trained. A
    training that diverges does not keep others beside it from their end.

    Parameters
    ----------
    trials : iterable of Trial
        What to compute.
    setups : dict
        The uncut networks that trials name, with their data. Other processes open files again,
        and are sent what lies in memory.
    store : Store
        Where results are kept. Results of other data or weights in it are refused.
    device : torch.device or str, default="cpu"
        Where to compute; a :class:`Setup` has its own.
    jobs : int or Cluster, default=1
        Processes side by side, for small heads leave a GPU idle most of the time; or a cluster, see
        :func:`vinets.core.executors.open_cluster`. Its workers have to see the folder of the store,
        and files of setups, under the same names.
    """
    beside = jobs != 1
    if beside and ranks.size() > 1:
        raise ValueError(
            "Trials run side by side, or each is divided among processes of torchrun. Leave out "
            "jobs and the cluster, or torchrun."
        )
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
        ranks.wait()  # until all have looked what there is
        for alone in (True, False):
            chosen = [t for t in missing if t.alone == alone and t.task != "speed"]
            groups: dict[Hashable, list[Trial]] = {}
            for trial in sorted(chosen, key=_order):
                # behind a backbone of its own there is little to share, and processes to fill
                own = beside and trial.recipe.layers != 0
                groups.setdefault(trial if own else trial.shares, []).append(trial)
            if alone or not beside:
                for group in groups.values():
                    crew.carry_out(group)
            elif groups:
                ordered = _longest_first(groups.values())
                facts = crew.sent(), store.folder.resolve(), crew.type_of_device(names)
                if isinstance(jobs, int):
                    _side_by_side(ordered, facts, store, jobs, watch)
                else:
                    _elsewhere(ordered, facts, store, jobs, watch)
        for trial in missing:
            if trial.task == "speed" and ranks.rank() == 0:  # one process alone is timed
                crew.carry_out([trial])
        ranks.wait()  # for what the first has written


def _order(trial: Trial) -> tuple[str, ...]:
    """Trials that share views and generators follow each other."""
    # as text, for a cut may be a name or a number and many settings may be None
    recipe = trial.recipe
    views = (recipe.views, recipe.dtype, recipe.projected, bool(recipe.distill))
    facts = (trial.network, trial.cut, trial.seed, *views)
    found = (getattr(trial.options, "like", trial.options),)
    return tuple(map(repr, (*facts, *found)))


@dataclass
class _Crew:
    """The setups of a process, opened when they are first needed."""

    setups: Mapping[str, Setup | SetupFiles | _InMemory]
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

    def sent(self) -> bytes:
        """The setups as other processes get them: as files, or whole where they lie in memory."""
        given = {
            name: _InMemory(one.name, one.model, one.data) if isinstance(one, Setup) else one
            for name, one in self.setups.items()
        }
        for name, module in list(sys.modules.items()):
            if name.startswith(FILE_MODULE):  # nobody else could import it
                cloudpickle.register_pickle_by_value(module)
        try:
            packed: bytes = cloudpickle.dumps(given)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ValueError(
                f"The network or its data cannot be sent to other processes ({error}). Run its "
                "trials in this one, with jobs=1 and no cluster."
            ) from None
        return packed

    def type_of_device(self, names: Iterable[str]) -> str:
        """Where other processes compute: as said, and a setup in memory says it itself."""
        on = {str(s.device) for n in names if isinstance(s := self.setups[n], Setup)}
        return on.pop() if len(on) == 1 else self.device

    def carry_out(self, trials: Sequence[Trial]) -> None:
        """Trials that share latents; each result is written at once.

        What diverged is raised when the others are done.
        """
        first = trials[0]
        setup = self.setup(first.network).sampled(first.sampling)
        folder = slugs(self.setups)[first.network]
        lessons = None if self.lessons is None else self.lessons / folder
        context = CutContext(setup, first, self.progress, lessons)
        diverged: DivergedError | None = None
        for trial in self.store.missing(trials):  # some may be there, where a worker was lost
            begin = time.perf_counter()
            try:
                result = run_at_cut(context, trial, self.store.folder)
            except DivergedError as error:
                diverged = diverged or error
                continue
            took = time.perf_counter() - begin
            on_cpu = trial.task == "speed" and trial.timing.where == "cpu"
            about = machine("cpu" if on_cpu else setup.device)
            self.store.write(TrialRecord(trial, result, about, took))
        del context  # its latents and views, before the cache of the GPU is emptied
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # for the processes beside this one
        if diverged is not None:
            raise diverged


@dataclass(frozen=True)
class _InMemory:
    """A setup on its way to another process; the module may be of a class that is known here only.

    What travels is read by the workers of this call, and never kept.
    """

    name: str
    model: nn.Module
    data: DataSplit

    def open(self, name: str, device: torch.device) -> Setup:
        return Setup(self.name, self.model, self.data, device)


# --- processes --------------------------------------------------------------------------------

Facts: TypeAlias = tuple[bytes, Path, str]
"""Setups, the folder of the store, the device."""


def _longest_first(groups: Iterable[list[Trial]]) -> list[list[Trial]]:
    """Of each network, so that its data is read once, the longest come first."""
    return sorted(groups, key=lambda group: (group[0].network, len(group)), reverse=True)


def _side_by_side(
    groups: list[list[Trial]], facts: Facts, store: Store, jobs: int, progress: Progress
) -> None:
    """Several processes on this machine."""
    # A caller that computes in one thread, so that bits are the same everywhere, means all of it.
    threads = max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // jobs))
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with ExitStack() as stack:
        lessons = stack.enter_context(_shared(store.folder / LESSONS))
        begin = (*facts, threads, lessons)
        pool = stack.enter_context(ProcessPoolExecutor(jobs, context, _begin_process, begin))
        waiting: set[Future[None]] = set()
        try:
            with _unstoppable():  # which raises at its end if Ctrl-C came in between
                waiting |= {pool.submit(_in_process, group) for group in groups}
            _await(waiting, groups, store, progress)
        except BrokenProcessPool:
            raise OSError(
                "A process beside this one was ended from outside, perhaps for want of memory. Run "
                "the same command again to go on, with fewer jobs if it happens once more."
            ) from None
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


def _elsewhere(
    groups: list[list[Trial]], facts: Facts, store: Store, cluster: Cluster, progress: Progress
) -> None:
    """On the workers of a cluster; threads as here, for bits depend on how many there are."""
    packed, folder, device = facts
    shared, threads = cluster.share(packed), torch.get_num_threads()
    key = hashlib.sha256(packed).hexdigest()
    jobs = [partial(_on_worker, key, folder, device, threads, group) for group in groups]
    _await({cluster.submit(job, shared) for job in jobs}, groups, store, progress)


def _await(
    waiting: set[Future[None]], groups: list[list[Trial]], store: Store, progress: Progress
) -> None:
    """Wait for all; what diverged is raised when the others are done."""
    trials = [trial for group in groups for trial in group]
    progress.start("trials", len(trials))
    done, diverged = 0, None
    while waiting:
        finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in finished:
            try:
                future.result()  # raises what went wrong in the process
            except DivergedError as error:
                diverged = diverged or error
        # a group is long: its results are counted as they appear in the folder
        ready = len(trials) - len(store.missing(trials))
        progress.advance(ready - done)
        done = ready
    if diverged is not None:
        raise diverged


def _on_worker(
    key: str, folder: Path, device: str, threads: int, trials: Sequence[Trial], packed: bytes
) -> None:
    """Carry out trials on a worker of a cluster, which keeps what it opened for the next ones."""
    global _crew, _crew_of
    if not folder.is_dir():
        raise OSError(
            f"{folder} is not there on {platform.node()}, a worker of the cluster. Results go into "
            "a folder that all workers see, such as one on a network file system."
        )
    with _one_at_a_time:  # threads of a worker would draw from one generator
        facts = key, folder, device
        if _crew_of != facts:
            torch.set_num_threads(threads)
            setups = cloudpickle.loads(packed)
            _crew, _crew_of = _Crew(setups, Store(folder), device, progress_of(None)), facts
        with torch.random.fork_rng(devices=[]), parallel_config("sequential"):
            _crew.carry_out(trials)


def _begin_process(packed: bytes, folder: Path, device: str, threads: int, lessons: Path) -> None:
    """What a process keeps for all its groups, so that it opens each network once."""
    global _crew
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    setups = cloudpickle.loads(packed)
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
