"""``vinets bench``: how fast and how large networks are, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import RUNNING, Common, Shape, integers, option
from vinets.cli.output import print_json, seeded, watching
from vinets.settings import Formats, Windows

if TYPE_CHECKING:
    from vinets.measure import Sizes, Throughput
    from vinets.report import Table


@takes(("warmup",), windows=Windows, formats=Formats, common=Common)
def bench(
    *,
    nets: Annotated[
        list[str],
        typer.Argument(
            metavar="NET...", help="Folders of vinets build or vinets train, or names: resnet18."
        ),
    ],
    shape: Shape = None,
    batch_sizes: Annotated[
        str, option(RUNNING, "Examples at once, with commas in between.")
    ] = "1,32,256",
    windows: Windows,
    formats: Formats,
    compile: Annotated[bool, option(RUNNING, "Use torch.compile.")] = False,
    common: Common,
) -> None:
    """Measure networks side by side: their windows take turns, so that drift hits all alike.

    Prints images per second (mean and deviation over the windows), the ratio to the first
    network (median over the windows), the latency of one batch, peak memory, floating-point
    operations per example, and stored numbers by part.

    Example: vinets bench out/base out/vinet --batch-sizes 1,256
    """
    from vinets.measure import compare, flops, machine, sizes
    from vinets.pipeline.opening import open_side_by_side
    from vinets.plain import as_plain
    from vinets.report import print_table

    seeded(common.seed)
    wanted = integers("--batch-sizes", batch_sizes)
    opened, example = open_side_by_side(nets, integers("--shape", shape))
    networks = {name: network.network for name, network in opened.items()}
    with watching(common.quiet) as progress:
        progress.start("timing", 1)
        measured = compare(
            networks,
            example,
            batch_sizes=wanted,
            device=common.device,
            compile=compile,
            windows=windows,
            formats=formats,
        )
        progress.advance(1)
    counts = {name: flops(network, example) for name, network in networks.items()}
    stored = {name: sizes(network) for name, network in networks.items()}
    if common.json:
        first = next(iter(measured.values()))
        listed = [
            {
                "name": name,
                "flops": counts[name],
                "sizes": stored[name],
                "throughput": [
                    as_plain(speed) | {"ratio": speed.ratio_to(reference)}
                    for speed, reference in zip(speeds, first, strict=True)
                ],
            }
            for name, speeds in measured.items()
        ]
        print_json({"machine": machine(common.device), "networks": listed})
        return
    print_table(_speed_table(measured))
    print_table(_size_table(counts, stored))


def _speed_table(measured: dict[str, list[Throughput]]) -> Table:
    from vinets.checks import format_bytes
    from vinets.report import Column, Row, Table

    columns = (
        Column("network"),
        Column("batch_size", "batch", ","),
        Column("mean", "images/s", ",.0f", "std"),
        Column("ratio", format=".2f"),
        Column("latency_ms", "latency in ms", ".3g"),
        Column("memory", "peak memory"),
    )
    first = next(iter(measured.values()))
    rows = []
    for index, reference in enumerate(first):
        # networks side by side at one batch size, for that is what is compared
        for name, speed in ((name, speeds[index]) for name, speeds in measured.items()):
            told = {"network": name, "memory": format_bytes(speed.peak_memory)}
            rows.append(Row(vars(speed) | told | {"ratio": speed.ratio_to(reference)}))
    return Table("speed", f"Speed on {first[0].device}", columns, tuple(rows))


def _size_table(flops: dict[str, int], stored: dict[str, Sizes]) -> Table:
    from vinets.report import Column, Table

    numbers = [Column("parameters", format=","), Column("FLOPs", format=",")]
    columns = [Column("network"), Column("stored numbers"), *numbers]
    rows = [
        (name, ", ".join(f"{k} {v:,}" for k, v in size.by_part.items()), size.parameters, count)
        for (name, size), count in zip(stored.items(), flops.values(), strict=True)
    ]
    return Table.from_rows("size", "Size and work", columns, rows)
