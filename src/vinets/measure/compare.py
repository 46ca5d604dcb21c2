"""Networks of any kind measured from Python: ``evaluate``, ``bench`` and ``compare``."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from vinets.core.checks import format_bytes, one_of, parameter_error
from vinets.core.device import Inputs, call, device_of, each, evaluating, logits_of, resolve_device
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.core.settings import FormatOptions, WindowOptions
from vinets.data.source import DataSplit, Source
from vinets.data.sources import as_source
from vinets.export import ExportedNetwork
from vinets.measure.accuracy import Evaluation, Tally
from vinets.measure.cost import Sizes, batch_of, flops, sizes, stored_bytes
from vinets.measure.speed import Throughput, machine, measure_speed
from vinets.networks.seen import refuse_seen
from vinets.report import Column, Row, Table


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
) -> Evaluation:
    """Evaluate a classifier, a batch at a time.

    Parameters
    ----------
    network : Module
        Returns logits of shape (B, K), or an object with such ``logits``. It runs in eval mode,
        and its training flags stay as they were. If it lies on another device, a copy runs.
        Logits that are NaN make the loss and the calibration error NaN.
    data : DataSplit, data source, Dataset, DataLoader, pair of tensors, or iterable of batches
        Labelled examples. Inputs are a tensor, or a dict of tensors by argument; labels are
        integers of shape (B,). A network that is known to have been trained on them is refused, but
        for an iterable of batches (inputs, labels), which has no identity.
    part : {"test", "train"}, default="test"
        What these examples are to the network; in a split the part that is taken.
    device : str or None, default=None
        Where to compute; None is where the network lies.
    batch_size : int, default=512
        Examples at once, unless these are batches already.
    classes : sequence of str
        Their names; those of the data if empty.

    Examples
    --------
    >>> logits = torch.eye(3)[[0, 1, 2, 2]]
    >>> result = evaluate(nn.Identity(), (logits, torch.tensor([0, 1, 2, 1])))
    >>> result.accuracy, result.confusion.tolist()
    (0.75, [[1, 0, 0], [0, 1, 1], [0, 0, 1]])
    """
    there = device_of(network) if device is None else resolve_device("evaluate", device)
    # Two things in a tuple are inputs and labels, unless the first is itself a pair.
    pair = isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple | list)
    known = isinstance(data, DataSplit | Source | Dataset | DataLoader)
    batches: Iterable[Any] = data
    if known or pair or hasattr(data, "__getitems__"):
        source = _examples("evaluate", {"The network": network}, data, part)
        classes = classes or source.classes
        batches = source.batches(batch_size, device=there)
    elif not isinstance(data, Iterable):
        accepted = "a data source, a Dataset, a DataLoader, a pair of tensors, or batches"
        raise parameter_error("evaluate", "data", accepted, type(data).__name__)
    tensors = [*network.parameters(), *network.buffers()]
    if any(tensor.device != there for tensor in tensors):
        network = copy.deepcopy(network).to(there)
    tally: Tally | None = None
    begin = time.perf_counter()
    with evaluating(network):
        for batch in batches:
            inputs, labels = _pair(batch)
            logits = logits_of(call(network, each(inputs, lambda t: t.to(there))))
            if logits.ndim != 2 or len(logits) != len(labels):
                raise ValueError(
                    "The network given to evaluate must return logits of shape (B, K), here "
                    f"({len(labels)}, K). Got {tuple(logits.shape)} instead."
                )
            tally = tally or Tally(logits.shape[1], there)
            tally.add(logits, labels)
            if progress is not None:
                progress.advance(len(labels))
    if tally is None:
        raise ValueError("The batches given to evaluate hold no examples. Pass at least one batch.")
    return tally.result(time.perf_counter() - begin, tuple(classes), caption)


def _pair(batch: Any) -> tuple[Inputs, Tensor]:
    """Return the inputs and labels of a batch, or raise one clear complaint."""
    accepted = "pairs of inputs and integer labels of shape (B,)"
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise parameter_error("evaluate", "batches", accepted, type(batch).__name__)
    inputs, labels = batch
    rows = batch_of("evaluate", inputs, "batches")
    if not isinstance(labels, Tensor) or labels.shape != (rows,) or labels.is_floating_point():
        got = type(labels).__name__
        if isinstance(labels, Tensor):
            got = f"labels {tuple(labels.shape)} of {labels.dtype}"
        raise parameter_error("evaluate", "batches", accepted, f"{rows} inputs with {got}")
    return inputs, labels


def _examples(owner: str, networks: Mapping[str, nn.Module], data: Any, part: str) -> Source:
    """Return the examples to test on, which no network has seen unless ``part`` says so."""
    one_of(owner, "part", part, ("test", "train"))
    given: DataSplit | Source = data if isinstance(data, DataSplit) else as_source(data)
    if part == "test":
        for name, network in networks.items():
            refuse_seen(name, network, given)
    if isinstance(given, DataSplit):
        return given.test if part == "test" else given.train
    return given


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
            Column("network"),
            Column("runtime"),
            Column("precision"),
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
                row = {"network": name, "runtime": one.runtime, "precision": one.precision}
                if speed.peak_memory is not None:
                    row["memory"] = format_bytes(speed.peak_memory)
                rows.append(Row(vars(speed) | row | {"ratio": speed.ratio_to(reference)}))
        caption = f"Speed on {self.first.throughput[0].device}"
        return Table("speed", caption, columns, tuple(rows))

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
        networks = []
        for name, one in self.items():
            facts = {"name": name} | as_plain(one)
            pairs = zip(one.throughput, self.first.throughput, strict=True)
            for speed, (mine, reference) in zip(facts["throughput"], pairs, strict=True):
                speed["ratio"] = mine.ratio_to(reference)
            networks.append(facts)
        return {"machine": machine(self.first.throughput[0].device), "networks": networks}

    def __str__(self) -> str:
        return f"{self.speed_table}\n\n{self.size_table}"


def _named(networks: Mapping[str, nn.Module] | nn.Module) -> Mapping[str, nn.Module]:
    named = {"network": networks} if isinstance(networks, nn.Module) else networks
    if not isinstance(named, Mapping) or not named:
        accepted = "a dict from names to networks"
        raise parameter_error("bench", "networks", accepted, type(networks).__name__)
    return named


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
    compile, windows, formats
        As for :func:`vinets.measure.measure_speed`.
    """
    named = _named(networks)
    example = data
    tensors = data.values() if isinstance(data, Mapping) else [data]
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        source = data.test if isinstance(data, DataSplit) else as_source(data)
        example = source.example(max(batch_sizes, default=1))
    timed = measure_speed(
        named,
        example,
        batch_sizes=batch_sizes,
        device=device,
        compile=compile,
        windows=windows,
        formats=formats,
    )
    runtime = "torch, compiled" if compile else "torch"
    precision = "bfloat16 (autocast)" if formats.amp else "float32"
    one = each(example, lambda tensor: tensor[:1])
    measured = Measurements()
    for name, network in named.items():
        speeds = tuple(timed[name])
        if isinstance(network, ExportedNetwork):
            known = network.runtime, network.precision, network.size, None, None
            measured[name] = Measurement(*known, speeds)
        else:
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

    Parameters
    ----------
    networks : dict of str to Module
        By name; the others are compared with the first.
    data : DataSplit, data source, Dataset, DataLoader or pair of tensors
        Labelled examples. Networks that are known to have been trained on them are refused.
    part : {"test", "train"}, default="test"
        What these examples are to the networks; in a split the part that is taken.
    batch_size : int, default=256
        Examples at once when speed is measured.
    options
        WindowOptions and formats, as for :func:`bench`.
    """
    named = _named(networks)
    source = _examples("compare", named, data, part)
    on = resolve_device("compare", device)
    measured = bench(named, source, batch_sizes=(batch_size,), device=on, **options)
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
        accuracy = 100 * evaluate(named[name], source, part="train", device=on).accuracy
        (speed,) = one.throughput
        row = {"network": name, "accuracy": accuracy, "size": one.bytes / 1e6}
        row |= {"speed": speed.mean, "std": speed.std, "ratio": speed.ratio_to(reference)}
        if one.sizes is not None:
            row["parameters"] = one.sizes.parameters
        if rows:
            row["gap"] = accuracy - rows[0].values["accuracy"]
        rows.append(Row(row))
    caption = f"{len(source):,} examples; speed on {reference.device} at batch {batch_size}"
    return Table("networks", caption, columns, tuple(rows))
