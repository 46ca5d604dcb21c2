"""Read the pickles of the official CIFAR archives without running what they hold.

A pickle is a program: it may import and call anything, and a few bytes of it may make a value that
takes years to hash. This reader carries out only the instructions that plain values need, with
bounds, and knows only the names that an array of bytes is written with. What such a pickle calls is
recognised rather than called, so not even NumPy's own reconstruction runs on an untrusted file.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinets.core.checks import reason_of
from vinets.core.files import read_bytes

MOST_BYTES = 1 << 28  # of a file; the largest of the archives has 155 million
DEEPEST = 8  # containers inside each other
LARGEST = 2**63  # whole numbers stay below it


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in the pickle ``path``, of containers, numbers, strings and uint8 arrays only."""
    content = read_bytes(path, MOST_BYTES)
    try:
        found = _Machine().run(content)
    except _RefusedError as error:
        raise ValueError(
            f"{path} must be a file of the official CIFAR archive. It asks for {error}, which "
            "such files do not need, so nothing of it was run. Download the archive again."
        ) from None
    except Exception as error:  # a damaged pickle raises all sorts
        raise ValueError(
            f"{path} must be a pickle. It cannot be read: {reason_of(error)}."
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a dict. Got {type(found).__name__} instead.")
    return {_as_text(key): value for key, value in found.items()}


class _RefusedError(Exception):
    """The pickle asks for something that a CIFAR file does not need."""


@dataclass(frozen=True)
class _Name:
    """A name that a pickle may mention."""

    text: str


_NDARRAY, _DTYPE, _ENCODE = _Name("ndarray"), _Name("dtype"), _Name("encode")
_RECONSTRUCT = _Name("_reconstruct")
NAMES: dict[tuple[str, str], _Name] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("_codecs", "encode"): _ENCODE,
}


class _UInt8:
    """The dtype uint8, the only one in these files."""


class _Pixels:
    """An array that is filled by what follows."""

    array: NDArray[np.uint8] | None = None


_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    }
)
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS, _GETS = ("PUT", "BINPUT", "LONG_BINPUT"), ("GET", "BINGET", "LONG_BINGET")


class _Machine:
    """A stack and a memo, as a pickle has them, on which the allowed instructions work."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.depths: dict[int, int] = {}  # of containers that are in use, by identity
        self.room = 0  # bytes that texts may still become
        self.steps: dict[str, Callable[[Any], None]] = {
            "PROTO": lambda _: None,
            "FRAME": lambda _: None,
            "MARK": lambda _: self.stack.append(_MARK),
            "EMPTY_LIST": lambda _: self._push([]),
            "EMPTY_DICT": lambda _: self._push({}),
            "LIST": lambda _: self._push(self._marked()),
            "TUPLE": lambda _: self._push(tuple(self._marked())),
            "DICT": lambda _: self._set(self._marked(), new=True),
            "SETITEM": lambda _: self._set(self._taken(2)),
            "SETITEMS": lambda _: self._set(self._marked()),
            "APPEND": lambda _: self._extend(self._taken(1)),
            "APPENDS": lambda _: self._extend(self._marked()),
            "GLOBAL": lambda said: self._name(*said.split(" ", 1)),
            "STACK_GLOBAL": lambda _: self._name(*self._taken(2)),
            "REDUCE": lambda _: self._call(*self._taken(2)),
            "BUILD": lambda _: self._fill(*self._taken(2)),
            "MEMOIZE": lambda _: self._remember(len(self.memo)),
            **{name: lambda said: self.stack.append(_bounded(said)) for name in _VALUES},
            **{name: self._constant(value) for name, value in _CONSTANTS.items()},
            **{name: self._tuple(count) for name, count in _TUPLES.items()},
            **{name: lambda said: self._remember(int(said)) for name in _PUTS},
            **{name: lambda said: self._recall(int(said)) for name in _GETS},
        }

    def run(self, content: bytes) -> Any:
        """The value of a pickle."""
        self.room = len(content)
        for instruction, argument, _ in pickletools.genops(content):
            if instruction.name == "STOP":
                (found,) = self._taken(1)
                return found.array if isinstance(found, _Pixels) else found
            step = self.steps.get(instruction.name)
            if step is None:
                raise _RefusedError(f"the instruction {instruction.name}")
            step(argument)
        raise ValueError("it has no end")

    # --- values -------------------------------------------------------------------------------

    def _constant(self, value: bool | None) -> Callable[[Any], None]:
        return lambda _: self.stack.append(value)

    def _tuple(self, count: int) -> Callable[[Any], None]:
        return lambda _: self._push(tuple(self._taken(count)))

    def _push(self, container: Any) -> None:
        self.stack.append(container)
        self.depths.pop(id(container), None)  # of one that is gone
        self._deepen(container, container)

    def _deepen(self, container: Any, items: Any) -> None:
        """Note how deep a container is, now that it has these items."""
        inner = max((self.depths.get(id(v), 0) for v in items if _holds(v)), default=0)
        depth = max(self.depths.get(id(container), 0), inner + 1)
        if depth > DEEPEST:
            raise _RefusedError(f"values nested more than {DEEPEST} deep")
        self.depths[id(container)] = depth

    def _taken(self, count: int) -> list[Any]:
        if not count:
            return []
        found = self.stack[-count:]
        if len(found) < count or any(one is _MARK for one in found):
            raise ValueError("it takes what is not there")
        del self.stack[-count:]
        return found

    def _marked(self) -> list[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                found = self.stack[at + 1 :]
                del self.stack[at:]
                return found
        raise ValueError("it takes what is not there")

    def _extend(self, items: list[Any]) -> None:
        if not self.stack or not isinstance(self.stack[-1], list):
            raise ValueError("it fills a list that is none")
        self.stack[-1].extend(map(_plain, items))
        self._deepen(self.stack[-1], items)

    def _set(self, items: list[Any], new: bool = False) -> None:
        if new:
            self._push({})
        if not self.stack or not isinstance(self.stack[-1], dict) or len(items) % 2:
            raise ValueError("it fills a dict that is none")
        keys, values = items[::2], items[1::2]
        if not all(isinstance(key, str | bytes) for key in keys):
            raise _RefusedError("names that are no texts")
        self.stack[-1].update(zip(keys, map(_plain, values), strict=True))
        self._deepen(self.stack[-1], values)

    def _remember(self, place: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            raise ValueError("it remembers what is not there")
        self.memo[place] = self.stack[-1]

    def _recall(self, place: int) -> None:
        found = self.memo[place]
        # Containers are written once each: what stands twice could be doubled without end. Only
        # Python 2 writes equal tuples of a few numbers, such as shapes, once for all.
        small = isinstance(found, tuple) and len(found) <= 4 and self.depths[id(found)] == 1
        if isinstance(found, list | dict | tuple | _Pixels) and not small:
            raise _RefusedError("a container that stands in two places")
        self.stack.append(found)

    # --- arrays -------------------------------------------------------------------------------

    def _name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str) or (module, name) not in NAMES:
            raise _RefusedError(f"{module}.{name}"[:80])
        self.stack.append(NAMES[module, name])

    def _call(self, called: Any, given: Any) -> None:
        """``_reconstruct(ndarray, (0,), b"b")``, ``dtype("u1", ...)`` or ``encode(text, ...)``."""
        if called is _RECONSTRUCT and isinstance(given, tuple) and given[:1] == (_NDARRAY,):
            self.stack.append(_Pixels())
        elif called is _DTYPE and isinstance(given, tuple) and _is_uint8(given[:1]):
            self.stack.append(_UInt8())
        elif called is _ENCODE and isinstance(given, tuple) and given[1:] in ((), ("latin1",)):
            if not given or not isinstance(given[0], str):
                raise _RefusedError("an encoding of something other than a text")
            self.stack.append(self._encoded(given[0]))
        else:
            said = called.text if isinstance(called, _Name) else type(called).__name__
            raise _RefusedError(f"a call of {said} with other values")

    def _encoded(self, text: str) -> bytes:
        self.room -= len(text)  # one text, encoded again and again, would fill the memory
        if self.room < 0:
            raise _RefusedError("more bytes than it has")
        return text.encode("latin1")

    def _fill(self, made: Any, state: Any) -> None:
        """Give an array its shape and bytes; a dtype of single bytes has no byte order to give."""
        if isinstance(made, _Pixels) and made.array is None:
            if not isinstance(state, tuple) or len(state) != 5:
                raise _RefusedError("an array made by hand")
            _, shape, dtype, fortran, data = state
            if not isinstance(dtype, _UInt8) or not isinstance(data, str | bytes):
                raise _RefusedError("an array of something other than bytes")
            if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
                raise _RefusedError("an array without a shape")
            content = self._encoded(data) if isinstance(data, str) else data
            flat = np.frombuffer(content, dtype=np.uint8)
            made.array = flat.reshape(shape, order="F" if fortran is True else "C")
        elif not isinstance(made, _UInt8):
            raise _RefusedError("an array made by hand")
        self.stack.append(made)


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise _RefusedError("a whole number of more than 64 bits")
    return value


def _holds(value: Any) -> bool:
    return isinstance(value, list | dict | tuple)


def _plain(value: Any) -> Any:
    """What stands in a container: a finished array as that, and nothing that only makes one."""
    if isinstance(value, _Pixels):
        if value.array is None:
            raise _RefusedError("an array without bytes")
        return value.array
    if isinstance(value, _Name | _UInt8):
        raise _RefusedError("names among its values")
    return value


def _is_uint8(code: tuple[Any, ...]) -> bool:
    return bool(code) and isinstance(code[0], str | bytes) and _as_text(code[0]) in ("u1", "|u1")


def _as_text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value
