"""What candidates cost before any is trained: what they store, how long a forward pass takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from vinets.core.device import Inputs, RecordingError, resolve_device
from vinets.core.progress import Progress, progress_of
from vinets.measure import Throughput, measure_speed
from vinets.networks.network import CutNetwork
from vinets.runs.context import CutContext
from vinets.runs.setup import Setup
from vinets.runs.trial import Trial
from vinets.search.budget import Budget, Cost
from vinets.search.space import Candidate

NEAREST = 6  # to the limits, where nothing is within
WINDOWS = {"repeats": 5, "seconds": 0.1}
LONGER = {"repeats": 15, "seconds": 0.2}  # for those of which the limit is not far:
CLOSE = 1.25  # within this factor


@dataclass
class Priced:
    """What is known of costs."""

    costs: dict[str, Cost] = field(default_factory=dict)  # by the name of a candidate, or "uncut"
    timed: str = ""  # device and batch of the latencies among them


class Pricing:
    """Finds out what candidates cost, as far as a budget asks for it."""

    def __init__(
        self,
        setup: Setup,
        start: Trial,
        candidates: Sequence[Candidate],
        budget: Budget,
        progress: Progress,
    ) -> None:
        self.setup, self.start, self.candidates = setup, start, candidates
        self.budget, self.watch = budget, progress

    @property
    def where(self) -> torch.device | str:
        """Where networks are timed."""
        return self.budget.where or self.setup.device

    def update(self, known: Priced) -> bool:
        """Add what is missing; whether anything was."""
        wanted = self._wanted()
        if not wanted:  # latencies of another budget say nothing here
            known.costs = {k: replace(cost, latency=None) for k, cost in known.costs.items()}
            known.timed = ""
        if all(one.name in known.costs for one in self.candidates):
            timed = [known.costs[name].latency for name in self._names(known.costs)]
            if not wanted or (wanted == known.timed and None not in timed):
                return False
        networks, known.costs = self._untrained()
        if wanted:
            names = self._names(known.costs)
            for name, seconds in self._timed({name: networks[name] for name in names}).items():
                known.costs[name] = replace(known.costs[name], latency=seconds)
        known.timed = wanted
        return True

    def _timed(self, networks: Mapping[str, nn.Module]) -> dict[str, float]:
        """Seconds of a forward pass.

        A few short windows do not tell on which side of a limit a network is that is close to it:
        those are timed once more, for longer, beside the uncut one.
        """
        assert self.budget.latency is not None
        example, batch = self.setup.test.example(self.budget.batch), self.budget.batch
        found = in_turns(networks, example, batch, self.where, self.watch)
        seconds = {name: one.latency_ms / 1e3 for name, one in found.items()}
        limit = self.budget.latency.of(seconds["uncut"])
        others = ((name, took) for name, took in seconds.items() if name != "uncut")
        close = [name for name, took in others if limit / CLOSE < took < limit * CLOSE]
        if not close:
            return seconds
        those = {name: networks[name] for name in ("uncut", *close)}
        again = in_turns(those, example, batch, self.where, self.watch, LONGER)
        return seconds | {name: one.latency_ms / 1e3 for name, one in again.items()}

    def _wanted(self) -> str:
        """Device and batch of the latencies; empty if no budget asks for them."""
        if not self.budget.latency:
            return ""
        where = str(self.where)
        try:
            resolve_device("compress", where)
        except ValueError:
            raise ValueError(
                f"There is no device {where!r} here to measure the latency on. Pass cpu or cuda."
            ) from None
        return f"{where}, batch {self.budget.batch}"

    def _untrained(self) -> tuple[dict[str, nn.Module], dict[str, Cost]]:
        """The uncut network and those of all candidates, with what they store."""
        networks: dict[str, nn.Module] = {"uncut": self.setup.model}
        costs = {"uncut": Cost(self.setup.parameters)}
        self.watch.start("sizes", len(self.candidates))
        for one, network in untrained(self.setup, self.start, self.candidates):
            networks[one.name] = network
            costs[one.name] = Cost(sum(network.parts().values()))
            self.watch.advance()
        return networks, costs

    def _names(self, costs: Mapping[str, Cost]) -> list[str]:
        """Networks whose latency counts: the uncut one, and those within the other limits."""
        others = within(replace(self.budget, latency=None), self.candidates, costs)
        return ["uncut", *(one.name for one in others)]


def untrained(
    setup: Setup, start: Trial, candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, CutNetwork]]:
    """Networks of candidates, folded, with the weights that they start from."""
    trials = [(one, one.trial(start, 1)) for one in candidates]
    for shares in dict.fromkeys(trial.shares for _, trial in trials):
        group = [(one, trial) for one, trial in trials if trial.shares == shares]
        context = CutContext(setup, group[0][1], progress_of(None))
        for one, trial in group:
            made, _ = context.network(trial)
            yield one, made.folded()


def within(
    budget: Budget, candidates: Sequence[Candidate], costs: Mapping[str, Cost]
) -> list[Candidate]:
    """Candidates within the limits; the nearest to them where there are none."""
    uncut = costs["uncut"]
    found = [one for one in candidates if budget.allows(costs[one.name], uncut)]
    if found:
        return found
    near = sorted(candidates, key=lambda one: budget.excess(costs[one.name], uncut))
    return near[:NEAREST]


def in_turns(
    networks: Mapping[str, nn.Module],
    example: Inputs,
    batch: int,
    where: torch.device | str,
    progress: Progress,
    windows: Mapping[str, Any] = WINDOWS,
) -> dict[str, Throughput]:
    """How fast networks are at a batch size.

    On a GPU, passes are recorded: of small networks, launching their kernels one by one takes
    longer than running them, and times then tell how busy the host is. If one of the networks
    cannot be recorded, none is.
    """
    options = {"batch_sizes": (batch,), "device": where, **windows}
    found: dict[str, list[Throughput]] = {}
    progress.start("timing", 1)
    if resolve_device("compress", where).type == "cuda":
        with suppress(RecordingError):
            found = measure_speed(networks, example, recorded=True, **options)
    if not found:
        found = measure_speed(networks, example, **options)
    progress.advance()
    return {name: one for name, (one,) in found.items()}
