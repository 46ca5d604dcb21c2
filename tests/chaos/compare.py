"""Whether two folders hold the same, but for what the clock says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

# Measured times, and what is made of them; a digest ties a description, times included, to weights.
CLOCK = {
    "seconds",
    "seconds_build",
    "seconds_train",
    "took",
    "speed",
    "speeds",
    "latency",
    "verdict",
    "digest",
    "command",  # --wait is part of it
}


def differences(folder: Path, reference: Path) -> Iterator[str]:
    """What is in one only, or is not the same in both."""
    here, there = _files(folder), _files(reference)
    for name in sorted(here - there):
        yield f"stray file {name}"
    for name in sorted(there - here):
        yield f"no file {name}"
    for name in sorted(here & there):
        one, other = folder / name, reference / name
        if one.read_bytes() != other.read_bytes():
            where = _where(_content(one), _content(other))
            if where is not None:
                yield f"{name} differs{where}"


def _where(one: Any, other: Any) -> str | None:
    """Where two values differ first, if they do."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        inside = ((key, _where(one[key], other[key])) for key in one)
    elif isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        inside = ((i, _where(a, b)) for i, (a, b) in enumerate(zip(one, other, strict=True)))
    else:
        return None if one == other else f": {str(one)[:80]!r} and {str(other)[:80]!r}"
    return next((f" at {key}{where}" for key, where in inside if where is not None), None)


def _files(folder: Path) -> set[str]:
    # calls.jsonl is a log of the calls that ended by themselves
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "calls.jsonl")
    return {str(path.relative_to(folder)) for path in files}


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".safetensors":
        with safe_open(path, "np") as file:
            tensors = {}
            for name in file.keys():  # noqa: SIM118 - not a mapping
                tensor = file.get_tensor(name)
                tensors[name] = tensor.dtype.str, tensor.shape, tensor.tobytes()
            told = {k: _parsed(v) for k, v in (file.metadata() or {}).items()}
        return tensors, _timeless(told)
    if path.suffix == ".html":  # numbers in it come from results.json, and places of figures
        return re.sub(r"-?\d[\d.,e-]*", "0", path.read_text())
    return path.read_bytes()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _timeless(values: Any) -> Any:
    if isinstance(values, dict):
        return {k: _timeless(v) for k, v in values.items() if k not in CLOCK}
    return [_timeless(v) for v in values] if isinstance(values, list) else values
