"""The rivals are what they say, go on where they were stopped, and are put into rows by seeds."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.rivals import speed
from benchmarks.rivals.networks import network_of, parameters, pruned
from benchmarks.rivals.plan import PLANS, SIZES, Rival, rival
from benchmarks.rivals.speed import entries, random_images, thread_rates, training_rates
from benchmarks.rivals.table import rows, table
from benchmarks.rivals.train import Call, OutOfTimeError, Until, carry_out
from benchmarks.tuning import early
from vinets.core.files import write_json
from vinets.core.plain import changes, from_plain
from vinets.data import DataSplit
from vinets.models import create_model
from vinets.runs.setup import Setup
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import TrainingFacts, TrialResult

CPU = torch.device("cpu")
EVERY = [
    one
    for given in ("resnet18", "resnet34")
    for plan in PLANS.values()
    for one in plan(given, SIZES)
]


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
    trials += [t.change(seed=1) for t in trials]
    for trial in trials:
        facts = TrainingFacts(0.9 + trial.seed / 100, 0.93, 0.9, 0.1, {"backbone": 9}, 12.0)
        Store(tmp_path).write(TrialRecord(trial, TrialResult(training=facts), {}))
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
