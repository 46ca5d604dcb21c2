"""Reproduce tables and figures of the paper: carry out trials, then put results together."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vinets.checks import one_of
from vinets.cluster import processes_or_cluster
from vinets.experiments.backbones import BACKBONES, Backbone
from vinets.experiments.plan import EXPERIMENTS, QUICK, Experiment, Findings, Plan
from vinets.files import append_line, read_json, write_json
from vinets.locks import locked
from vinets.measure import machine
from vinets.measure.dimension import require_estimator
from vinets.nn.uncut import DESCRIPTION, WEIGHTS
from vinets.pipeline.setup import SetupFiles
from vinets.pipeline.store import Store
from vinets.pipeline.trial import GROUPS
from vinets.pipeline.trials import run_trials
from vinets.plain import as_plain
from vinets.progress import Progress
from vinets.report.figures import can_draw, save_figure
from vinets.report.values import ExperimentResult
from vinets.running import resolve_device


@dataclass(frozen=True)
class Folders:
    """Where data and weights lie."""

    data: Path
    weights: Path

    def files(self, backbone: Backbone) -> SetupFiles:
        """A network of the paper with its data: a folder of that name, or the folder itself."""
        inside = self.data / backbone.data
        data = f"{backbone.data}:{inside if inside.is_dir() else self.data}"
        weights = self.find(backbone) or self.weights / backbone.weights
        return SetupFiles(backbone.name, str(weights), data, backbone.classes)

    def find(self, backbone: Backbone) -> Path | None:
        """The weights: a file of their name, or of ``vinets train`` in a folder below, or here."""
        places = [self.weights / backbone.weights, self.weights / backbone.recipe / WEIGHTS]
        if _architecture(self.weights) == backbone.name:
            places.append(self.weights / WEIGHTS)
        return next((place for place in places if place.is_file()), None)

    def check(self, backbone: Backbone) -> None:
        """Raise where the weights are missing, with the command that makes them."""
        if self.find(backbone) is None:
            out = self.weights / backbone.recipe
            words = ("--recipe", backbone.recipe, "--data", self.files(backbone).data)
            raise FileNotFoundError(
                f"{self.weights} has no weights of {backbone.title} for {backbone.data_title}, "
                f"neither as {backbone.weights} nor as a folder {backbone.recipe}. Make them, then "
                f"run this again: vinets train {shlex.join((*words, '--out', str(out)))}"
            )


def _architecture(folder: Path) -> str | None:
    """The network in a folder of ``vinets train``."""
    if not (folder / DESCRIPTION).is_file():
        return None
    told = read_json(folder / DESCRIPTION)
    source = told.get("source") if isinstance(told, dict) else None
    return source.get("name") if isinstance(source, dict) else None


def reproduce(
    names: Sequence[str],
    folders: Folders,
    out: str | Path,
    *,
    plan: Plan = Plan(),  # noqa: B008 - frozen
    jobs: int | str = 1,
    device: torch.device | str = "auto",
    command: Sequence[str] = (),
    progress: Progress | str | None = "auto",
    show: Callable[[ExperimentResult], object] = lambda result: None,
) -> list[Path]:
    """Carry out experiments; write ``NAME.json``, and PNG and SVG below ``figures``.

    One experiment comes after the other, that with the fewest trials first, and is written when it
    is complete; until then its file says how much is missing. Files of a quick plan end in
    ``-quick``. Every trial is written to ``out/trials`` when it is done, and not repeated: an
    interrupted call goes on where it was, and experiments share what they have in common. Results
    of other data or weights in ``out`` are refused. ``calls.jsonl`` has a line for every call that
    carried out trials, with its time.

    Parameters
    ----------
    names : sequence of str
        Of :data:`EXPERIMENTS`, or ``("all",)``.
    jobs : int or str, default=1
        Processes side by side on the device, or the address of a cluster, see
        :func:`vinets.cluster.open_cluster`, whose workers have to see the folders.
    command : sequence of str
        Kept in the results, for the record.
    show : callable
        Gets every result when it is complete.
    """
    chosen = chosen_experiments(names)
    for name in plan.backbones:
        one_of("reproduce", "backbones", name, tuple(BACKBONES))
    trials = [trial for experiment in chosen for trial in experiment.trials(plan)]
    needed = {trial.network for trial in trials}
    setups = {n: folders.files(b) for n, b in BACKBONES.items() if n in needed}
    for name in setups:
        folders.check(BACKBONES[name])
    on, store = resolve_device("reproduce", device), Store(out)
    here = isinstance(jobs, int)  # workers of a cluster have packages of their own
    if here and any(trial.task == "dimension" for trial in store.missing(trials)):
        require_estimator()
    opened = {name: files.open(name, on) for name, files in setups.items()}
    # what does not belong into the folder is refused before any work is done
    with locked(store.folder):
        store.claim(trials, {name: one.identity for name, one in opened.items()})
    given = opened if jobs == 1 else setups  # other processes open files themselves
    missing, begin = len(store.missing(trials)), time.perf_counter()
    _note_missing(chosen, plan, store)
    try:
        with processes_or_cluster(jobs) as there:
            for experiment in sorted(chosen, key=lambda one: len(one.trials(plan))):
                own = experiment.trials(plan)
                if store.missing(own):
                    run_trials(own, given, store, device=on, jobs=there, progress=progress)
                show(_write(experiment, plan, store, command))
    except torch.OutOfMemoryError:
        raise MemoryError(
            f"{on} ran out of memory with {jobs} processes side by side. Pass fewer "
            "with --jobs: what is finished is kept, and the call goes on where it was."
        ) from None
    finally:  # a call that was stopped is logged with what it did
        _note_missing(chosen, plan, store)
        left = len(store.missing(trials))
        call = {
            "command": list(command),
            "jobs": jobs,
            "machine": machine(on),
            "runs": missing - left,
            "left": left,
            "seconds": time.perf_counter() - begin,
        }
        if missing > left:
            append_line(store.folder / "calls.jsonl", json.dumps(call, ensure_ascii=False))
    return [_file(experiment, plan, store) for experiment in chosen]


def chosen_experiments(names: Sequence[str]) -> list[Experiment]:
    """Experiments by name, in the order of the page."""
    wanted = EXPERIMENTS if "all" in names else dict.fromkeys(names)
    return sorted((EXPERIMENTS[name] for name in wanted), key=lambda one: one.order)


def quick_sentence(plan: Plan) -> str:
    """What a quick run says of itself before anything else, out of its settings."""
    start = plan.start
    return (
        f"A quick run, to see that everything works: {start.sampling.train} training and "
        f"{start.sampling.test} test images of each class, {plan.components} principal "
        f"components, {plan.epochs}, and few of the cuts. Its numbers say nothing about the "
        "paper, so that they stand alone and nothing is judged."
    )


def _file(experiment: Experiment, plan: Plan, store: Store) -> Path:
    return store.folder / f"{experiment.name}{plan.suffix}.json"


def _note_missing(chosen: Sequence[Experiment], plan: Plan, store: Store) -> None:
    """Where there is no result yet, a file that says how many trials it still needs."""
    for experiment in chosen:
        path, missing = _file(experiment, plan, store), len(store.missing(experiment.trials(plan)))
        if missing and not _is_complete(path):
            write_json(path, as_plain(_result(experiment, plan, Findings(), missing=missing)))


def _is_complete(path: Path) -> bool:
    """Whether a file has a result, such as one with fewer seeds."""
    try:
        values = read_json(path)
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and not values.get("missing")


def _result(experiment: Experiment, plan: Plan, found: Findings, **facts: Any) -> ExperimentResult:
    options = {k: v for group in GROUPS for k, v in as_plain(getattr(plan.start, group)).items()}
    return ExperimentResult(
        experiment.name,
        experiment.title,
        order=experiment.order,
        paper=experiment.paper,
        text=found.text,
        tables=found.tables,
        figures=found.figures,
        notes=found.notes,
        settings={name: options[name] for name in QUICK},
        quick=quick_sentence(plan) if plan.quick else "",
        **facts,
    )


def _write(
    experiment: Experiment, plan: Plan, store: Store, command: Sequence[str]
) -> ExperimentResult:
    """The result of an experiment with what it was made of, and its figures where they can be."""
    trials = list(dict.fromkeys(experiment.trials(plan)))
    records = [store.record(trial) for trial in trials]
    took = [record.took for record in records]
    # By their text, for a mapping is no key.
    machines = {json.dumps(record.machine): record.machine for record in records}
    result = _result(
        experiment,
        plan,
        experiment.findings(plan, store),
        command=tuple(command),
        machine=next(iter(machines.values()), {}),
        seeds=tuple(sorted({trial.seed for trial in trials})),
        machines=tuple(machines.values()),
        seconds=None if None in took else sum(each or 0.0 for each in took),
    )
    for figure in result.figures if can_draw() else ():
        title = f"{figure.title}{', a quick run' * plan.quick}"
        stem = f"{figure.id}{plan.suffix}"
        save_figure(replace(figure, title=title), store.folder / "figures", stem)
    write_json(_file(experiment, plan, store), as_plain(result))
    return result
