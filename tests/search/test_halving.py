"""A whole search on few digits, with a network that knows them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import pytest
import torch
from looks import faults
from torch.utils.data import DataLoader, TensorDataset

from vinets import build
from vinets.core.device import RecordingError
from vinets.core.files import read_json, write_json
from vinets.core.progress import progress_of
from vinets.core.settings import Searching
from vinets.data import DataSplit, digits
from vinets.networks import CutNetwork
from vinets.report import html
from vinets.runs.setup import wrong_answers
from vinets.search import compress, parse_budget
from vinets.search.budget import Cost
from vinets.search.compressed import divided
from vinets.search.costs import LONGER, WINDOWS, in_turns
from vinets.search.halving import Search
from vinets.search.page import finalists_table, frontier_figure, rounds_table, search_page
from vinets.search.result import Tried

OPTIONS = {"epochs": 4, "cuts": 2, "int8": False, "device": "cpu", "progress": None}


def searching(model, data, budget, folder, limit=None):
    setup, _ = divided(model, data, limit, device="cpu")
    return Search(setup, parse_budget(budget), folder, Searching(epochs=4, cuts=2))


@pytest.fixture(scope="module")
def found(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    before = {k: t.clone() for k, t in model.state_dict().items()}
    result = compress(model, data, "drop=3", out=folder, **OPTIONS)
    assert all(t.equal(before[k]) for k, t in model.state_dict().items())
    return folder, result


def test_the_smallest_that_keeps_to_the_drop_is_chosen(found):
    _, compressed = found
    result = compressed.result
    chosen = result.choice
    assert chosen is not None and chosen.epochs == 4
    least = result.uncut.validation - 0.03
    good = [one for one in result.finished if one.accuracy >= least]
    assert result.met == bool(good)
    if good:
        size = min(one.cost.parameters for one in good)
        near = [one for one in good if one.cost.parameters <= 1.5 * size]
        sure = [one for one in near if one.accuracy - one.error >= least]
        assert chosen == min(sure or near, key=lambda one: one.cost.parameters)
    assert sum(p.numel() for p in compressed.net.parameters()) <= chosen.cost.parameters
    assert result.validation + result.tested == len(digits().test)


def test_rounds_get_shorter_lists_and_longer_trainings(found):
    tried = found[1].result.tried
    first = [one for one in tried if 1 in one.accuracies]
    last = [one for one in tried if 4 in one.accuracies]
    assert len(first) > len(last) >= 1
    assert all(1 in one.accuracies for one in last)
    assert {one.candidate.head for one in first} >= {"vi", "pooled", "relu-units"}


def test_rounds_side_by_side_find_the_same(found, model, data, tmp_path):
    again = compress(model, data, "drop=3", out=tmp_path, jobs=2, **OPTIONS).result

    def told(result):
        return [(one.candidate, one.accuracies, one.cost.parameters) for one in result.tried]

    assert told(again) == told(found[1].result)
    assert again.chosen == found[1].result.chosen


def test_what_is_saved_is_what_was_returned(found, data):
    folder, compressed = found
    loaded = CutNetwork.from_pretrained(folder).eval()
    inputs = data.test.example(20)
    with torch.no_grad():
        torch.testing.assert_close(loaded(inputs), compressed.net(inputs), rtol=1e-4, atol=1e-4)


def test_the_same_call_goes_on_and_another_budget_uses_what_is_there(found, model, data):
    folder, compressed = found
    files = {p: p.stat().st_mtime_ns for p in (folder / "trials").iterdir()}
    again = compress(model, data, "drop=3", out=folder, **OPTIONS)
    assert again.result.chosen == compressed.result.chosen
    assert {p: p.stat().st_mtime_ns for p in (folder / "trials").iterdir()} == files
    smallest = min(one.cost.parameters for one in compressed.result.tried)
    other = compress(model, data, f"params={smallest}", out=folder, **OPTIONS)
    assert other.result.choice.cost.parameters == smallest
    assert other.result.met


def test_a_budget_that_cannot_be_met_gets_the_nearest_and_a_sentence(model, data):
    result = compress(model, data, "params=10", **(OPTIONS | {"epochs": 1, "cuts": 1})).result
    assert not result.met and result.choice is not None
    assert "not met" in result.verdict
    uncut = result.uncut.cost
    assert result.budget.excess(result.choice.cost, uncut) > 1


def test_latency_is_measured_for_all(model, data, tmp_path):
    search = searching(model, data, "latency=90%@cpu", tmp_path)
    search.prepare()
    costs = search.known.costs
    assert all(cost.latency > 0 for cost in costs.values())
    assert {one.name for one in search.candidates} | {"uncut"} == set(costs)


@pytest.mark.parametrize(
    ("device", "recordable", "ways"),
    [("cpu", True, [False]), ("cuda", True, [True]), ("cuda", False, [True, False])],
)
def test_passes_are_recorded_on_a_gpu_if_they_can_be(monkeypatch, device, recordable, ways):
    calls = []

    def timed(networks, example, *, recorded=False, **options):
        calls.append(recorded)
        if recorded and not recordable:
            raise RecordingError("this network cannot be recorded")
        return {name: [SimpleNamespace(recorded=recorded)] for name in networks}

    monkeypatch.setattr("vinets.search.costs.measure_speed", timed)
    monkeypatch.setattr("vinets.search.costs.resolve_device", lambda *_: torch.device(device))
    found = in_turns({"uncut": None}, torch.zeros(1), 1, device, progress_of(None))
    assert calls == ways and found["uncut"].recorded == ways[-1]


def test_what_is_close_to_a_latency_is_timed_once_more(model, data, tmp_path, monkeypatch):
    search = searching(model, data, "latency=50%@cpu", tmp_path)
    near, far, *rest = [one.name for one in search.candidates]
    first = {"uncut": 1.0, near: 0.45, far: 0.1} | dict.fromkeys(rest, 0.9)
    second = {"uncut": 1.1, near: 0.6}
    calls = []

    def timed(networks, example, batch, where, progress, windows=WINDOWS):
        calls.append((set(networks), windows))
        told = first if len(calls) == 1 else second
        return {name: SimpleNamespace(latency_ms=1e3 * told[name]) for name in networks}

    monkeypatch.setattr("vinets.search.costs.in_turns", timed)
    search.prepare()
    assert calls == [(set(first), WINDOWS), ({"uncut", near}, LONGER)]
    found = {name: cost.latency for name, cost in search.known.costs.items()}
    assert found == pytest.approx(first | second)
    assert [one.name for one in search.feasible()] == [far]  # .6 of 1.1 is too much


def test_a_plan_trains_nothing(model, data, tmp_path):
    search = searching(model, data, "drop=1", tmp_path / "new")
    search.watch = Told()
    plan = search.plan()
    assert search.watch.stages[-1] == ["cuts at which steps are timed", 2, 2]
    assert not (tmp_path / "new").exists()
    assert plan.rounds[0] == (len(search.candidates), 1) and plan.rounds[-1][1] == 4
    assert plan.seconds > 0 and "epochs" in str(plan)


class Told:
    """Remembers the stages of a progress, and how many steps of each were taken."""

    def __init__(self):
        self.stages = []

    def start(self, stage, total):
        self.stages.append([stage, total, 0])

    def advance(self, count=1, note=""):
        self.stages[-1][2] += count


def test_rounds_are_told_of_and_not_every_network_in_them(model, data, tmp_path):
    told = Told()
    options = OPTIONS | {"progress": told}
    result = compress(model, data, "drop=3", out=tmp_path, **options).result
    rounds = [stage for stage in told.stages if stage[0] == "networks trained, an epoch each"]
    first = sum(1 in one.accuracies for one in result.tried)
    # two with each rate, of which one is a network of the round
    assert rounds == [["networks trained, an epoch each", n, n] for n in (2, first - 1)]
    ends = [stage for stage in told.stages if stage[0].startswith("training")]
    finished = sum(4 in one.accuracies for one in result.tried)
    assert len(ends) == finished + 1  # one of them with both rates


def test_fewer_examples_on_demand(model, data, tmp_path):
    search = searching(model, data, "drop=1", tmp_path, limit=100)
    assert len(search.setup.train) == 100


def test_the_page_shows_everything(found):
    result = found[1].result
    page = html(search_page(result))
    assert result.verdict.split(".")[0] in page
    assert len(finalists_table(result).rows) == 1 + len(result.finished)
    assert len(rounds_table(result).rows) == len(result.tried)
    series = {one.name: one for one in frontier_figure(result).series}
    chosen = next(one for name, one in series.items() if name.startswith("chosen"))
    assert chosen.x == (result.choice.cost.parameters,)
    assert series["uncut"].x == (result.uncut.cost.parameters,)
    drawn = [one for name, one in series.items() if name not in ("frontier", "uncut")]
    assert sum(len(one.x) for one in drawn) == len(result.tried)
    front = series["frontier"]
    assert front.joined and list(front.x) == sorted(front.x) and list(front.y) == sorted(front.y)
    assert all(one.command for one in result.tried)
    assert all(escape(shlex.join(one.command), quote=False) in page for one in result.tried)


@pytest.mark.pages
def test_the_page_suits_every_screen(found, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(html(search_page(found[1].result)), encoding="utf-8")
    assert faults(page) == []


def test_a_product_head_is_judged_by_a_rival_of_no_larger_size(found):
    from vinets.search.verdict import verdict

    result = found[1].result
    vi = next(one for one in result.tried if one.candidate.head == "vi")
    plain = next(one for one in result.tried if one.candidate.head == "pooled")
    count, name = result.validation, vi.candidate.name

    def right_on(one, share, wrong=None):
        return replace(one, accuracies={4: share}, wrong={} if wrong is None else {4: wrong})

    def said_of(ours, rival):
        return verdict(replace(result, tried=(ours, rival), chosen=name, met=True))

    ours = right_on(vi, 0.9, range(count // 10))
    for right, words in (
        (0.8, "The product head earned its place"),
        (0.95, "The product head did not earn a place"),
        (0.9, "The product head makes no difference here"),
    ):
        rival = right_on(plain, right, range(round((1 - right) * count)))
        assert words in said_of(ours, rival)
        # accuracies alone, of one training each, leave it open
        assert "one training does not decide it" in said_of(ours, right_on(plain, right))


def test_what_diverges_is_left_out_and_the_search_goes_on(model, data, tmp_path, monkeypatch):
    from vinets.search import halving as module
    from vinets.training.loop import DivergedError

    run, asked = module.run_trials, []

    def fails(trials, *given, **more):
        (trial,) = trials
        asked.append(trial.name)
        if trial.head == "vi" or trial.recipe.learning_rate == 0.02:
            raise DivergedError("the loss is nan")
        run(trials, *given, **more)

    monkeypatch.setattr(module, "run_trials", fails)
    options = OPTIONS | {"cuts": 1}
    result = compress(model, data, "drop=50", out=tmp_path, **options).result
    assert result.choice.candidate.head != "vi"
    assert all(one.candidate.head != "vi" for one in result.tried)
    before = len(asked)
    compress(model, data, "drop=50", out=tmp_path, **options)
    again = asked[before:]
    assert not any("-vi-" in name for name in again)  # remembered
    monkeypatch.setattr(module, "run_trials", lambda *given, **more: fails([replace_head(given)]))
    with pytest.raises(ValueError, match="every network"):
        compress(model, data, "drop=50", **options)


def replace_head(given):
    ((trial,), *_) = given
    return replace(trial, head="vi")


def test_the_better_learning_rate_is_taken(model, data, tmp_path, monkeypatch):
    from vinets.search import halving as module

    monkeypatch.setattr(module, "RATES", (1e-6, 0.1))
    search = searching(model, data, "drop=1", tmp_path)
    search.prepare()
    for epochs in (search.rungs[0], search.epochs):
        assert search._with_rate(search.candidates[0], epochs).recipe.learning_rate == 0.1


class Named(str):
    """Stands for a candidate: a name that knows its name."""

    @property
    def name(self):
        return str(self)


@pytest.fixture
def decided(model, data, tmp_path, monkeypatch):
    """A search with a drop in which candidates have the sizes and accuracies that are told."""

    def told(reached, errors=None, drop=0.0, uncut=0.9):
        search = searching(model, data, f"drop={drop}", tmp_path)
        monkeypatch.setattr(type(search.setup), "accuracy", uncut)
        names = [Named(i) for i in range(len(reached))]
        facts = {
            name: Tried(name, Cost(1 + i), {2: right, 4: right}, error=(errors or reached)[i])
            for i, (name, right) in enumerate(zip(names, reached, strict=True))
        }
        search.known.costs = {"uncut": Cost(1_000)}
        monkeypatch.setattr(search, "tried", facts.__getitem__)
        return search, names

    return told


def test_those_near_the_limit_go_on_and_not_the_smallest(decided):
    """A long frontier was once cut off behind its smallest networks, which are hopeless."""
    search, names = decided([0.1 + 0.05 * i for i in range(16)])  # up to 0.85, and 0.9 is wanted
    assert sorted(search._best(names, 2), key=int) == names[-6:]


def test_what_is_larger_than_the_first_that_will_do_does_not_go_on(decided):
    search, names = decided([0.5 + 0.05 * i for i in range(10)])  # the ninth is at 0.9
    assert sorted(search._best(names, 2), key=int) == names[4:10]
    search, names = decided([0.92 + 0.001 * i for i in range(10)])
    assert sorted(search._best(names, 2), key=int) == names[:2]


def test_a_network_that_will_surely_do_is_chosen_unless_it_is_far_larger(decided):
    search, names = decided([0.85, 0.901, 0.904, 0.92], errors=[0.003] * 4)
    tried = [search.tried(name) for name in names]  # of sizes 1 to 4
    assert search.choose(tried) == (tried[2], True)
    assert search.choose(tried[:2]) == (tried[1], True)  # where none is sure
    assert search.choose([tried[1], tried[3]]) == (tried[1], True)
    assert search.choose(tried[:1]) == (tried[0], False)


def test_the_last_round_looks_for_the_smallest_and_a_safer_one(decided, monkeypatch):
    search, names = decided([0.5, 0.6, 0.7, 0.8, 0.901, 0.902, 0.904, 0.92], errors=[0.003] * 8)
    trained = []
    monkeypatch.setattr(search, "train", lambda ones, epochs: trained.extend(ones))
    monkeypatch.setattr(search, "_with_rate", lambda one, epochs: search.start)
    monkeypatch.setattr(search, "_points", lambda ones, epochs: [(int(n), int(n), n) for n in ones])
    monkeypatch.setattr(search, "rungs", [2])
    search.known.costs |= {name: Cost(1 + int(name)) for name in names}
    search._finals(names)
    assert set(trained) == {"3", "5", "4", "6"}


def test_the_error_is_that_of_answers_that_differ(found, model, data):
    _, compressed = found
    one = compressed.result.choice
    setup, _ = divided(model, data, None, device="cpu")
    ours = set(wrong_answers(compressed.net, setup.test, torch.device("cpu")))
    assert one.error == pytest.approx(len(ours ^ set(setup.wrong)) ** 0.5 / len(setup.test))


def test_latencies_of_another_batch_are_measured_anew(model, data, tmp_path, monkeypatch):
    from vinets.search import costs as module

    asked = []
    measure = module.measure_speed

    def timed(networks, example, *, batch_sizes, **more):
        asked.append(batch_sizes)
        return measure(networks, example, batch_sizes=batch_sizes, **more)

    monkeypatch.setattr(module, "measure_speed", timed)
    counts = []
    for budget in ("latency=90%@cpu", "latency=90%@cpu", "latency=90%@cpu,batch=8"):
        searching(model, data, budget, tmp_path).prepare()
        counts.append(len(asked))
    assert counts[0] == counts[1] < counts[2]
    assert set(asked[: counts[0]]) == {(1,)} and set(asked[counts[1] :]) == {(8,)}
    other = searching(model, data, "drop=1", tmp_path)
    other.prepare()  # what a pass of other budgets takes is not shown as if it were asked for
    assert all(cost.latency is None for cost in other.known.costs.values())


def test_a_device_that_is_not_here_is_refused(model, data, tmp_path):
    with pytest.raises(ValueError, match="no device 'pi' here"):
        searching(model, data, "latency=2ms@pi,batch=1", tmp_path).prepare()


def test_a_folder_of_0_2_is_gone_on_with(model, data, tmp_path):
    first = searching(model, data, "drop=3", tmp_path)
    first.prepare()
    path = tmp_path / "search.json"
    older = {"signals": {"relu1": {"ridge": 0.5}}, "machine": {"processor": "pi"}}
    write_json(path, read_json(path) | older)
    second = searching(model, data, "drop=3", tmp_path)
    second.prepare()
    assert second.known == first.known


def test_a_candidate_is_tried_once(model, data, tmp_path):
    search = searching(model, data, "drop=3", tmp_path)
    search.prepare()
    large, small = (one for one in search.candidates[:2])
    assert large.label == small.label and {large, small} <= set(search.feasible())
    search.known.costs[small.name] = search.known.costs[large.name]  # as if they were one size
    assert large in search.feasible() and small not in search.feasible()


def test_few_examples_to_choose_by_are_told_of(model, data):
    few = DataSplit("digits", data.train, data.test.subset(torch.arange(60)))
    options = OPTIONS | {"cuts": 1, "epochs": 1}
    (told,) = compress(model, few, "drop=1", **options).result.notes
    assert told.startswith("The choice rests on 30 validation examples: one of them is 3.3 points")
    assert compress(model, few, "drop=5", **options).result.notes == ()


def test_loaders_are_told_how_to_become_data(model, data):
    loader = DataLoader(TensorDataset(torch.zeros(4, 1, 8, 8), torch.arange(4)))
    for given in ((loader, loader), loader, DataSplit("mine", loader, data.test)):
        with pytest.raises(ValueError, match=r"must be a DataSplit of sources.*as_source\(train\)"):
            compress(model, given, "drop=3", **OPTIONS)
    with pytest.raises(ValueError, match="Pass its part train or test"):
        build(model, data, cut="pool")


def test_a_plan_says_that_nothing_is_within_the_budget(model, data, tmp_path):
    plan = searching(model, data, "params=10", tmp_path / "few").plan()  # 10% may have been meant
    assert str(plan).startswith("Nothing is within the budget, at most 10 parameters: these come")
    plan = searching(model, data, "params=10%", tmp_path / "enough").plan()
    assert str(plan).startswith("Trained in rounds") and not plan.unmet
