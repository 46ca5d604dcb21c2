"""Budgets, and what candidates cost before any is trained: numbers, operations, time of a pass."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from vinets.core.device import Inputs, RecordingError, each, resolve_device
from vinets.core.progress import Progress
from vinets.measure import Throughput, flops, measure_speed
from vinets.search.space import Candidate, Space

try:
    import resource
except ImportError:  # Windows does not have it, so plans on it do not say the memory of a CPU
    resource = None  # type: ignore[assignment]

EXAMPLES = "drop=0.5, params=1e6, params=10%, size=4MB, macs=50%, latency=2ms@cpu,batch=1"
MAX_BATCH = 2**20  # examples in a forward pass whose latency is limited
NEAREST_CANDIDATES = 6  # candidates that are tried where none is within the limits
WINDOWS = {"repeats": 5, "seconds": 0.1}
LONG_WINDOWS = {"repeats": 15, "seconds": 0.2}  # where a latency is close to the limit
CLOSE_FACTOR = 1.25  # factor from the limit within which a latency is close to it
TIMED_CUTS = 3  # cuts behind which steps of training are timed

# --- budgets ----------------------------------------------------------------------------------

_WRITTEN = re.compile(  # kind, number, unit, and for a latency perhaps a device and a batch
    r"\s*(\w+)=\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\s*([a-zA-Zµ]*|%)\s*"
    r"(?:@([^,]*))?(?:,\s*batch=([1-9]\d{0,9}))?\s*"
)
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
        parts = (
            []
            if self.drop is None
            else [f"at most {self.drop:g} point{'s' * (self.drop != 1)} lost"]
        )
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
    drop, limits, place = None, dict[str, Limit](), dict[str, Any]()
    for text in [budget] if isinstance(budget, str) else budget:
        refusal = f"budget must be one of {EXAMPLES}. Got {text!r} instead."
        match = _WRITTEN.fullmatch(text)
        name, value, unit, where, batch = match.groups() if match else ("", "nan", "", None, None)
        if name in limits or (name == "drop" and drop is not None):
            raise ValueError(f"budget {name!r} is given twice. Pass it once.")
        if name == "latency" and int(batch or 1) <= MAX_BATCH:
            place = {"where": (where or "").strip(), "batch": int(batch or 1)}
        elif where is not None or batch is not None:
            raise ValueError(refusal)
        number, limit = float(value), math.nan
        if name == "drop" and unit in ("", "%"):  # points, either way
            limit = drop = number
        elif name in LIMITS and number > 0:
            kind, share = LIMITS[name], unit == "%"
            limit = number / 100 if share else number * kind.units.get(unit.lower(), math.nan)
            limits[name] = Limit(limit, share)
            if not share and limit < kind.least:
                raise ValueError(f"{refusal} A share is written with a percent sign.")
        if not math.isfinite(limit):
            raise ValueError(refusal)
    if not limits and drop is None:
        raise ValueError(f"budget must be one or several of {EXAMPLES}. Got nothing.")
    # In the order of the table, so that a latency, which names its device, is said last.
    ordered = {kind: limits[kind] for kind in LIMITS if kind in limits}
    return Budget(drop, ordered, **place)


# --- costs ------------------------------------------------------------------------------------


@dataclass
class CostTable:
    """Costs by the name of a candidate or "uncut", as the folder of a search keeps them."""

    REMOVED: ClassVar = ("signals", "machine")

    costs: dict[str, Cost] = field(default_factory=dict)
    timed: str = ""  # device and batch of the latencies
    diverged: dict[str, str] = field(default_factory=dict)  # trials by name, and what they said

    def measure(self, space: Space, budget: Budget, progress: Progress) -> bool:
        """Measure what the budget asks for and is not known; return whether anything was."""
        setup, where = space.setup, budget.where or str(space.setup.device)
        limits = {kind: limit for kind, limit in budget.limits.items() if kind != "latency"}
        timed = f"{where}, batch {budget.batch}" if budget.latency else ""
        if timed:
            try:
                resolve_device("compress", where)
            except ValueError:
                raise ValueError(
                    f"There is no device {where!r} here to measure the latency on. Pass cpu or "
                    "cuda."
                ) from None
        else:  # latencies of another budget say nothing here
            self.timed = ""
            for name, cost in self.costs.items():
                self.costs[name] = replace(cost, latency=None, spread=None)

        def to_time() -> list[str]:
            counted = [one for one in space.candidates if one.name in self.costs]
            within = self.within(replace(budget, limits=limits), counted)
            return ["uncut", *(one.name for one in within)]

        fields = ("parameters", *(LIMITS[kind].cost for kind in limits))
        names = ("uncut", *(one.name for one in space.candidates))
        known = [getattr(self.costs.get(name), cost, None) for name in names for cost in fields]
        if None not in known and timed == self.timed:
            known = [self.costs[name].latency for name in to_time() if timed]
            if None not in known:
                return False
        networks: dict[str, nn.Module] = {"uncut": setup.model}
        self.costs = {"uncut": Cost(setup.parameters)}
        progress.start("sizes", len(space.candidates))
        for one, network in space.networks(space.candidates):
            networks[one.name] = network
            self.costs[one.name] = Cost(sum(network.parts().values()))
            progress.advance()
        if "macs" in limits:
            example = each(setup.test.example(), lambda tensor: tensor.to(setup.device))
            for name, whole in networks.items():
                macs = flops(whole, example) // 2  # because a multiply-add is two operations
                self.costs[name] = replace(self.costs[name], macs=macs)
        if timed:
            example, turns = setup.test.example(budget.batch), {n: networks[n] for n in to_time()}
            for name, pair in time_passes(turns, example, budget, where, progress).items():
                self.costs[name] = replace(self.costs[name], latency=pair[0], spread=pair[1])
        for one in space.candidates:
            if one.name not in networks:  # a plan has no ideals, which hardly slow a network
                plain = next(p for p in space.candidates if (p.cut, p.head) == (one.cut, "pooled"))
                parameters, macs = space.estimate(one)
                cost = replace(self.costs[plain.name], parameters=parameters)
                self.costs[one.name] = replace(cost, macs=macs if "macs" in limits else None)
        self.timed = timed
        return True

    def within(self, budget: Budget, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates within the limits; the nearest to them where there are none."""

        def excess(one: Candidate) -> float:
            return budget.excess(self.costs[one.name], self.costs["uncut"])

        allowed = [one for one in candidates if not excess(one) > 1]
        return allowed or sorted(candidates, key=excess)[:NEAREST_CANDIDATES]


def time_passes(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    budget: Budget,
    where: str,
    progress: Progress,
) -> dict[str, tuple[float, float]]:
    """Return the seconds of a forward pass of each network, and their standard deviation.

    The network "uncut" takes turns with the others whenever some are timed, because a busy machine
    slows both: what counts is the ratio of the two, times the shortest time of the uncut network.
    Nothing is called too slow by one timing. What is far beyond the limit is timed once more, and
    what is close to it for longer, because a few short windows do not tell on which side it is.
    """
    assert budget.latency is not None
    ratios: dict[str, float] = {}
    spreads: dict[str, float] = {}  # shares of the time
    repeated: set[str] = set()
    settled: set[str] = {"uncut"}  # timed for long
    shortest, names, long = math.inf, [*networks], False
    while names:
        turns = {name: networks[name] for name in dict.fromkeys(("uncut", *names))}
        timed = in_turns(turns, example, budget.batch, where, progress, long)
        uncut = timed["uncut"].latency_ms
        if long:
            settled |= turns.keys()
        if ratios:
            repeated |= turns.keys()
        ratios |= {name: one.latency_ms / uncut for name, one in timed.items()}
        spreads |= {name: relative_spread(one) for name, one in timed.items()}
        shortest = min(shortest, uncut / 1e3)
        limit = budget.latency.of(shortest) / shortest
        far = [name for name, ratio in ratios.items() if ratio > CLOSE_FACTOR * limit]
        near = limit / CLOSE_FACTOR, CLOSE_FACTOR * limit
        close = [name for name, ratio in ratios.items() if near[0] < ratio <= near[1]]
        names = [name for name in far if name not in repeated | settled]
        long = not names
        names = names or [name for name in close if name not in settled]
    seconds = {name: ratio * shortest for name, ratio in ratios.items()}
    return {name: (took, took * spreads[name]) for name, took in seconds.items()}


def relative_spread(timed: Throughput) -> float:
    """Return the standard deviation of the windows as a share of their mean."""
    return timed.std / timed.mean


def in_turns(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    batch: int,
    where: torch.device | str,
    progress: Progress,
    long: bool = False,
    memory: bool = False,
) -> dict[str, Throughput]:
    """Measure how fast networks are at a batch size, window by window in turns.

    On a GPU, passes are recorded, because launching the kernels of small networks one by one takes
    longer than running them, and times then tell how busy the host is. If one of the networks
    cannot be recorded, none is.
    """
    options: dict[str, Any] = LONG_WINDOWS if long else WINDOWS
    options = options | {"batch_sizes": (batch,), "device": where, "memory": memory}
    timed: dict[str, list[Throughput]] = {}
    progress.start("timing", 1)
    if resolve_device("compress", where).type == "cuda":
        with suppress(RecordingError):
            timed = measure_speed(networks, example, recorded=True, **options)
    if not timed:
        timed = measure_speed(networks, example, **options)
    progress.advance()
    return {name: one for name, (one,) in timed.items()}


def expect(
    space: Space, rounds: Sequence[tuple[int, int]], progress: Progress
) -> tuple[float, int | None]:
    """Return how many seconds and bytes a search will take, from a few steps of training.

    The steps are timed behind some cuts, and interpolated between these by the operations of each.
    Bytes are None where the system does not tell. The ``rounds`` are how many candidates are
    trained for how many epochs.
    """
    last, macs = len(space.cuts) - 1, {point.name: point.macs for point in space.cuts}
    ordered = sorted(macs, key=macs.__getitem__)
    places = sorted({round(i * last / (TIMED_CUTS - 1)) for i in range(TIMED_CUTS)})
    timed = [ordered[place] for place in places]
    progress.start("cuts at which steps are timed", len(timed))
    costs = []  # seconds of an example, and bytes of a step
    for cut in timed:
        costs.append(space.cost_per_example(next(o for o in space.candidates if o.cut == cut)))
        progress.advance(1, cut)
    seconds, kept = zip(*costs, strict=True)
    known = [macs[cut] for cut in timed]
    mean = fmean(float(np.interp(macs[one.cut], known, seconds)) for one in space.candidates)
    examples = sum(count * epochs for count, epochs in rounds) * space.examples
    memory = None
    if space.setup.device.type == "cuda":
        memory = torch.cuda.max_memory_allocated(space.setup.device)
    elif resource is not None:
        unit = 1 if sys.platform == "darwin" else 1024  # bytes
        memory = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + max(kept)
    return examples * mean, memory
