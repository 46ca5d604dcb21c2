"""Tell data apart by digests of every example and label, in their order or in any."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from vinets.core.device import Inputs, tensors_of
from vinets.core.plain import changes
from vinets.core.tensors import digest, fingerprint
from vinets.data.conversion import LoaderSource, TensorSource
from vinets.data.images import ImageSource
from vinets.data.source import DataSplit, Source

EXAMPLES_AT_ONCE = 2_000
BYTES_PER_HASH = 8

_read: WeakKeyDictionary[LoaderSource, str] = WeakKeyDictionary()


def content(source: Source) -> str:
    """Digest every example and label, their order, names, shapes and normalisation."""
    if isinstance(source, LoaderSource) and source in _read:
        return _read[source]  # a second pass could take minutes
    reading = getattr(source, "preprocessing", None)  # only sources of images have one
    # Only what differs from its default, so that a field that is added later changes no digest.
    facts = [list(source.classes), None if reading is None else changes(reading)]
    examples = (pair for inputs in _parts(source) for pair in _named(inputs))
    result = digest(chain([("labels", source.labels)], examples), facts)
    if isinstance(source, LoaderSource):
        _read[source] = result
    return result


def identify(data: DataSplit) -> str:
    """Digest every example and label, of both parts and in their order."""

    def tensors(source: Source) -> Iterator[Tensor]:
        for inputs in _parts(source):
            yield from tensors_of(inputs)
        yield source.labels

    return fingerprint(chain(tensors(data.train), tensors(data.test)))


def examples_digest(*sources: Source) -> str:
    """Digest the examples of sources, in whatever order and division; "" if that costs much."""
    if not all(isinstance(source, ImageSource | TensorSource) for source in sources):
        return ""
    hashes = (int.from_bytes(one) for source in sources for one in _hashes(source))
    return f"{sum(hashes) % 256**BYTES_PER_HASH:0{2 * BYTES_PER_HASH}x}"


def share_repeated(data: DataSplit) -> float:
    """Return the share of the test part that is in the training part, too; 0 if that costs much."""
    parts = data.train, data.test
    if not all(isinstance(part, ImageSource | TensorSource) and len(part) for part in parts):
        return 0.0
    known = set(_hashes(data.train))
    return sum(one in known for one in _hashes(data.test)) / len(data.test)


def _hashes(source: Source) -> Iterator[bytes]:
    """Give a short hash of every example."""
    for inputs in _parts(source):
        tensors = [tensor.cpu().contiguous() for _, tensor in _named(inputs)]
        flat = [t[:, None] if t.ndim == 1 else t.flatten(1) for t in tensors]
        for rows in zip(*(t.view(torch.uint8).numpy() for t in flat), strict=True):
            hashed = hashlib.blake2b(digest_size=BYTES_PER_HASH)
            for row in rows:
                hashed.update(row.data)
            yield hashed.digest()


def _parts(source: Source) -> Iterator[Inputs]:
    """Give all examples in their order, in large parts; images as they were read.

    Data sets that draw at random when they are read give the same every time.
    """
    if isinstance(source, ImageSource):  # whatever normalises them later
        images = source.images
        yield from [images] if isinstance(images, Tensor) else images.split()
        return
    # Data sets may draw from the global generators, which are restored afterwards.
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        try:
            for inputs, _ in source.batches(EXAMPLES_AT_ONCE):
                yield inputs
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


def _named(inputs: Inputs) -> list[tuple[str, Tensor]]:
    return [("", inputs)] if isinstance(inputs, Tensor) else sorted(inputs.items())
