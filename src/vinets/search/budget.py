"""What a small network may cost, and what it may lose."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

WRITTEN = "drop=0.5, params=1e6, params=10%, size=4MB, latency=2ms@cpu,batch=1"

_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)"
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


@dataclass(frozen=True)
class Limit:
    """A number, or a share of what the uncut network has."""

    value: float
    relative: bool = False

    def of(self, uncut: float) -> float:
        """The number, where the uncut network has this one."""
        return self.value * uncut if self.relative else self.value


@dataclass(frozen=True)
class Cost:
    """What a network costs."""

    parameters: int  # everything that is stored, folded
    latency: float | None = None  # seconds of a forward pass, where that was measured

    @property
    def size(self) -> int:
        """Bytes in single precision."""
        return 4 * self.parameters


@dataclass(frozen=True)
class Budget:
    """Limits; None where there is none.

    Attributes
    ----------
    drop : float or None
        Points of accuracy that may be lost against the uncut network.
    parameters, size : Limit or None
        Parameters that are stored, and their bytes in single precision.
    latency : Limit or None
        Seconds of a forward pass of ``batch`` examples on the device ``where``; an empty name is
        the device of the search.
    """

    drop: float | None = None
    parameters: Limit | None = None
    size: Limit | None = None
    latency: Limit | None = None
    where: str = ""
    batch: int = 1

    def allows(self, cost: Cost, uncut: Cost) -> bool:
        """Whether a network of that cost is within the limits."""
        return not self.excess(cost, uncut) > 1

    def excess(self, cost: Cost, uncut: Cost) -> float:
        """The largest ratio of a cost to its limit; 0 without limits."""
        found = [0.0]
        if self.parameters:
            found.append(cost.parameters / self.parameters.of(uncut.parameters))
        if self.size:
            found.append(cost.size / self.size.of(uncut.size))
        if self.latency:
            assert uncut.latency is not None
            # what is beyond other limits is not timed
            took = math.inf if cost.latency is None else cost.latency
            found.append(took / self.latency.of(uncut.latency))
        return max(found)

    def __str__(self) -> str:
        parts = [] if self.drop is None else [f"at most {self.drop:g} points lost"]
        if self.parameters:
            parts.append(f"at most {_said(self.parameters, ',.0f', 'parameters')}")
        if self.size:
            parts.append(f"at most {_said(self.size, ',.0f', 'bytes')}")
        if self.latency:
            at = f"on {self.where or 'this device'} at batch {self.batch}"
            parts.append(f"a forward pass within {_said(self.latency, '.3g', 's', 'time')} {at}")
        return ", ".join(parts)


def _said(limit: Limit, form: str, unit: str, what: str = "") -> str:
    """A limit in its unit, or as a share of what the uncut network has."""
    if limit.relative:
        return f"{100 * limit.value:.4g}% of the uncut network's {what or unit}"
    return f"{limit.value:{form}} {unit}"


def parse_budget(given: str | Iterable[str] | Budget) -> Budget:
    """Read budgets as they are written on a command line; several hold together.

    Examples
    --------
    >>> parse_budget("drop=0.5").drop
    0.5
    >>> found = parse_budget(["params=500k", "latency=50%@cpu,batch=8"])
    >>> found.parameters, found.latency, found.where, found.batch
    (Limit(value=500000.0, relative=False), Limit(value=0.5, relative=True), 'cpu', 8)
    """
    if isinstance(given, Budget):
        return given
    texts = [given] if isinstance(given, str) else list(given)
    budget, seen = Budget(), set()
    for text in texts:
        name, _, value = text.strip().partition("=")
        if name in seen:
            raise ValueError(f"budget {name!r} is given twice. Pass it once.")
        seen.add(name)
        budget = _with(budget, text, name, value)
    if budget == Budget():
        raise ValueError(f"budget must be one or several of {WRITTEN}. Got nothing.")
    return budget


def _with(budget: Budget, text: str, name: str, value: str) -> Budget:
    if name == "drop":
        points = _value(text, value.removesuffix("%"), {"": 1.0}, relative=False)
        return replace(budget, drop=points.value)
    if name == "params":
        return replace(budget, parameters=_value(text, value, _COUNTS))
    if name == "size":
        return replace(budget, size=_value(text, value, _BYTES))
    if name == "latency":
        head, _, batch = value.partition(",")
        time, _, where = head.partition("@")
        count = 1
        if batch:
            found = re.fullmatch(r"batch=([1-9]\d*)", batch.strip())
            if found is None:
                raise _wrong(text)
            count = int(found[1])
        limit = _value(text, time, _SECONDS)
        return replace(budget, latency=limit, where=where.strip(), batch=count)
    raise _wrong(text)


def _value(text: str, value: str, units: dict[str, float], relative: bool = True) -> Limit:
    found = re.fullmatch(rf"{_NUMBER}\s*([a-zA-Zµ]*|%)", value.strip())
    if found is None:
        raise _wrong(text)
    number, unit = float(found[1]), found[2].lower()
    if unit == "%" and relative:
        limit = Limit(number / 100, relative=True)
    elif unit in units:
        limit = Limit(number * units[unit])
    else:
        raise _wrong(text)
    if not math.isfinite(limit.value) or (relative and limit.value <= 0):
        raise _wrong(text)
    return limit


def _wrong(text: str) -> ValueError:
    return ValueError(f"budget must be one of {WRITTEN}. Got {text!r} instead.")
