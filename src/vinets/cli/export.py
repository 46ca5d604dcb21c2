"""``vinets export``: a network for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, OUTPUT, Common, Reading, Shape, integers, option
from vinets.cli.output import note, print_json, seeded
from vinets.core.settings import ExportOptions

if TYPE_CHECKING:
    from vinets.export import ExportReport
    from vinets.report import Table


@takes(exporting=ExportOptions)
@takes(("data",), reading=Reading(data=""), common=Common)
def export(
    *,
    net: Annotated[
        str,
        typer.Argument(help="A folder of vinets build or vinets train, or a name with --weights."),
    ],
    out: Annotated[Path, option(OUTPUT, "File to write; it ends in {export suffixes}.")],
    exporting: ExportOptions,
    data: Annotated[
        str | None,
        option(
            DATA,
            "Measure accuracy on its test part, which float16 and int8 need: {data formats}.",
        ),
    ] = None,
    shape: Shape = None,
    reading: Reading,
    common: Common,
) -> None:
    """Write a network, cut or whole, for other runtimes: ONNX or torch.export.

    The file takes batches of any size. It is run on the CPU and compared with the network, on
    the device, before it is put into place: its logits, and with --data its accuracy. A file that
    loses more than --most-lost is not written. ONNX, which OpenVINO reads as well, needs the extra
    'onnx'.

    Example: vinets export out/small --out small.onnx --format onnx-int8 --data digits
    """
    from vinets.core.device import resolve_device
    from vinets.export import export_network
    from vinets.report import print_table
    from vinets.runs.open import open_to_export

    seeded(common.seed)
    there = resolve_device("vinets", common.device)
    chosen = reading.keywords() | {"data": data}
    network, split = open_to_export(net, shape=integers("--shape", shape), **chosen)
    report = export_network(
        network,
        out,
        exporting=exporting,
        data=split,
        device=there,
        seed=common.seed,
    )
    note(f"Written to {out}", common.quiet)
    if common.json:
        print_json(report.to_dict())
        return
    print_table(_table(report))


def _table(report: ExportReport) -> Table:
    from vinets.core.checks import format_bytes
    from vinets.report import Column, Row, Table

    columns = [
        Column("format"),
        Column("size"),
        Column("largest_difference", "largest difference", ".2g"),
        Column("batches", "at batch sizes"),
    ]
    row = vars(report) | {
        "size": format_bytes(report.size),
        "batches": ", ".join(map(str, report.batch_sizes)),
    }
    if report.accuracy is not None and report.network_accuracy is not None:
        row["change"] = 100 * (report.accuracy - report.network_accuracy)
        columns += [
            Column("tested_on", "test examples", ","),
            Column("network_accuracy", "network's accuracy", ".2%"),
            Column("accuracy", "file's accuracy", ".2%"),
            Column("change", "Δ points", "+.2f"),
        ]
    return Table("export", str(report.path), tuple(columns), (Row(row),))
