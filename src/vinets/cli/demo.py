"""``vinets demo``: heads side by side behind several cuts, on embedded data."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

from vinets.cli.generate import takes
from vinets.cli.options import OUTPUT, RUNNING, Filling, option
from vinets.cli.output import print_json, watching
from vinets.locks import locked


@takes(common=Filling)
def demo(
    *,
    out: Annotated[Path, option(OUTPUT, "Folder for tables, page and network.")] = Path("out/demo"),
    seeds: Annotated[int, option(RUNNING, "Repeat with so many seeds and average.", min=1)] = 1,
    quick: Annotated[bool, option(RUNNING, "Two cuts and little training, in seconds.")] = False,
    common: Filling,
) -> None:
    """Compare VI-Nets with all their baselines behind four cuts of a small network for digits.

    Needs no data and no GPU, and takes about two minutes. Writes results.json, report.html and
    the best VI-Net into the folder, then loads that network and classifies an image with it.

    Example: vinets demo --out out/demo
    """
    from vinets.demo import plain_result, run_demo

    # the demo prints its tables as it goes, and stdout is for the JSON alone
    kept = redirect_stdout(sys.stderr) if common.json else nullcontext()
    with kept, locked(out, wait=common.wait), watching(common.quiet) as progress:
        result = run_demo(
            out, seed=common.seed, seeds=seeds, quick=quick, device=common.device, progress=progress
        )
    if common.json:
        print_json(plain_result(result))
