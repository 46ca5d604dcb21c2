"""``vinets export``: a network for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vinets.cli.late_help import EXPORT_FORMATS, EXPORT_SUFFIXES
from vinets.cli.options import OUTPUT, Device, Json, Seed, option
from vinets.cli.output import print_json, print_table

__all__ = ["export"]


def export(
    net: Annotated[str, typer.Argument(help="A folder of vinets build.")],
    out: Annotated[
        Path, option(OUTPUT, "--out", help=f"File to write; it ends in {EXPORT_SUFFIXES}.")
    ],
    format: Annotated[
        str | None,
        option(
            OUTPUT, "--format", help=f"{EXPORT_FORMATS}.", show_default="by the end of the file"
        ),
    ] = None,
    opset: Annotated[
        int | None,
        option(OUTPUT, "--opset", help="Operator set of ONNX.", show_default="torch's choice"),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Write a VI-Net as an ONNX file, or as a program of torch.export.

    The file takes batches of any size. It is run on the CPU and compared with the network, on
    the device, before it is put into place. ONNX needs the extra 'onnx'.

    Example: vinets export out/vinet --out vinet.onnx
    """
    from vinets.checks import format_bytes
    from vinets.nn.network import CutNetwork
    from vinets.pipeline.opening import open_network
    from vinets.running import resolve_device

    network: Any = open_network(net).network
    if not isinstance(network, CutNetwork):
        raise ValueError(f"{net} is not cut. Pass a folder that vinets build wrote.")
    from vinets.nn.export import export_network

    there = resolve_device("vinets", device)
    report = export_network(network, out, format=format, opset=opset, device=there, seed=seed)
    if json:
        print_json(report.to_dict())
        return
    sizes = ", ".join(map(str, report.batch_sizes))
    row = [str(report.path), report.format, format_bytes(report.size)]
    row += [f"{report.largest_difference:.2g}", sizes]
    print_table(["file", "format", "size", "largest difference", "at batch sizes"], [row], left=2)
