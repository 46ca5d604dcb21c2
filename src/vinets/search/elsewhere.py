"""Latency on another device: files to be timed there, and the figures that come back."""

from __future__ import annotations

import hashlib
import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from vinets.data.interface import DataSplit
from vinets.files import read_json, slug, write_json
from vinets.nn.export import export_network
from vinets.progress import Progress
from vinets.running import Inputs, tensors_of
from vinets.search.result import INT8, in_int8

LIST = "networks.json"
UNCUT_INT8 = in_int8("uncut")  # is timed beside the candidates, and not needed
NAMED = 5  # files that a complaint names


@dataclass(frozen=True)
class Timings:
    """Seconds of a forward pass by name, and the machine that took them, as it was told."""

    seconds: dict[str, float]
    machine: Mapping[str, Any] = field(default_factory=dict)


def file_names(names: Iterable[str], weights: str, example: Inputs) -> dict[str, str]:
    """Files of networks by their names, in that order.

    Each ends in a digest of the uncut network, the shape of its inputs and the name, so that
    figures of other networks are noticed.
    """
    shape = [tuple(tensor.shape[1:]) for tensor in tensors_of(example)]
    found = {}
    for place, name in enumerate(names):
        digest = hashlib.sha256(f"{weights} {shape} {name}".encode()).hexdigest()[:8]
        found[name] = f"{place:02d}-{slug(name)}-{digest}.onnx"
    return found


def write_files(
    folder: Path,
    networks: Mapping[str, nn.Module],
    files: Mapping[str, str],
    data: DataSplit,
    batch: int,
    progress: Progress,
) -> list[Path]:
    """Export networks, with a list of them, for ``vinets bench`` on another device.

    The one that is called :data:`UNCUT_INT8` is calibrated on the data and written in int8, unless
    that fails.
    """
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    progress.start("exporting", len(networks))
    for name, network in networks.items():
        if name == UNCUT_INT8:
            made: dict[str, Any] = {"format": INT8, "most_lost": 100.0, "data": data}
        else:
            made = {"format": "onnx", "example": data.test.example(2)}
        try:
            export_network(network, folder / files[name], **made)
            written.append(name)
        except ValueError:
            if name != UNCUT_INT8:
                raise
        progress.advance()
    listed = {
        "command": f"vinets bench FOLDER --batch-sizes {batch} --device cpu --json",
        "batch": batch,
        "networks": {files[name]: name for name in written},
    }
    write_json(folder / LIST, listed)
    return [folder / files[name] for name in written]


def read_timings(path: Path, files: Mapping[str, str], batch: int) -> Timings:
    """What ``vinets bench --json`` printed of such files; ``files`` are those that are needed.

    Of every network, ``name`` and in ``throughput`` the ``batch_size`` and ``latency_ms`` are read.
    A network is told by the digest at the end of its name. The one in int8 may be missing.
    """
    found, machine = _figures(path)
    here = {name: found[_end(file)] for name, file in files.items() if _end(file) in found}
    if not here:
        raise ValueError(
            f"{path} has timings of other networks than these. Time the files that --to-time "
            "writes for this network and this budget."
        )
    if not any(batch in one for one in here.values()):
        known = ", ".join(map(str, sorted({size for one in here.values() for size in one})))
        raise ValueError(
            f"{path} has timings at batch {known or 'none'}, and the budget is for batch {batch}. "
            f"Run vinets bench with --batch-sizes {batch}."
        )
    lacking = [name for name in files if batch not in here.get(name, {})]
    missing = [files[name] for name in lacking if name != UNCUT_INT8]
    if missing:
        more = f" and {len(missing) - NAMED} others" if len(missing) > NAMED else ""
        raise ValueError(
            f"{path} lacks {len(missing)} of {len(files)} networks: "
            f"{', '.join(missing[:NAMED])}{more}. Time all files that --to-time writes."
        )
    return Timings({name: one[batch] for name, one in here.items() if batch in one}, machine)


def _end(file: str) -> str:
    """The digest in the name of a file, whatever made another format of it."""
    return Path(file).stem.rpartition("-")[2]


def _figures(path: Path) -> tuple[dict[str, dict[int, float]], Mapping[str, Any]]:
    """Seconds by file and batch size."""
    values = read_json(path)
    try:
        found = {}
        for one in values["networks"]:
            times = {int(t["batch_size"]): float(t["latency_ms"]) / 1e3 for t in one["throughput"]}
            if not all(math.isfinite(seconds) and seconds > 0 for seconds in times.values()):
                raise ValueError("a latency is not above 0.")
            found[_end(one["name"])] = times
        machine = values.get("machine", {})
        return found, machine if isinstance(machine, Mapping) else {}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        told = f"{error!r} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        told = textwrap.shorten(told, 200)
        raise ValueError(
            f"{path} holds no timings: {told}. Pass what vinets bench --json printed."
        ) from None
