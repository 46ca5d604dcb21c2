"""Whether two folders hold the same, but for what the clock says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from vinets.core.tensors import digest, facts_of, read_file

# Measured times, and what is made of them; a digest ties a description, times included, to weights;
# --wait is part of a command.
CLOCK = {
    *("seconds", "seconds_build", "seconds_train", "took", "speed", "speeds", "latency"),
    *("spread", "verdict", "digest", "command"),
}
BUSY = "The machine was busy"  # a note about measured times begins so


def differences(folder: Path, reference: Path) -> Iterator[str]:
    """Name the files that are in one folder only, and those that differ."""
    here, there = _files(folder), _files(reference)
    for name in sorted(here - there):
        yield f"stray file {name}"
    for name in sorted(there - here):
        yield f"no file {name}"
    for name in sorted(here & there):
        one, other = folder / name, reference / name
        if one.read_bytes() != other.read_bytes():
            where = _first_difference(_content(one), _content(other))
            if where is not None:
                yield f"{name} differs{where}"


def _first_difference(one: Any, other: Any) -> str | None:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(key, value, other[key]) for key, value in one.items()]
    elif isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return None if one == other else f": {str(one)[:80]!r} and {str(other)[:80]!r}"
    inside = ((key, _first_difference(a, b)) for key, a, b in pairs)
    return next((f" at {key}{where}" for key, where in inside if where is not None), None)


def _files(folder: Path) -> set[str]:
    # calls.jsonl is a log of the calls that ended by themselves
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "calls.jsonl")
    return {str(path.relative_to(folder)) for path in files}


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":  # in any order, and without a line that was cut short
        rows = {}
        for line in path.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                row = json.loads(line)
                rows[row["name"]] = _timeless(row)
        return rows
    if path.suffix == ".safetensors":
        tensors, notes = read_file(path)
        told = {name: facts_of(notes, name) or text for name, text in notes.items()}
        return {name: digest([(name, t)]) for name, t in tensors.items()}, _timeless(told)
    if path.suffix == ".html":  # numbers in it come from results.json, and places of figures
        text = re.sub(rf"<p[^>]*>{BUSY}.*?</p>\s*", "", path.read_text(), flags=re.DOTALL)
        return re.sub(r"-?\d[\d.,e-]*", "0", text.replace(" --wait", ""))
    return path.read_bytes()


def _timeless(values: Any) -> Any:
    if isinstance(values, dict):
        return {k: _timeless(v) for k, v in values.items() if k not in CLOCK}
    if isinstance(values, list):
        return [_timeless(v) for v in values if not str(v).startswith(BUSY)]
    return values
