"""Turn dataclasses into plain JSON values, and back, with every value checked by its type."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from vinets.core.checks import shortened

T = TypeVar("T")


def as_plain(value: Any) -> Any:
    """Return a value as JSON has it; numbers that are not finite become None.

    Fields of dataclasses with ``metadata={"plain": False}``, such as pictures, are left out.

    Examples
    --------
    >>> as_plain({1: (2.5, float("nan"))})
    {'1': [2.5, None]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = (f for f in dataclasses.fields(value) if f.metadata.get("plain", True))
        return {f.name: as_plain(getattr(value, f.name)) for f in kept}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    # The order counts: a bool is an Integral, that is a Real, and a text an Iterable.
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Iterable):
        return [as_plain(item) for item in value]
    return str(value)


def changes(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, nested, as plain values.

    This identifies settings: a field that is added later, with a default that does what was done
    before, changes nothing here. Fields with ``metadata={"result": False}`` are left out, because
    they change how something is computed and not what comes out.
    """
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        if not field.metadata.get("result", True):
            continue
        mine, usual = getattr(value, field.name), field.default
        if field.default_factory is not dataclasses.MISSING:
            usual = field.default_factory()
        if dataclasses.is_dataclass(mine) and type(mine) is type(usual):
            # Compared with the defaults of its class, so that settings read the same anywhere.
            inner = changes(mine)
            if inner != changes(usual):
                changed[field.name] = inner
        elif dataclasses.is_dataclass(mine) and not isinstance(mine, type):
            changed[field.name] = {"kind": getattr(mine, "kind", ""), **changes(mine)}
        elif mine != usual:
            changed[field.name] = as_plain(mine)
    return changed


def from_plain(kind: type[T], values: Any, where: str = "") -> T:
    """Make the dataclass that ``values`` describe; what does not fit is named with its place.

    Fields may be text, numbers, bools, None, other dataclasses, tuples, dicts and unions of those.
    The values are those of :func:`as_plain` or :func:`changes`: what is missing takes its default.
    ``where`` they come from may be the name of a file. Names that a class lists as ``REMOVED`` are
    fields of older versions, and passed over.
    """
    return cast(T, _converted(kind, values, where))


NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    types.NoneType: "null",
}


def _converted(kind: Any, value: Any, where: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return value
    if origin in (Union, types.UnionType):
        others = [part for part in parts if part is not types.NoneType]
        if value is None and len(others) < len(parts):
            return None
        if len(others) == 1:
            return _converted(others[0], value, where)
        for part in sorted(others, key=lambda one: one is float):  # whole numbers stay whole
            with suppress(ValueError):
                return _converted(part, value, where)
        raise _wrong(where, " or ".join(NAMES.get(part, "an object") for part in parts), value)
    if dataclasses.is_dataclass(kind):
        return _of_dataclass(kind, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(where, "a list", value)
        if len(parts) == 2 and parts[1] is Ellipsis:
            parts = (parts[0],) * len(value)
        if len(parts) != len(value):
            raise _wrong(where, f"a list of {len(parts)} entries", value)
        pairs = enumerate(zip(parts, value, strict=True))
        return tuple(_converted(part, item, f"{where}[{i}]") for i, (part, item) in pairs)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        key = int if parts[0] is int else str
        return {key(k): _converted(parts[1], v, _inside(where, k)) for k, v in value.items()}
    fits = isinstance(value, bool) == (kind is bool)  # to Python True is an int, too
    if fits and kind in (types.NoneType, bool, str, int) and isinstance(value, kind):
        return value
    if fits and kind is float and isinstance(value, int | float):
        with suppress(OverflowError):  # a whole number beyond the range of floats
            if math.isfinite(number := float(value)):
                return number
    raise _wrong(where, NAMES.get(kind, getattr(kind, "__name__", str(kind))), value)


def _of_dataclass(kind: Any, values: Any, where: str) -> Any:
    if not isinstance(values, dict):
        raise _wrong(where, "an object", values)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    hints, converted = _hints(kind), {}
    for name, value in values.items():
        if name in fields:
            converted[name] = _converted(hints[name], value, _inside(where, name))
        elif name not in getattr(kind, "REMOVED", ()):
            text = f"'{shortened(name, 77)}' is not known here.{nearest(name, fields)}"
            raise ValueError(_inside(where, text))
    required = (dataclasses.MISSING, dataclasses.MISSING)
    for name, field in fields.items():
        if name not in converted and (field.default, field.default_factory) == required:
            raise ValueError(f"{_inside(where, name)} is missing.")
    try:
        return kind(**converted)
    except ValueError as error:
        raise ValueError(_inside(where, error)) from None


_hints = cache(get_type_hints)  # a folder of results is read by a few classes


def _inside(where: str, name: Any) -> str:
    return f"{where}: {name}" if where else str(name)


def _wrong(where: str, accepted: str, got: Any) -> ValueError:
    shown = shortened(repr(got), 77)
    return ValueError(f"{where or 'the value'} must be {accepted}. Got {shown} instead.")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the name that was meant, with a blank before it; else an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
