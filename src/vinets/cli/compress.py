"""``vinets compress``: a budget in, the best small network out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.generate import takes
from vinets.cli.options import (
    OUTPUT,
    RUNNING,
    Filling,
    Reading,
    TrainingData,
    Workers,
    opened_again,
    option,
)
from vinets.cli.output import note, note_normalisation, print_json, watching
from vinets.core.files import locked
from vinets.core.settings import SearchOptions

if TYPE_CHECKING:
    from vinets.search.result import SearchPlan, SearchResult


@takes(searching=SearchOptions, reading=TrainingData, workers=Workers, common=Filling)
def compress(
    *,
    model: Annotated[
        str,
        typer.Argument(help="A folder of vinets train, or a network with --weights: {networks}."),
    ],
    reading: TrainingData,
    budget: Annotated[
        list[str],
        option(
            RUNNING,
            "What may be lost, in points, or what it may cost: drop=0.5, params=1e6, params=10%, "
            "size=4MB, macs=50%, latency=2ms@cpu,batch=1. May be given several times.",
        ),
    ],
    out: Annotated[Path, option(OUTPUT, "Folder for the network, results and the page.")],
    searching: SearchOptions,
    dry_run: Annotated[
        bool, option(RUNNING, "Say what would be tried, and how long it would take.", "--dry-run")
    ] = False,
    workers: Workers,
    common: Filling,
) -> None:
    """Find a small network that does what this one does, within a budget.

    Cuts of the network and heads behind them are tried in rounds, plain heads like polynomial ones:
    all for a few epochs, the better ones for longer, the last few to the end. With drop=, the
    smallest network that loses no more is wanted; without, the most accurate one. Half of the test
    part is used to choose, the other half to test what was chosen. The network is saved in the
    folder, with results.json and report.html. The same command goes on where it was interrupted.
    With --jobs or --cluster, the trainings of a round run side by side, with the same results.

    Example: vinets compress out/base --data digits --budget drop=0.5 --out out/small

    Example: vinets compress out/resnet18 --data cifar10:data --budget params=10% --budget
    latency=50%@cpu --out out/small
    """
    from vinets.networks.open import require_weights
    from vinets.runs.open import open_uncut
    from vinets.runs.setup import Origin
    from vinets.search import CommandWords, parse_budget
    from vinets.search import compress as search_for
    from vinets.search.compress import divide
    from vinets.search.rounds import Search

    wanted, jobs = parse_budget(budget), workers.jobs_or_cluster
    opened, _, split = open_uncut(model, **reading.keywords())
    require_weights(opened, reading.data)
    assert split is not None  # --data is required
    note_normalisation(opened, split, common.quiet)
    network = opened.network
    chosen: dict[str, Any] = {"seed": common.seed, "device": common.device}
    if dry_run:
        with watching(common.quiet) as progress:
            setup, _ = divide(network, split, searching.limit, **chosen)
            plan = Search(setup, wanted, out, searching, common.seed, progress=progress).plan()
        _show_plan(plan, common)
        return
    words = CommandWords(
        model=model,
        data=reading.words(Reading),
        augment=reading.words()[len(reading.words(Reading)) :],
        device=() if common.device == "auto" else ("--device", common.device),
        out=str(out),
        saved=opened_again(out, model),
    )
    waiting = locked(out, wait=common.wait)
    with waiting, watching(common.quiet) as progress:
        result = search_for(
            network,
            split,
            wanted,
            searching=searching,
            out=out,
            jobs=jobs,
            origin=Origin(("vinets", *sys.argv[1:]), opened.stated),
            words=words,
            progress=progress,
            **chosen,
        )
    if common.json:
        print_json(result)
        return
    _show(result)
    for line in result.notes:
        note(line, common.quiet)
    # not evaluate, which would test on the examples that were used to choose, too
    next_one = f"vinets export {shlex.quote(opened_again(out, model))} --out small.onnx"
    note(f"Saved in {out}, with report.html. Next: {next_one}", common.quiet)


def _show_plan(plan: SearchPlan, common: Filling) -> None:
    from vinets.report import print_table
    from vinets.search.page import plan_table

    if common.json:
        print_json(plan)
        return
    print_table(plan_table(plan))
    typer.echo(str(plan))


def _show(result: SearchResult) -> None:
    from vinets.report import print_table
    from vinets.search.page import command_lines

    print_table(result.table)
    typer.echo(str(result))
    typer.echo("\nTo make each again:")
    for line in command_lines(result):
        typer.echo(line)
