"""Reproduce tables and figures of the paper: carry out the runs, then put results together.

python -m vinets.experiments.reproduce all --data DIR --weights DIR --out DIR
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import torch

from vinets.checks import one_of
from vinets.experiments.backbones import BACKBONES
from vinets.experiments.claims import CLAIMS
from vinets.experiments.engine import Work, carry_out
from vinets.experiments.fig_algorithms import FIG_ALGORITHMS
from vinets.experiments.fig_baselines import FIG_BASELINES
from vinets.experiments.fig_dimension import FIG_DIMENSION
from vinets.experiments.fig_generators import FIG_GENERATORS
from vinets.experiments.fig_monomials import FIG_MONOMIALS
from vinets.experiments.fig_pruning import FIG_PRUNING
from vinets.experiments.fig_truncation import FIG_TRUNCATION
from vinets.experiments.plan import Experiment, Plan
from vinets.experiments.runs import Run, Store
from vinets.experiments.table_choices import TABLE_CHOICES
from vinets.experiments.table_efficiency import TABLE_EFFICIENCY
from vinets.experiments.table_generators import TABLE_GENERATORS
from vinets.experiments.world import Folders
from vinets.files import write_json
from vinets.measure import machine
from vinets.plain import as_plain
from vinets.progress import Lines, Progress, progress_of
from vinets.report.figures import save_figure
from vinets.report.reading import read_results
from vinets.report.values import ExperimentResult
from vinets.running import resolve_device

__all__ = ["EXPERIMENTS", "reproduce"]

CALLS = "calls.jsonl"
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        CLAIMS,
        TABLE_GENERATORS,
        TABLE_EFFICIENCY,
        FIG_TRUNCATION,
        FIG_PRUNING,
        FIG_MONOMIALS,
        FIG_GENERATORS,
        FIG_ALGORITHMS,
        FIG_DIMENSION,
        FIG_BASELINES,
        TABLE_CHOICES,
    )
}


def reproduce(
    names: Sequence[str],
    data: str | Path,
    out: str | Path,
    *,
    weights: str | Path = "weights",
    seeds: int = 3,
    quick: bool = False,
    backbones: Sequence[str] = tuple(BACKBONES),
    jobs: int = 1,
    device: torch.device | str = "auto",
    command: Sequence[str] = (),
    progress: Progress | str | None = "auto",
) -> list[Path]:
    """Carry out experiments; write ``NAME.json``, and PNG and SVG below ``figures``.

    Every run is written to ``out/runs`` when it is done, and not repeated: an interrupted call
    goes on where it was, and experiments share what they have in common. ``calls.jsonl`` has a
    line for every call that carried out runs, with its time.

    Parameters
    ----------
    names : sequence of str
        Of :data:`EXPERIMENTS`, or ``("all",)``.
    data : path
        A folder with ``cifar10`` and ``cifar100``.
    out : path
        Folder of the results.
    weights : path, default="weights"
        Folder of the pretrained networks.
    seeds : int, default=3
        Trainings for each row of the table of variants and each point of ``fig-baselines``.
    quick : bool, default=False
        A small slice of everything, to see that it runs.
    backbones : sequence of str
        ``resnet18``, ``resnet34`` or both; results of calls for each merge in one folder.
    jobs : int, default=1
        Processes side by side on the device.
    device : str, default="auto"
        Where to compute.
    command : sequence of str
        Kept in the results, for the record.

    Returns
    -------
    list of Path
        The files with the results, an experiment each.
    """
    chosen = _chosen(names)
    for name in backbones:
        one_of("reproduce", "backbones", name, tuple(BACKBONES))
    plan = Plan(seeds, quick, tuple(backbones))
    folder, place = Path(out), resolve_device("reproduce", device)
    work = Work(Folders(Path(data), Path(weights)), folder, plan.scale, str(place), jobs)
    runs = [run for experiment in chosen for run in experiment.runs(plan)]
    with _logged(work, runs, command):
        try:
            carry_out(runs, work, progress_of(progress))
        except torch.OutOfMemoryError:
            raise MemoryError(
                f"{work.device} ran out of memory with {jobs} processes side by side. Pass fewer "
                "with --jobs: what is finished is kept, and the call goes on where it was."
            ) from None
    paths = [_write(experiment, plan, work.store, command) for experiment in chosen]
    if find_spec("matplotlib") is not None:
        _draw(folder, {experiment.name for experiment in chosen})
    return paths


def _chosen(names: Sequence[str]) -> list[Experiment]:
    for name in names:
        one_of("reproduce", "name", name, (*EXPERIMENTS, "all"))
    if "all" in names:
        return list(EXPERIMENTS.values())
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]


@contextmanager
def _logged(work: Work, runs: Sequence[Run], command: Sequence[str]) -> Iterator[None]:
    """Add a line to the log of calls: how many runs it carried out, and in how many seconds."""
    missing, begin = len(work.store.missing(runs)), time.perf_counter()
    try:
        yield
    finally:
        left = len(work.store.missing(runs))
        call = {
            "command": list(command),
            "jobs": work.jobs,
            "machine": machine(torch.device(work.device)),
            "runs": missing - left,
            "left": left,
            "seconds": time.perf_counter() - begin,
        }
        if missing > left:
            with (work.out / CALLS).open("a", encoding="utf-8") as log:
                log.write(json.dumps(call, ensure_ascii=False) + "\n")


def _write(experiment: Experiment, plan: Plan, store: Store, command: Sequence[str]) -> Path:
    """The result of an experiment with what it was made of."""
    runs = list(dict.fromkeys(experiment.runs(plan)))
    records = [store.record(run) for run in runs]
    took = [record["took"] for record in records]
    machines = {json.dumps(record["machine"]): record["machine"] for record in records}
    found = ExperimentResult(
        experiment.name,
        experiment.title,
        order=list(EXPERIMENTS).index(experiment.name) + 1,
        paper=experiment.paper,
        command=tuple(command),
        machine=next(iter(machines.values()), {}),
        seeds=tuple(sorted({run.seed for run in runs})),
        settings=asdict(plan.scale),
        seconds=None if None in took else sum(took),
        machines=tuple(machines.values()),
        **experiment.result(plan, store),
    )
    path = store.folder / f"{experiment.name}.json"
    write_json(path, as_plain(found))
    return path


def _draw(folder: Path, names: set[str]) -> None:
    """Figures of experiments, as the page draws them."""
    for experiment in read_results(folder):
        if experiment.experiment in names:
            for figure in experiment.figures:
                save_figure(figure, folder / "figures", figure.id)


def main() -> None:
    """For machines without the packages of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", default="weights")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--backbone", action="append", choices=tuple(BACKBONES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    command = ["vinets", "reproduce", *sys.argv[1:]]
    for path in reproduce(
        given.names,
        given.data,
        given.out,
        weights=given.weights,
        seeds=given.seeds,
        quick=given.quick,
        backbones=given.backbone or tuple(BACKBONES),
        jobs=given.jobs,
        device=given.device,
        command=command,
        progress=Lines(),
    ):
        print(path)


if __name__ == "__main__":
    main()
