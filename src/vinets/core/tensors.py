"""Tensors in safetensors files: read by their header first, written whole or not at all."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vinets.core.checks import reason_of
from vinets.core.files import open_regular, parse_json, written_aside

MOST_HEADER = 8 << 20  # bytes; a tensor takes about a hundred
MOST_AXES = 8
# The dtypes that are written. Others, such as unsigned and eighths of a float, lack operations.
DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


class Form(NamedTuple):
    """What a header tells of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


class Header(NamedTuple):
    """What a file holds, known before any of it takes memory."""

    forms: dict[str, Form]
    notes: dict[str, str]


def read_header(path: str | Path, *, inside: str | Path | None = None) -> Header:
    """Names, dtypes and shapes of the tensors in a file, if it has room for them.

    Files that are none are refused in one sentence.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    try:
        with open_regular(path, inside=inside) as file:
            size = file.seek(0, 2)
            file.seek(0)
            begin = file.read(8)
            length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else size
            if length > min(size - 8, MOST_HEADER):
                raise ValueError("its header is longer than the file, or than headers are")
            values = parse_json(file.read(length).decode("utf-8"))
        return _checked(values, size - 8 - length)
    except (ValueError, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str | Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is not a readable safetensors file: {reason_of(error)}.")


def _checked(values: Any, room: int) -> Header:
    if not isinstance(values, dict):
        raise ValueError("its header is no object")
    notes = values.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(v, str) for v in notes.values()):
        raise ValueError("its notes are no texts")
    forms: dict[str, Form] = {}
    places = []
    for name, told in values.items():
        if not isinstance(told, dict) or set(told) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"the tensor {name!r} has no dtype, shape and place")
        dtype, shape, place = told["dtype"], told["shape"], told["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise ValueError(f"the tensor {name!r} has the dtype {dtype!r}, none of {_KNOWN}")
        if not _whole(shape) or len(shape) > MOST_AXES or not _whole(place) or len(place) != 2:
            raise ValueError(f"the tensor {name!r} has no shape, or no place in the file")
        forms[name] = Form(DTYPES[dtype], tuple(shape))
        if place[1] - place[0] != forms[name].nbytes:
            raise ValueError(f"the tensor {name!r} has another length than its shape")
        places.append(tuple(place))
    end = 0
    for begin, behind in sorted(places):  # without gaps and overlaps, up to the end of the file
        if begin != end:
            raise ValueError("its tensors overlap, or have gaps between them")
        end = behind
    if end != room:
        raise ValueError(f"its tensors take {end:,} bytes, and it has {room:,}")
    return Header(forms, notes)


_KNOWN = ", ".join(DTYPES)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def read_file(
    path: str | Path,
    *,
    wanted: Callable[[str, Form], bool] = lambda name, form: True,
    inside: str | Path | None = None,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors that are wanted, mapped from the file, and its notes."""
    forms, notes = read_header(path, inside=inside)
    try:
        with safe_open(str(path), framework="pt") as file:
            found = {n: file.get_tensor(n) for n, form in forms.items() if wanted(n, form)}
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from None
    return found, notes


def write_file(path: str | Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write tensors and notes about them, whole or not at all."""
    # safetensors refuses tensors that are not contiguous
    kept = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    with written_aside(path) as aside:
        # its own writer may leave a file of another name behind when it is killed
        aside.write_bytes(save(kept, dict(notes)))


def facts_of(notes: Mapping[str, str], name: str) -> dict[str, Any] | None:
    """The JSON object in a note; None where there is none."""
    try:
        facts = parse_json(notes.get(name, ""))
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


def as_note(facts: Mapping[str, Any]) -> str:
    """Facts as a note that :func:`facts_of` reads."""
    return json.dumps(facts)
