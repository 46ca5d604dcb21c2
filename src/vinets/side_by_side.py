"""Networks of any kind measured from Python, with the tables that the commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.checks import format_bytes, one_of, parameter_error
from vinets.core.device import Inputs, each, resolve_device
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.core.settings import FormatOptions, WindowOptions
from vinets.data.source import DataSplit, Source
from vinets.data.sources import as_source
from vinets.export import ExportedNetwork
from vinets.measure import (
    Evaluation,
    Sizes,
    Throughput,
    flops,
    machine,
    sizes,
    stored_bytes,
)
from vinets.measure import compare as measure_speed
from vinets.measure import evaluate as measure_accuracy
from vinets.networks.seen import refuse_seen
from vinets.report import Column, Row, Table, markdown


@dataclass(frozen=True, eq=False)
class Evaluated:
    """How often a network is right, with its tables."""

    evaluation: Evaluation
    table: Table
    by_class: Table

    @property
    def accuracy(self) -> float:
        """In [0, 1]."""
        return self.evaluation.accuracy

    def __str__(self) -> str:
        return f"{markdown(self.table)}\n\n{markdown(self.by_class)}"


def evaluate(
    network: nn.Module,
    data: Any,
    *,
    part: str = "test",
    device: torch.device | str | None = None,
    batch_size: int = 512,
    classes: Sequence[str] = (),
    caption: str = "Accuracy",
    progress: Progress | None = None,
) -> Evaluated:
    """Evaluate a classifier, as ``vinets evaluate`` does.

    Parameters
    ----------
    network : Module
        Returns logits, or an object that has them.
    data : DataSplit, data source, Dataset, DataLoader or pair of tensors
        Labelled examples. A network that is known to have been trained on them is refused.
    part : {"test", "train"}, default="test"
        What these examples are to the network; of a split the part that is taken.
    device : str or None, default=None
        Where to compute; None is where the network lies.
    classes : sequence of str
        Their names; those of the data if empty.

    Examples
    --------
    >>> found = evaluate(nn.Identity(), (torch.eye(3), torch.tensor([0, 1, 1])))
    >>> f"{found.accuracy:.2f}"
    '0.67'
    """
    source = _tested("evaluate", {"The network": network}, data, part)
    found = measure_accuracy(
        network, source, device=device, batch_size=batch_size, progress=progress
    )
    columns = (
        Column("examples", format=","),
        Column("accuracy", format=".2%"),
        *([Column("top5", "top 5", ".2%")] if found.top5 is not None else []),
        Column("loss", format=".4f"),
        Column("calibration_error", "calibration error", ".4f"),
        Column("seconds", format=".2f"),
    )
    whole = Table("evaluation", caption, columns, (Row(found.to_dict()),))
    counts, shares = found.confusion.sum(1).tolist(), found.per_class.tolist()
    # data may name more classes
    rows = zip(classes or source.classes, counts, shares, strict=False)
    named = [Column("class"), *columns[:2]]
    return Evaluated(found, whole, Table.from_rows("classes", "Class by class", named, rows))


@dataclass(frozen=True, eq=False)
class Benched:
    """How fast and how large networks are, with their tables."""

    speeds: Mapping[str, Sequence[Throughput]]  # one for every batch size
    kinds: Mapping[str, tuple[str, str]]  # runtime and precision
    stored: Mapping[str, int]  # bytes
    flops: Mapping[str, int]  # of one example; a file does not tell them
    sizes: Mapping[str, Sizes]  # nor its parameters

    @property
    def speed_table(self) -> Table:
        """Images per second, networks side by side at one batch size after the other."""
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
        first = next(iter(self.speeds.values()))
        rows = []
        for index, reference in enumerate(first):
            for name, speed in ((name, speeds[index]) for name, speeds in self.speeds.items()):
                runtime, precision = self.kinds[name]
                told = {"network": name, "runtime": runtime, "precision": precision}
                if speed.peak_memory is not None:
                    told["memory"] = format_bytes(speed.peak_memory)
                rows.append(Row(vars(speed) | told | {"ratio": speed.ratio_to(reference)}))
        return Table("speed", f"Speed on {first[0].device}", columns, tuple(rows))

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
        for name, count in self.stored.items():
            row: dict[str, Any] = {"network": name, "bytes": format_bytes(count)}
            if name in self.sizes:
                parts = self.sizes[name].by_part.items()
                row["by_part"] = ", ".join(f"{part} {count:,}" for part, count in parts)
                row |= {"parameters": self.sizes[name].parameters, "flops": self.flops[name]}
            rows.append(Row(row))
        return Table("size", "Size and work", columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """As JSON writes it."""
        first = next(iter(self.speeds.values()))
        listed = [
            {
                "name": name,
                "runtime": self.kinds[name][0],
                "precision": self.kinds[name][1],
                "bytes": self.stored[name],
                "flops": self.flops.get(name),
                "sizes": self.sizes.get(name),
                "throughput": [
                    as_plain(speed) | {"ratio": speed.ratio_to(reference)}
                    for speed, reference in zip(speeds, first, strict=True)
                ],
            }
            for name, speeds in self.speeds.items()
        ]
        return {"machine": machine(first[0].device), "networks": listed}

    def __str__(self) -> str:
        return f"{markdown(self.speed_table)}\n\n{markdown(self.size_table)}"


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
) -> Benched:
    """Measure how fast and how large networks are, as ``vinets bench`` does: in turns.

    Parameters
    ----------
    networks : dict of str to Module, or Module
        By name; the first is what the others are compared with.
    data : Tensor, dict of Tensor, DataSplit, data source, Dataset, DataLoader or pair of tensors
        A batch of inputs, or data to take one from.
    compile, windows, formats
        As for :func:`vinets.measure.compare`.
    """
    named = _named(networks)
    example = _example(data, max(batch_sizes, default=1))
    measured: dict[str, list[Throughput]] = measure_speed(
        named,
        example,
        batch_sizes=batch_sizes,
        device=device,
        compile=compile,
        windows=windows,
        formats=formats,
    )
    runtime = "torch, compiled" if compile else "torch"
    usual = runtime, "bfloat16 (autocast)" if formats.amp else "float32"
    files = {name: n for name, n in named.items() if isinstance(n, ExportedNetwork)}
    plain = {name: n for name, n in named.items() if name not in files}
    one = each(example, lambda tensor: tensor[:1])
    return Benched(
        measured,
        {
            name: (files[name].runtime, files[name].precision) if name in files else usual
            for name in named
        },
        {name: files[name].size if name in files else stored_bytes(n) for name, n in named.items()},
        {name: flops(network, one) for name, network in plain.items()},
        {name: sizes(network) for name, network in plain.items()},
    )


def compare(
    networks: Mapping[str, nn.Module],
    data: Any,
    *,
    part: str = "test",
    batch_size: int = 256,
    device: torch.device | str = "auto",
    **options: Any,
) -> Table:
    """Networks in one table: accuracy, parameters, bytes, examples per second, beside the first.

    Parameters
    ----------
    networks : dict of str to Module
        By name.
    data : DataSplit, data source, Dataset, DataLoader or pair of tensors
        Labelled examples. Networks that are known to have been trained on them are refused.
    part : {"test", "train"}, default="test"
        What these examples are to the networks; of a split the part that is taken.
    batch_size : int, default=256
        Examples at once when speed is measured.
    options
        WindowOptions and formats, as for :func:`bench`.
    """
    named = _named(networks)
    source = _tested("compare", named, data, part)
    on = resolve_device("compare", device)
    timed = bench(named, source, batch_sizes=(batch_size,), device=on, **options)
    right = {name: measure_accuracy(n, source, device=on).accuracy for name, n in named.items()}
    first = next(iter(named))
    columns = (
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", better="higher"),
        Column("gap", "Δ", "+.2f"),
        Column("parameters", format=",", better="lower"),
        Column("size", "MB", ".2f"),
        Column("speed", "examples/s", ",.0f", "std", better="higher"),
        Column("ratio", "faster", ".2f×"),
    )
    rows = []
    for name in named:
        (speed,), (reference,) = timed.speeds[name], timed.speeds[first]
        row = {"network": name, "accuracy": 100 * right[name], "size": timed.stored[name] / 1e6}
        row |= {"speed": speed.mean, "std": speed.std, "ratio": speed.ratio_to(reference)}
        if name in timed.sizes:
            row["parameters"] = timed.sizes[name].parameters
        if name != first:
            row["gap"] = 100 * (right[name] - right[first])
        rows.append(Row(row))
    caption = f"{len(source):,} examples; speed on {timed.speeds[first][0].device}"
    return Table("networks", f"{caption} at batch {batch_size}", columns, tuple(rows))


def _named(networks: Mapping[str, nn.Module] | nn.Module) -> dict[str, nn.Module]:
    named = {"network": networks} if isinstance(networks, nn.Module) else networks
    if not isinstance(named, Mapping) or not named:
        accepted = "a dict from names to networks"
        raise parameter_error("bench", "networks", accepted, type(networks).__name__)
    return dict(named)


def _tested(owner: str, networks: Mapping[str, nn.Module], data: Any, part: str) -> Source:
    """The examples to measure accuracy on, which no network has seen unless that is asked for."""
    one_of(owner, "part", part, ("test", "train"))
    given: DataSplit | Source = data if isinstance(data, DataSplit) else as_source(data)
    if part == "test":
        for name, network in networks.items():
            refuse_seen(name, network, given)
    if isinstance(given, DataSplit):
        return given.test if part == "test" else given.train
    return given


def _example(data: Any, count: int) -> Inputs:
    batch = isinstance(data, Tensor) or (
        isinstance(data, Mapping) and all(isinstance(t, Tensor) for t in data.values())
    )
    if batch:
        return data
    source = data.test if isinstance(data, DataSplit) else as_source(data)
    return source.example(count)
