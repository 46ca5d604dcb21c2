"""``vinets export``: a network for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from vinets.cli.parameters import parameter, takes
from vinets.cli.shared import (
    OUTPUT,
    CommonOptions,
    DataOptions,
    Shape,
    note,
    seed_and_device,
    show,
)
from vinets.core.options import option, optional, text
from vinets.core.settings import ExportOptions


@dataclass(frozen=True)
class ExportDataOptions(DataOptions):
    """Data is needed where precision is lost."""

    data: str | None = option(  # type: ignore[assignment]
        None,
        optional(text()),
        "Measure accuracy on its test part, which float16 and int8 need: {data formats}.",
        shown=None,
    )


@takes()
def export(
    net: Annotated[
        str, parameter(None, "A folder of vinets build or vinets train, or a name with --weights.")
    ],
    /,
    *,
    out: Annotated[Path, parameter(OUTPUT, "File to write; it ends in {export suffixes}.")],
    exporting: ExportOptions,
    shape: Shape = None,
    data_options: ExportDataOptions,
    common: CommonOptions,
) -> None:
    """Write a network, cut or whole, for other runtimes: ONNX or torch.export.

    The file takes batches of any size. It is run on the CPU and compared with the network, on
    the device, before it is put into place: its logits, and with --data its accuracy. A file that
    loses more than --most-lost is not written. ONNX, which OpenVINO reads as well, needs the extra
    'onnx'.

    Example: vinets export out/small --out small.onnx --format onnx-int8 --data digits
    """
    from vinets.core.checks import format_bytes
    from vinets.export import export_network
    from vinets.report import Column, Row, Table
    from vinets.runs.open import open_to_export

    device = seed_and_device(common)
    network, split = open_to_export(net, shape=shape, **data_options.keywords())
    report = export_network(
        network, out, exporting=exporting, data=split, device=device, seed=common.seed
    )
    note(f"Written to {out}", common.quiet)
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
    table = Table("export", str(report.path), tuple(columns), (Row(row),))
    show(common, report.to_dict(), table)
