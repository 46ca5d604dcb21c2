"""``vinets bench``: how fast and how large networks are, side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import RUNNING, Common, Shape, integers, option
from vinets.cli.output import print_json, seeded, watching
from vinets.core.settings import FormatOptions, WindowOptions


@takes(("warmup",), windows=WindowOptions, formats=FormatOptions, common=Common)
def bench(
    *,
    nets: Annotated[
        list[str],
        typer.Argument(
            metavar="NET...",
            help="Folders of vinets build or vinets train, files of vinets export (.onnx), "
            "or names: resnet18.",
        ),
    ],
    shape: Shape = None,
    batch_sizes: Annotated[
        str, option(RUNNING, "Examples at once, with commas in between.")
    ] = "1,32,256",
    windows: WindowOptions,
    formats: FormatOptions,
    compile: Annotated[bool, option(RUNNING, "Use torch.compile.")] = False,
    common: Common,
) -> None:
    """Measure speed, memory and size of networks side by side.

    The networks take turns, so that a change in the machine's load affects all of them. Prints
    images per second (mean and deviation over the windows), the ratio to the first network (median
    over the windows), the latency of one batch, peak memory, floating-point operations per
    example, and parameters by part. Exported files run on the CPU in the runtime and the precision
    that their rows name, with as many threads as torch.

    Example: vinets bench out/base out/small small-int8.onnx --batch-sizes 1,256
    """
    from vinets.measure import bench as measured
    from vinets.networks.open import noise_like, open_side_by_side
    from vinets.report import print_table

    seeded(common.seed)
    wanted = integers("--batch-sizes", batch_sizes)
    assert wanted is not None  # it has a default
    opened, example = open_side_by_side(nets, integers("--shape", shape))
    example = noise_like(example, max(wanted), common.seed)
    with watching(common.quiet) as progress:
        progress.start("timing", 1)
        found = measured(
            {name: network.network for name, network in opened.items()},
            example,
            batch_sizes=wanted,
            device=common.device,
            compile=compile,
            windows=windows,
            formats=formats,
        )
        progress.advance(1)
    if common.json:
        print_json(found.to_dict())
        return
    print_table(found.speed_table)
    print_table(found.size_table)
