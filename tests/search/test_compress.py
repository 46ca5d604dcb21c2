"""A whole search on few digits, with a network that knows them, trained in earnest."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from vinets import build
from vinets.core.files import read_json
from vinets.core.plain import as_plain
from vinets.core.progress import Silent
from vinets.core.settings import SearchOptions
from vinets.data import DataSplit, digits
from vinets.export import EXPORT_FORMATS
from vinets.heads import VanishingHead
from vinets.latent import collect as latents
from vinets.measure import evaluate
from vinets.networks import CutNetwork
from vinets.runs.setup import wrong_answers
from vinets.search import compress, parse_budget
from vinets.search.budget import CostTable
from vinets.search.compress import divide, plan
from vinets.search.space import Space

OPTIONS = {"epochs": 4, "cuts": 1, "device": "cpu", "progress": None}
QUIET = {"device": "cpu", "progress": None}
INT8 = find_spec("onnxruntime") is not None and find_spec("onnxscript") is not None
module = sys.modules["vinets.search.compress"]  # vinets.search has a function of that name


@pytest.fixture(scope="module")
def found(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    before = {k: t.clone() for k, t in model.state_dict().items()}
    result = compress(model, data, "drop=3", out=folder, int8=INT8, **OPTIONS)
    assert all(t.equal(before[k]) for k, t in model.state_dict().items())
    return folder, result


def test_the_smallest_that_keeps_to_the_drop_is_chosen(found):
    result = found[1]
    chosen = result.choice
    assert chosen is not None and chosen.epochs == 4
    least = result.uncut.accuracy - 0.03
    good = [one for one in result.finished if one.accuracy >= least]
    assert result.met == bool(good)
    if good:
        size = min(one.cost.parameters for one in good)
        near = [one for one in good if one.cost.parameters <= 1.5 * size]
        sure = [one for one in near if one.accuracy - one.error >= least]
        assert chosen == min(sure or near, key=lambda one: one.cost.parameters)
    assert sum(p.numel() for p in result.network.parameters()) <= chosen.cost.parameters
    assert result.validation + result.tested == len(digits().test)
    heads = {one.candidate.head for one in result.attempts}
    assert heads >= {"products", "pooled", "relu-units"}


def test_what_is_saved_is_what_was_returned(found, data):
    folder, result = found
    loaded = CutNetwork.from_pretrained(folder).eval()
    inputs = data.test.example(20)
    with torch.no_grad():
        torch.testing.assert_close(loaded(inputs), result.network(inputs), rtol=1e-4, atol=1e-4)
    assert result.saved == str(folder)
    assert read_json(folder / "results.json") == as_plain(result)
    assert "Use it" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_finalists_are_tested_on_the_other_half_and_timed(found, model, data):
    _, result = found
    setup, final = divide(model, data, device="cpu")
    assert result.choice.test == pytest.approx(evaluate(result.network, final).accuracy)
    low, high = result.choice.interval
    assert low <= 100 * (result.choice.test - result.uncut.test) <= high
    ours = set(wrong_answers(result.network, setup.test, torch.device("cpu")))
    error = len(ours ^ set(setup.wrong)) ** 0.5 / len(setup.test)
    assert result.choice.error == pytest.approx(error)
    for one in (result.uncut, *result.finished):
        assert one.speed > 0 and one.latency > 0 <= one.spread and one.command


@pytest.mark.skipif(not INT8, reason="needs the extra 'onnx'")
def test_both_networks_are_measured_in_int8(found):
    result = found[1]
    whole, small = result.uncut.int8, result.choice.int8
    assert whole.cost.size < result.uncut.cost.size  # quarter the numbers, and the graph
    assert abs(whole.test - result.uncut.test) < 0.05
    assert whole.speed > 0 and whole.cost.latency == whole.latency > 0 and small.latency > 0
    names = [row.values["network"] for row in result.table.rows]
    assert names[:2] == ["uncut", "uncut, int8"] and f"{result.choice.label}, int8" in names
    others = [one for one in result.finished if one is not result.choice]
    assert all(one.int8 is None for one in others)


def test_the_same_call_goes_on_and_says_what_is_missing(found, model, data, monkeypatch):
    folder, result = found
    before = (folder / "trials.jsonl").read_bytes()
    monkeypatch.setattr(EXPORT_FORMATS["onnx-int8"], "packages", ("none_of_that_name",))
    monkeypatch.setattr(module, "BUSY_SPREAD", -1.0)
    again = compress(model, data, "drop=3", out=folder, **OPTIONS)
    assert again.chosen == result.chosen and again.uncut.int8 is None
    assert (folder / "trials.jsonl").read_bytes() == before
    assert 'pip install "vinets[onnx]"' in again.notes[0]
    assert again.notes[-1].startswith("The machine was busy while networks were timed: the speed")


def test_few_examples_to_choose_by_are_noted(found, model, data, monkeypatch):
    folder, _ = found
    monkeypatch.setattr(module, "MAX_EXAMPLE_POINTS", 0.01)
    for drop, noted in ((3, False), (0.1, True)):
        again = compress(model, data, f"drop={drop}", out=folder, int8=False, **OPTIONS)
        few = [note for note in again.notes if note.startswith("The choice rests on 225 valid")]
        assert bool(few) == noted


def test_other_examples_may_be_chosen_by(model, data):
    held, rest = data.test.subset(torch.arange(50)), data.test.subset(torch.arange(50, 150))
    split = DataSplit("digits", data.train, rest)
    setup, final = divide(model, split, 30, validation=held, device="cpu")
    assert (len(setup.train), len(setup.test), len(final)) == (30, 50, 100)


def test_loaders_are_told_how_to_become_data(model, data):
    loader = DataLoader(TensorDataset(torch.zeros(4, 1, 8, 8), torch.arange(4)))
    for given in ((loader, loader), loader, DataSplit("mine", loader, data.test)):
        with pytest.raises(ValueError, match=r"must be a DataSplit of sources.*as_source\(train\)"):
            compress(model, given, "drop=3", **OPTIONS)
    with pytest.raises(ValueError, match="Pass its part train or test"):
        build(model, data, cut="pool")


def test_a_plan_looks_at_few_examples_and_fits_no_ideals(model, data, monkeypatch):
    budget, options = parse_budget("macs=90%"), SearchOptions(epochs=4, cuts=1)
    table, seen = CostTable(), []
    table.measure(Space(divide(model, data, device="cpu")[0], 1, 0), budget, Silent())
    inner = latents.collect_latents

    def collect_latents(network, batches, **more):
        store = inner(network, batches, **more)
        seen.append(len(store))
        return store

    monkeypatch.setattr(latents, "collect_latents", collect_latents)
    monkeypatch.setattr(module, "PLANNED_ON", 50)
    monkeypatch.setattr(VanishingHead, "build", None)
    said = []
    planned = plan(model, data, budget, options, say=said.append, **QUIET)
    assert "of 50 test examples and" in said[0] and "of 50 training examples" in said[0]
    assert set(seen) == {20}  # one of each class, and one to score
    # the search trains on all of them, and the sizes are those that it will measure
    short = SearchOptions(epochs=4, cuts=1, limit=50)
    assert plan(model, data, budget, short, **QUIET).seconds < planned.seconds
    heads = set()
    for one in planned.candidates:
        heads.add(one.candidate.head)
        known, least = table.costs[one.name], 1 / 3 if one.candidate.head == "vanishing" else 1
        assert least * one.cost.parameters <= known.parameters <= one.cost.parameters
        assert least * one.cost.macs <= known.macs <= one.cost.macs
    assert {"vanishing", "products", "pooled"} <= heads
