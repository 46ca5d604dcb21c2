"""Images per second of rivals and product heads, in turns; weights need no training."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.rivals.networks import network_of, parameters
from benchmarks.rivals.plan import PLANS, Rival
from benchmarks.tuning import JOINT, early, variants
from vinets.core.files import write_json
from vinets.core.plain import changes
from vinets.core.progress import progress_of
from vinets.data import DataSplit, ImageSource
from vinets.data.images import Augmentation, Preprocessing
from vinets.measure import flops, machine, measure_speed
from vinets.measure.speed import limited_threads
from vinets.models import create_model, load_weights
from vinets.networks.network import CutNetwork
from vinets.runs.setup import Cut, Setup
from vinets.runs.store import Store
from vinets.runs.trial import Trial
from vinets.training import fine_tune, train_classifier

CLASSES = {"resnet18": 10, "resnet34": 100}
LATENTS = 16  # random images of a class that are enough to build heads
WARMUP = 1  # epochs before the one that is timed; steps are recorded there
RIVALS = ("uncut", "classic", "narrow", "pruned")
PARTS = ("device", "cpu", "training")
"""Where speed is measured: in use on the device, in use on one thread of the CPU, in training."""


def vinet_architecture(trial: Trial) -> str:
    """What the speed of a product head, or of another head behind a cut, depends on."""
    options = {k: v for k, v in changes(trial.options).items() if k not in ("start", "offset")}
    size = [f"{name}={value}" for name, value in options.items()]
    return ", ".join([f"{trial.cut} {trial.head}", *size])


def vinet_kind(trial: Trial) -> str:
    """Whether it is one."""
    return "vi-net" if trial.head == "products" else "other head"


@dataclass(frozen=True)
class Entry:
    """A network whose speed counts."""

    kind: str
    architecture: str
    network: nn.Module  # as it runs when it is used
    train: Callable[[ImageSource], float]  # one epoch; seconds


def entries(
    given: str, weights: Path | None, trials: Iterable[Trial], sizes: Sequence[int], setup: Setup
) -> list[Entry]:
    """Rivals of a given network at these sizes, and the networks of trials."""
    made: dict[str, Entry] = {}
    if weights is not None:
        load_weights(setup.model, weights)
    rivals = [one for plan in RIVALS for one in PLANS[plan](given, sizes)]
    for rival in rivals:
        # which channels are left in which layer depends on the weights in a global ranking
        ranked = rival.kind == "pruned" and rival.scope == "global"
        if rival.kind == "uncut":
            continue  # it runs as the tuned one does
        if ranked and weights is None:
            print(f"{rival.architecture} is left out: pass --weights to rank channels by.")
            continue
        try:
            network = network_of(rival, setup.model, CLASSES[given]).to(setup.device)
        except ModuleNotFoundError as error:
            print(f"{rival.architecture} is left out: {error}")
            continue
        train = _training(rival, network, setup)
        made[rival.architecture] = Entry(rival.kind, rival.architecture, network, train)
    contexts: dict[Hashable, Cut] = {}
    for trial in trials:
        name = vinet_architecture(trial)
        tuned = trial.network == given and trial.task == "train" and trial.recipe.layers != 0
        if tuned and name not in made:
            # noise has no ideal to start from
            plain = trial.change(start="random") if trial.head == "products" else trial
            if plain.shares not in contexts:
                contexts[plain.shares] = Cut(setup, plain, progress_of(None))
            cut, _ = contexts[plain.shares].network(plain)
            train = _tuning(trial, cut, setup)
            made[name] = Entry(vinet_kind(trial), name, cut.folded(), train)
    return list(made.values())


def _training(rival: Rival, network: nn.Module, setup: Setup) -> Callable[[ImageSource], float]:
    recipe = replace(rival.recipe, epochs=1 + WARMUP, recorded=True)
    options: dict[str, Any] = {"device": setup.device, "progress": None}

    def train(data: ImageSource) -> float:
        history = train_classifier(network, data, recipe=recipe, teacher=setup.model, **options)
        return history.epochs[-1].seconds

    return train


def _tuning(trial: Trial, network: CutNetwork, setup: Setup) -> Callable[[ImageSource], float]:
    recipe = replace(trial.recipe, epochs=1 + WARMUP, recorded=True)
    taught = recipe.distill or network.head.matches_features

    def train(data: ImageSource) -> float:
        options: dict[str, Any] = {"teacher": setup.model if taught else None, "progress": None}
        history = fine_tune(network, data, recipe=recipe, **options)
        return history.epochs[-1].seconds

    return train


def random_images(count: int, classes: int) -> ImageSource:
    """Images of noise, in the shape of CIFAR's."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, 32, 32), generator=generator).to(torch.uint8)
    labels = torch.arange(count) % classes
    names = [str(k) for k in range(classes)]
    pixels = Preprocessing.from_images(images)
    return ImageSource(images, labels, names, pixels, Augmentation())


def trials_in(folders: Iterable[Path]) -> list[Trial]:
    """Trials of stores; those of the plans of joint tuning where none is given."""
    found = [record.trial for folder in folders for record in Store(folder).records()]
    return found or [*early(1), *variants(seeds=1)]


def measure(
    given: str,
    *,
    parts: Sequence[str],
    weights: Path | None,
    trials: Iterable[Trial],
    sizes: Sequence[int],
    device: torch.device,
    batch: int,
    steps: int,
    windows: dict[str, Any],
    formats: dict[str, Any],
    command: str,
    out: Path,
) -> None:
    """Measure all networks on the device, on one thread of the CPU and in training, or in parts."""
    torch.manual_seed(0)
    classes = CLASSES[given]
    few = random_images(LATENTS * classes, classes)
    setup = Setup(given, create_model(given, classes), DataSplit("noise", few, few), device)
    every = entries(given, weights, trials, sizes, setup)
    networks = {one.architecture: one.network for one in every}
    example = few.example(batch)
    rows: dict[str, dict[str, Any]] = {
        one.architecture: {
            "architecture": one.architecture,
            "kind": one.kind,
            "parameters": _size(one.network),
            "flops": flops(one.network, example[:1].to(device)),
        }
        for one in every
    }
    facts = {"batch": batch, "steps": steps, "windows": windows, "formats": formats}
    record = {"given": given, "command": command, "machine": machine(device), **facts}

    def write(part: str, found: Mapping[str, Any]) -> None:
        """Every part at once, in a file of its own: none is lost with the next."""
        speeds = [rows[name] | {part: value} for name, value in found.items()]
        path = write_json(out / f"speed-{given}-{part}.json", record | {"speeds": speeds})
        print(f"{len(speeds)} networks in {path.name}", flush=True)

    if "device" in parts:
        options: dict[str, Any] = {"batch_sizes": (batch,), "device": device, **formats}
        timed = measure_speed(networks, example, **options, **windows)
        write("device", {name: _speed(one[0].rates) for name, one in timed.items()})
    if "cpu" in parts:
        rates = thread_rates(networks, example[:1], **windows)
        write("cpu", {name: _speed(one) for name, one in rates.items()})
    if "training" in parts:
        data = random_images(steps * JOINT.batch_size, classes).to(device)
        write("training", training_rates(every, data))


def thread_rates(
    networks: Mapping[str, nn.Module], image: Tensor, *, repeats: int, seconds: float
) -> dict[str, list[float]]:
    """Images per second on one thread of the CPU, one at a time: windows of all networks in turns.

    Seconds are those in which the thread ran. Where it runs alone, they are those of the clock;
    where others want the same core, the time in which it waits for them does not count.
    """
    rates: dict[str, list[float]] = {name: [] for name in networks}
    with limited_threads(1), torch.no_grad():
        copies = {name: copy.deepcopy(network).cpu().eval() for name, network in networks.items()}
        for number in range(1 + repeats):  # the first window warms up
            for name, network in copies.items():
                passes, begin, spent = 0, time.thread_time(), 0.0
                while spent < seconds:
                    network(image)
                    passes += 1
                    spent = time.thread_time() - begin
                if number:
                    rates[name].append(passes / spent)
    return rates


def training_rates(every: Sequence[Entry], data: ImageSource, rounds: int = 2) -> dict[str, float]:
    """Images per second of every training, alone on its device and in turns; the medians."""
    seconds: dict[str, list[float]] = {one.architecture: [] for one in every}
    for _ in range(rounds):
        for one in every:
            seconds[one.architecture].append(one.train(data))
    return {name: len(data) / statistics.median(times) for name, times in seconds.items()}


def _size(network: nn.Module) -> int:
    return sum(network.parts().values()) if isinstance(network, CutNetwork) else parameters(network)


def _speed(rates: Sequence[float]) -> dict[str, float]:
    facts = {"median": statistics.median(rates), "mean": statistics.fmean(rates)}
    return facts | {"std": statistics.stdev(rates) if len(rates) > 1 else 0.0}
