"""Read and write tensors in safetensors files, and tell contents apart by short digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vinets.core.checks import file_error, reason_of
from vinets.core.files import open_regular, parse_json, refuse_foreign, written_aside

MAX_HEADER_BYTES = 8 << 20  # a tensor takes about a hundred
MAX_AXES = 8
# The dtypes that are written. Others, such as unsigned and eighths of a float, lack operations.
DTYPES = {
    **{"BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16},
    **{"I32": torch.int32, "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16},
    **{"F32": torch.float32, "F64": torch.float64},
}
FORMAT = 2  # number of the rules of digest; other rules give other digests
COPY_BYTES = 64 << 20  # bytes that are copied at once, from a device or out of a view
DESCRIPTION_VERSION = "1"


class Form(NamedTuple):
    """Dtype and shape of a tensor, as the header of its file has them."""

    dtype: torch.dtype
    shape: tuple[int, ...]


class Header(NamedTuple):
    """Contents of a file, known before any of them takes memory."""

    forms: dict[str, Form]
    notes: dict[str, str]


@contextmanager
def _opened(path: str | Path, inside: str | Path | None) -> Iterator[tuple[Any, Header]]:
    """Open a file whose header is sound; any other file is refused in one sentence."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    try:
        with open_regular(path, inside=inside) as file:
            length = int.from_bytes(file.read(8), "little")
            if length > MAX_HEADER_BYTES:
                raise ValueError(f"its header has {length:,} bytes, more than {MAX_HEADER_BYTES:,}")
            # The library lets the last of two tensors of one name win, which is refused here.
            parse_json(file.read(length).decode("utf-8"))
        # The library refuses what has gaps, overlaps, or another length than its shapes.
        with safe_open(str(path), framework="pt") as opened:
            forms = {}
            for name in opened.keys():  # noqa: SIM118 - it is no dict
                part = opened.get_slice(name)
                dtype, shape = part.get_dtype(), tuple(part.get_shape())
                if dtype not in DTYPES:
                    text = f"the tensor {name!r} has the dtype {dtype!r}, none of "
                    raise ValueError(text + ", ".join(DTYPES))
                if len(shape) > MAX_AXES:
                    raise ValueError(f"the tensor {name!r} has more than {MAX_AXES} axes")
                forms[name] = Form(DTYPES[dtype], shape)
            yield opened, Header(forms, opened.metadata() or {})
    except (SafetensorError, ValueError, OSError) as error:
        text = f"{path} is not a readable safetensors file: {reason_of(error)}."
        raise ValueError(text) from None


def read_header(path: str | Path, *, inside: str | Path | None = None) -> Header:
    """Read names, dtypes and shapes of the tensors in a file, and its notes."""
    with _opened(path, inside) as (_, header):
        return header


def read_file(
    path: str | Path,
    *,
    wanted: Callable[[str, Form], bool] = lambda name, form: True,
    inside: str | Path | None = None,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors that are wanted, mapped from the file, and its notes."""
    with _opened(path, inside) as (file, (forms, notes)):
        return {n: file.get_tensor(n) for n, form in forms.items() if wanted(n, form)}, notes


def write_file(path: str | Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write tensors and notes about them, whole or not at all."""
    # safetensors refuses tensors that are not contiguous.
    kept = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    with written_aside(path) as aside:
        # The writer of the library may leave a file of another name behind when it is killed.
        aside.write_bytes(save(kept, dict(notes)))


def facts_of(notes: Mapping[str, str], name: str) -> dict[str, Any] | None:
    """Return the JSON object in a note, or None if there is none."""
    try:
        facts = parse_json(notes.get(name, ""))
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


as_note = json.dumps  # facts as a note that facts_of reads


# --- tensors with a description ---------------------------------------------------------------


def write_tensors(
    path: str | Path, kind: str, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """Write ``tensors`` and JSON-able ``facts`` to ``path``, marked as ``kind``."""
    refuse_foreign(path)
    marks = {"format": f"vinets.{kind}", "version": DESCRIPTION_VERSION}
    write_file(path, tensors, marks | {"facts": as_note(facts)})


def read_tensors(
    path: str | Path, kind: str, *, inside: str | Path | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read back what :func:`write_tensors` wrote; anything else is refused in one sentence.

    Where the file has to lie ``inside`` a folder, a link that leads out of it is refused.
    """
    tensors, notes = read_file(path, inside=inside)
    if notes.get("format") != f"vinets.{kind}":
        mark = reason_of(notes.get("format", "no format mark"))
        raise file_error(path, f"vinets.{kind}", repr(mark))
    if notes.get("version") != DESCRIPTION_VERSION:
        version = reason_of(repr(notes.get("version")))
        raise ValueError(
            f"{path} has version {version}; this release reads version {DESCRIPTION_VERSION}."
        )
    facts = facts_of(notes, "facts")
    if facts is None:
        raise ValueError(f"{path} has no readable description of its contents.")
    return tensors, facts


# --- digests ----------------------------------------------------------------------------------


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Return sixteen hexadecimal digits of the bytes of ``tensors``, in their order.

    Names, shapes and dtypes do not count; stores of results hold such fingerprints.
    """
    hashed = hashlib.sha256()
    for tensor in tensors:
        _feed(hashed, tensor)
    return hashed.hexdigest()[:16]


def digest(named: Iterable[tuple[str, Tensor]], facts: Any = None) -> str:
    """Return thirty-two hexadecimal digits of tensors with names, dtypes and shapes, and of facts.

    The facts are plain values; the order of keys in them does not matter.
    """
    # sha256 is the fastest, because current processors have instructions for it.
    hashed = hashlib.sha256(json.dumps([FORMAT, facts], sort_keys=True).encode())
    for name, tensor in named:
        hashed.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        _feed(hashed, tensor)
    return hashed.hexdigest()[:32]


def _feed(hashed: Any, tensor: Tensor) -> None:
    """Add the bytes of a tensor to a hash, block by block where they have to be copied."""
    flat = tensor.detach().reshape(-1)  # a view of what is contiguous
    for part in flat.split(max(1, COPY_BYTES // flat.element_size())):
        if len(part) < 2:  # contiguous for torch whatever its stride is, which a view refuses
            part = part.clone(memory_format=torch.contiguous_format)
        hashed.update(part.contiguous().cpu().view(torch.uint8).numpy().data)
