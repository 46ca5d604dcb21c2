"""Cards of pretrained networks are made from measured facts, and from nothing else."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from benchmarks import pretrained as maker
from vinets import VINet, pretrained
from vinets.settings import RECIPES


@pytest.mark.parametrize("name", pretrained.names())
def test_cards_tell_what_the_registry_knows(name):
    folder = pretrained.find(name)
    assert (folder / "README.md").read_text() == maker.card(name, pretrained.facts(name))


def test_each_network_to_be_made_belongs_to_a_recipe():
    for made in maker.NETWORKS.values():
        assert RECIPES[made.recipe].model == made.trial.network
    known = {pretrained.PREFIX + name for name in maker.NETWORKS}
    assert set(pretrained.names()) <= known


def test_commands_are_kept_without_paths(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "recipe", "--data", "cifar10:/a/b", "--out", "/c/d"])
    assert maker._command().endswith("pretrained recipe --data cifar10:b --out d")


def test_a_network_is_made_stored_and_measured(tmp_path, monkeypatch):
    """From nothing to a name that opens, in a folder of its own."""
    pytest.importorskip("PIL.Image")
    here = tmp_path / "pretrained"
    here.mkdir()
    for file in (pretrained.REGISTRY, pretrained.RECIPES):
        (here / file).write_text("{}")
    monkeypatch.setattr(pretrained, "HERE", here)
    pretrained._registry.cache_clear()
    short = replace(RECIPES["digits-cnn"].recipe, epochs=2)
    monkeypatch.setitem(RECIPES, "digits-cnn", replace(RECIPES["digits-cnn"], recipe=short))
    made = maker.NETWORKS["digits-cnn-best"]
    quick = made.trial.change(epochs=1, seconds=0.01, repeats=1)
    monkeypatch.setitem(maker.NETWORKS, "digits-cnn-best", replace(made, trial=quick))
    maker.train("digits-cnn", "digits", tmp_path / "uncut", 1, "cpu")
    assert pretrained.expected("digits-cnn")["examples"] == 449
    weights = tmp_path / "uncut" / "digits-cnn-0"
    maker.make("digits-cnn-best", "digits", weights, tmp_path / "vinets", "cpu")
    try:
        facts = pretrained.facts("vinets/digits-cnn-best")
        assert 0 < facts["accuracy"] <= 1 and facts["bytes"] < 20_000
        assert VINet.from_pretrained("vinets/digits-cnn-best").record.cut == "relu1"
        assert (here / "digits-cnn-best" / "README.md").is_file()
    finally:
        pretrained._registry.cache_clear()
