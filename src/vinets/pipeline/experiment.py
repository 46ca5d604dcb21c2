"""One experiment from end to end: build, train, evaluate, time a VI-Net, perhaps baselines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.data.images import ImageSource
from vinets.data.interface import DataSplit, Inputs, Source
from vinets.files import slug, write_json
from vinets.fingerprint import fingerprint
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.measure import Throughput, compare, evaluate, machine
from vinets.models.sources import source_of
from vinets.nn.network import CutNetwork
from vinets.pipeline.baselines import baselines
from vinets.pipeline.build import build, usual_degree
from vinets.pipeline.collect import collect
from vinets.pipeline.report import BuildReport
from vinets.progress import Progress, progress_of
from vinets.running import resolve_device
from vinets.training import History, Recipe, cache_latents, fine_tune

__all__ = [
    "CHECKPOINTS",
    "Timing",
    "claim",
    "identify",
    "resident",
    "run_build",
]

UNCUT, OURS = "uncut", "VI-Net"
RESULTS, SETTINGS, CHECKPOINTS = "results.json", "settings.json", "checkpoints"
WORKING = ("batch_size", "memory_limit", "directory")  # options that change no result
COLLECTING = ("per_class", "read", "pool", "channels_last", *WORKING)


@dataclass(frozen=True)
class Timing:
    """How the networks are timed; see :func:`vinets.measure.compare`."""

    batch_size: int = 256
    repeats: int = 5
    seconds: float = 0.5


def run_build(
    model: nn.Module,
    data: DataSplit,
    cut: str | int,
    out: str | Path,
    *,
    ideal: VanishingIdeal | None = None,
    options: Mapping[str, Any] | None = None,
    recipe: Recipe | None = None,
    views: int | None = None,
    with_baselines: bool = False,
    timing: Timing | None = None,
    device: torch.device | str = "auto",
    seed: int = 0,
    command: Sequence[str] = (),
    on_build: Callable[[BuildReport], None] | None = None,
    progress: Progress | str | None = "auto",
) -> dict[str, Any]:
    """Build a VI-Net, train it, and compare it with the uncut network.

    The folded VI-Net is saved in ``out`` with ``results.json``, baselines below ``out/baselines``.
    Checkpoints lie below ``out/checkpoints``: the same call goes on where it was interrupted.
    Other settings in the same folder are refused.

    Parameters
    ----------
    model : Module
        The pretrained network, whole; it is moved to ``device``.
    data : DataSplit
        What to train and what to test on.
    cut : str or int
        Where to cut; see :func:`vinets.pipeline.build`.
    out : path
        Folder for the results.
    ideal : ABM, OAVI, VCA or None, default=None
        The algorithm; None is that of :func:`vinets.pipeline.build`.
    options : mapping or None, default=None
        Options of :func:`vinets.pipeline.build` and :func:`vinets.pipeline.collect`.
    recipe : Recipe or None, default=None
        How the heads are trained; None is the paper's. With a ``distillation`` above 0 the uncut
        network is the teacher.
    views : int or None, default=None
        Augmented passes whose latents are cached for all heads; None computes them anew.
    with_baselines : bool, default=False
        Train and measure the other heads on the same latents as well.
    timing : Timing or None, default=None
        Of the speed measurement.
    device, seed
        Where to work, and the seed of every draw.
    command : sequence of str
        Kept in the results, for the record.
    on_build : callable or None, default=None
        Called with the :class:`BuildReport` before the training begins.

    Returns
    -------
    dict
        What ``results.json`` holds: ``command``, ``machine``, ``seed``, ``data``, ``uncut``,
        ``build``, ``rows`` (one per network) and ``histories``.
    """
    place, folder = resolve_device("run_build", device), Path(out)
    recipe = Recipe(seed=seed) if recipe is None else recipe
    options = dict(options or {})
    if ideal is None:
        degree = usual_degree(options.get("placement", "global"), options.get("n_components"))
        ideal = ABM(psi=0.1, max_degree=degree)
    claim(
        folder,
        {
            "model": _identity(model),
            "data": identify(data),
            "cut": cut,
            "ideal": {"algorithm": type(ideal).__name__} | ideal.get_params(),
            "options": {k: v for k, v in options.items() if k not in WORKING},
            "recipe": recipe.to_dict(),
            "views": views,
            "seed": seed,
        },
    )
    watch = progress_of(progress)
    train, test = resident(data.train, place), resident(data.test, place)
    model = model.to(place).eval()
    right = {UNCUT: _accuracy(UNCUT, model, test, watch)}
    collecting = {k: options.pop(k) for k in COLLECTING if k in options}
    latents = collect(model, train, cut, device=place, seed=seed, progress=watch, **collecting)
    with _seeded(seed):
        net, report = build(latents, ideal=ideal, seed=seed, progress=watch, **options)
    if on_build is not None:
        on_build(report)
    networks: dict[str, CutNetwork] = {OURS: net}
    if with_baselines:
        networks |= baselines(net, latents, seed=seed)
    teacher = model if recipe.distillation else None
    histories = _train(networks, train, recipe, views, teacher, folder, watch)
    folded = {name: network.folded() for name, network in networks.items()}
    for name, network in folded.items():
        right[name] = _accuracy(name, network, test, watch)
        network.save_pretrained(folder if name == OURS else folder / "baselines" / slug(name))
    speeds = _speeds({UNCUT: model, **folded}, test.example(), timing or Timing(), place, watch)
    uncut = {"name": UNCUT, "accuracy": right[UNCUT], "parameters": report.original_parameters}
    rows = [
        _row(name, network, right[name], speeds[name], histories[name], report)
        for name, network in folded.items()
    ]
    results = {
        "command": list(command),
        "machine": machine(place),
        "seed": seed,
        "data": identify(data),
        "uncut": uncut | _speed(speeds[UNCUT]),
        "build": report.to_dict(),
        "rows": rows,
        "histories": {name: history.to_dict() for name, history in histories.items()},
    }
    write_json(folder / RESULTS, results)
    return results


# --- the folder -------------------------------------------------------------------------------


def claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Take ``folder`` for a run with these settings, or go on with the run that has them.

    A run with other settings would mix with the checkpoints that are there, so it is refused.
    """
    path = folder / SETTINGS
    ours = json.loads(json.dumps(settings, default=str))
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        theirs = None
    if isinstance(theirs, dict) and theirs != ours and any(folder.glob(f"{CHECKPOINTS}/**/*.*")):
        differ = ", ".join(_differences(theirs, ours))
        raise ValueError(
            f"{folder} holds a run with other settings: they differ in {differ}. Choose another "
            "folder, or delete this one to start anew."
        )
    write_json(path, ours)


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Names of the settings that differ, one level deep."""
    names = []
    for key in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(key), ours.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            names += sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k))
        elif a != b:
            names.append(key)
    return names


def _identity(model: nn.Module) -> dict[str, Any]:
    """Tells networks and their weights apart."""
    return {"source": source_of(model), "weights": fingerprint(*model.state_dict().values())}


def identify(data: DataSplit) -> dict[str, Any]:
    """Tells data sets and their splits apart."""
    sizes = {"train": len(data.train), "test": len(data.test)}
    return {"name": data.name, **sizes, "labels": fingerprint(data.train.labels)}


# --- the steps --------------------------------------------------------------------------------


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generator, of which heads draw their first weights, and put it back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def resident(source: Source, place: torch.device) -> Source:
    """Images lie on the device, where they are augmented; other sources send their batches."""
    return source.to(place) if isinstance(source, ImageSource) else source


def _accuracy(
    name: str, network: nn.Module, source: Source, watch: Progress, batch_size: int = 512
) -> float:
    place = next(network.parameters()).device

    def batches() -> Iterator[tuple[Inputs, Tensor]]:
        for inputs, labels in source.batches(batch_size, device=place):
            yield inputs, labels
            watch.advance(len(labels))

    watch.start(f"evaluating {name}", len(source))
    return evaluate(network, batches(), device=place).accuracy


def _train(
    networks: Mapping[str, CutNetwork],
    train: Source,
    recipe: Recipe,
    views: int | None,
    teacher: nn.Module | None,
    folder: Path,
    watch: Progress,
) -> dict[str, History]:
    """Train every head alike; cached latents serve all of them."""
    first = next(iter(networks.values()))
    given: Any = train
    if views is not None:
        given = cache_latents(
            first,
            train,
            views=views,
            validation=recipe.validation,
            augment=recipe.augment,
            teacher=teacher,
            device=next(first.parameters()).device,
            seed=recipe.seed,
            progress=watch,
        )
    return {
        name: fine_tune(
            network,
            given,
            recipe=recipe,
            teacher=teacher,
            directory=folder / CHECKPOINTS / slug(name),
            progress=watch,
        )
        for name, network in networks.items()
    }


def _speeds(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    timing: Timing,
    place: torch.device,
    watch: Progress,
) -> dict[str, Throughput]:
    watch.start("timing", 1)
    measured = compare(
        networks,
        example,
        batch_sizes=(timing.batch_size,),
        repeats=timing.repeats,
        seconds=timing.seconds,
        device=place,
    )
    watch.advance(1)
    return {name: results[0] for name, results in measured.items()}


def _speed(speed: Throughput) -> dict[str, float]:
    return {"images_per_second": speed.mean, "images_per_second_std": speed.std}


def _row(
    name: str,
    network: CutNetwork,
    accuracy: float,
    speed: Throughput,
    history: History,
    report: BuildReport,
) -> dict[str, Any]:
    parts = network.parts()
    total = sum(parts.values())
    return {
        "name": name,
        "accuracy": accuracy,
        "parameters": total,
        "parameters_head": total - parts["backbone"],
        "parts": parts,
        **_speed(speed),
        "seconds_build": sum(report.seconds.values()) if name == OURS else None,
        "seconds_train": history.seconds,
        "best_epoch": history.best,
    }
