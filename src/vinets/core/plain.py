"""Dataclasses as plain JSON values, and back again with every value checked against its type."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Mapping
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def as_plain(value: Any) -> Any:
    """``value`` as JSON has it: dicts, lists, text, finite numbers, None for all other numbers.

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
    # the order counts: a bool is an Integral, that is a Real, and a text an Iterable
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
    """Fields of a dataclass that differ from their defaults, nested, as plain values.

    This is what identifies settings: a field that is added later, with a default that does what
    was done before, changes nothing here. Fields with ``metadata={"result": False}`` are left out,
    for they change how something is computed and not what comes out.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        if not field.metadata.get("result", True):
            continue
        mine, usual = getattr(value, field.name), field.default
        if field.default_factory is not dataclasses.MISSING:
            usual = field.default_factory()
        if dataclasses.is_dataclass(mine) and type(mine) is type(usual):
            # against the defaults of its class, not of this field: settings read the same anywhere
            inner = changes(mine)
            if inner != changes(usual):
                found[field.name] = inner
        elif dataclasses.is_dataclass(mine) and not isinstance(mine, type):
            found[field.name] = {"kind": getattr(mine, "kind", ""), **changes(mine)}
        elif mine != usual:
            found[field.name] = as_plain(mine)
    return found


def from_plain(kind: type[T], values: Any, where: str = "") -> T:
    """The dataclass that ``values`` describe; what does not fit is named with its place.

    Fields may be text, numbers, bools, None, other dataclasses, tuples, dicts and unions of those.
    The values are those of :func:`as_plain` or :func:`changes`: what is missing takes its default.
    ``where`` they come from may be the name of a file. Names that a class lists as ``REMOVED`` are
    fields of older versions, and passed over.
    """
    return _converted(kind, values, where)


def _converted(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any or kind is object:
        return value
    if origin in (Union, types.UnionType):
        return _of_union(get_args(kind), value, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_dataclass(kind, value, where)
    if origin is tuple:
        return _of_tuple(get_args(kind), value, where)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        keys, inner = get_args(kind)
        key = int if keys is int else str
        return {key(k): _converted(inner, v, _inside(where, k)) for k, v in value.items()}
    return _of_scalar(kind, value, where)


def _of_scalar(kind: Any, value: Any, where: str) -> Any:
    fits = isinstance(value, bool) == (kind is bool)  # to Python True is an int, too
    if fits and kind in (types.NoneType, bool, str, int) and isinstance(value, kind):
        return value
    if fits and kind is float and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:  # a whole number beyond the range of floats
            number = math.inf
        if math.isfinite(number):
            return number
    raise _wrong(where, _NAMES.get(kind, getattr(kind, "__name__", str(kind))), value)


_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    types.NoneType: "null",
}


def _of_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """The first kind that takes the value; whole numbers stay whole where both would do."""
    order = sorted(kinds, key=lambda kind: kind is float)
    problems = []
    for kind in order:
        try:
            return _converted(kind, value, where)
        except ValueError as error:
            problems.append(error)
    others = [kind for kind in order if kind is not types.NoneType]
    if len(others) == 1 and value is not None:
        raise problems[order.index(others[0])]
    wanted = " or ".join(_NAMES.get(kind, "an object") for kind in kinds)
    raise _wrong(where, wanted, value)


def _of_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, "a list", value)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise _wrong(where, f"a list of {len(kinds)} entries", value)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_converted(kind, item, f"{where}[{i}]") for i, (kind, item) in pairs)


def _of_dataclass(kind: Any, values: Any, where: str) -> Any:
    if not isinstance(values, dict):
        raise _wrong(where, "an object", values)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    values = {name: v for name, v in values.items() if name not in getattr(kind, "REMOVED", ())}
    for name in values:
        if name not in fields:
            place = f"{where}: " if where else ""
            shown = name if len(name) <= 80 else f"{name[:77]}..."
            raise ValueError(f"{place}'{shown}' is not known here.{nearest(name, fields)}")
    hints = _hints(kind)
    given = {name: _converted(hints[name], v, _inside(where, name)) for name, v in values.items()}
    required = (dataclasses.MISSING, dataclasses.MISSING)
    for name, field in fields.items():
        if name not in given and (field.default, field.default_factory) == required:
            raise ValueError(f"{_inside(where, name)} is missing.")
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


_hints = cache(get_type_hints)  # a folder of results is read by a few classes


def _inside(where: str, name: Any) -> str:
    return f"{where}: {name}" if where else str(name)


def _wrong(where: str, accepted: str, got: Any) -> ValueError:
    shown = repr(got)
    if len(shown) > 80:
        shown = f"{shown[:77]}..."
    return ValueError(f"{where or 'the value'} must be {accepted}. Got {shown} instead.")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at what was meant, with a blank before it; empty where nothing is near.

    Examples
    --------
    >>> nearest("monomial", ["keep", "monomials"])
    " Did you mean 'monomials'?"
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {found[0]!r}?" if found else ""
