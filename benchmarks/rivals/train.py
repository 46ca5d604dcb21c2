"""Train rivals, several processes side by side, and keep one file for each."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.rivals.networks import network_of, parameters
from benchmarks.rivals.plan import Rival
from vinets.core.files import write_json
from vinets.core.plain import as_plain, changes
from vinets.measure import machine
from vinets.runs.setup import Setup, SetupFiles, wrong_answers
from vinets.runs.store import Store
from vinets.training import Lessons, train_classifier

FOLDER = "rivals"


@dataclass(frozen=True)
class Result:
    """What came of a rival."""

    accuracy: float  # on the test images, in [0, 1]
    uncut: float  # that of the given network
    parameters: int
    channels: str  # of every convolution, in the order of the layers
    untrained: float  # accuracy before training, which tells something of pruned networks
    epochs: int
    train_accuracy: float | None  # in the last epoch
    seconds: float  # of the training, while others may have run beside it


@dataclass(frozen=True)
class RivalRecord:
    """A result with how it came about."""

    rival: Rival
    result: Result
    command: str
    side_by_side: int  # processes that shared the device
    machine: dict[str, Any]


class OutOfTimeError(Exception):
    """The call is to end now; what was done is in a checkpoint."""


@dataclass
class Until:
    """A progress that ends the training at some time."""

    end: float  # as time.time() has it, for processes share no other clock

    def start(self, stage: str, total: int) -> None:
        self.advance()

    def advance(self, count: int = 1, note: str = "") -> None:
        if time.time() > self.end:
            raise OutOfTimeError


@dataclass(frozen=True)
class Call:
    """What all rivals of one call share."""

    files: dict[str, SetupFiles]  # the given networks and their data
    folder: Path
    lessons: Path  # where processes share what the given networks say
    device: str
    jobs: int
    end: float
    command: str
    recorded: bool = False  # whether steps are replayed on a GPU

    def path(self, rival: Rival) -> Path:
        """Where the result of a rival is kept."""
        return self.folder / FOLDER / f"{rival.name}.json"

    def missing(self, rivals: Sequence[Rival]) -> list[Rival]:
        """Those without a result, each once."""
        return [one for one in dict.fromkeys(rivals) if not self.path(one).is_file()]


def run(rivals: Sequence[Rival], call: Call) -> int:
    """Carry out the rivals that have no result yet; how many are left when the time is over."""
    wanted = call.missing(rivals)
    given = sorted({one.given for one in rivals})
    # results of other weights or data in the folder are refused before any work is done
    opened = {name: call.files[name].open(name, torch.device("cpu")) for name in given}
    Store(call.folder).claim([], {name: setup.identity for name, setup in opened.items()})
    del opened
    print(f"{len(wanted)} of {len(set(rivals))} rivals to do", flush=True)
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with ProcessPoolExecutor(call.jobs, context, _begin, (call,)) as pool:
        waiting = {pool.submit(_in_process, one): one for one in wanted}
        for future in as_completed(waiting):
            one = waiting[future]
            try:
                said = future.result()
            except (ValueError, RuntimeError, ModuleNotFoundError) as error:
                said = f"failed: {error}"  # the others go on
            print(f"{one.given} {one.kind} {one.architecture} {said}", flush=True)
    return len(call.missing(rivals))


# --- in a process -----------------------------------------------------------------------------

_call: Call
_setups: dict[str, Setup] = {}


def _begin(call: Call) -> None:
    global _call
    _call = call
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // call.jobs))


def _in_process(rival: Rival) -> str:
    watch = Until(_call.end)
    try:
        watch.advance()
        if rival.given not in _setups:
            files = _call.files[rival.given]
            _setups[rival.given] = files.open(rival.given, torch.device(_call.device))
        return carry_out(rival, _setups[rival.given].sampled(rival.sampling), _call, watch)
    except OutOfTimeError:
        return "out of time"


def carry_out(rival: Rival, setup: Setup, call: Call, watch: Until) -> str:
    """Train and test a rival, and write its file; what is to be said of it."""
    network = network_of(rival, setup.model, len(setup.train.classes)).to(setup.device)
    untrained = _accuracy(network, setup)
    checkpoints = call.folder / "checkpoints" / rival.name
    history = None
    if rival.kind != "uncut":
        history = train_classifier(
            network,
            setup.train,
            recipe=replace(rival.recipe, seed=rival.seed, recorded=call.recorded),
            teacher=Lessons(setup.model, call.lessons / rival.given),
            directory=checkpoints,
            device=setup.device,
            progress=watch,
        )
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    result = Result(
        accuracy=_accuracy(network, setup),
        uncut=setup.accuracy,
        parameters=parameters(network),
        channels=" ".join(str(m.out_channels) for m in convolutions),
        untrained=untrained,
        epochs=0 if history is None else len(history.epochs),
        train_accuracy=None if history is None else history.epochs[-1].accuracy,
        seconds=0.0 if history is None else history.seconds,
    )
    about = machine(setup.device)
    if rival.kind == "pruned":
        about["torch_pruning"] = importlib.metadata.version("torch-pruning")
    record = RivalRecord(rival, result, call.command, call.jobs, about)
    write_json(call.path(rival), as_plain(record) | {"rival": changes(rival)})
    shutil.rmtree(checkpoints, ignore_errors=True)
    return f"{result.accuracy:.4f} {result.parameters:,} {result.seconds:.0f} s"


def _accuracy(network: nn.Module, setup: Setup) -> float:
    return 1 - len(wrong_answers(network, setup.test, setup.device)) / len(setup.test)
