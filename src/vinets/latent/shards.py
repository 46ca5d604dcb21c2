"""Latents in a directory: shards of rows, and a manifest that says what they are.

Both are written under a temporary name and then renamed, the manifest after the shard, so that an
interrupted run leaves a readable directory. What the manifest does not count does not exist.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from vinets.algebra.storage import read_tensors, write_tensors
from vinets.checks import rows_within
from vinets.files import read_json, write_json
from vinets.plain import as_plain, from_plain

__all__ = ["SHARD_BYTES", "Manifest", "ShardWriter", "read_manifest", "read_shard", "shard_path"]

SHARD_BYTES = 64 << 20
MANIFEST = "manifest.json"
FORMAT = "vinets.latents"
DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}


@dataclass(frozen=True)
class Manifest:
    """What a directory of shards holds."""

    fingerprint: str  # of the network and the data that the latents came from
    shape: tuple[int, ...]  # of one latent
    dtype: str  # of the values, a key of DTYPES
    counts: tuple[int, ...] = ()  # latents in each shard
    complete: bool = False  # whether the last shard has been written

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES or min((*self.shape, *self.counts), default=1) < 1:
            raise ValueError("there are no latents of that kind")


def shard_path(directory: Path, index: int) -> Path:
    """Where the shard ``index`` lies."""
    return directory / f"latents-{index:05d}.safetensors"


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest of ``directory``; None if nothing has been collected there."""
    path = directory / MANIFEST
    if not path.exists():
        if shard_path(directory, 0).exists():
            raise ValueError(
                f"{directory} holds latents without a {MANIFEST}. "
                "Delete the directory or choose another."
            )
        return None
    try:
        facts = read_json(path)
        known = {"format", *(field.name for field in fields(Manifest))}
        if not isinstance(facts, dict) or set(facts) != known or facts.pop("format") != FORMAT:
            raise ValueError("another file")
        return from_plain(Manifest, facts)
    except (OSError, ValueError):
        raise ValueError(
            f"{path} is not a manifest of latents. Delete {directory} or choose another directory."
        ) from None


def read_shard(directory: Path, index: int, manifest: Manifest) -> tuple[Tensor, Tensor]:
    """Values ``(b, *shape)`` and labels ``(b,)`` of a shard; mapped from disk, not read at once."""
    path = shard_path(directory, index)
    tensors, facts = read_tensors(path, "latents")
    values, labels = tensors.get("values"), tensors.get("labels")
    count = manifest.counts[index]
    if (
        facts != {"fingerprint": manifest.fingerprint, "index": index}
        or values is None
        or labels is None
        or (values.shape, values.dtype) != ((count, *manifest.shape), DTYPES[manifest.dtype])
        or (labels.shape, labels.dtype) != ((count,), torch.int64)
    ):
        raise ValueError(
            f"{path} is not the shard that {MANIFEST} describes. "
            "Delete the directory and collect the latents again."
        )
    return values, labels


class ShardWriter:
    """Cuts a stream of latents into shards of equal size, whatever the sizes of the batches.

    It goes on where an interrupted one left off, in a directory with the same fingerprint.
    """

    def __init__(self, directory: Path, fingerprint: str, shard_bytes: int = SHARD_BYTES) -> None:
        self.directory = directory
        self.fingerprint = fingerprint
        self.shard_bytes = shard_bytes
        self.manifest = read_manifest(directory)  # what is on disk; None before the first latents
        if self.manifest is not None and self.manifest.fingerprint != fingerprint:
            raise ValueError(
                f"{directory} holds the latents of {self.manifest.fingerprint!r}, not of "
                f"{fingerprint!r}. Choose another directory or delete this one."
            )
        self._held: list[tuple[Tensor, Tensor]] = []

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to write."""
        return self.manifest is not None and self.manifest.complete

    def stored_labels(self) -> Tensor:
        """Labels of the latents on disk, in order."""
        if self.manifest is None or not self.manifest.counts:
            return torch.empty(0, dtype=torch.int64)
        indices = range(len(self.manifest.counts))
        return torch.cat([read_shard(self.directory, i, self.manifest)[1] for i in indices])

    def add(self, values: Tensor, labels: Tensor) -> None:
        """Append latents ``(b, ...)`` on the CPU; full shards go to disk."""
        shape, dtype = tuple(values.shape[1:]), str(values.dtype).removeprefix("torch.")
        if self.manifest is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._declare(Manifest(self.fingerprint, shape, dtype))
        assert self.manifest is not None
        if (self.manifest.shape, self.manifest.dtype) != (shape, dtype):
            raise ValueError(
                f"The latents in {self.directory} are {self.manifest.dtype} of shape "
                f"{self.manifest.shape}. Got {dtype} of shape {shape} instead."
            )
        row_bytes = values.dtype.itemsize * torch.Size(shape).numel()
        rows = rows_within(self.shard_bytes, row_bytes)
        while len(values):
            room = rows - sum(len(held) for _, held in self._held)
            self._held.append((values[:room], labels[:room]))
            values, labels = values[room:], labels[room:]
            if len(self._held[-1][1]) == room:
                self._write_shard()

    def finish(self) -> None:
        """Write what is left and declare the directory complete."""
        if self._held:
            self._write_shard()
        if self.manifest is None or not self.manifest.counts:
            raise ValueError("There are no latents to store: the batches hold no examples.")
        self._declare(replace(self.manifest, complete=True))

    def _write_shard(self) -> None:
        assert self.manifest is not None
        values = torch.cat([v for v, _ in self._held])
        labels = torch.cat([y for _, y in self._held])
        index = len(self.manifest.counts)
        path = shard_path(self.directory, index)
        temporary = path.with_suffix(".partial")
        facts = {"fingerprint": self.fingerprint, "index": index}
        write_tensors(temporary, "latents", {"values": values, "labels": labels}, facts)
        os.replace(temporary, path)
        counts = (*self.manifest.counts, len(labels))
        self._declare(replace(self.manifest, counts=counts))
        self._held = []

    def _declare(self, manifest: Manifest) -> None:
        write_json(self.directory / MANIFEST, {"format": FORMAT, **as_plain(manifest)})
        self.manifest = manifest
