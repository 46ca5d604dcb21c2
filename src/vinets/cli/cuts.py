"""``vinets cuts``: where a network can be cut."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, OUTPUT, Common, Shape, Weights, integers, option
from vinets.cli.output import print_json, seeded

if TYPE_CHECKING:
    from vinets.latent.cut import CutPoint
    from vinets.report import Table


@takes(common=Common)
def cuts(
    *,
    model: Annotated[str, typer.Argument(help="A folder of vinets train, or a name: {networks}.")],
    data: Annotated[
        str | None, option(DATA, "Takes the shape of its inputs: {data formats}.")
    ] = None,
    shape: Shape = None,
    weights: Weights = None,
    match: Annotated[str | None, option(OUTPUT, "All cuts whose name holds this text.")] = None,
    every: Annotated[bool, option(OUTPUT, "All cuts.", "--all")] = False,
    common: Common,
) -> None:
    """List where to cut a network, from its input to its output.

    Shown are the cuts that vinets compress tries, which differ in what they cost, and those of the
    paper, marked with the name of their preset; --all shows every one, many of which hardly differ.
    Shape is that of the latents; parameters and multiply-adds (MACs) are those that the cut
    network still needs; removed is the share of convolutions that the cut takes away.

    Example: vinets cuts resnet18 --shape 3,32,32

    Example: vinets cuts resnet18 --shape 3,32,32 --match layer3
    """
    from vinets.core.device import each, resolve_device
    from vinets.latent.cut import cut_points
    from vinets.models import PRESETS
    from vinets.report import print_table
    from vinets.runs.open import open_uncut
    from vinets.search.space import choose_cuts

    seeded(common.seed)
    there = resolve_device("vinets", common.device)
    opened, example, _ = open_uncut(model, data, integers("--shape", shape), weights=weights)
    presets = (p for p in PRESETS.values() if p.backbone == opened.architecture)
    marks = {p.cut: p.name for p in presets}
    inputs = each(example, lambda tensor: tensor.to(there))
    found = cut_points(opened.network.to(there), inputs)
    points = [p for p in found if match is None or match in p.name]
    if not points:
        raise ValueError(f"No cut of {opened.name} has {match!r} in its name.")
    parameters = sum(p.numel() for p in opened.network.parameters())
    tried = {p.name for p in choose_cuts(found, parameters)}
    if common.json:
        listed = [
            asdict(p) | {"preset": marks.get(p.name), "tried": p.name in tried} for p in points
        ]
        print_json({"model": model, "architecture": opened.architecture, "points": listed})
        return
    if match is None and not every:
        points = [p for p in points if p.name in tried or p.name in marks] or points
    print_table(_table(points, marks))
    if len(points) < len(found) and match is None and not common.quiet:
        print(
            f"{len(points)} of {len(found)} cuts: those that vinets compress tries"
            f"{', and those of the paper' if marks else ''}. --all shows every one."
        )


def _table(points: list[CutPoint], marks: dict[str, str]) -> Table:
    from vinets.report import Column, Row, Table

    columns = (
        Column("index", format="d"),
        Column("name"),
        Column("shape"),
        Column("parameters", format=","),
        Column("macs", "MACs", ","),
        Column("removed", format=".0%"),
        *([Column("preset")] if marks else []),
    )
    rows = tuple(
        Row(asdict(p) | {"shape": "×".join(map(str, p.shape)), "preset": marks.get(p.name, "")})
        for p in points
    )
    return Table("cuts", "Cuts, from the input to the output", columns, rows)
