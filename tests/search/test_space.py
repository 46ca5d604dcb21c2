"""Which cuts and heads are tried, and the trials and commands that they mean."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from vinets.latent.cut import cut_points
from vinets.models import digits_cnn, resnet18
from vinets.search import Candidate, CommandWords
from vinets.search import space as spaces
from vinets.search.compress import divide
from vinets.search.space import Space, candidates_at, choose_cuts, positions


@pytest.fixture(scope="module")
def space(data):
    setup, _ = divide(digits_cnn(), data, 100, device="cpu")
    return Space(setup, cuts=2, seed=3)


def test_cuts_differ_in_cost_and_save_something():
    model = resnet18(10)
    whole = sum(p.numel() for p in model.parameters())
    points = cut_points(model, torch.zeros(1, 3, 32, 32))
    chosen = choose_cuts(points, whole, 8)
    assert len(chosen) == 8
    macs = [point.macs for point in chosen]
    assert macs == sorted(set(macs))
    assert macs[-1] > 4 * macs[0]  # from early to late
    assert all(p.parameters < 0.9 * whole or p.macs < 0.9 * points[-1].macs for p in chosen)
    # one in every stage at least, and none on a branch next to the blocks
    assert {point.name[:6] for point in chosen} >= {f"layer{i}" for i in (1, 2, 3, 4)}
    assert not any("downsample" in point.name for point in choose_cuts(points, whole, 99))
    # a block counts with its sum, not with the convolution that it ends with
    every = choose_cuts(points, whole, 99)
    assert {"layer1.0", "layer1", "layer2.0"} <= {point.name for point in every}


def test_heads_of_both_kinds_are_tried_and_no_linear_one_that_is_too_large():
    points = {p.name: p for p in cut_points(digits_cnn(), torch.zeros(1, 1, 8, 8))}
    candidates = candidates_at(points["relu1"], 103_466, 10, 32_000)
    assert {"products", "relu-units", "pooled"} <= {one.head for one in candidates}
    assert len({one.name for one in candidates}) == len(candidates)
    few = candidates_at(points["relu1"], 20_000, 10, 32_000)
    assert "linear" not in {one.head for one in few}
    plain = {one.head for one in candidates if not one.polynomial}
    assert plain <= {"relu-units", "pooled", "linear"}


def test_units_on_a_large_map_multiply_no_more_than_the_cut_saves():
    model, images = resnet18(10), torch.zeros(1, 3, 160, 160)
    points = cut_points(model, images)
    early = next(point for point in points if point.name == "layer1.0")
    assert positions(early, images) == 80 * 80
    saved = points[-1].macs - early.macs
    most = saved // positions(early, images)
    candidates = candidates_at(early, sum(p.numel() for p in model.parameters()), 10, most)
    units = [one.parameters for one in candidates if one.head in ("products", "relu-units")]
    assert len(units) == 4 and max(units) == most < 500_000  # which they get on a small map
    assert positions(replace(early, shape=(40, 40, 64)), images) == 40 * 40  # channels are last
    assert positions(replace(early, shape=(197, 192)), images) == 197  # tokens
    assert positions(replace(early, shape=(64,)), images) == 1


def test_a_network_without_a_cut_that_saves_anything_is_refused(data):
    whole = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    setup, _ = divide(whole, data, 100, device="cpu")
    with pytest.raises(ValueError, match=r"no cut would save anything.*vinets cuts --all"):
        Space(setup, cuts=2, seed=3)


def test_a_candidate_becomes_a_trial(space):
    assert len(space.setup.train) == 100 and len(space.cuts) == 2
    trial = space.trial(space.candidates[0], 5, 0.02)
    recipe = trial.recipe
    assert (trial.cut, recipe.epochs, trial.seed) == (space.cuts[0].name, 5, 3)
    assert (recipe.trained, recipe.batch_size, recipe.learning_rate) == ("backbone", 64, 0.02)
    assert not trial.save and not trial.checkpoints
    last = space.trial(space.candidates[0], 5, 0.02, "finalists/0")
    assert last.save == "finalists/0" and last.checkpoints
    names = {space.trial(one, 5, 0.1).name for one in space.candidates}
    assert len(names) == len(space.candidates)


def test_networks_are_built_behind_their_cuts_and_steps_are_timed(space, monkeypatch):
    some = [one for one in space.candidates if one.head in ("products", "pooled")]
    built, example = dict(space.networks(some)), space.setup.test.example(3)
    assert set(built) == set(some)
    assert all(network(example).shape == (3, 10) for network in built.values())
    seconds, memory = space.cost_per_example(some[-1])
    assert seconds > 0 and memory == 0
    monkeypatch.setattr(spaces, "SLOW_SECONDS", 0)
    _, memory = space.cost_per_example(some[-1])
    assert memory > 64 * 8 * 8 * 4  # the images of a step alone


@pytest.mark.parametrize("head", ["products", "relu-units", "vanishing"])
def test_a_command_names_the_head_and_what_changes_a_result(space, head):
    one = next(one for one in space.candidates if one.head == head)
    words = CommandWords("base", ("--data", "digits"), ("--no-flip",), ("--device", "cpu"), "out")
    command = space.command(words, one, 5, 0.02, limit=50)
    pairs = dict(pairwise(command))
    assert command[:4] == ("vinets", "build", "base", "--data") and "--no-flip" in command
    assert (pairs["--cut"], pairs["--epochs"], pairs["--learning-rate"]) == (one.cut, "5", "0.02")
    assert (pairs["--limit"], pairs["--seed"], pairs["--device"]) == ("50", "3", "cpu")
    assert pairs["--head"] == head
    assert pairs["--out"].startswith("out/repeated/") and pairs["--out"].endswith("-5")


def test_a_cut_whose_name_is_a_number_is_named_by_its_index(data):
    first = nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU())
    layers = nn.Conv2d(4, 8, 3), nn.Conv2d(8, 32, 3), nn.Flatten(), nn.Linear(512, 10)
    model = nn.Sequential(first, *layers)
    setup, _ = divide(model, data, 100, device="cpu")
    space = Space(setup, cuts=1, seed=0)
    (point,) = space.cuts
    assert point.name.isdecimal() and point.name != str(point.index)
    command = space.command(CommandWords(), Candidate(point.name, "pooled", 99), 5, 0.1)
    pairs = dict(pairwise(command))
    assert pairs["--cut"] == str(point.index) and "--seed" not in command
    assert (pairs["build"], pairs["--data"], pairs["--head"]) == ("MODEL", "DATA", "pooled")


def test_commands_of_int8_name_the_network_that_was_saved():
    data = ("--data", "d", "--weights", "w", "--model-option", "a=1", "--model-option", "b=2")
    words = CommandWords("net.py:Net", data, ("--no-flip",), out="o", saved="o@net.py:Net")
    assert words.evaluate() == ("vinets", "evaluate", "net.py:Net", *data)
    assert {"net.py:Net", "--weights"} <= set(words.quantize(uncut=True, seed=0))
    small = words.quantize(uncut=False, seed=7)
    assert small[:3] == ("vinets", "export", "o@net.py:Net") and ("--seed", "7") in pairwise(small)
    # A folder has its weights and options.
    assert not {"--weights", "--model-option", "a=1", "b=2", "--no-flip"} & {*small}
