"""Reproduce tables and figures of the paper: carry out trials, then put results together."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from vinets.core.checks import one_of
from vinets.core.device import resolve_device
from vinets.core.executors import open_executor
from vinets.core.files import append_line, locked, read_json, write_json
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.core.settings import RECIPES
from vinets.data import load_data
from vinets.measure import machine
from vinets.measure.dimension import require_estimator
from vinets.networks.storage import DESCRIPTION, WEIGHTS
from vinets.paper import text
from vinets.paper.backbones import BACKBONES, PAPER, Backbone
from vinets.paper.plan import EXPERIMENTS, QUICK_CHANGES, Experiment, Plan, fields_of
from vinets.report.figures import can_draw, save_figure
from vinets.report.values import ExperimentResult
from vinets.runs.scratch import train_into
from vinets.runs.setup import SetupFiles
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import GROUPS


@dataclass(frozen=True)
class Folders:
    """Where data and weights lie; networks that are trained here are kept in ``uncut``."""

    data: Path | None = None
    weights: Path = Path("weights")
    uncut: Path = Path("uncut")

    def files(self, backbone: Backbone, split: int = 0) -> SetupFiles:
        """Name a network with its data: a folder of that name, or the folder itself."""
        recipe = RECIPES[backbone.recipe]
        if backbone.splits:
            weights = self.uncut / backbone.network(split) / WEIGHTS
            return SetupFiles(recipe.model, str(weights), recipe.data, backbone.classes, split)
        if self.data is None:
            raise ValueError(
                f"{backbone.title} needs the images of {backbone.data_title}. Pass --data, the "
                "folder with cifar10 and cifar100, or --on digits, which needs no files."
            )
        inside = self.data / backbone.data
        data = f"{backbone.data}:{inside if inside.is_dir() else self.data}"
        weights = self.find(backbone) or self.weights / backbone.weights
        return SetupFiles(recipe.model, str(weights), data, backbone.classes)

    def find(self, backbone: Backbone) -> Path | None:
        """Find weights: a file of their name, or of ``vinets train`` in a folder below, or here."""
        places = [self.weights / backbone.weights, self.weights / backbone.recipe / WEIGHTS]
        description = self.weights / DESCRIPTION
        values = read_json(description) if description.is_file() else None
        source = values.get("source") if isinstance(values, dict) else None
        if isinstance(source, dict) and source.get("name") == backbone.name:
            places.append(self.weights / WEIGHTS)
        return next((place for place in places if place.is_file()), None)

    def prepare(self, backbone: Backbone, split: int, progress: Progress | str | None) -> None:
        """Train a network where a recipe makes it in seconds; raise where weights are missing.

        The error has the command that makes them.
        """
        files, recipe = self.files(backbone, split), RECIPES[backbone.recipe]
        if backbone.splits and not Path(files.weights).is_file():
            options, data = replace(recipe.recipe, seed=split), load_data(recipe.data, seed=split)
            how: dict[str, Any] = {"recipe": options, "progress": progress}
            # Small networks are as fast on the CPU, and the same everywhere.
            train_into(Path(files.weights).parent, recipe.model, data, device="cpu", **how)
        elif not backbone.splits and self.find(backbone) is None:
            out = self.weights / backbone.recipe
            words = ("--recipe", backbone.recipe, "--data", files.data, "--out", str(out))
            raise FileNotFoundError(
                f"{self.weights} has no weights of {backbone.title} for {backbone.data_title}, "
                f"neither as {backbone.weights} nor as a folder {backbone.recipe}. Make them, then "
                f"run this again: vinets train {shlex.join(words)}"
            )


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
    """Carry out experiments by their names; write ``NAME.json``, and PNG and SVG below ``figures``.

    One experiment comes after the other, that with the fewest trials first, and is written when it
    is complete; until then its file says how much is missing. Files of a quick plan end in
    ``-quick``. Every trial is written to ``out/trials.jsonl`` when it is done, and not repeated: an
    interrupted call goes on where it was, and experiments share what they have in common. Results
    of other data or weights in ``out`` are refused. ``calls.jsonl`` has a line for every call that
    carried out trials, with its time.

    The names ``("all",)`` stand for all of :data:`EXPERIMENTS`. ``jobs`` are processes side by side
    on the device, or the address of a cluster, whose workers have to see the folders; see
    :func:`vinets.core.executors.open_executor`. The ``command`` is kept in the results, and
    ``show`` gets each of them when it is complete.
    """
    chosen, store = chosen_experiments(names, plan), Store(out, "experiments")
    store.check_kind()
    trials = [trial for experiment in chosen for trial in experiment.trials(plan)]
    needed = {trial.network for trial in trials}
    folders = replace(folders, uncut=store.folder / "uncut")
    places = {
        backbone.network(split): (backbone, split)
        for backbone in plan.chosen
        for split in range(plan.seeds)
        if backbone.network(split) in needed
    }
    setups = {name: folders.files(*place) for name, place in places.items()}
    on = resolve_device("reproduce", device)
    # Workers of a cluster have packages of their own.
    if isinstance(jobs, int) and any(one.task == "dimension" for one in store.missing(trials)):
        require_estimator()
    with one_thread() if plan.splits else nullcontext():
        for place in places.values():
            folders.prepare(*place, progress)
        opened = {name: files.open(name, on) for name, files in setups.items()}
        # what does not belong into the folder is refused before any work is done
        with locked(store.folder):
            store.claim(trials, {name: one.identity for name, one in opened.items()})
        networks = opened if jobs == 1 else setups  # other processes open files themselves
        missing, begin = len(store.missing(trials)), time.perf_counter()
        _note_missing(chosen, plan, store)
        try:
            with open_executor(jobs) as executor:
                options: dict[str, Any] = {"executor": executor, "progress": progress}
                for experiment in sorted(chosen, key=lambda one: len(one.trials(plan))):
                    # Small networks spend most of the time on latents, which experiments share.
                    own = trials if plan.splits else experiment.trials(plan)
                    if store.missing(own):
                        run_trials(own, networks, store, device=on, **options)
                    show(_finish(experiment, plan, store, command))
        except torch.OutOfMemoryError:
            raise MemoryError(
                f"{on} ran out of memory with {jobs} processes side by side. Pass fewer "
                "with --jobs: what is finished is kept, and the call goes on where it was."
            ) from None
        finally:
            _note_missing(chosen, plan, store)
            left = len(store.missing(trials))
            call: dict[str, Any] = {"command": [*command], "jobs": jobs, "machine": machine(on)}
            call |= {"runs": missing - left, "left": left, "seconds": time.perf_counter() - begin}
            if missing > left:
                append_line(store.folder / "calls.jsonl", json.dumps(call, ensure_ascii=False))
    return [_file(experiment, plan, store) for experiment in chosen]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread, so that the last bits do not depend on how many there are.

    Networks of a few thousand parameters are as fast, and verdicts the same on every machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):  # NumPy has threads of its own
            yield
    finally:
        torch.set_num_threads(before)


def chosen_experiments(names: Sequence[str], plan: Plan) -> list[Experiment]:
    """Return experiments in the order of the page; all are those that the networks have."""
    for name in plan.backbones:
        one_of("reproduce", "backbones", name, tuple(BACKBONES))
    if len(plan.chosen) > 1 and not {*plan.backbones} <= {*PAPER}:
        raise ValueError(
            f"The results of {', '.join(plan.backbones)} have settings of their own. Pass one of "
            f"them and a folder for it; {' and '.join(PAPER)} go together."
        )
    known = EXPERIMENTS if "all" in names else dict.fromkeys(names)
    wanted = [EXPERIMENTS[name] for name in known]
    empty = [one.name for one in wanted if not one.planned(plan)]
    if empty and "all" not in names:
        raise ValueError(f"{', '.join(empty)} is not for {', '.join(plan.backbones)}.")
    return sorted((one for one in wanted if one.name not in empty), key=lambda one: one.order)


def quick_sentence(plan: Plan) -> str:
    """Return what a quick run says of itself before anything else, out of its settings."""
    return text("page", "quick", plan=plan)


def _file(experiment: Experiment, plan: Plan, store: Store) -> Path:
    # No file of a quick run passes for one of a full run.
    return store.folder / f"{experiment.name}{'-quick' * plan.quick}.json"


def _note_missing(chosen: Sequence[Experiment], plan: Plan, store: Store) -> None:
    """Write how many trials are missing where there is no result yet, such as of fewer seeds."""
    for experiment in chosen:
        missing, known = len(store.missing(experiment.trials(plan))), None
        with suppress(OSError, ValueError):
            known = read_json(_file(experiment, plan, store))
        if missing and (not isinstance(known, dict) or known.get("missing")):
            _write(experiment, plan, store, missing=missing)


def _finish(
    experiment: Experiment, plan: Plan, store: Store, command: Sequence[str]
) -> ExperimentResult:
    """Write the figures of an experiment where they can be, and what it found."""
    trials = list(dict.fromkeys(experiment.trials(plan)))
    records = [store.record(trial) for trial in trials]
    took = [record.took for record in records]
    # By their text, because a mapping is no key.
    machines = {json.dumps(record.machine): record.machine for record in records}
    findings = experiment.findings(plan, store)
    for figure in findings.figures if can_draw() else ():
        shown = replace(figure, title=f"{figure.title}{', a quick run' * plan.quick}")
        save_figure(shown, store.folder / "figures", f"{figure.id}{'-quick' * plan.quick}")
    return _write(
        *(experiment, plan, store),
        **vars(findings),
        command=tuple(command),
        machine=next(iter(machines.values()), {}),
        seeds=tuple(sorted({trial.seed for trial in trials})),
        machines=tuple(machines.values()),
        seconds=None if None in took else sum(each or 0.0 for each in took),
    )


def _write(experiment: Experiment, plan: Plan, store: Store, **facts: Any) -> ExperimentResult:
    """Write the file of an experiment, with the settings that decide its outcome."""
    options = {k: v for group in GROUPS for k, v in as_plain(getattr(plan.start, group)).items()}
    facts["settings"] = {
        k: options[k] for k in options if k in {*QUICK_CHANGES, *plan.chosen[0].settings}
    }
    facts |= fields_of(experiment, "title", "order", "paper")
    facts["quick"] = quick_sentence(plan) if plan.quick else ""
    result = ExperimentResult(experiment.name, **facts)
    write_json(_file(experiment, plan, store), as_plain(result))
    return result
