"""Carry out runs: those of one place together, several places side by side, none twice."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from vinets.experiments.backbones import BACKBONES
from vinets.experiments.bench import Bench
from vinets.experiments.runs import Run, Scale, Store
from vinets.experiments.tasks import TASKS, measure_speed
from vinets.experiments.world import Folders, World
from vinets.measure import machine
from vinets.progress import Progress

__all__ = ["Work", "carry_out"]


@dataclass(frozen=True)
class Work:
    """Where runs are carried out.

    Parameters
    ----------
    folders : Folders
        Data and weights.
    out : Path
        Folder of the results.
    scale : Scale
        How much data and training.
    device : str
        Where to compute.
    jobs : int
        Processes side by side; small heads leave a GPU idle most of the time.
    """

    folders: Folders
    out: Path
    scale: Scale
    device: str
    jobs: int = 1

    @property
    def store(self) -> Store:
        return Store(self.out, self.scale)


def carry_out(runs: Iterable[Run], work: Work, progress: Progress) -> None:
    """Carry out the runs that have no result yet.

    First those whose time counts, one after the other; then all others, the places side by side;
    then the measurements of speed, which need networks that were trained.
    """
    missing = work.store.missing(runs)
    progress.start("runs", len(missing))
    for alone in (True, False):
        chosen = [r for r in missing if r.alone == alone and r.task != "speed"]
        places: dict[tuple[str, str, int], list[Run]] = {}
        for run in sorted(chosen, key=_order):
            places.setdefault(run.place, []).append(run)
        if alone or work.jobs == 1:
            for group in places.values():
                _place(work, group, progress)
        elif places:
            _side_by_side(work, list(places.values()), progress)
    for run in missing:
        if run.task == "speed":
            _keep(work, run, measure_speed, _world(work, run.backbone))
            progress.advance(1, f"speed of {run.backbone}")


def _order(run: Run) -> tuple[str, ...]:
    """Runs that share generators follow each other."""
    facts = (run.backbone, run.cut, run.order, run.algorithm, run.psi, run.changes, run.task)
    return tuple(map(str, facts))


def _place(work: Work, runs: Sequence[Run], progress: Progress | None = None) -> None:
    """Carry out runs of one place; each result is written at once."""
    first = runs[0]
    bench = Bench(_world(work, first.backbone), first.cut, first.seed)
    for run in runs:
        _keep(work, run, TASKS[run.task], bench)
        if progress is not None:
            progress.advance(1, f"{run.backbone} {run.cut}")
    del bench
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # for the processes beside this one


def _keep(work: Work, run: Run, task: Callable[..., dict[str, Any]], where: Any) -> None:
    """Carry out a run and write its result, with the time it took: shared latents count once."""
    begin = time.perf_counter()
    result = task(where, run, work.out)
    facts = {"machine": machine(torch.device(work.device)), "took": time.perf_counter() - begin}
    work.store.write(run, result, facts)


@lru_cache(maxsize=1)
def _world(work: Work, backbone: str) -> World:
    """The network and its data, once in every process."""
    device = torch.device(work.device)
    return World(BACKBONES[backbone], work.folders, work.scale, device)


def _side_by_side(work: Work, places: list[list[Run]], progress: Progress) -> None:
    """Several processes; of each network, so that its data is read once, the longest come first."""
    places = sorted(places, key=lambda runs: (runs[0].backbone, len(runs)), reverse=True)
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // work.jobs)
    runs = [run for group in places for run in group]
    done = 0
    with ProcessPoolExecutor(work.jobs, context, torch.set_num_threads, (threads,)) as pool:
        waiting: set[Future[None]] = {pool.submit(_place, work, group) for group in places}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                ready = len(runs) - len(work.store.missing(runs))
                progress.advance(ready - done)
                done = ready
        except BaseException:
            for future in waiting:
                future.cancel()
            _stop(pool)
            raise


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes now: what they have finished is written."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    time.sleep(0.1)
