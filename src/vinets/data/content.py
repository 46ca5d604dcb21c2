"""What data consist of: a digest of every example and label, and whether examples were seen."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from vinets.data.images import ImageSource
from vinets.data.interface import CheckedSource, DataSplit, Source
from vinets.data.sources import LoaderSource, TensorSource
from vinets.fingerprint import digest, fingerprint
from vinets.running import Inputs, tensors_of

CHUNK = 2_000  # examples at once
KEPT, WIDTH = 1024, 8  # marks in a sketch, and bytes of each
LOOKED_AT = 64  # bytes of an example, to tell quickly that it is not another one
PIXELS, COMPARED = 64, 1024  # of a channel: fewer may look alike by chance; more would take long

_read: WeakKeyDictionary[LoaderSource, str] = WeakKeyDictionary()
_sketched: WeakKeyDictionary[CheckedSource, str] = WeakKeyDictionary()


def in_memory(source: Source) -> bool:
    """Whether looking at every example costs little."""
    return isinstance(source, ImageSource | TensorSource)


def parts_of(source: Source) -> Iterator[Inputs]:
    """All examples in their order, in large parts; images as they were read.

    Data sets that draw at random when they are read give the same every time.
    """
    if isinstance(source, ImageSource):  # whatever normalises them later
        yield source.images
    else:
        with _steady():
            for inputs, _ in source.batches(CHUNK):
                yield inputs


def content(source: Source) -> str:
    """A digest of every example and label, of their order, names, shapes and normalisation.

    Examples
    --------
    >>> a, b = (TensorSource(torch.eye(2), labels) for labels in ([0, 1], [1, 0]))
    >>> content(a) == content(a.subset(torch.arange(2))), content(a) == content(b)
    (True, False)
    """
    if isinstance(source, LoaderSource) and source in _read:
        return _read[source]  # a second pass could take minutes
    reading = getattr(source, "preprocessing", None)  # only sources of images have one
    facts = [list(source.classes), None if reading is None else reading.to_dict()]
    examples = (pair for inputs in parts_of(source) for pair in _named(inputs))
    found = digest(chain([("labels", source.labels)], examples), facts)
    if isinstance(source, LoaderSource):
        _read[source] = found
    return found


def identify(data: DataSplit) -> str:
    """A digest of every example and label, of both parts and in their order."""
    return fingerprint(chain(_contents(data.train), _contents(data.test)))


def _contents(source: Source) -> Iterator[Tensor]:
    for inputs in parts_of(source):
        yield from tensors_of(inputs)
    yield source.labels


def sketch(source: Source) -> str:
    """Marks of some examples, by which :func:`share_seen` knows them again in other data.

    They are the least of the hashes of all examples: which examples they belong to depends on
    nothing but the examples. Images are known again as bytes and as floats, normalised or not.
    """
    if isinstance(source, CheckedSource) and source in _sketched:
        return _sketched[source]  # every cut of a network asks again
    found = _written(set(_marks(_looks(source))))
    if isinstance(source, CheckedSource):
        _sketched[source] = found
    return found


def share_seen(source: Source, seen: str) -> float:
    """The share of these examples that are among those of a sketch, as far as it tells.

    Examples
    --------
    >>> source = TensorSource(torch.eye(4), [0, 1, 0, 1])
    >>> share_seen(source, sketch(source.subset(torch.arange(2))))
    0.5
    """
    known = _read_marks(seen)
    # of hashes above the largest one that was kept nothing is known
    most = max(known) if len(known) >= KEPT else b"\xff" * WIDTH
    comparable = [mark for mark in _marks(_looks(source)) if mark <= most] if known else []
    return sum(mark in known for mark in comparable) / max(1, len(comparable))


def joined(*sketches: str) -> str:
    """The sketch of all examples that one of these is a sketch of.

    Examples
    --------
    >>> source = TensorSource(torch.eye(4), [0, 1, 0, 1])
    >>> halves = (source.subset(torch.arange(i, i + 2)) for i in (0, 2))
    >>> joined(*map(sketch, halves)) == sketch(source)
    True
    """
    marks: set[bytes] = set().union(*map(_read_marks, sketches))
    return _written(marks)


def _written(marks: set[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(marks)[:KEPT])).decode()


def _read_marks(written: str) -> set[bytes]:
    try:
        raw = base64.b64decode(written, validate=True)
    except ValueError:
        raw = b"?"
    if len(raw) % WIDTH:
        raise ValueError("The marks of the examples that a network was trained on are damaged.")
    return {raw[i : i + WIDTH] for i in range(0, len(raw), WIDTH)}


def share_repeated(data: DataSplit) -> float:
    """The share of the test part that is in the training part as well; 0 if that costs much.

    Examples
    --------
    >>> source = TensorSource(torch.eye(4), [0, 1, 0, 1])
    >>> share_repeated(DataSplit("", source, source.subset(torch.arange(2))))
    1.0
    """
    parts = data.train, data.test
    if not all(in_memory(part) and len(part) for part in parts):
        return 0.0
    train, test = (np.concatenate([_glance(inputs) for inputs in parts_of(p)]) for p in parts)
    if not np.isin(test, train).any():
        return 0.0
    known = set(_marks(parts_of(data.train)))
    return sum(mark in known for mark in _marks(parts_of(data.test))) / len(data.test)


def _glance(inputs: Inputs) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """A few bytes of every example, as one value each; equal for equal examples."""
    rows = np.concatenate([r[:, :: -(-r.shape[1] // LOOKED_AT)] for r in _rows(inputs)], axis=1)
    return np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1])))[:, 0]


def _rows(inputs: Inputs) -> list[np.ndarray[tuple[int, int], np.dtype[np.uint8]]]:
    """The bytes of every example, tensor by tensor."""
    given = [tensor.cpu().contiguous() for _, tensor in _named(inputs)]
    flat = [t[:, None] if t.ndim == 1 else t.flatten(1) for t in given]
    return [t.view(torch.uint8).numpy() for t in flat]


def _marks(parts: Iterable[Inputs]) -> Iterator[bytes]:
    """A short hash of every example."""
    for inputs in parts:
        rows = _rows(inputs)
        for index in range(len(rows[0])):
            mark = hashlib.blake2b(digest_size=WIDTH)
            for row in rows:
                mark.update(row[index].data)
            yield mark.digest()


def _looks(source: Source) -> Iterator[Inputs]:
    """What examples are known by, in parts: of images, the order of neighbouring pixels.

    That is the same in bytes and in floats, however the channels have been normalised.
    """
    for inputs in parts_of(source):
        if isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs[0, 0].numel() >= PIXELS:
            yield from map(_rises, inputs.split(CHUNK))
        else:
            yield inputs


def _rises(images: Tensor) -> Tensor:
    """Whether a pixel of a channel is above (1) or below (2) the one before it (B, C, P - 1)."""
    pixels = images.flatten(2)
    pixels = pixels[:, :, :: -(-pixels.shape[2] // COMPARED)]
    before, here = pixels[:, :, :-1], pixels[:, :, 1:]
    return (here > before).byte().add_((here < before).byte(), alpha=2)


def _named(inputs: Inputs) -> list[tuple[str, Tensor]]:
    return [("", inputs)] if isinstance(inputs, Tensor) else sorted(inputs.items())


@contextmanager
def _steady() -> Iterator[None]:
    """Start the global draws, which data sets may use, from a fixed state; restore them after."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the one that data sets draw from
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
