"""``vinets report``: results of experiments as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vinets.cli.options import OUTPUT, Json, option
from vinets.cli.output import print_json, print_lines

__all__ = ["report"]

TITLE = "The paper's results, repeated"


def report(
    results: Annotated[
        Path, typer.Argument(help="Folder of results, one JSON file an experiment.")
    ],
    out: Annotated[
        Path | None,
        option(OUTPUT, "--out", help="The page.", show_default="report.html in the folder"),
    ] = None,
    title: Annotated[str, option(OUTPUT, "--title", help="Title of the page.")] = TITLE,
    json: Json = False,
) -> None:
    """Write results as one page: our values beside the paper's, and interactive figures.

    The page is a single file that works offline.

    Example: vinets report out/results
    """
    from vinets.report import read_results, results_page

    experiments = read_results(results)
    text = results_page(experiments, title)
    page = results / "report.html" if out is None else out
    if page.is_dir():
        raise ValueError(f"{page} is a folder. Pass the name of a file with --out.")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8", errors="replace")
    if json:
        names = [experiment.experiment for experiment in experiments]
        print_json({"page": str(page), "experiments": names})
        return
    print_lines([str(page)])
