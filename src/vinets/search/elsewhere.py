"""Latency on another device: files to be timed there, and the figures that come back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from vinets.files import read_json, slug, write_json
from vinets.nn.export import export_network
from vinets.progress import Progress
from vinets.running import Inputs, tensors_of

LIST = "networks.json"
NAMED = 5  # files that a complaint names


@dataclass(frozen=True)
class Timings:
    """Seconds of a forward pass by name, and the machine that took them, as it was told."""

    seconds: dict[str, float]
    machine: Mapping[str, Any] = field(default_factory=dict)


def file_names(names: Iterable[str], weights: str, example: Inputs) -> dict[str, str]:
    """Files of networks by their names, in that order.

    A digest of the uncut network, the shape of its inputs and the name stands in each, so that
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
    example: Inputs,
    batch: int,
    progress: Progress,
) -> Path:
    """Export networks, with a list of them, for ``vinets bench`` on another device."""
    folder.mkdir(parents=True, exist_ok=True)
    progress.start("exporting", len(networks))
    for name, network in networks.items():
        export_network(network, folder / files[name], format="onnx", example=example)
        progress.advance()
    listed = {
        "command": f"vinets bench FOLDER --batch-sizes {batch} --device cpu --json",
        "batch": batch,
        "networks": {files[name]: name for name in networks},
    }
    return write_json(folder / LIST, listed)


def read_timings(path: Path, files: Mapping[str, str], batch: int) -> Timings:
    """What ``vinets bench --json`` printed of such files; ``files`` are those that are needed.

    Of every network, ``name`` and in ``throughput`` the ``batch_size`` and ``latency_ms`` are read.
    """
    found, machine = _figures(path)
    here = {name: found[file] for name, file in files.items() if file in found}
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
    missing = [file for name, file in files.items() if batch not in here.get(name, {})]
    if missing:
        more = f" and {len(missing) - NAMED} others" if len(missing) > NAMED else ""
        raise ValueError(
            f"{path} lacks {len(missing)} of {len(files)} networks: "
            f"{', '.join(missing[:NAMED])}{more}. Time all files that --to-time writes."
        )
    return Timings({name: one[batch] for name, one in here.items()}, machine)


def _figures(path: Path) -> tuple[dict[str, dict[int, float]], Mapping[str, Any]]:
    """Seconds by file and batch size."""
    values = read_json(path)
    try:
        found = {}
        for one in values["networks"]:
            times = {int(t["batch_size"]): float(t["latency_ms"]) / 1e3 for t in one["throughput"]}
            if not all(math.isfinite(seconds) and seconds > 0 for seconds in times.values()):
                raise ValueError("a latency is not above 0.")
            found[Path(one["name"]).name] = times
        machine = values.get("machine", {})
        return found, machine if isinstance(machine, Mapping) else {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        told = f"{error!r} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ValueError(
            f"{path} holds no timings: {told}. Pass what vinets bench --json printed."
        ) from None
