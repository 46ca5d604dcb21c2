"""``vinets explain``: why a network of polynomials says what it says of an image."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from vinets.cli.config import FILE, read_run
from vinets.cli.generate import takes
from vinets.cli.options import DATA, OUTPUT, RUNNING, Common, Reading, option
from vinets.cli.output import note, print_json, seeded, watching

PAGE = "There are maps and pictures, too: --out FILE.html writes them as a page."


@dataclass(frozen=True)
class RunReading(Reading):
    """Data need not be named where the folder tells what its network was built on."""

    data: Annotated[
        str | None,
        option(
            DATA,
            "What the network was trained on: {data formats}.",
            show_default=f"that of the {FILE} in the folder",
        ),
    ] = None  # type: ignore[assignment]


@takes(("weights",), reading=RunReading, common=Common)
def explain(
    *,
    net: Annotated[str, typer.Argument(help="A folder of vinets build or vinets compress.")],
    image: Annotated[Path, typer.Argument(help="An image.")],
    reading: RunReading,
    against: Annotated[
        str | None, option(OUTPUT, "Class to compare with.", show_default="the likeliest other one")
    ] = None,
    top: Annotated[int, option(OUTPUT, "Polynomials to name.", min=1)] = 8,
    neighbours: Annotated[int, option(OUTPUT, "Training examples to show.", min=1)] = 8,
    per_class: Annotated[
        int, option(DATA, "Training examples of every class to compare with, at most.", min=1)
    ] = 100,
    batch_size: Annotated[int, option(RUNNING, "Examples at once.", min=1)] = 64,
    out: Annotated[Path | None, option(OUTPUT, "The page, such as why.html.")] = None,
    common: Common,
) -> None:
    """Tell why a network gave its answer: polynomials that decided, where, nearest examples.

    The margin between the answer and the next class is taken apart into what every polynomial adds
    to it, and every position of the map. Each polynomial is shown beside its values on training
    examples.

    Example: vinets explain out/small digit.png --out why.html
    """
    from vinets.core.device import resolve_device
    from vinets.core.files import write_text
    from vinets.data.formats import UnknownData
    from vinets.explanations.explain import explain as explained
    from vinets.explanations.page import explain_page
    from vinets.explanations.positions import preprocessing_of
    from vinets.networks import CutNetwork
    from vinets.report import html, print_page
    from vinets.runs.open import open_with_data

    seeded(common.seed)
    there = resolve_device("vinets", common.device)
    if out is not None and out.is_dir():
        raise ValueError(f"{out} is a folder. Pass the name of a file with --out.")
    known = _read(net, reading)
    try:
        opened, split = open_with_data(net, **known.keywords())
    except UnknownData:
        if reading.data is not None:
            raise
        raise ValueError(
            f"{net} was built on --data {known.data}, which is not found from here. Pass --data "
            "with the place where it is now."
        ) from None
    network = opened.network
    if not isinstance(network, CutNetwork):
        raise ValueError(f"{net} is not cut. Pass a folder of vinets build or vinets compress.")
    pixels = preprocessing_of(network).read(image)
    with watching(common.quiet) as progress:
        found = explained(
            network.to(there),
            pixels,
            split,
            against=against,
            top=top,
            neighbours=neighbours,
            per_class=per_class,
            batch_size=batch_size,
            seed=common.seed,
            progress=progress,
        )
    command = shlex.join(["vinets", *sys.argv[1:]])
    page = explain_page(found, f"Why {opened.name} says {found.answer}", command)
    if out is not None:
        write_text(out, html(page))
        note(f"Written to {out}", common.quiet)
    if common.json:
        print_json({"network": net, "image": str(image), "explanation": found})
        return
    print_page(page, PAGE if out is None else f"The pictures are in {out}.")


def _read(net: str, reading: RunReading) -> RunReading:
    """The data that is named, or that of the folder's own record."""
    if reading.data is not None:
        return reading
    known = read_run(Path(net.partition("@")[0]).expanduser() / FILE)
    if not isinstance(known.get("data"), str):
        raise ValueError(f"{net} does not say what it was built on. Pass --data.")
    kinds = {"data": str, "size": int, "split-seed": int, "mean": str, "std": str}
    told = {
        flag.replace("-", "_"): known[flag]
        for flag, kind in kinds.items()
        if isinstance(known.get(flag), kind)
    }
    return replace(reading, **told)
