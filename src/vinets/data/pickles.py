"""Read the pickles of the official CIFAR archives without running what they hold.

A pickle is a program: it may import and call anything. This reader hands out stand-ins for the
few names that an array of bytes needs, and refuses every other name. The stand-ins check what
they are given, so not even NumPy's own reconstruction runs on an untrusted file.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in the pickle ``path``, of containers, numbers, strings and uint8 arrays only."""
    content = path.read_bytes()
    try:
        _check_memo(content)
        found = _Reader(io.BytesIO(content), encoding="latin1").load()
    except _RefusedError as error:
        raise ValueError(
            f"{path} must be a file of the official CIFAR archive. It asks for {error}, which "
            "such files do not need, so nothing of it was run. Download the archive again."
        ) from None
    except Exception as error:  # a damaged pickle raises all sorts
        raise ValueError(f"{path} must be a pickle. It cannot be read: {error}.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a dict. Got {type(found).__name__} instead.")
    plain = {k: v.array if isinstance(v, _Pixels) else v for k, v in found.items()}
    return {_as_text(key): value for key, value in plain.items()}


class _RefusedError(Exception):
    """The pickle asks for something that a CIFAR file does not need."""


def _check_memo(content: bytes) -> None:
    """Refuse memo positions beyond the count of instructions: memory is taken up to them."""
    for count, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        if instruction.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise _RefusedError("an excessive amount of memory")


class _Array:
    """Stands for the class ``numpy.ndarray``, which is named but never called."""

    def __init__(self) -> None:
        raise _RefusedError("an array made by hand")

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("an array made by hand")


class _UInt8:
    """Stands for the dtype uint8, the only one in these files."""

    def __init__(self, code: Any, *flags: Any) -> None:
        if _as_text(code) not in ("u1", "|u1"):
            raise _RefusedError(f"the dtype {code!r}")

    def __setstate__(self, state: Any) -> None:
        """Take no notice: a single byte has no byte order."""


class _Pixels:
    """Stands for an array that NumPy would reconstruct: ``_reconstruct(ndarray, (0,), b"b")``."""

    def __init__(self, kind: Any, shape: Any, code: Any) -> None:
        if kind is not _Array:
            raise _RefusedError("an array of another class")
        self.array: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _UInt8) or not isinstance(data, str | bytes):
            raise _RefusedError("an array of something other than bytes")
        content = data.encode("latin1") if isinstance(data, str) else data
        flat = np.frombuffer(content, dtype=np.uint8)
        self.array = flat.reshape(shape, order="F" if fortran else "C")


class _Latin1(bytes):
    """Stands for ``_codecs.encode(text, "latin1")``, by which old protocols write bytes."""

    def __new__(cls, text: Any, encoding: Any = "latin1") -> _Latin1:
        if not isinstance(text, str) or encoding != "latin1":
            raise _RefusedError("an encoding other than latin1")
        return super().__new__(cls, text.encode("latin1"))

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("bytes with a state")


# All are classes with __setstate__, so that no instruction of a pickle can set an attribute.
STAND_INS: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _UInt8,
    ("numpy.core.multiarray", "_reconstruct"): _Pixels,
    ("numpy._core.multiarray", "_reconstruct"): _Pixels,
    ("_codecs", "encode"): _Latin1,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in STAND_INS:
            raise _RefusedError(f"{module}.{name}")
        return STAND_INS[module, name]


def _as_text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)
