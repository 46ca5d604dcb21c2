"""Tensors and a little JSON in one safetensors file, checked on the way in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from vinets.core.checks import reason_of
from vinets.core.tensors import as_note, facts_of, read_file, write_file

VERSION = 1


def write_tensors(
    path: str | Path, kind: str, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """Write ``tensors`` and JSON-able ``facts`` to ``path``, marked as ``kind``."""
    notes = {"format": f"vinets.{kind}", "version": str(VERSION), "facts": as_note(facts)}
    write_file(path, tensors, notes)


def read_tensors(
    path: str | Path, kind: str, *, inside: str | Path | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read back what :func:`write_tensors` wrote; anything else is refused in one sentence.

    Where the file has to lie ``inside`` a folder, a link that leads out of it is refused.
    """
    tensors, notes = read_file(path, inside=inside)
    if notes.get("format") != f"vinets.{kind}":
        found = reason_of(notes.get("format", "no format mark"))
        raise ValueError(f"{path} must hold vinets.{kind}. Got {found!r} instead.")
    if notes.get("version") != str(VERSION):
        found = reason_of(repr(notes.get("version")))
        raise ValueError(f"{path} has version {found}; this release reads version {VERSION}.")
    facts = facts_of(notes, "facts")
    if facts is None:
        raise ValueError(f"{path} has no readable description of its contents.")
    return tensors, facts
