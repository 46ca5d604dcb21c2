"""All results as rows: accuracy, parameters, images per second, seconds of a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rivals.plan import TRIED, choice, recipe_for
from benchmarks.rivals.speed import CLASSES, PARTS, vinet_architecture, vinet_kind
from benchmarks.rivals.train import FOLDER, RivalRecord
from benchmarks.tuning import recipe_of
from vinets.core.files import read_json
from vinets.core.plain import as_plain, changes, from_plain
from vinets.core.settings import TrainingOptions
from vinets.runs.store import TRIALS, Store, TrialRecord

if TYPE_CHECKING:
    from vinets.report import Table

IMAGES = 50_000  # for training, in both of CIFAR's data sets


@dataclass(frozen=True)
class Run:
    """One training of one seed."""

    given: str
    kind: str
    architecture: str
    recipe: str  # what differs from that of its kind, but for epochs
    epochs: int
    accuracy: float  # in [0, 1]
    uncut: float  # that of the given network
    parameters: int
    seconds: float
    whole: bool  # whether all images were used

    @property
    def seeds_of(self) -> tuple[object, ...]:
        """Runs that are equal in this differ by their seeds."""
        return self.given, self.kind, self.architecture, self.epochs, self.recipe


def runs_and_speeds(paths: Iterable[Path]) -> tuple[list[Run], dict[tuple[str, str], Any]]:
    """Runs, and speeds by given network and architecture, in files and folders of results."""
    files: list[Path] = []
    runs: list[Run] = []
    for path in paths:
        files += sorted(path.rglob("*.json")) if path.is_dir() else [path]
        for store in map(Store, sorted(found.parent for found in path.rglob(TRIALS))):
            runs += [_of_trial(record) for record in store.records() if record.result.training]
    speeds: dict[tuple[str, str], Any] = {}
    for file in files:
        values = read_json(file)
        if not isinstance(values, dict):
            continue  # rows that were written here, perhaps
        if "rival" in values:
            runs.append(_of_rival(from_plain(RivalRecord, values, str(file))))
        elif "speeds" in values:
            known = {
                part
                for (given, _), one in speeds.items()
                for part in one
                if given == values["given"]
            }
            if twice := known & set(PARTS) & {part for one in values["speeds"] for part in one}:
                raise ValueError(
                    f"{file} has speeds of {values['given']} ({', '.join(sorted(twice))}) that "
                    "other results have, too. They compare within one run only: pass one of them."
                )
            for one in values["speeds"]:
                speeds.setdefault((values["given"], one["architecture"]), {}).update(one)
    return runs, speeds


def _of_rival(record: RivalRecord) -> Run:
    rival, result = record.rival, record.result
    usual = recipe_for(rival.given, rival.kind)
    notes = _differences(rival.recipe, usual) | _sample(rival)
    facts = (_text(notes), result.epochs, *_counted(result), not _sample(rival))
    return Run(rival.given, rival.kind, rival.architecture, *facts)


def _of_trial(record: TrialRecord) -> Run:
    trial, result = record.trial, record.result.trained
    usual = recipe_of(trial.network, str(trial.cut), trial.head)
    start = {k: v for k, v in changes(trial.options).items() if k in ("start", "offset")}
    notes = _differences(trial.recipe, usual) | _sample(trial) | start
    facts = (_text(notes), trial.recipe.epochs, *_counted(result), not _sample(trial))
    return Run(trial.network, vinet_kind(trial), vinet_architecture(trial), *facts)


def _counted(result: Any) -> tuple[float, float, int, float]:
    return result.accuracy, result.uncut, result.parameters, result.seconds


def _differences(recipe: TrainingOptions, usual: TrainingOptions) -> dict[str, Any]:
    pairs = {
        f.name: (getattr(recipe, f.name), getattr(usual, f.name)) for f in fields(TrainingOptions)
    }
    return {k: ours for k, (ours, theirs) in pairs.items() if ours != theirs and k != "epochs"}


def _sample(one: Any) -> dict[str, Any]:
    return {f"{part} a class": count for part, count in changes(one.sampling).items()}


def _text(notes: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in notes.items())


def rows(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """One for all seeds of a network and recipe; those that were measured only have no accuracy.

    ``alone_seconds`` are those of a training alone on the device: epochs times images by images per
    second. ``seconds`` are those that were counted, while others may have run beside it.
    """
    runs, speeds = runs_and_speeds(paths)
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(run.seeds_of, []).append(run)
    made = []
    for same in groups.values():
        first = same[0]
        accuracies = [100 * run.accuracy for run in same]
        speed = speeds.get((first.given, first.architecture), {})
        rate = speed.get("training") if first.whole else None
        made.append(
            {
                "given": first.given,
                "kind": first.kind,
                "network": first.architecture,
                "epochs": first.epochs,
                "recipe": first.recipe,
                "seeds": len(same),
                "accuracy": statistics.fmean(accuracies),
                "std": statistics.stdev(accuracies) if len(same) > 1 else None,
                "uncut": 100 * first.uncut,
                "parameters": first.parameters,
                "device": speed.get("device", {}).get("median"),
                "cpu": speed.get("cpu", {}).get("median"),
                "alone_seconds": first.epochs * IMAGES / rate if rate else None,
                "seconds": statistics.fmean(run.seconds for run in same),
            }
        )
    known = {(row["given"], row["network"]) for row in made}
    made += [
        {
            "given": given,
            "kind": speed["kind"],
            "network": name,
            "parameters": speed["parameters"],
            "device": speed.get("device", {}).get("median"),
            "cpu": speed.get("cpu", {}).get("median"),
        }
        for (given, name), speed in speeds.items()
        if (given, name) not in known
    ]
    return sorted(made, key=lambda row: (row["given"], row["parameters"], row["network"]))


def choice_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """What was tried on held-out images for the recipes of rivals, and the machine."""
    from vinets.report import Column, Row, Table

    machine: dict[str, Any] = {}
    made = []
    for given in CLASSES:
        for network, (_, changed) in TRIED.items():
            row: dict[str, Any] = {"network": network}
            for label in changed:
                path = folder / FOLDER / f"{choice(given, network, label).name}.json"
                if path.is_file():
                    record = from_plain(RivalRecord, read_json(path), str(path))
                    row[label] = 100 * record.result.accuracy
                    section = f"In place of {given}, uncut {100 * record.result.uncut:.2f} %"
                    machine = record.machine
            if len(row) > 1:
                made.append(Row(row, section=section))
    known = {label for row in made for label in row.values} - {"network"}
    labels = sorted(known, key=lambda label: (label.startswith("0"), label))  # rates come first
    columns = (Column("network"), *(Column(label, f"{label}, %", ".2f") for label in labels))
    return Table("choices", "Recipes of rivals", columns, tuple(made)), machine


def table(found: Iterable[Mapping[str, Any]]) -> str:
    """The rows as Markdown."""
    from vinets.report import Column, Row, Table, markdown

    columns = (
        Column("network"),
        Column("kind"),
        Column("recipe"),
        Column("epochs", format=","),
        Column("seeds", format=","),
        Column("accuracy", format=".2f", std="std"),
        Column("parameters", format=","),
        Column("device", "images/s on the device", ",.0f"),
        Column("cpu", "images/s on one CPU thread, one at a time", ",.0f"),
        Column("alone_seconds", "seconds of training, alone on the device", ",.0f"),
        Column("seconds", "seconds counted, side by side", ",.0f"),
    )
    made = tuple(Row(as_plain(row), section=f"In place of {row['given']}") for row in found)
    return markdown(Table("rivals", "Whole networks", columns, made))
