"""Tensors and a little JSON in one safetensors file, checked on the way in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

VERSION = 1


def write_tensors(
    path: str | Path, kind: str, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """Write ``tensors`` and JSON-able ``facts`` to ``path``, marked as ``kind``."""
    header = {"format": f"vinets.{kind}", "version": str(VERSION), "facts": json.dumps(facts)}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # safetensors refuses tensors that are not contiguous
    save_file({k: t.detach().cpu().contiguous() for k, t in tensors.items()}, str(path), header)


def read_tensors(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read back what :func:`write_tensors` wrote; anything else is refused in one sentence."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}.") from None
    if header.get("format") != f"vinets.{kind}":
        found = header.get("format", "no format mark")
        raise ValueError(f"{path} must hold vinets.{kind}. Got {found!r} instead.")
    if header.get("version") != str(VERSION):
        raise ValueError(
            f"{path} has version {header.get('version')!r}; this release reads version {VERSION}."
        )
    try:
        facts = json.loads(header.get("facts", ""))
    except json.JSONDecodeError:
        facts = None
    if not isinstance(facts, dict):
        raise ValueError(f"{path} has no readable description of its contents.")
    return tensors, facts
