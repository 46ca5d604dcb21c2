"""What is said of a search: the verdict, int8, plans, frontiers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinets.core.plain import as_plain, from_plain
from vinets.search import Attempt, Candidate, SearchResult, parse_budget
from vinets.search.budget import Cost
from vinets.search.result import SearchPlan, frontier, layers_of

SMALL = Candidate("relu1", "products", 100)


def result_of(budget, *, met=True, right=0.95, int8=None, others=(), **more):
    """Return a search that chose 1,000 bytes in time .5, of a network of 4,000 bytes in time 1."""
    uncut = Attempt(None, Cost(1_000, 1.0, macs=800), {0: 0.97}, test=0.97, speed=1.0, latency=1.0)
    if int8 is not None:
        facts = {"size": 1_100, "validation": 0.97, "latency": 0.4} | int8
        cost = Cost(1_000, facts["latency"], macs=800, stored=facts["size"])
        quantized = Attempt(None, cost, {0: facts["validation"]}, test=0.96, latency=cost.latency)
        uncut = replace(uncut, int8=quantized)
    small = Attempt(SMALL, Cost(250, 0.1, stored=300), {4: right}, test=0.94, latency=0.1)
    chosen = Attempt(
        SMALL, Cost(250, 0.5, macs=200), {4: right}, test=right, speed=2.0, latency=0.5, int8=small
    )
    chosen = replace(chosen, **more.pop("chosen", {}))
    return SearchResult(
        data="digits",
        budget=parse_budget(budget),
        uncut=uncut,
        attempts=(chosen, *others),
        chosen=SMALL.name,
        met=met,
        validation=100,
        tested=100,
        **more,
    )


def verdict(*options, **more):
    return result_of(*options, **more).verdict


def test_a_verdict_says_what_is_gained_and_lost():
    assert verdict("drop=5") == (
        "product head, degree 2 behind relu1 has 250 parameters, 25.0% of the uncut network, runs "
        "2.00 times as fast, and is right on 95.00% of the test examples (-2.00 points)."
    )
    nothing = replace(result_of("drop=5"), attempts=(), chosen=None, verdict="")
    assert str(nothing).startswith("Nothing smaller was found")
    missed = verdict("params=10", met=False)  # which is said first
    assert missed.startswith("The budget, at most 10 parameters, was not met: this is the nearest")


@pytest.mark.parametrize(
    ("budget", "facts", "words"),
    [
        ("drop=20", {"right": 0.8}, "It loses 17.0 points on the validation examples"),
        ("size=50%", {}, "1,000 bytes, 25.0% of the uncut network's"),
        ("macs=50%", {}, "200 multiply-adds, 25.0% of the uncut network's"),
        ("latency=60%@cpu", {}, "takes 500 ms a pass at batch 1 on cpu, where the uncut one takes"),
        ("latency=60%@cpu", {"chosen": {"spread": 0.02}}, "takes 500 ± 20 ms a pass"),
        ("latency=50%@cuda", {"recorded": True}, "on cuda, recorded as a CUDA graph, where the"),
        ("latency=40%@cpu", {}, "25% above the budget"),
    ],
)
def test_a_verdict_speaks_of_limits_and_of_much_that_is_lost(budget, facts, words):
    assert words in verdict(budget, **facts)
    level = verdict("latency=48%@cuda")  # takes a little more, which is no word worth
    assert not any(word in level for word in ("bytes", "loses", "±", "recorded", "above"))


# --- polynomials --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "words"),
    [
        (0.8, "The product head earned its place"),
        (0.95, "The product head did not earn a place"),
        (0.9, "The product head makes no difference here"),
    ],
)
def test_a_product_head_is_judged_by_a_rival_of_no_larger_size(right, words):
    rival = Attempt(Candidate("relu1", "pooled", 100), Cost(250), {4: right})
    ours = {"wrong": {4: tuple(range(10))}}
    answers = replace(rival, wrong={4: tuple(range(round(100 * (1 - right))))})
    said = verdict("drop=20", right=0.9, chosen=ours, others=(answers,))
    assert words in said
    assert "linear, pooled behind relu1, 250 parameters, is" in said
    # accuracies alone, of one training each, leave it open
    assert "one training does not decide it" in verdict("drop=20", right=0.9, others=(rival,))


def test_a_rival_is_no_larger_and_was_trained_for_as_long():
    large = Attempt(Candidate("relu1", "pooled", 100), Cost(276), {4: 0.99})
    early = Attempt(Candidate("relu1", "pooled", 100), Cost(200), {2: 0.99})
    same = Attempt(Candidate("relu2", "products", 100), Cost(200), {4: 0.99})
    assert "place" not in verdict("drop=20", others=(large, early, same))


def test_a_plain_choice_is_compared_with_polynomials():
    plain = Candidate("relu1", "pooled", 100)
    rival = Attempt(Candidate("relu2", "vanishing", 100), Cost(250), {4: 0.9}, wrong={4: (1, 2)})
    chosen = {"candidate": plain, "wrong": {4: tuple(range(50, 60))}}
    result = result_of("drop=20", chosen=chosen, others=(rival,))
    said = replace(result, chosen=plain.name, verdict="").verdict
    assert "The VI-Net earned its place: VI-Net behind relu2, 250 parameters, is" in said


# --- int8 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "int8", "better"),
    [
        ("drop=5", {}, False),  # within the drop, and larger
        ("drop=5", {"size": 900}, True),
        ("drop=5", {"size": 900, "validation": 0.91}, False),  # loses more
        ("size=50%", {}, True),  # within it, and more accurate
        ("size=50%", {"size": 2_100}, False),
        ("size=50%", {"validation": 0.951}, False),  # level
        ("latency=50%@cpu", {}, True),
        ("latency=50%@cpu", {"latency": 0.6}, False),
        ("latency=50%@cpu", {"latency": None}, False),  # not known
        ("params=50%", {"size": 1}, False),  # it has as many
        ("macs=50%", {"size": 1}, False),
        (["size=50%", "latency=50%@cpu"], {"latency": 0.6}, False),
        ("size=1200b", {}, True),
        ("size=1000b", {}, False),
    ],
)
def test_int8_is_named_where_it_has_more_of_what_the_budget_asks_for(budget, int8, better):
    met = "b" not in budget  # where nothing else is within the budget, the accuracy is no matter
    said = verdict(budget, int8=int8, met=met, right=0.95 if met else 0.99)
    assert ("in int8 does better by this budget" in said) == better
    if better:
        assert "96.00% right" in said
        assert "In int8, this one takes 300 B and is right on 94.00%" in said


# --- values -------------------------------------------------------------------------------------


def test_a_result_is_read_back_from_its_json():
    result = result_of(["size=50%", "latency=50%@cpu"], int8={}, chosen={"wrong": {4: (1,)}})
    again = from_plain(SearchResult, as_plain(result))
    assert again.attempts[0].wrong == {}  # single answers are not kept
    assert again == replace(result, attempts=again.attempts, verdict=again.verdict)
    assert again.choice.candidate == SMALL and again.finished == again.attempts


def test_a_plan_says_time_and_the_memory_where_it_is_known():
    def said(*facts):
        return str(SearchPlan((), ((20, 2), (4, 36)), *facts))

    start = "Trained in rounds: 20 for 2, then 4 for 36 epochs. This will take about "
    assert said(30.0, 1 << 30) == f"{start}30 seconds and 1.0 GiB."
    assert said(600.0, None) == f"{start}10 minutes." and said(9e3, None) == f"{start}2.5 hours."
    unmet = said(30.0, None, "at most 10 parameters")
    assert unmet.startswith("Nothing is within the budget, at most 10 parameters: these come")


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12))
def test_nothing_beats_a_frontier_and_layers_hold_everything(pairs):
    points = [(cost, gain, index) for index, (cost, gain) in enumerate(pairs)]
    front = frontier(points)
    for index in front:
        cost, gain = pairs[index]
        beaten = [c <= cost and g >= gain and (c, g) != (cost, gain) for c, g in pairs]
        assert not any(beaten)
    assert sorted(one for layer in layers_of(points) for one in layer) == list(range(len(pairs)))
    assert not points or layers_of(points)[0] == front
