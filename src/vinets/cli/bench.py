"""``vinets bench``: how fast and how large networks are, side by side."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.options import RUNNING, Device, Json, Quiet, Seed, Shape, option
from vinets.cli.output import print_json, print_table, seeded, watching

if TYPE_CHECKING:
    from vinets.data import Inputs
    from vinets.measure import Throughput
    from vinets.pipeline.opening import Opened

__all__ = ["bench"]


def bench(
    nets: Annotated[
        list[str],
        typer.Argument(
            metavar="NET...", help="Folders of vinets build or vinets train, or names: resnet18."
        ),
    ],
    shape: Shape = None,
    batch_sizes: Annotated[
        str, option(RUNNING, "--batch-sizes", help="Examples at once, with commas in between.")
    ] = "1,32,256",
    repeats: Annotated[
        int, option(RUNNING, "--repeats", help="Windows per network and batch size.", min=1)
    ] = 5,
    seconds: Annotated[
        float, option(RUNNING, "--seconds", help="Length of a window in seconds.", min=0)
    ] = 0.5,
    amp: Annotated[bool, option(RUNNING, "--amp", help="Run in bfloat16 under autocast.")] = False,
    compile: Annotated[bool, option(RUNNING, "--compile", help="Use torch.compile.")] = False,
    channels_last: Annotated[
        bool, option(RUNNING, "--channels-last", help="Channels-last memory format.")
    ] = False,
    threads: Annotated[
        int | None,
        option(
            RUNNING, "--threads", help="Threads of torch.", show_default="torch's choice", min=1
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure networks side by side: their windows take turns, so that drift hits all alike.

    Prints images per second (mean and deviation over the windows), the ratio to the first
    network (median over the windows), the latency of one batch, peak memory, floating-point
    operations per example, and stored numbers by part.

    Example: vinets bench out/base out/vinet --batch-sizes 1,256
    """
    from vinets.cli.parsing import integers
    from vinets.measure import compare, flops, machine, sizes
    from vinets.pipeline.opening import check_inputs, open_network

    seeded(seed)
    wanted = integers("--batch-sizes", batch_sizes)
    opened = _named([open_network(spec) for spec in nets], nets)
    example = _example(list(opened.values()), None if shape is None else integers("--shape", shape))
    for network in opened.values():
        check_inputs(network, example)
    networks = {name: network.network for name, network in opened.items()}
    with watching(quiet) as progress:
        progress.start("timing", 1)
        measured = compare(
            networks,
            example,
            batch_sizes=wanted,
            repeats=repeats,
            seconds=seconds,
            device=device,
            channels_last=channels_last,
            amp="bfloat16" if amp else None,
            compile=compile,
            threads=threads,
        )
        progress.advance(1)
    first = next(iter(measured.values()))
    listed: list[dict[str, Any]] = [
        {
            "name": name,
            "flops": flops(networks[name], example),
            "sizes": sizes(networks[name]).to_dict(),
            "throughput": [
                speed.to_dict() | {"ratio": _ratio(speed, reference)}
                for speed, reference in zip(measured[name], first, strict=True)
            ],
        }
        for name in networks
    ]
    if json:
        print_json({"machine": machine(device), "networks": listed})
        return
    _show(listed)


def _named(opened: list[Opened], specs: list[str]) -> dict[str, Opened]:
    """By name; by the whole argument where names are the same."""
    if len(set(specs)) < len(specs):
        raise ValueError("The same network is given twice. Pass each one once.")
    names = [network.name for network in opened]
    if len(set(names)) < len(names):
        names = specs
    return dict(zip(names, opened, strict=True))


def _example(opened: list[Opened], shape: tuple[int, ...] | None) -> Inputs:
    """Inputs of the given shape, or those of the first network that knows its own."""
    from vinets.pipeline.opening import example_for

    knowing = [network for network in opened if network.inputs is not None]
    return example_for((knowing or opened)[0], shape)


def _ratio(speed: Throughput, reference: Throughput) -> float:
    """Windows of the same position lie next to each other in time."""
    return statistics.median(a / b for a, b in zip(speed.rates, reference.rates, strict=True))


def _show(listed: list[dict[str, Any]]) -> None:
    from vinets.checks import format_bytes

    columns = ["network", "batch", "images/s", "ratio", "latency in ms", "peak memory"]
    rows = [
        [
            network["name"],
            str(speed["batch_size"]),
            f"{speed['mean']:,.0f} ± {speed['std']:,.0f}",
            f"{speed['ratio']:.2f}",
            f"{speed['latency_ms']:.3g}",
            format_bytes(speed["peak_memory"]),
        ]
        for index in range(len(listed[0]["throughput"]))
        for network in listed
        for speed in [network["throughput"][index]]
    ]
    print_table(columns, rows)
    sizes = [
        [
            network["name"],
            ", ".join(f"{k} {v:,}" for k, v in network["sizes"]["by_part"].items()),
            f"{network['sizes']['parameters']:,}",
            f"{network['flops']:,}",
        ]
        for network in listed
    ]
    print_table(["network", "stored numbers", "parameters", "FLOPs"], sizes, left=2)
