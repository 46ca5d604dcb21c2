"""``vinets reproduce`` and ``vinets report``: tables and figures of the paper, and their page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vinets.cli.parameters import DATA, OUTPUT, RUNNING, argument, takes
from vinets.cli.shared import CommonOptions, FolderOptions, WorkerOptions
from vinets.core.files import locked

if TYPE_CHECKING:
    from vinets.report import ExperimentResult


@takes(without="seed")
def reproduce(
    names: list[str] = argument("{experiments}, or all."),
    *,
    data: Path | None = DATA.option(
        "Folder with cifar10 and cifar100.", None, shown="none, for digits"
    ),
    weights: Path = DATA.option(
        "Folder with resnet18_cifar10.safetensors and resnet34_cifar100.safetensors, or with the "
        "folders cifar10-resnet18 and cifar100-resnet34 that vinets train --recipe wrote; or one "
        "of these.",
        Path("weights"),
    ),
    on: list[str] | None = DATA.option(
        "digits, a small network that is trained here and needs no files; or one of the paper's "
        "two, resnet18 on CIFAR-10 and resnet34 on CIFAR-100.",
        None,
        shown="the paper's two",
    ),
    seeds: int = RUNNING.option(
        "Trainings for each row of a table and point of fig-baselines; of digits the splits into "
        "training and test images.",
        3,
    ),
    quick: bool = RUNNING.option("A small slice of everything, to see that it runs.", False),
    workers: WorkerOptions,
    out: Path = OUTPUT.option("Folder for the results."),
    common: FolderOptions,
) -> None:
    """Repeat experiments of the paper: raw results as JSON, figures as PNG and SVG.

    Tables are printed, and files written, when an experiment is complete. Every trial is kept when
    it is done, so that a call that was stopped goes on where it was, and experiments share what
    they have in common. For a page of what is there: vinets report OUT.

    Example: vinets reproduce all --on digits --out out/digits

    Example: vinets reproduce table-efficiency --data data --weights weights --out out/paper
    """
    from vinets.paper.page import result_in_short
    from vinets.paper.plan import Plan
    from vinets.paper.reproduce import Folders, quick_sentence
    from vinets.paper.reproduce import reproduce as carry_out
    from vinets.report import print_page

    def report_on(result: ExperimentResult) -> None:
        if not common.json and (result.tables or result.figures):  # stdout is for JSON alone
            print_page(result_in_short(result), f"Its figures are in {out / 'figures'}.")
            print()

    plan = Plan(seeds, quick, *([tuple(on)] if on else ()))
    if plan.quick and not common.json:
        print(f"{quick_sentence(plan)}\n")
    with locked(out, wait=common.wait), common.progress() as progress:
        paths = carry_out(
            names,
            Folders(data, weights),
            out,
            plan=plan,
            jobs=workers.jobs_or_cluster,
            device=common.device,
            command=["vinets", *sys.argv[1:]],
            progress=progress,
            show=report_on,
        )
    if common.show({"results": paths}):
        print("\n".join(map(str, paths)))


@takes(without="seed device")
def report(
    results: Path = argument("Folder of results, one JSON file an experiment."),
    *,
    out: Path | None = OUTPUT.option(
        "The page.", None, shown="report.html in the folder, report-quick.html of a quick run"
    ),
    title: str = OUTPUT.option("Title of the page.", "The paper's results, repeated"),
    common: CommonOptions,
) -> None:
    """Write results as one page: our values beside the paper's, and figures.

    The page is a single file that works offline.

    Example: vinets report out/results
    """
    from vinets.core.files import refuse_foreign, write_text
    from vinets.paper.page import can_show, newcomers_page, read_results, results_page
    from vinets.report import html

    experiments = read_results(results)
    quick = "-quick" if any(one.quick for one in experiments) else ""
    page = results / f"report{quick}.html" if out is None else out
    if page.is_dir():
        raise ValueError(f"{page} is a folder. Pass the name of a file with --out.")
    refuse_foreign(page)
    newcomers = can_show(experiments)
    shown = newcomers_page(experiments) if newcomers else results_page(experiments, title)
    # A text of JSON may hold half a pair of surrogates, which no file can.
    write_text(page, html(shown).encode("utf-8", "replace").decode("utf-8"))
    names = [experiment.experiment for experiment in experiments]
    if common.show({"page": page, "experiments": names}):
        print(page)
