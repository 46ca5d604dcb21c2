"""Latents in a directory: shards of rows, and a manifest that says what they are.

Both are written under a temporary name and then renamed, the manifest after the shard, so that an
interrupted run leaves a readable directory. What the manifest does not count does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from vinets.algebra.storage import read_tensors, write_tensors
from vinets.checks import rows_within
from vinets.files import parse_json, read_json, write_json
from vinets.plain import as_plain, from_plain

SHARD_BYTES = 64 << 20  # what an interruption loses at most; also a chunk of a pass
MANIFEST = "manifest.json"
FORMAT = "vinets.latents"
DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}

Pair: TypeAlias = tuple[Tensor, Tensor]
"""Latents ``(b, ...)`` and labels ``(b,)``."""


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


def _shard_path(directory: Path, index: int) -> Path:
    return directory / f"latents-{index:05d}.safetensors"


def read_manifest(directory: Path, fingerprint: str | None = None) -> Manifest | None:
    """The manifest of ``directory``, of that fingerprint if any; None if nothing is there."""
    path = directory / MANIFEST
    if not path.exists():
        if _shard_path(directory, 0).exists():
            raise ValueError(
                f"{directory} holds latents without a {MANIFEST}. "
                "Delete the directory or choose another."
            )
        return None
    try:
        facts = read_json(path, inside=directory)
        # All keys have to be there, though the dataclass has defaults for some.
        known = {"format", *(field.name for field in fields(Manifest))}
        if not isinstance(facts, dict) or set(facts) != known or facts.pop("format") != FORMAT:
            raise ValueError("another file")
        manifest = from_plain(Manifest, facts)
    except (OSError, ValueError):
        raise ValueError(
            f"{path} is not a manifest of latents. Delete {directory} or choose another directory."
        ) from None
    if fingerprint not in (None, manifest.fingerprint):
        raise ValueError(
            f"{directory} holds other latents: {_difference(manifest.fingerprint, fingerprint)}. "
            "Choose another directory or delete this one."
        )
    return manifest


def _difference(theirs: str, ours: str | None) -> str:
    """In what two fingerprints differ, by name where both are JSON objects."""
    try:
        before, now = parse_json(theirs), parse_json(str(ours))
        names = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
        return f"their {', '.join(names)} differ"
    except (ValueError, AttributeError):
        return f"they are of {theirs!r}, not of {ours!r}"


def read_shard(directory: Path, index: int, manifest: Manifest) -> Pair:
    """Values ``(b, *shape)`` and labels ``(b,)`` of a shard; mapped from disk, not read at once."""
    path = _shard_path(directory, index)
    tensors, facts = read_tensors(path, "latents", inside=directory)
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


def read_labels(directory: Path, manifest: Manifest | None) -> Tensor:
    """Labels ``(m,)`` of the latents on disk, in order."""
    parts = [torch.empty(0, dtype=torch.int64)]
    if manifest is not None:
        parts += [read_shard(directory, i, manifest)[1] for i in range(len(manifest.counts))]
    return torch.cat(parts)


def append_latents(
    directory: Path, fingerprint: str, batches: Iterable[Pair], shard_bytes: int = SHARD_BYTES
) -> None:
    """Write latents ``(b, ...)`` on the CPU with their labels behind those already there.

    Shards have equal sizes, whatever the sizes of the batches. Full ones go to disk at once; the
    directory is complete when the batches are at their end.
    """
    manifest = read_manifest(directory, fingerprint)
    held: list[Pair] = []
    for values, labels in batches:
        shape, dtype = tuple(values.shape[1:]), str(values.dtype).removeprefix("torch.")
        if manifest is None:
            manifest = _declared(directory, Manifest(fingerprint, shape, dtype))
        if (manifest.shape, manifest.dtype) != (shape, dtype):
            raise ValueError(
                f"The latents in {directory} are {manifest.dtype} of shape {manifest.shape}. "
                f"Got {dtype} of shape {shape} instead."
            )
        rows = rows_within(shard_bytes, values.dtype.itemsize * torch.Size(shape).numel())
        while len(values):
            room = rows - sum(len(some) for _, some in held)  # slices are views, copied on writing
            held.append((values[:room], labels[:room]))
            values, labels = values[room:], labels[room:]
            if len(held[-1][1]) == room:
                manifest = _with_shard(directory, manifest, held)
                held = []
    if manifest is not None and held:
        manifest = _with_shard(directory, manifest, held)
    if manifest is None or not manifest.counts:
        raise ValueError("There are no latents to store: the batches hold no examples.")
    _declared(directory, replace(manifest, complete=True))


def _with_shard(directory: Path, manifest: Manifest, held: list[Pair]) -> Manifest:
    """Write one more shard, and declare it."""
    tensors = {"values": torch.cat([v for v, _ in held]), "labels": torch.cat([y for _, y in held])}
    index = len(manifest.counts)
    facts = {"fingerprint": manifest.fingerprint, "index": index}
    write_tensors(_shard_path(directory, index), "latents", tensors, facts)
    # Only now: an interruption before this line leaves a file that the next run overwrites.
    counts = (*manifest.counts, len(tensors["labels"]))
    return _declared(directory, replace(manifest, counts=counts))


def _declared(directory: Path, manifest: Manifest) -> Manifest:
    write_json(directory / MANIFEST, {"format": FORMAT, **as_plain(manifest)})
    return manifest
