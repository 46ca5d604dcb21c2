"""Reproduce tables and figures of the paper: carry out trials, then put results together."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vinets.checks import one_of
from vinets.cluster import beside
from vinets.experiments.backbones import BACKBONES, Backbone
from vinets.experiments.plan import EXPERIMENTS, QUICK, Experiment, Plan
from vinets.files import append_line, read_json, write_json
from vinets.measure import machine
from vinets.nn.uncut import DESCRIPTION, WEIGHTS
from vinets.pipeline.setup import SetupFiles
from vinets.pipeline.store import Store
from vinets.pipeline.trial import GROUPS, Trial
from vinets.pipeline.trial_list import write_list
from vinets.pipeline.trials import run_trials
from vinets.plain import as_plain
from vinets.progress import Progress
from vinets.report.figures import can_draw, save_figure
from vinets.report.values import ExperimentResult
from vinets.running import resolve_device

QUICK_RUN = (
    "A quick run: a small slice of the data, cuts and epochs, to see that everything works. Its "
    "numbers say nothing about the paper, and its text describes the full run."
)


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
) -> list[Path]:
    """Carry out experiments; write ``NAME.json``, and PNG and SVG below ``figures``.

    Every trial is written to ``out/trials`` when it is done, and not repeated: an interrupted call
    goes on where it was, and experiments share what they have in common. Results of other data or
    weights in ``out`` are refused. ``calls.jsonl`` has a line for every call that carried out
    trials, with its time.

    Parameters
    ----------
    names : sequence of str
        Of :data:`EXPERIMENTS`, or ``("all",)``.
    jobs : int or str, default=1
        Processes side by side on the device, or the address of a cluster, see
        :func:`vinets.cluster.open_cluster`, whose workers have to see the folders.
    command : sequence of str
        Kept in the results, for the record.
    """
    chosen = chosen_experiments(names)
    trials, setups = _planned(chosen, folders, plan)
    for name in setups:
        folders.check(BACKBONES[name])
    on, store = resolve_device("reproduce", device), Store(out)
    missing, begin = len(store.missing(trials)), time.perf_counter()
    try:
        with beside(jobs) as there:
            run_trials(trials, setups, store, device=on, jobs=there, progress=progress)
    except torch.OutOfMemoryError:
        raise MemoryError(
            f"{on} ran out of memory with {jobs} processes side by side. Pass fewer "
            "with --jobs: what is finished is kept, and the call goes on where it was."
        ) from None
    finally:  # a call that was stopped is logged with what it did
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
    return [_write(experiment, plan, store, command) for experiment in chosen]


def write_plan(names: Sequence[str], folders: Folders, plan: Plan, path: str | Path) -> Path:
    """Write the trials of experiments into a file for ``python -m vinets.run``."""
    trials, setups = _planned(chosen_experiments(names), folders, plan)
    return write_list(path, setups, trials)


def _planned(
    chosen: Sequence[Experiment], folders: Folders, plan: Plan
) -> tuple[list[Trial], dict[str, SetupFiles]]:
    """All trials, and where the networks that they are about lie."""
    for name in plan.backbones:
        one_of("reproduce", "backbones", name, tuple(BACKBONES))
    trials = [trial for experiment in chosen for trial in experiment.trials(plan)]
    needed = {trial.network for trial in trials}
    return trials, {n: folders.files(b) for n, b in BACKBONES.items() if n in needed}


def chosen_experiments(names: Sequence[str]) -> list[Experiment]:
    """Experiments by name, in the order of the page."""
    wanted = EXPERIMENTS if "all" in names else dict.fromkeys(names)
    return sorted((EXPERIMENTS[name] for name in wanted), key=lambda one: one.order)


def _write(experiment: Experiment, plan: Plan, store: Store, command: Sequence[str]) -> Path:
    """The result of an experiment with what it was made of, and its figures where they can be."""
    trials = list(dict.fromkeys(experiment.trials(plan)))
    records = [store.record(trial) for trial in trials]
    took = [record.took for record in records]
    # By their text, for a mapping is no key.
    machines = {json.dumps(record.machine): record.machine for record in records}
    found = experiment.findings(plan, store)
    options = {k: v for group in GROUPS for k, v in as_plain(getattr(plan.start, group)).items()}
    result = ExperimentResult(
        experiment.name,
        experiment.title,
        order=experiment.order,
        paper=experiment.paper,
        text=(QUICK_RUN, *found.text) if plan.quick else found.text,
        tables=found.tables,
        figures=found.figures,
        notes=found.notes,
        command=tuple(command),
        machine=next(iter(machines.values()), {}),
        seeds=tuple(sorted({trial.seed for trial in trials})),
        settings={name: options[name] for name in QUICK},
        machines=tuple(machines.values()),
        seconds=None if None in took else sum(each or 0.0 for each in took),
    )
    for figure in found.figures if can_draw() else ():
        save_figure(figure, store.folder / "figures", figure.id)
    return write_json(store.folder / f"{experiment.name}.json", as_plain(result))
