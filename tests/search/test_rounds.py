"""Rounds of a search, on tables of accuracies: who goes on, to the end, and is chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vinets.core.device import RecordingError
from vinets.core.files import read_json, write_json
from vinets.search import rounds
from vinets.search.budget import CostTable
from vinets.training.epochs import DivergedError


class Progress:
    """Keeps the stages of a progress, and how many steps of each were taken."""

    def __init__(self):
        self.stages = []

    def start(self, stage, total):
        self.stages.append([stage, total, 0])

    def advance(self, count=1, note=""):
        self.stages[-1][2] += count


def constant(accuracies):
    """Return a function that gives a candidate its accuracy, however long it is trained."""
    return lambda one, epochs, rate: accuracies[one.parameters - 1]


def positions(candidates):
    """Return the places of candidates in the table of accuracies."""
    return sorted(one.parameters - 1 for one in candidates)


def trained(search, epochs):
    """Return the places of the candidates that were trained for ``epochs``, in order, each once."""
    all_of_them = [trial for call in search.calls for trial in call.trials]
    places = [t.candidate.parameters - 1 for t in all_of_them if t.epochs == epochs]
    return list(dict.fromkeys(places))


def after_a_round(make_search, accuracies, **options):
    """Return a search all of whose candidates were trained for 2 and 4 epochs, 4 are the end."""
    search = make_search(constant(accuracies), len(accuracies), **options)
    for epochs in (2, 4):
        search.train(search.space.candidates, epochs)
    return search, search.space.candidates


# --- who goes on --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accuracies", "left"),
    [  # 0.9 is wanted
        # A long frontier was once cut off behind its smallest networks, which are hopeless.
        ([0.1 + 0.05 * i for i in range(16)], [10, 11, 12, 13, 14, 15]),
        ([0.5 + 0.05 * i for i in range(10)], [4, 5, 6, 7, 8, 9]),
        # What is larger than the first that will do is not needed, but for one more.
        ([0.92 + 0.001 * i for i in range(10)], [0, 1]),
    ],
)
def test_those_near_the_limit_go_on_and_neither_the_smallest_nor_larger_ones(
    make_search, accuracies, left
):
    search, candidates = after_a_round(make_search, accuracies)
    assert positions(search._best(candidates, 2)) == left


def test_without_a_drop_the_most_accurate_go_on(make_search):
    accuracies = [(i % 7) / 10 for i in range(21)]
    search, candidates = after_a_round(make_search, accuracies, budget="params=50%")
    best = positions(search._best(candidates, 2))
    assert {accuracies[i] for i in best} == {0.6, 0.5, 0.4} and len(best) == 7
    chosen, met = search.choose(list(search.attempts.values()))
    assert chosen.accuracy == 0.6 and met


def test_rounds_get_shorter_lists_and_longer_trainings(make_search):
    accuracies = [0.1 + 0.04 * i for i in range(24)]
    search = make_search(constant(accuracies), 24, "params=50%", epochs=36)
    tried = search.run()
    assert search.rungs == [2, 6]
    assert [len(trained(search, epochs)) for epochs in (2, 6, 36)] == [24, 8, 3]
    assert len(tried) == 24
    # 30 answers are wrong, among them the 10 of the uncut network
    assert search.attempts["cut15 linear, pooled, 16"].error == pytest.approx(20**0.5 / 100)
    longest = {one.epochs: one for one in tried}
    assert longest[36].accuracies.keys() == {2, 6, 36} and longest[36].seconds == 3.0


# --- training -----------------------------------------------------------------------------------


def test_the_better_learning_rate_is_taken_for_short_and_for_long_trainings(make_search):
    def reach(one, epochs, rate):
        return 0.8 if (rate == 0.1) == (epochs == 4) else 0.5

    search = make_search(reach, 3, "params=50%")
    assert all(one.accuracy == 0.8 for one in search.run())
    assert search.rates == {True: 0.1, False: 0.02}


def test_what_diverges_is_left_out_and_remembered(make_search, tmp_path):
    def reach(one, epochs, rate):
        bad = one.head == "relu-units" or rate == 0.02
        return DivergedError("the loss is nan") if bad else 0.9

    heads = ["relu-units", "pooled", "relu-units", "linear"]
    search = make_search(reach, 4, "drop=50", heads=heads)
    assert {one.candidate.head for one in search.run()} == {"pooled", "linear"}
    again = make_search(reach, 4, "drop=50", heads=heads)
    again.run()
    assert again.calls == []  # neither what is there nor what diverged is carried out again
    assert set(again.table.diverged.values()) == {"the loss is nan"}
    search = make_search(lambda *_: DivergedError("nan"), 3, folder=tmp_path / "all")
    with pytest.raises(ValueError, match="every network that was to be trained to the end div"):
        search.run()


def test_a_training_that_cannot_be_recorded_is_carried_out_without(make_search):
    seen = []

    def reach(one, *_):
        seen.append(one)
        return RecordingError("it decides by values") if len(seen) == 1 else 0.9

    search = make_search(reach, 2, "params=50%", epochs=1)
    assert search.rungs == [] and len(search.run()) == 2  # so few epochs are one round
    flags = [trial.recorded for call in search.calls for trial in call.trials]
    assert flags[:2] == [True, False] and not any(flags[1:]) and not search.recorded


def test_several_go_to_processes_together_and_after_one_diverged_one_by_one(make_search, tmp_path):
    reached = constant([0.5, DivergedError("nan"), 0.5])
    search = make_search(reached, 3, "params=50%", executor="two")
    search.train(search.space.candidates, 2)
    assert [one.accuracies for one in search.attempts.values()] == [{2: 0.5}, {}, {2: 0.5}]
    carried_out = [(len(call.trials), call.executor) for call in search.calls]
    assert carried_out == [(3, "two"), (1, None), (1, None)]
    other = make_search(constant([0.5, 0.6, 0.7]), 3, executor="two", folder=tmp_path / "other")
    other.train(other.space.candidates, 2)
    assert [len(call.trials) for call in other.calls] == [3]
    assert all(2 in one.accuracies for one in other.attempts.values())


def test_the_same_search_goes_on_and_another_budget_uses_what_is_there(make_search):
    accuracies = [0.1 + 0.1 * i for i in range(8)]
    first = make_search(constant(accuracies), 8)
    tried = first.run()
    second = make_search(constant(accuracies), 8)
    assert second.run() == tried and second.calls == []
    other = make_search(constant(accuracies), 8, "params=1")
    chosen, met = other.choose(other.run())
    assert chosen.cost.parameters == 1 and met
    rates = {trial.rate for call in other.calls for trial in call.trials if trial.epochs < 4}
    assert rates == {0.02}  # the other rate for another network, and no round again


def test_only_trainings_to_the_end_are_saved_and_have_a_progress_of_their_own(make_search):
    progress = Progress()
    search = make_search(constant([0.5] * 5), 5, "params=50%", progress=progress)
    search.run()
    long = []
    for call in search.calls:
        for trial in call.trials:
            last = trial.epochs == 4
            assert bool(trial.save) == last and (call.progress is progress) == last
            assert last or call.progress.whole is progress  # notes on a step of the round
            long += [trial.save] * last
    assert len(set(long)) == len(long) == 4  # one of three with both rates
    # two with each rate, of which one is a network of the round
    assert progress.stages == [["networks trained, an epoch each", n, n] for n in (2, 4)]


# --- to the end ---------------------------------------------------------------------------------


def test_the_last_round_looks_for_the_smallest_and_a_safer_one(make_search):
    accuracies = [0.5, 0.6, 0.7, 0.8, 0.901, 0.902, 0.904, 0.92]
    search = make_search(constant(accuracies), 8)
    search.train(search.space.candidates, 1)
    search.surely = lambda one: one.accuracy >= 0.903
    search.finish(search.space.candidates)
    assert set(trained(search, 4)) == {3, 5, 4, 6}


@pytest.mark.parametrize(
    ("accuracies", "finalists", "best", "met"),
    [
        ([0.42, 0.6, 0.78, 0.7, 0.7], 3, 0.78, False),
        ([0.42, 0.95, 0.96, 0.97, 0.98], 2, 0.95, True),
    ],
)
def test_a_missed_drop_does_not_end_with_one_finalist(
    make_search, accuracies, finalists, best, met
):
    """After a short epoch a small plain head once dominated all, and the search ended with it."""

    def reach(one, epochs, rate):
        return 0.5 - 0.01 * one.parameters if epochs == 1 else accuracies[one.parameters - 1]

    search = make_search(reach, 5, "drop=3")
    tried = search.run()
    assert len(trained(search, 4)) == finalists  # others follow only until one will do
    assert met or search.plan().rounds[-1][0] - 1 == finalists  # one of them with two rates
    chosen, within = search.choose(tried)
    assert chosen.accuracy == best and within == met


# --- the choice ---------------------------------------------------------------------------------


def test_a_network_that_will_surely_do_is_chosen_unless_it_is_far_larger(make_search):
    search, candidates = after_a_round(make_search, [0.85, 0.901, 0.904, 0.92])
    tried = [replace(search.attempts[one.name], error=0.003) for one in candidates]
    assert search.choose(tried) == (tried[2], True)  # sizes are 1 to 4
    assert search.choose(tried[:2]) == (tried[1], True)  # none is sure
    assert search.choose([tried[1], tried[3]]) == (tried[1], True)
    assert search.choose(tried[:1]) == (tried[0], False)


def test_a_budget_that_cannot_be_met_gets_the_nearest(make_search):
    accuracies = [0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9]
    search = make_search(constant(accuracies), 8, "params=5", sizes=range(10, 18))
    tried = search.run()
    assert len(tried) == 6 and search.plan().unmet == "at most 5 parameters"  # the nearest ones
    chosen, met = search.choose(tried)
    assert not met and search.budget.excess(chosen.cost, search.table.costs["uncut"]) > 1
    finished = [one.cost.parameters for one in tried if 4 in one.accuracies]
    assert chosen.cost.parameters == min(finished)


def test_a_candidate_is_tried_once(make_search):
    """The smallest head that there is behind a cut may be too large for both sizes."""
    search = make_search(constant([0.5, 0.6]), 2, sizes=(7, 7))
    assert len(search.feasible()) == 2  # behind different cuts
    large, small = (replace(one, cut="cut0") for one in search.space.candidates)
    search.space.candidates[:] = large, small
    search.table.costs |= dict.fromkeys((large.name, small.name), search.table.costs["uncut"])
    assert search.feasible() == [large]


# --- the plan, and the folder -------------------------------------------------------------------


def test_a_plan_trains_and_writes_nothing(make_search, tmp_path):
    search = make_search(constant([0.5] * 12), 12, epochs=36)
    written = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}
    assert [rounds._kept(count) for count in (3, 6, 12, 30, 60)] == [3, 6, 6, 10, 20]
    plan = search.plan()
    assert plan.rounds == ((12, 2), (6, 6), (4, 36)) and len(plan.candidates) == 12
    mean = 0.001 * sum(range(1, 13)) / 12  # seconds for an example, between the cuts that are timed
    assert plan.seconds == pytest.approx((12 * 2 + 6 * 6 + 4 * 36) * 100 * mean, rel=0.01)
    assert search.calls == [] and not plan.unmet
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")} == written


def test_a_folder_of_0_2_is_gone_on_with(make_search, tmp_path):
    first = make_search(constant([0.5, 0.6]), 2)
    path = tmp_path / "search" / "search.json"
    costs = {name: {"parameters": cost.parameters} for name, cost in first.table.costs.items()}
    older = {"signals": {"relu1": {"ridge": 0.5}}, "machine": {"processor": "pi"}}
    write_json(path, {"costs": costs, "timed": "", "diverged": {}} | older)
    second = make_search(constant([0.5, 0.6]), 2)
    assert second.table == first.table and isinstance(second.table, CostTable)
    assert read_json(path)["machine"]  # nothing new, so nothing is written
