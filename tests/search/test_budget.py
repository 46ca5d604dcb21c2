"""Budgets, and what candidates cost: counted, timed in turns, not believed at the first look."""

from __future__ import annotations

import runpy
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vinets.core.device import RecordingError
from vinets.core.progress import progress_of
from vinets.measure import flops
from vinets.search import Candidate, parse_budget
from vinets.search import budget as budgets
from vinets.search.budget import LIMITS, Budget, Cost, CostTable, Limit, expect, in_turns

SILENT = progress_of(None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("drop=0.5", Budget(0.5)),
        ("drop=0", Budget(0.0)),
        ("drop=1%", Budget(1.0)),
        ("params=1e6", Budget(limits={"params": Limit(1e6)})),
        ("params=1.5M", Budget(limits={"params": Limit(1.5e6)})),
        ("params=10%", Budget(limits={"params": Limit(0.1, relative=True)})),
        ("size=4MB", Budget(limits={"size": Limit(4e6)})),
        ("size=4MiB", Budget(limits={"size": Limit(4 * 2**20)})),
        ("macs=3g", Budget(limits={"macs": Limit(3e9)})),
        ("macs=50%", Budget(limits={"macs": Limit(0.5, relative=True)})),
        ("latency=2ms", Budget(limits={"latency": Limit(0.002)})),
        ("latency=2ms@cpu,batch=8", Budget(None, {"latency": Limit(0.002)}, "cpu", 8)),
        ("latency=50%@cuda:0", Budget(None, {"latency": Limit(0.5, relative=True)}, "cuda:0")),
    ],
)
def test_budgets_are_read(text, expected):
    assert parse_budget(text) == expected
    assert parse_budget(expected) is expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "drop", "drop=", "drop=-1", "drop=x", "params=0", "params=1q", "params=-5"),
        *("size=4", "size=4parsecs", "latency=2", "latency=2ms,batch=0", "latency=2ms,size=3"),
        *("speed=3", "drop=nan", "params=1e999", "latency=2ms,", "latency=0%"),
        "latency=2ms,batch=100000000000000000000",
    ],
)
def test_others_are_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match="budget must be one") as caught:
        parse_budget(text)
    assert "params=1e6" in str(caught.value)
    with pytest.raises(ValueError, match=r"Got 'params=0\.3' instead. A share is written with a"):
        parse_budget("params=0.3")


def test_several_hold_together_and_none_twice():
    budget = parse_budget(["drop=0.5", "latency=50%@cpu", "params=100"])
    uncut = Cost(1000, 0.01)
    assert budget.allows(Cost(100, 0.005), uncut)
    assert not budget.allows(Cost(101, 0.005), uncut)
    assert not budget.allows(Cost(100, 0.0051), uncut)
    assert not budget.allows(Cost(100), uncut)  # not timed
    assert budget.excess(Cost(200, 0.0), uncut) == 2
    with pytest.raises(ValueError, match="given twice"):
        parse_budget(["drop=0.5", "drop=1"])
    with pytest.raises(ValueError, match="Got nothing"):
        parse_budget([])
    assert Cost(100).size == 400 and Cost(100, stored=130).size == 130  # float32, or the file


@pytest.mark.parametrize("kind", LIMITS)
def test_every_kind_of_limit_is_parsed_compared_and_said(kind):
    """Whoever adds a line to the table has nothing else to do here."""
    budget, cost = parse_budget(f"{kind}=50%"), Cost(100, 0.1, macs=100)
    half = Cost(50, 0.05, macs=50)
    assert budget.excess(half, cost) == 1 and budget.excess(cost, cost) == 2
    assert f"50% of the uncut network's {LIMITS[kind].share_of}" in str(budget)
    assert budget.allows(half, cost) and not budget.allows(cost, cost)


def test_a_budget_says_itself():
    said = str(parse_budget(["latency=2ms@cpu", "params=10%", "drop=0.5", "size=4MB", "macs=1e6"]))
    for part in ("0.5 points", "10% of the uncut", "4,000,000 bytes", "1,000,000 multiply-adds"):
        assert part in said
    assert said.endswith("a forward pass within 0.002 s on cpu at batch 1")


# --- costs --------------------------------------------------------------------------------------


class Layers(nn.Sequential):
    """A network that says how many parameters it has, as a cut network does."""

    def parts(self):
        return {"network": sum(p.numel() for p in self.parameters())}


@pytest.fixture
def space():
    """A space of three candidates with few parameters, and how often they were built."""

    def layers(wide):
        return Layers(nn.Linear(4, wide), nn.ReLU(), nn.Linear(wide, 4))

    def networks(wanted):
        space.built.append(len(wanted))
        yield from ((one, layers(2**one.parameters)) for one in wanted)

    candidates = [Candidate(f"cut{i}", "pooled", 1 + i) for i in range(3)]
    setup = SimpleNamespace(device=torch.device("cpu"), model=layers(64))
    setup.test = SimpleNamespace(example=lambda count=1: torch.zeros(count, 4))
    setup.parameters = setup.model.parts()["network"]
    space = SimpleNamespace(setup=setup, candidates=candidates, networks=networks, built=[])
    return space


def timed_as(monkeypatch, *turns):
    """Let networks be timed by tables of seconds, one after the other; return who took turns."""
    asked = []

    def measured(networks, example, batch, where, progress, long):
        seconds = turns[min(len(asked), len(turns) - 1)]
        asked.append((set(networks), long))
        return {
            name: SimpleNamespace(latency_ms=1e3 * seconds[name], std=0.1, mean=1.0)
            for name in networks
        }

    monkeypatch.setattr(budgets, "in_turns", measured)
    return asked


def passes(names, budget):
    networks = dict.fromkeys(("uncut", *names))
    return budgets.time_passes(networks, None, parse_budget(budget), "cpu", SILENT)


def test_what_a_network_stores_and_computes_is_counted_once(space):
    table = CostTable()
    asked = ["params=50%", "size=50%", "macs=50%", "params=10%", "drop=1", "macs=10%"]
    # Sizes do not say how many operations there are.
    measured = [table.measure(space, parse_budget(one), SILENT) for one in asked]
    assert measured == [True, False, True, False, False, False] and space.built == [3, 3]
    for one, network in space.networks(space.candidates):
        cost = table.costs[one.name]
        assert cost.parameters == network.parts()["network"]
        assert cost.macs == flops(network, torch.zeros(1, 4)) // 2 == 8 * 2**one.parameters
    assert table.costs["uncut"].macs == 8 * 64
    assert not any(known.latency for known in table.costs.values())


def test_latencies_are_measured_and_those_of_another_batch_anew(space, monkeypatch):
    inner, batches = budgets.measure_speed, []

    def measure_speed(networks, example, *, batch_sizes, **options):
        batches.append(batch_sizes)
        return inner(networks, example, batch_sizes=batch_sizes, **options)

    monkeypatch.setattr(budgets, "measure_speed", measure_speed)
    table, counts = CostTable(), []
    for budget in ("latency=90%@cpu", "latency=90%@cpu", "latency=90%@cpu,batch=8"):
        table.measure(space, parse_budget(budget), SILENT)
        counts.append(len(batches))
        assert all(known.latency > 0 <= known.spread for known in table.costs.values())
    assert counts[0] == counts[1] < counts[2]
    assert set(batches[: counts[0]]) == {(1,)} and set(batches[counts[1] :]) == {(8,)}
    table.measure(space, parse_budget("drop=1"), SILENT)
    # the time of other budgets is not shown as if this one had asked for it
    assert all(known.latency is None for known in table.costs.values()) and not table.timed


def test_only_what_is_within_the_other_limits_is_timed(space, monkeypatch):
    timed_as(monkeypatch, {"uncut": 1.0} | {one.name: 0.1 for one in space.candidates})
    table, small = CostTable(), 2 * (4 + 4) + 2 + 4  # parameters of the first
    table.measure(space, parse_budget([f"params={small}", "latency=50%@cpu"]), SILENT)
    assert [table.costs[one.name].latency for one in space.candidates] == [0.1, None, None]
    with pytest.raises(ValueError, match="no device 'pi' here"):
        table.measure(space, parse_budget("latency=2ms@pi,batch=1"), SILENT)


def test_nothing_is_too_slow_by_one_timing(monkeypatch):
    """A process that runs for a moment once dropped all heads with polynomials."""
    first = {"uncut": 1.0, "quick": 0.1, "slow": 0.9, "disturbed": 5.0}
    again = {"uncut": 1.0, "slow": 0.92, "disturbed": 0.2}
    asked = timed_as(monkeypatch, first, again)
    times = passes(("quick", "slow", "disturbed"), "latency=50%@cpu")
    assert asked == [(set(first), False), (set(again), False)]
    assert {name: seconds for name, (seconds, _) in times.items()} == pytest.approx(first | again)
    assert all(spread == pytest.approx(0.1 * seconds) for seconds, spread in times.values())


def test_what_is_close_to_a_limit_is_timed_for_longer(monkeypatch):
    first = {"uncut": 1.0, "near": 0.45, "far": 0.1}
    asked = timed_as(monkeypatch, first, {"uncut": 1.1, "near": 0.6})
    found = passes(("near", "far"), "latency=50%@cpu")
    assert asked[1:] == [({"uncut", "near"}, True)]
    # more than half of what the uncut network took in the same turns
    assert found["near"][0] == pytest.approx(0.6 / 1.1) and found["far"][0] == 0.1


@pytest.mark.parametrize("busy", [1, 5])
@pytest.mark.parametrize("budget", ["latency=50%@cpu", "latency=500ms@cpu"])
def test_a_machine_that_is_busy_all_the_time_of_one_timing_changes_nothing(
    monkeypatch, busy, budget
):
    alone = {"uncut": 1.0, "near": 0.42, "slow": 0.9}
    at_first = {name: busy * seconds for name, seconds in alone.items()}
    timed_as(monkeypatch, at_first, alone)
    found = passes(("near", "slow"), budget)
    assert {name: pair[0] for name, pair in found.items()} == pytest.approx(alone)


def test_without_a_candidate_within_the_limits_the_nearest_are_taken():
    candidates = [Candidate("cut", "pooled", i) for i in range(1, 10)]
    costs = {one.name: Cost(10 * one.parameters) for one in candidates}
    table = CostTable({"uncut": Cost(1_000)} | costs)
    assert table.within(parse_budget("params=30"), candidates) == candidates[:3]
    assert table.within(parse_budget("params=5"), candidates[::-1]) == candidates[:6]


@pytest.mark.parametrize(
    ("device", "recordable", "ways"),
    [("cpu", True, [False]), ("cuda", True, [True]), ("cuda", False, [True, False])],
)
def test_passes_are_recorded_on_a_gpu_if_they_can_be(monkeypatch, device, recordable, ways):
    calls = []

    def measure_speed(networks, example, *, recorded=False, **options):
        calls.append(recorded)
        if recorded and not recordable:
            raise RecordingError("this network cannot be recorded")
        return {name: [SimpleNamespace(recorded=recorded)] for name in networks}

    monkeypatch.setattr(budgets, "measure_speed", measure_speed)
    monkeypatch.setattr(budgets, "resolve_device", lambda *_: torch.device(device))
    found = in_turns({"uncut": None}, torch.zeros(1), 1, device, SILENT)
    assert calls == ways and found["uncut"].recorded == ways[-1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_is_left_of_a_recording_that_failed():
    class Asks(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    x = torch.randn(4, 16)
    networks = {"plain": nn.Linear(16, 16), "deep": nn.Sequential(nn.Linear(16, 16), nn.ReLU())}
    for some, recorded in ((networks, True), (networks | {"asks": Asks()}, False)) * 2:
        timed = in_turns(some, x, 4, "cuda", SILENT).values()
        assert all(one.latency_ms > 0 and one.recorded == recorded for one in timed)


def test_time_is_interpolated_between_cuts():
    timed = []

    def cost(one):
        timed.append(one.cut)
        return 0.01 * int(one.cut[3:]), 1 << 30

    space = SimpleNamespace(examples=50, cost_per_example=cost)
    space.setup = SimpleNamespace(device=torch.device("cpu"))
    space.cuts = [SimpleNamespace(name=f"cut{i}", macs=100 * i) for i in range(5)]
    space.candidates = [Candidate(point.name, "pooled", 1) for point in space.cuts]
    total, memory = expect(space, [(5, 2), (1, 10)], SILENT)
    assert timed == ["cut0", "cut2", "cut4"]
    assert total == pytest.approx(20 * 50 * 0.02) and (memory is None or memory > 1 << 30)


def test_without_resource_the_memory_is_not_known(monkeypatch):
    """Windows has no module ``resource``."""
    monkeypatch.setitem(sys.modules, "resource", None)
    assert runpy.run_path(budgets.__file__, run_name="budget")["resource"] is None
