"""``vinets report``: results of experiments as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import OUTPUT, Common, option
from vinets.cli.output import print_json


@takes(("seed", "device"), common=Common)
def report(
    *,
    results: Annotated[
        Path, typer.Argument(help="Folder of results, one JSON file an experiment.")
    ],
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "The page.",
            show_default="report.html in the folder, report-quick.html of a quick run",
        ),
    ] = None,
    title: Annotated[str, option(OUTPUT, "Title of the page.")] = "The paper's results, repeated",
    common: Common,
) -> None:
    """Write results as one page: our values beside the paper's, and figures.

    The page is a single file that works offline.

    Example: vinets report out/results
    """
    from vinets.core.files import write_text
    from vinets.paper.page import can_show, newcomers_page, read_results, results_page
    from vinets.report import html

    experiments = read_results(results)
    quick = "-quick" if any(one.quick for one in experiments) else ""
    page = results / f"report{quick}.html" if out is None else out
    if page.is_dir():
        raise ValueError(f"{page} is a folder. Pass the name of a file with --out.")
    # A text of JSON may hold half a pair of surrogates, which no file can.
    shown = (
        newcomers_page(experiments) if can_show(experiments) else results_page(experiments, title)
    )
    text = html(shown).encode("utf-8", "replace").decode("utf-8")
    write_text(page, text)
    if common.json:
        names = [experiment.experiment for experiment in experiments]
        print_json({"page": str(page), "experiments": names})
        return
    typer.echo(page)
