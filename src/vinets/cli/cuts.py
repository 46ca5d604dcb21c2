"""``vinets cuts``: where a network can be cut."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.options import DATA, DATA_HELP, OUTPUT, Device, Json, Seed, Shape, Weights, option
from vinets.cli.output import print_json, print_table, seeded

if TYPE_CHECKING:
    from vinets.latent.cut import CutPoint

__all__ = ["cuts"]


def cuts(
    model: Annotated[
        str, typer.Argument(help="A folder of vinets train, or a name such as resnet18.")
    ],
    data: Annotated[
        str | None,
        option(DATA, "--data", help=f"Takes the shape of its inputs: {DATA_HELP}"),
    ] = None,
    shape: Shape = None,
    weights: Weights = None,
    match: Annotated[
        str | None, option(OUTPUT, "--match", help="Only places whose name holds this text.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """List the places where a network can be cut, from its input to its output.

    Shape is that of the latents; parameters and multiply-adds (MACs) are those that the cut
    network still needs; removed is the share of convolutions that the cut takes away. The cuts
    of the paper are marked with the name of their preset.

    Example: vinets cuts resnet18 --shape 3,32,32 --match layer3
    """
    from vinets.cli.networks import open_uncut
    from vinets.latent.cut import cut_points
    from vinets.running import each, resolve_device

    seeded(seed)
    place = resolve_device("vinets", device)
    opened, example, _ = open_uncut(model, data, shape, weights=weights)
    marks = _presets(opened.architecture)
    inputs = each(example, lambda tensor: tensor.to(place))
    every = cut_points(opened.network.to(place), inputs)
    points = [p for p in every if match is None or match in p.name]
    if not points:
        raise ValueError(f"No place of {opened.name} has {match!r} in its name.")
    if json:
        listed = [asdict(p) | {"preset": marks.get(p.name)} for p in points]
        print_json({"model": model, "architecture": opened.architecture, "points": listed})
        return
    columns = ["index", "name", "shape", "parameters", "MACs", "removed"]
    columns += ["preset"] if marks else []
    print_table(columns, [_row(p, marks) for p in points], left=2)


def _row(point: CutPoint, marks: dict[str, str]) -> list[str]:
    return [
        str(point.index),
        point.name,
        "×".join(map(str, point.shape)),
        f"{point.parameters:,}",
        f"{point.macs / 1e6:,.2f} M",
        f"{point.removed:.0%}",
        *([marks.get(point.name, "")] if marks else []),
    ]


def _presets(architecture: str | None) -> dict[str, str]:
    """Names of the paper's presets by cut."""
    from vinets.models import PRESETS

    return {p.cut: p.name for p in PRESETS.values() if p.backbone == architecture}
