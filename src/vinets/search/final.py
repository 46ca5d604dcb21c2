"""How good and how fast the finalists are, on examples that are looked at once; and int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import nn

from vinets.core.device import resolve_device
from vinets.data.source import DataSplit, Source
from vinets.export import EXPORT_FORMATS, ExportedNetwork, export_network, open_exported
from vinets.measure import evaluate
from vinets.search.costs import LONGER, WINDOWS, in_turns
from vinets.search.halving import Search
from vinets.search.repeat import Written
from vinets.search.result import INT8, Quantised, Tried, Uncut


@dataclass(frozen=True)
class Final:
    """What was measured at the end."""

    tried: tuple[Tried, ...]
    uncut: Uncut
    int8: tuple[Quantised, ...]
    batch: int
    recorded: bool
    notes: tuple[str, ...]


def finish(
    search: Search,
    tried: Sequence[Tried],
    chosen: Tried | None,
    data: DataSplit,
    *,
    int8: bool,
    written: Written,
) -> Final:
    """Test the finalists and the uncut network, once, and time them in turns.

    Of ``data``, int8 is calibrated on the training part and everything tested on the test part.
    With ``int8``, the uncut and the chosen network are measured in int8 as well.
    """
    done = [one for one in tried if search.epochs in one.accuracies]
    networks: dict[str, nn.Module] = {"uncut": search.setup.model}
    networks |= {one.candidate.name: search.network(one.candidate) for one in done}
    right = {}
    search.watch.start("testing", len(networks))
    for name, network in networks.items():
        right[name] = evaluate(network, data.test, device=search.setup.device).accuracy
        search.watch.advance()
    asked = [] if chosen is None else [chosen.candidate.name]
    found: dict[str, tuple[ExportedNetwork, Quantised]] = {}
    notes: list[str] = []
    if int8:
        for name in ("uncut", *asked):
            made = _quantised(search, name, networks[name], data, written)
            if isinstance(made, str):
                notes.append(made)
            else:
                found[name] = made
    batch = search.budget.batch if search.budget.latency else search.start.timing.batch
    everything = dict(networks)
    where = resolve_device("compress", search.pricing.where)
    if where.type == "cpu":  # where the files run
        everything |= {f"{name} in int8": file for name, (file, _) in found.items()}
    example = search.setup.test.example(batch)
    windows = LONGER if search.budget.latency else WINDOWS
    timed = in_turns(everything, example, batch, where, search.watch, windows)

    def latency(name: str) -> float | None:
        return timed[name].latency_ms / 1e3 if name in timed else None

    finished = tuple(
        replace(one, test=right[name], speed=timed[name].median, latency=latency(name))
        if (name := one.candidate.name) in networks
        else one
        for one in tried
    )
    uncut = Uncut(
        search.known.costs["uncut"],
        search.setup.accuracy,
        right["uncut"],
        timed["uncut"].median,
        latency("uncut"),
        written.evaluate(),
    )
    quantised = []
    for name, (_, one) in found.items():
        key = f"{name} in int8"
        speed = timed[key].median if key in timed else None
        quantised.append(replace(one, speed=speed, latency=latency(key)))
    recorded = timed["uncut"].recorded
    return Final(finished, uncut, tuple(quantised), batch, recorded, tuple(notes))


def _quantised(
    search: Search, name: str, network: nn.Module, data: DataSplit, written: Written
) -> tuple[ExportedNetwork, Quantised] | str:
    """A network in int8; or why there is none."""
    kind = EXPORT_FORMATS[INT8]
    missing = [package for package in kind.packages if find_spec(package) is None]
    if missing:
        return (
            f"There is no int8 of {name}, for {missing[0]} is not installed: "
            f'pip install "vinets[{kind.extra}]".'
        )
    search.watch.start("int8", 1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        try:
            report = export_network(
                network,
                path,
                format=INT8,
                most_lost=100.0,
                data=data,
                device=search.setup.device,
                seed=search.seed,
            )
        except ValueError as error:
            return f"There is no int8 of {name}: {error}"
        file = open_exported(path)
    held: Source = search.setup.data.test
    validation = evaluate(file, held, device="cpu").accuracy
    search.watch.advance()
    assert report.accuracy is not None  # there is data
    command = written.quantise(name == "uncut", search.seed)
    return file, Quantised(name, report.size, validation, report.accuracy, command=command)
