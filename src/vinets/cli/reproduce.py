"""``vinets reproduce``: tables and figures of the paper."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, OUTPUT, RUNNING, Filling, Workers, option
from vinets.cli.output import print_json, watching
from vinets.core.files import locked

if TYPE_CHECKING:
    from vinets.report import ExperimentResult


@dataclass(frozen=True)
class Extent:
    """How much of the experiments is done."""

    on: Annotated[
        list[str] | None,
        option(
            DATA,
            "digits, a small network that is trained here and needs no files; or one of the "
            "paper's two, resnet18 on CIFAR-10 and resnet34 on CIFAR-100.",
            show_default="the paper's two",
        ),
    ] = None
    seeds: Annotated[
        int,
        option(
            RUNNING,
            "Trainings for each row of a table and point of fig-baselines; of digits the splits "
            "into training and test images.",
            min=1,
        ),
    ] = 3
    quick: Annotated[bool, option(RUNNING, "A small slice of everything, to see that it runs.")] = (
        False
    )


@takes(("seed",), extent=Extent, workers=Workers, common=Filling)
def reproduce(
    *,
    names: Annotated[list[str], typer.Argument(help="{experiments}, or all.", metavar="NAME...")],
    data: Annotated[
        Path | None,
        option(DATA, "Folder with cifar10 and cifar100.", show_default="none, for digits"),
    ] = None,
    weights: Annotated[
        Path,
        option(
            DATA,
            "Folder with resnet18_cifar10.safetensors and resnet34_cifar100.safetensors, or with "
            "the folders cifar10-resnet18 and cifar100-resnet34 that vinets train --recipe wrote; "
            "or one of these.",
        ),
    ] = Path("weights"),
    extent: Extent,
    workers: Workers,
    out: Annotated[Path, option(OUTPUT, "Folder for the results.")],
    common: Filling,
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
    from vinets.paper.reproduce import reproduce as carried_out
    from vinets.report import print_page

    def show(result: ExperimentResult) -> None:
        if not common.json and (result.tables or result.figures):  # stdout is for JSON alone
            print_page(result_in_short(result), f"Its figures are in {out / 'figures'}.")
            typer.echo()

    plan = Plan(extent.seeds, extent.quick, *([tuple(extent.on)] if extent.on else ()))
    if plan.quick and not common.json:
        typer.echo(f"{quick_sentence(plan)}\n")
    with locked(out, wait=common.wait), watching(common.quiet) as progress:
        paths = carried_out(
            names,
            Folders(data, weights),
            out,
            plan=plan,
            jobs=workers.jobs_or_cluster,
            device=common.device,
            command=["vinets", *sys.argv[1:]],
            progress=progress,
            show=show,
        )
    if common.json:
        print_json({"results": paths})
        return
    typer.echo("\n".join(map(str, paths)))
