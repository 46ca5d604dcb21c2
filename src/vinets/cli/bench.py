"""``vinets bench``: how fast and how large networks are, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
            metavar="NET...",
            help="Folders of vinets build or vinets train, files of vinets export (.onnx, .xml), "
            "or names: resnet18.",
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
    operations per example, and stored numbers by part. Exported files run on the CPU in the
    runtime and the precision that their rows name, with as many threads as torch.

    Example: vinets bench out/base out/vinet vinet-int8.onnx --batch-sizes 1,256
    """
    from vinets.measure import compare, flops, machine, sizes, stored_bytes
    from vinets.nn.export import ExportedNetwork
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
    # a file does not tell its operations and its parameters
    plain = {name: n for name, n in networks.items() if not isinstance(n, ExportedNetwork)}
    counts = {name: flops(network, example) for name, network in plain.items()}
    stored = {name: sizes(network) for name, network in plain.items()}
    torch_runs = _torch(compile, formats)
    kinds = {
        name: (n.runtime, n.precision) if isinstance(n, ExportedNetwork) else torch_runs
        for name, n in networks.items()
    }
    bytes_of = {
        name: n.size if isinstance(n, ExportedNetwork) else stored_bytes(n)
        for name, n in networks.items()
    }
    if common.json:
        first = next(iter(measured.values()))
        listed = [
            {
                "name": name,
                "runtime": kinds[name][0],
                "precision": kinds[name][1],
                "bytes": bytes_of[name],
                "flops": counts.get(name),
                "sizes": stored.get(name),
                "throughput": [
                    as_plain(speed) | {"ratio": speed.ratio_to(reference)}
                    for speed, reference in zip(speeds, first, strict=True)
                ],
            }
            for name, speeds in measured.items()
        ]
        print_json({"machine": machine(common.device), "networks": listed})
        return
    print_table(_speed_table(measured, kinds))
    print_table(_size_table(bytes_of, counts, stored))


def _torch(compile: bool, formats: Formats) -> tuple[str, str]:
    """Runtime and precision of networks that torch runs."""
    runtime = "torch, compiled" if compile else "torch"
    return runtime, "bfloat16 (autocast)" if formats.amp else "float32"


def _speed_table(measured: dict[str, list[Throughput]], kinds: dict[str, tuple[str, str]]) -> Table:
    from vinets.checks import format_bytes
    from vinets.report import Column, Row, Table

    columns = (
        Column("network"),
        Column("runtime"),
        Column("precision"),
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
            told = dict(zip(("network", "runtime", "precision"), (name, *kinds[name]), strict=True))
            if speed.peak_memory is not None:
                told["memory"] = format_bytes(speed.peak_memory)
            rows.append(Row(vars(speed) | told | {"ratio": speed.ratio_to(reference)}))
    return Table("speed", f"Speed on {first[0].device}", columns, tuple(rows))


def _size_table(bytes_of: dict[str, int], flops: dict[str, int], stored: dict[str, Sizes]) -> Table:
    from vinets.checks import format_bytes
    from vinets.report import Column, Row, Table

    columns = (
        Column("network"),
        Column("bytes", "size"),
        Column("numbers", "stored numbers"),
        Column("parameters", format=","),
        Column("flops", "FLOPs", ","),
    )
    rows = []
    for name, count in bytes_of.items():
        row: dict[str, Any] = {"network": name, "bytes": format_bytes(count)}
        if name in stored:
            parts = stored[name].by_part.items()
            row["numbers"] = ", ".join(f"{part} {numbers:,}" for part, numbers in parts)
            row |= {"parameters": stored[name].parameters, "flops": flops[name]}
        rows.append(Row(row))
    return Table("size", "Size and work", columns, tuple(rows))
