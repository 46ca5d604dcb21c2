"""``vinets export``: a network for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import OUTPUT, Common, option
from vinets.cli.output import print_json


@takes(("quiet",), common=Common)
def export(
    *,
    net: Annotated[str, typer.Argument(help="A folder of vinets build.")],
    out: Annotated[Path, option(OUTPUT, "File to write; it ends in {export suffixes}.")],
    format: Annotated[
        str | None, option(OUTPUT, "{export formats}.", show_default="by the end of the file")
    ] = None,
    opset: Annotated[
        int | None, option(OUTPUT, "Operator set of ONNX.", show_default="torch's choice")
    ] = None,
    common: Common,
) -> None:
    """Write a VI-Net as an ONNX file, or as a program of torch.export.

    The file takes batches of any size. It is run on the CPU and compared with the network, on
    the device, before it is put into place. ONNX needs the extra 'onnx'.

    Example: vinets export out/vinet --out vinet.onnx
    """
    from vinets.checks import format_bytes
    from vinets.nn.export import export_network
    from vinets.pipeline.opening import open_cut
    from vinets.report import Column, Table, print_table
    from vinets.running import resolve_device

    network, there = open_cut(net), resolve_device("vinets", common.device)
    report = export_network(
        network, out, format=format, opset=opset, device=there, seed=common.seed
    )
    if common.json:
        print_json(report.to_dict())
        return
    sizes = ", ".join(map(str, report.batch_sizes))
    row = (report.format, format_bytes(report.size), report.largest_difference, sizes)
    difference = Column("difference", "largest difference", ".2g")
    columns = ("format", "size", difference, Column("batches", "at batch sizes"))
    print_table(Table.from_rows("export", str(report.path), columns, [row]))
