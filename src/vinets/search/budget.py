"""Budgets: what a small network may cost, and how much accuracy it may lose."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

EXAMPLES = "drop=0.5, params=1e6, params=10%, size=4MB, macs=50%, latency=2ms@cpu,batch=1"
MAX_BATCH = 2**20  # examples in a forward pass whose latency is limited

_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)"
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


class LimitKind(NamedTuple):
    """A kind of limit: how it is written, what it bounds, and in which words."""

    units: Mapping[str, float]  # factors of the units in which it may be written
    least: float  # smallest limit, in the unit of the cost, that makes sense
    cost: str  # name of what it bounds in a Cost
    relation: str  # words before the limit
    format: str  # format of the limit
    unit: str  # words behind the limit
    share_of: str  # what a limit in percent is a share of


LIMITS = {
    "params": LimitKind(_COUNTS, 1, "parameters", "at most", ",.0f", "parameters", "parameters"),
    "size": LimitKind(_BYTES, 1, "size", "at most", ",.0f", "bytes", "bytes"),
    "macs": LimitKind(_COUNTS, 1, "macs", "at most", ",.0f", "multiply-adds", "multiply-adds"),
    "latency": LimitKind(_SECONDS, 0, "latency", "a forward pass within", ".3g", "s", "time"),
}
"""Kinds of limits by the word that a budget begins with."""


@dataclass(frozen=True)
class Limit:
    """A number, or a share of what the uncut network has."""

    value: float
    relative: bool = False

    def of(self, uncut: float) -> float:
        """Return the number, given that of the uncut network."""
        return self.value * uncut if self.relative else self.value


@dataclass(frozen=True)
class Cost:
    """What a network costs; None where that was not measured."""

    parameters: int  # everything that is stored, folded
    latency: float | None = None  # seconds of a forward pass
    spread: float | None = None  # standard deviation of the latency over windows of time
    macs: int | None = None  # multiply-adds of a forward pass, per example
    stored: int | None = None  # bytes of a file, where the network is one

    @property
    def size(self) -> int:
        """Bytes of the file, or of all parameters in single precision."""
        return 4 * self.parameters if self.stored is None else self.stored


@dataclass(frozen=True)
class Budget:
    """Limits on a network."""

    drop: float | None = None  # points of accuracy that may be lost; None for any number
    # By kind, a key of LIMITS: "params", "size" in bytes, "macs", "latency" in seconds.
    limits: Mapping[str, Limit] = field(default_factory=dict)
    where: str = ""  # device on which a latency is meant; empty for that of the search
    batch: int = 1  # examples in the forward pass whose latency is limited

    @property
    def latency(self) -> Limit | None:
        """Limit on the latency, which has to be measured."""
        return self.limits.get("latency")

    def allows(self, cost: Cost, uncut: Cost) -> bool:
        """Return whether a network of that cost is within the limits."""
        return not self.excess(cost, uncut) > 1

    def excess(self, cost: Cost, uncut: Cost) -> float:
        """Return the largest ratio of a cost to its limit; 0 without limits."""
        ratios = [0.0]
        for kind, limit in self.limits.items():
            ours, theirs = (getattr(one, LIMITS[kind].cost) for one in (cost, uncut))
            # Networks beyond other limits are not timed, so they count as too slow.
            ratios.append(math.inf if ours is None else ours / limit.of(theirs))
        return max(ratios)

    def __str__(self) -> str:
        parts = [] if self.drop is None else [f"at most {self.drop:g} points lost"]
        for kind, limit in self.limits.items():
            words = LIMITS[kind]
            amount = f"{limit.value:{words.format}} {words.unit}"
            if limit.relative:
                amount = f"{100 * limit.value:.4g}% of the uncut network's {words.share_of}"
            parts.append(f"{words.relation} {amount}")
        if self.latency:
            parts[-1] += f" on {self.where or 'this device'} at batch {self.batch}"
        return ", ".join(parts)


def parse_budget(budget: str | Iterable[str] | Budget) -> Budget:
    """Read budgets as they are written on a command line; several hold together.

    Examples
    --------
    >>> parse_budget("drop=0.5").drop
    0.5
    >>> both = parse_budget(["params=500k", "latency=50%@cpu,batch=8"])
    >>> both.limits["params"], both.limits["latency"], both.where, both.batch
    (Limit(value=500000.0, relative=False), Limit(value=0.5, relative=True), 'cpu', 8)
    """
    if isinstance(budget, Budget):
        return budget
    result, limits = Budget(), dict[str, Limit]()
    for text in [budget] if isinstance(budget, str) else budget:
        refusal = f"budget must be one of {EXAMPLES}. Got {text!r} instead."
        name, _, value = text.strip().partition("=")
        if name in limits:
            raise ValueError(f"budget {name!r} is given twice. Pass it once.")
        if name != "drop" and name not in LIMITS:
            raise ValueError(refusal)
        units, least, shares = {"": 1.0, "%": 1.0}, 0.0, False  # those of a drop
        if name in LIMITS:
            units, least, shares = dict(LIMITS[name].units), LIMITS[name].least, True
        if name == "latency":
            value, comma, batch = value.partition(",")
            value, _, where = value.partition("@")
            digits = re.fullmatch(r"batch=([1-9]\d{0,9})", batch.strip() if comma else "batch=1")
            if digits is None or int(digits[1]) > MAX_BATCH:
                raise ValueError(refusal)
            result = replace(result, where=where.strip(), batch=int(digits[1]))
        match = re.fullmatch(rf"{_NUMBER}\s*([a-zA-Zµ]*|%)", value.strip())
        number, unit = (float(match[1]), match[2].lower()) if match else (math.nan, "")
        limit = Limit(number * units.get(unit, math.nan))
        if unit == "%" and shares:
            limit = Limit(number / 100, relative=True)
        elif limit.value < least:
            hint = " A share is written with a percent sign." if number else ""
            raise ValueError(refusal + hint)
        if not math.isfinite(limit.value) or (shares and limit.value <= 0):
            raise ValueError(refusal)
        limits[name] = limit
    if not limits:
        raise ValueError(f"budget must be one or several of {EXAMPLES}. Got nothing.")
    drop = limits.pop("drop", None)
    # In the order of the table, so that a latency, which names its device, is said last.
    ordered = {kind: limits[kind] for kind in LIMITS if kind in limits}
    return replace(result, drop=None if drop is None else drop.value, limits=ordered)
