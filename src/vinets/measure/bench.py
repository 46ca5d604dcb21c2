"""Measure networks of any kind side by side: ``bench`` and ``compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.checks import format_bytes
from vinets.core.device import each, resolve_device
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.settings import FormatOptions, WindowOptions
from vinets.data.conversion import as_source
from vinets.data.source import DataSplit
from vinets.export import ExportedNetwork
from vinets.measure.accuracy import evaluate, examples_of
from vinets.measure.cost import Sizes, flops, sizes, stored_bytes
from vinets.measure.speed import Throughput, machine, measure_speed, named_networks
from vinets.report import Column, Row, Table


@dataclass(frozen=True)
class Measurement:
    """How fast and how large one network is."""

    runtime: str  # "torch", or what runs an exported file
    precision: str
    bytes: int
    flops: int | None  # one example takes as many; a file does not tell them
    sizes: Sizes | None  # parameters, which a file does not tell either
    throughput: tuple[Throughput, ...]  # one for every batch size


class Measurements(dict[str, Measurement]):
    """Networks by name that were measured in turns; the first is what others are compared with."""

    @property
    def first(self) -> Measurement:
        """What the others are compared with."""
        return next(iter(self.values()))

    @property
    def speed_table(self) -> Table:
        """Images per second, all networks at one batch size after the other."""
        columns = (
            *map(Column, ("network", "runtime", "precision")),
            Column("batch_size", "batch", ","),
            Column("mean", "images/s", ",.0f", "std"),
            Column("ratio", format=".2f"),
            Column("latency_ms", "latency in ms", ".3g"),
            Column("memory", "peak memory"),
        )
        rows = []
        for index, reference in enumerate(self.first.throughput):
            for name, one in self.items():
                speed = one.throughput[index]
                row = vars(one) | vars(speed) | {"network": name}
                if speed.peak_memory is not None:
                    row["memory"] = format_bytes(speed.peak_memory)
                rows.append(Row(row | {"ratio": speed.ratio_to(reference)}))
        return Table("speed", f"Speed on {reference.device}", columns, tuple(rows))

    @property
    def size_table(self) -> Table:
        """Bytes, parameters by part, and operations."""
        columns = (
            Column("network"),
            Column("bytes", "size"),
            Column("parameters", format=","),
            Column("by_part", "by part"),
            Column("flops", "FLOPs", ","),
        )
        rows = []
        for name, one in self.items():
            row: dict[str, Any] = {"network": name, "bytes": format_bytes(one.bytes)}
            if one.sizes is not None:
                parts = one.sizes.by_part.items()
                row["by_part"] = ", ".join(f"{part} {count:,}" for part, count in parts)
                row |= {"parameters": one.sizes.parameters, "flops": one.flops}
            rows.append(Row(row))
        return Table("size", "Size and work", columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the ratio to the first network at every batch size."""
        first, networks = self.first.throughput, []
        for name, one in self.items():
            networks.append({"name": name} | as_plain(one))
            for index, speed in enumerate(networks[-1]["throughput"]):
                speed["ratio"] = one.throughput[index].ratio_to(first[index])
        return {"machine": machine(first[0].device), "networks": networks}

    def __str__(self) -> str:
        return f"{self.speed_table}\n\n{self.size_table}"

    def _repr_html_(self) -> str:
        from vinets.report.html import in_notebook

        return in_notebook(self.speed_table, self.size_table)


@flat(windows=WindowOptions, formats=FormatOptions)
def bench(
    networks: Mapping[str, nn.Module] | nn.Module,
    data: Any,
    *,
    batch_sizes: Sequence[int] = (1, 32, 256),
    device: torch.device | str = "auto",
    compile: bool = False,
    windows: WindowOptions,
    formats: FormatOptions,
) -> Measurements:
    """Measure how fast and how large networks are, as ``vinets bench`` does: in turns.

    Parameters
    ----------
    networks : dict of str to Module, or Module
        By name; the first is what the others are compared with.
    data : Tensor, dict of Tensor, DataSplit, data source, Dataset, DataLoader or pair of tensors
        A batch of inputs, or data to take one from.
    options
        Those of :func:`vinets.measure.measure_speed`.
    """
    named = networks if isinstance(networks, Mapping) else {"network": networks}
    example = data
    tensors = data.values() if isinstance(data, Mapping) else [data]
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        source = data.test if isinstance(data, DataSplit) else as_source(data)
        example = source.example(max(batch_sizes, default=1))
    options = {"batch_sizes": batch_sizes, "device": device, "compile": compile}
    timed = measure_speed(named, example, windows=windows, formats=formats, **options)
    one = each(example, lambda tensor: tensor[:1])
    measured = Measurements()
    for name, network in named.items():
        speeds = tuple(timed[name])
        if isinstance(network, ExportedNetwork):
            known = network.runtime, network.precision, network.size, None, None
            measured[name] = Measurement(*known, speeds)
        else:
            runtime = "torch, compiled" if compile else "torch"
            precision = "bfloat16 (autocast)" if formats.amp else "float32"
            counts = stored_bytes(network), flops(network, one), sizes(network)
            measured[name] = Measurement(runtime, precision, *counts, speeds)
    return measured


def compare(
    networks: Mapping[str, nn.Module],
    data: Any,
    *,
    part: str = "test",
    batch_size: int = 256,
    device: torch.device | str = "auto",
    **options: Any,
) -> Table:
    """Put networks into one table: accuracy, parameters, bytes, examples per second.

    The others are compared with the first. Labelled examples, and the ``part`` that they are to
    the networks, are those of :func:`evaluate`; speed is measured at ``batch_size``, with the
    ``options`` of :func:`bench`.
    """
    source = examples_of("compare", named_networks("compare", networks), data, part)
    on = resolve_device("compare", device)
    measured = bench(networks, source, batch_sizes=(batch_size,), device=on, **options)
    columns = (
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", better="higher"),
        Column("gap", "Δ", "+.2f"),
        Column("parameters", format=",", better="lower"),
        Column("size", "MB", ".2f"),
        Column("speed", "examples/s", ",.0f", "std", better="higher"),
        Column("ratio", "faster", ".2f×"),
    )
    rows: list[Row] = []
    (reference,) = measured.first.throughput
    for name, one in measured.items():
        # Whether the examples were seen is settled, so that nothing is refused a second time.
        accuracy = 100 * evaluate(networks[name], source, part="train", device=on).accuracy
        (speed,) = one.throughput
        row = {"network": name, "accuracy": accuracy, "size": one.bytes / 1e6, "std": speed.std}
        row |= {"speed": speed.mean, "ratio": speed.ratio_to(reference)}
        row |= {} if one.sizes is None else {"parameters": one.sizes.parameters}
        row |= {"gap": accuracy - rows[0].values["accuracy"]} if rows else {}
        rows.append(Row(row))
    caption = f"{len(source):,} examples; speed on {reference.device} at batch {batch_size}"
    return Table("networks", caption, columns, tuple(rows))
