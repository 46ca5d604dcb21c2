"""Cards of pretrained networks are made from measured facts, and from nothing else."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import pretrained as maker
from vinets import CutNetwork, pretrained
from vinets.core.settings import RECIPES
from vinets.models import digits_cnn, save_weights
from vinets.networks.storage import WEIGHTS
from vinets.runs.store import Store


@pytest.mark.parametrize("name", pretrained.names())
def test_cards_tell_the_facts(name):
    folder = pretrained.find(name)
    assert (folder / "README.md").read_text() == maker.card(name, pretrained.facts(name))


def test_each_network_to_be_made_belongs_to_a_recipe():
    for made in maker.NETWORKS.values():
        assert RECIPES[made.recipe].model == made.trial.network
    for name in pretrained.names():  # made by another command, or again by this one
        words = pretrained.facts(name)["command"].split()
        if "benchmarks.pretrained" in words:
            assert name.removeprefix(pretrained.PREFIX) in words and words[4] in maker.NETWORKS


def test_commands_are_kept_without_paths(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "recipe", "--data", "cifar10:/a/b", "--out", "/c/d"])
    assert maker._command().endswith("pretrained recipe --data cifar10:b --out d")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Nothing in the package, and a recipe and a network that take seconds."""
    pytest.importorskip("PIL.Image")
    here = tmp_path / "pretrained"
    here.mkdir()
    (here / pretrained.RECIPES).write_text("{}")
    monkeypatch.setattr(pretrained, "HERE", here)
    pretrained._cards.cache_clear()
    short = replace(RECIPES["digits-cnn"].recipe, epochs=2)
    monkeypatch.setitem(RECIPES, "digits-cnn", replace(RECIPES["digits-cnn"], recipe=short))
    made = maker.NETWORKS["digits-cnn-products"]
    quick = made.trial.change(epochs=1, seconds=0.01, repeats=1)
    monkeypatch.setitem(maker.NETWORKS, "digits-cnn-products", replace(made, trial=quick))
    maker.train("digits-cnn", "digits", tmp_path / "uncut", 1, "cpu")
    yield tmp_path
    pretrained._cards.cache_clear()


@pytest.fixture
def run(elsewhere, monkeypatch):
    """A function that takes a step with some weights, and returns the facts and the card."""

    def run(step, weights):
        words = ("--weights", weights, "--out", elsewhere / "vinets", "--device", "cpu")
        line = ["x", step, "digits-cnn-products", *map(str, words)]
        monkeypatch.setattr(sys, "argv", line)
        assert maker.main() == 0
        card = (pretrained.HERE / "digits-cnn-products" / "README.md").read_text()
        return pretrained.facts("vinets/digits-cnn-products"), card

    return run


def test_a_network_is_made_stored_and_measured(elsewhere, run):
    """From nothing to a name that opens, in a folder of its own."""
    assert pretrained.expected("digits-cnn")["examples"] == 449
    facts, card = run("network", elsewhere / "uncut" / "digits-cnn-0")
    assert 0 < facts["accuracy"] <= 1 and facts["bytes"] < 20_000
    assert CutNetwork.from_pretrained("vinets/digits-cnn-products").record.cut == "relu1"
    assert "trained by `vinets train --recipe digits-cnn`, was cut" in card
    assert facts["command"] in card and "network digits-cnn-products" in facts["command"]


def test_what_was_trained_elsewhere_is_stored_with_where_and_how(elsewhere, run):
    """Of weights that are no recipe's, too."""
    weights = elsewhere / "given.safetensors"
    weights.write_bytes((elsewhere / "uncut" / "digits-cnn-0" / WEIGHTS).read_bytes())
    run("network", weights)
    file = Store(elsewhere / "vinets" / "digits-cnn-products").path
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (there,) = (line for line in lines if "train" in line["name"])
    there["machine"] |= {"gpu": "A GPU That Is Not Here", "torch": "2.6.7"}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    facts, card = run("store", weights)
    assert facts["trained_on"] == there["machine"] != facts["timed_on"]
    assert " network " in facts["command"]
    assert "on A GPU That Is Not Here with torch 2.6.7" in card
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert f"with the weights of `given.safetensors` (SHA-256 `{digest}`" in card
    # of other weights than those it was trained with
    other = elsewhere / "uncut" / "other.safetensors"
    save_weights(digits_cnn(), other)
    with pytest.raises(ValueError, match="holds results of uncut with other weights"):
        run("store", other)
    file.unlink()
    with pytest.raises(ValueError, match="does not hold the network that is to be stored"):
        run("store", weights)


def test_the_uncut_network_is_measured_where_it_lies(elsewhere, monkeypatch):
    """Were it moved, it could not be tested on images that lie on a GPU."""
    moved = []

    def apply(module, function, *rest):
        moved.append(module)
        return move(module, function, *rest)

    weights, out = elsewhere / "uncut" / "digits-cnn-0", elsewhere / "vinets"
    setup = maker._open("digits-cnn-products", "digits", weights, "cpu")
    trial = maker.NETWORKS["digits-cnn-products"].trial
    how = {"device": "cpu", "command": ("a", "command"), "progress": None}
    maker.compare_heads(setup.model, setup.data, trial, out, **how)
    move = torch.nn.Module._apply
    monkeypatch.setattr(torch.nn.Module, "_apply", apply)
    maker.store("digits-cnn-products", setup, weights, out)
    assert moved and not any(module is setup.model for module in moved)
