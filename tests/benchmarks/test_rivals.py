"""Rivals are what they say, go on where they were stopped, and stand on the right frontier."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.rivals import speed
from benchmarks.rivals.figure import left_out, save
from benchmarks.rivals.frontier import COSTS, compared, frontier, frontier_table, name_of
from benchmarks.rivals.networks import network_of, parameters, pruned
from benchmarks.rivals.plan import PLANS, RECIPES, SIZES, TRIED, Rival, rival
from benchmarks.rivals.speed import entries, random_images, thread_rates, training_rates
from benchmarks.rivals.table import choice_table, rows, table
from benchmarks.rivals.train import (
    FOLDER,
    Call,
    OutOfTimeError,
    Result,
    RivalRecord,
    Until,
    carry_out,
)
from benchmarks.tuning import early, variants
from vinets.core.files import write_json
from vinets.core.plain import as_plain, changes, from_plain
from vinets.data import DataSplit
from vinets.models import create_model
from vinets.runs.setup import Setup
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import TrainingFacts, TrialResult

CPU = torch.device("cpu")
GIVEN = ("resnet18", "resnet34")
EVERY = [one for given in GIVEN for plan in PLANS.values() for one in plan(given, SIZES)]


def small(kind: str = "classic", **more) -> Rival:
    one = rival("resnet18", kind, **({"model": "resnet20"} if kind == "classic" else {}) | more)
    return replace(one, recipe=replace(one.recipe, epochs=2, batch_size=16, precision="float32"))


@pytest.fixture(scope="module")
def setup():
    torch.manual_seed(0)
    data = random_images(40, 10)
    model = create_model("resnet18", 10, width=0.125)  # stands for the given network
    return Setup("resnet18", model, DataSplit("noise", data, data), CPU)


def test_rivals_have_names_of_their_own_and_learn_for_equal_epochs():
    different = {json.dumps(changes(one)) for one in EVERY}
    assert len({one.name for one in EVERY}) == len(different)
    for one in EVERY:
        assert from_plain(Rival, json.loads(json.dumps(changes(one)))) == one
    trained = [one.recipe for one in EVERY if one.kind != "uncut"]
    assert {(recipe.epochs, recipe.distill) for recipe in trained} == {(24, 0.7)}


@pytest.mark.parametrize("size", SIZES)
def test_a_narrow_network_is_the_nearest_in_size(size):
    given = nn.Identity()
    found = parameters(network_of(rival("resnet18", "narrow", size=size), given, 10))
    channels = [parameters(create_model("resnet18", 10, width=c / 64)) for c in range(4, 65, 4)]
    assert min(channels, key=lambda count: abs(count - size)) == found


@pytest.mark.parametrize("scope", ["uniform", "global"])
def test_a_pruned_network_has_its_size_and_the_given_one_keeps_its_own(scope):
    pytest.importorskip("torch_pruning")
    torch.manual_seed(0)
    given = create_model("resnet18", 10, width=0.5)
    with torch.no_grad():  # half of the channels of a layer do nothing, so they are pruned first
        given.layer1[0].conv1.weight[::2] = 0
        given.layer1[0].bn1.weight[::2] = 0
        given.layer1[0].conv2.weight[:, ::2] = 0
    whole = parameters(given)
    less = pruned(given, 400_000, scope)
    assert abs(parameters(less) - 400_000) < 40_000 and parameters(given) == whole
    assert less.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    counts = [m.out_channels for m in less.modules() if isinstance(m, nn.Conv2d)]
    assert all(count % 4 == 0 for count in counts)
    kept = less.layer1[0].conv1.weight.flatten(1).norm(dim=1)
    assert len(kept) <= 16 and bool((kept > 0).all())
    same = pruned(given, 11_000_000, scope)  # it is small enough, and still a copy
    assert same is not given and parameters(same) == whole


class After(Until):
    """Time is over after four steps."""

    left = 4

    def advance(self, count: int = 1, note: str = "") -> None:
        self.left -= count
        if self.left < 0:
            raise OutOfTimeError


def call_in(folder: Path) -> Call:
    return Call({}, folder, folder / "lessons", "cpu", 1, float("inf"), "a command")


def test_a_rival_goes_on_where_its_time_was_over(setup, tmp_path):
    one = small()
    whole, parts = call_in(tmp_path / "whole"), call_in(tmp_path / "parts")
    carry_out(one, setup, whole, Until(float("inf")))
    with pytest.raises(OutOfTimeError):
        carry_out(one, setup, parts, After(float("inf")))  # two steps are an epoch
    assert parts.missing([one]) == [one] and any(parts.folder.rglob("checkpoint.safetensors"))
    carry_out(one, setup, parts, Until(float("inf")))
    assert parts.missing([one]) == [] and not any(parts.folder.rglob("checkpoint.safetensors"))
    results = [json.loads(call.path(one).read_text())["result"] for call in (whole, parts)]
    assert results[0] | {"seconds": 0} == results[1] | {"seconds": 0}
    assert results[0]["epochs"] == 2 and results[0]["parameters"] == 272_474
    uncut = small("uncut")  # is tested as it is
    carry_out(uncut, setup, whole, Until(float("inf")))
    result = json.loads(whole.path(uncut).read_text())["result"]
    assert result["accuracy"] == result["uncut"] == setup.accuracy and result["epochs"] == 0


def test_rows_are_means_over_seeds_with_the_speed_of_their_architecture(setup, tmp_path):
    call = call_in(tmp_path)
    for seed in (0, 1):
        carry_out(replace(small(), seed=seed), setup, call, Until(float("inf")))
    heads = ("products", "pooled")
    trials = [t for t in early(2) if t.network == "resnet18" and t.head in heads][:2]
    write_trials(tmp_path, trials + [t.change(seed=1) for t in trials])
    speeds = [
        {"architecture": name, "kind": "", "parameters": 1, "training": 500.0}
        | {"device": {"median": fast}, "cpu": {"median": 7.0}}
        for name, fast in (("resnet20", 100.0), ("resnet44", 50.0))
    ]
    write_json(tmp_path / "speed.json", {"given": "resnet18", "speeds": speeds})
    found = {row["network"]: row for row in rows([tmp_path])}
    classic, unknown = found["resnet20"], found["resnet44"]
    assert classic["seeds"] == 2 and classic["device"] == 100.0 and classic["cpu"] == 7.0
    assert classic["alone_seconds"] == 2 * 50_000 / 500 and "accuracy" not in unknown
    product, pooled = (
        next(row for name, row in found.items() if head in name) for head in ("products", "pooled")
    )
    assert product["accuracy"] == pytest.approx(90.5) and product["std"] == pytest.approx(0.5**0.5)
    assert (product["kind"], pooled["kind"]) == ("vi-net", "other head")
    assert product["device"] is None and product["epochs"] == 24 and product["recipe"] == ""
    text = table(rows([tmp_path]))
    assert "| resnet20 | classic | batch_size=16, precision=float32 | 2 | 2 |" in text
    write_json(tmp_path / "again.json", {"given": "resnet18", "speeds": speeds})
    with pytest.raises(ValueError, match="pass one of them"):
        rows([tmp_path])


def test_rates_of_a_thread_are_those_of_its_own_time():
    def work(busy: float, waits: float) -> nn.Module:
        def forward(image):
            end = time.thread_time() + busy
            while time.thread_time() < end:
                pass
            time.sleep(waits)  # as if another process had the core
            return image

        network = nn.Identity()
        network.forward = forward
        return network

    networks = {"quick": work(0.001, 0.0), "slow": work(0.004, 0.0), "disturbed": work(0.001, 0.01)}
    rates = thread_rates(networks, torch.zeros(1), repeats=3, seconds=0.02)
    assert all(len(found) == 3 for found in rates.values())
    quick, slow, disturbed = (max(found) for found in rates.values())
    assert quick <= 1000 and slow <= 250  # no pass takes less than its own time
    assert quick > 2 * slow and disturbed > 2 * slow


def test_parts_of_the_speed_lie_in_files_that_meet_in_one_row(monkeypatch, tmp_path):
    def few(*_):
        network = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
        return [speed.Entry("classic", "resnet20", network, lambda data: len(data) / 500)]

    monkeypatch.setattr(speed, "entries", few)
    more = {"weights": None, "trials": [], "sizes": [], "device": CPU, "batch": 2, "steps": 1}
    windows = {"repeats": 1, "seconds": 0.001}
    for parts in (["cpu"], ["device", "training"]):
        options = more | {"windows": windows, "formats": {}, "command": "", "out": tmp_path}
        speed.measure("resnet18", parts=parts, **options)
    names = {f"speed-resnet18-{part}.json" for part in speed.PARTS}
    assert {path.name for path in tmp_path.iterdir()} == names
    (found,) = rows([tmp_path])
    assert found["cpu"] > 0 and found["device"] > 0 and found["parameters"] == 30_730
    (record,) = json.loads((tmp_path / "speed-resnet18-training.json").read_text())["speeds"]
    assert record["training"] == pytest.approx(500)


@pytest.mark.slow
def test_every_network_can_be_timed_and_trained(tmp_path):
    torch.manual_seed(0)
    few = random_images(160, 10)
    whole = Setup("resnet18", create_model("resnet18", 10), DataSplit("noise", few, few), CPU)
    trials = [t for t in early(1) if t.cut == "layer1.1.bn2"]
    made = entries("resnet18", None, trials, [400_000], whole)
    kinds = [one.kind for one in made if one.kind != "pruned"]
    assert kinds == ["tuned", *3 * ["classic"], "narrow", *5 * ["other head"], "vi-net"]
    images = few.example(2)
    assert all(one.network(images).shape == (2, 10) for one in made)
    some = [one for one in made if one.kind in ("narrow", "vi-net")]
    rates = training_rates(some, few.subset(torch.arange(8)), rounds=1)
    assert set(rates) == {one.architecture for one in some} and min(rates.values()) > 0


BY_KEY = {cost.key: cost for cost in COSTS}


def write(folder, one, accuracy, parameters=1000):
    epochs = 0 if one.kind == "uncut" else one.recipe.epochs
    result = Result(accuracy, 0.93, parameters, "", 0.1, epochs, None, 9.0)
    record = as_plain(RivalRecord(one, result, "", 1, {"gpu": "G", "torch": "T"}))
    write_json(folder / FOLDER / f"{one.name}.json", record | {"rival": changes(one)})


def write_trials(folder, trials):
    for trial in trials:
        size = {"backbone": len(trial.cut) * 1000 + 10 * len(trial.head)}
        facts = TrainingFacts(0.9 + trial.seed / 100, 0.93, 0.9, 0.1, size, 12.0)
        Store(folder).write(TrialRecord(trial, TrialResult(training=facts), {"torch": "T"}))


@pytest.mark.parametrize("key", ["parameters", "cpu"])
def test_the_frontier_is_what_no_other_beats(key):
    draw, cost = random.Random(0), BY_KEY[key]
    rows = [
        {"epochs": 24, "accuracy": draw.randint(80, 95), key: draw.randint(1, 40)} for _ in "x" * 60
    ]

    def beats(one, other):
        gain = one[key] - other[key] if cost.more else other[key] - one[key]
        better = one["accuracy"] - other["accuracy"]
        return gain >= 0 and better >= 0 and (gain > 0 or better > 0)

    # Longer training and unknown costs are no part of it.
    others = [{"epochs": e, "accuracy": 99.0, key: known} for e, known in ((100, 1), (24, None))]
    found = frontier([*rows, *others, {"kind": "classic", key: 1}], cost)
    places = {(row[key], row["accuracy"]) for row in found}
    assert len(places) == len(found) > 2
    for row in rows:
        is_best = not any(beats(other, row) for other in rows)
        assert ((row[key], row["accuracy"]) in places) == is_best


def test_planned_recipes_stand_beside_each_other_with_speeds_of_two_machines(tmp_path):
    usual = rival("resnet18", "classic", model="resnet20")
    write(tmp_path, usual, 0.90)
    write(tmp_path, replace(usual, recipe=replace(usual.recipe, learning_rate=0.017)), 0.99)
    base = {"architecture": "resnet20", "kind": "classic", "parameters": 1000}
    for part, value in (("device", {"median": 70.0}), ("cpu", {"median": 7.0}), ("training", 500)):
        speeds = [base | {part: value}]
        write_json(tmp_path / f"{part}.json", {"given": "resnet18", "speeds": speeds})
    found = compared([tmp_path])
    assert [row["accuracy"] for row in found if row["kind"] == "classic"] == [pytest.approx(90)]
    rows = {row["kind"]: row for row in found if row["network"] == "resnet20"}
    assert rows["classic"]["device"] == 70.0 and rows["classic"]["cpu"] == 7.0
    assert rows["classic"]["alone_seconds"] == 24 * 50_000 / 500
    assert rows["public"]["cpu"] == 7.0 and rows["public"].get("alone_seconds") is None


def test_no_recipe_is_better_on_held_out_images_by_more_than_chance():
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "rivals" / "held"
    table, _ = choice_table(folder)
    means = {kind: Counter() for kind in PLANS}
    for row in table.rows:
        kind = TRIED[row.values["network"]][0].kind
        for label, value in row.values.items():
            if label.startswith("learning rate"):
                means[kind][float(label.rpartition(" ")[2])] += value
    for kind in ("classic", "narrow"):
        apart = max(means[kind].values()) - means[kind][RECIPES[kind].learning_rate]
        assert apart < (0.4**2 + 0.7**2) ** 0.5  # one standard error of such a sum


def test_the_table_names_the_costs_of_the_frontier(tmp_path):
    write(tmp_path, rival("resnet18", "pruned", size=SIZES[0]), 0.85, 900)
    write(tmp_path, rival("resnet18", "pruned", size=SIZES[1]), 0.84, 950)
    rows = {row.values["name"]: row.values for row in frontier_table(compared([tmp_path])).rows}
    assert rows["pruned, uniform, 0.15M"]["frontier"] == "parameters"
    assert rows["pruned, uniform, 0.40M"]["frontier"] == ""
    assert rows["ResNet-20, public"]["frontier"] == ""  # 200 epochs


def test_pictures_show_what_is_there(tmp_path):
    pytest.importorskip("matplotlib")
    for plan in ("uncut", "classic", "narrow", "pruned"):
        for i, one in enumerate(PLANS[plan]("resnet18", SIZES)):
            write(tmp_path, one, 0.5 if one.size == SIZES[0] else 0.9 + i / 1000, 2000 + 100 * i)
    write_trials(tmp_path, [t for t in (*early(2), *variants(seeds=2)) if t.network == "resnet18"])
    found = compared([tmp_path])
    (picture,) = save(found, tmp_path / "images")
    text = picture.read_text()
    shown = ("In place of ResNet-18", "layer2.1", "Torch-Pruning", "public ResNet-20, 32, 44")
    assert all(part in text for part in shown)
    assert "parameters, millions" in text and "images/s" not in text  # no speed is known
    below = {name_of(row) for row in left_out(found)}
    assert below == {"narrow, 0.15M", "pruned, uniform, 0.15M", "pruned, global, 0.15M"}
    again = save(found, tmp_path / "again")[0]
    assert again.read_bytes() == picture.read_bytes()
