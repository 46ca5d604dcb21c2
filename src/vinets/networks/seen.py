"""Keep networks from being tested on the examples that they were trained on."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from vinets.core.tensors import facts_of
from vinets.data import DataSplit, Source
from vinets.data.digest import examples_digest, identify
from vinets.models.facts import remember_training, trained_on
from vinets.models.weights import load_weights

NOTE = "trained_on"  # in a file of weights


def remember_examples(network: nn.Module, source: Source) -> None:
    """Note that a network was trained on these examples, too."""
    remember_training(network, trained_on(network, then=examples_digest(source)))


def load_trained(model: nn.Module, path: str | Path) -> None:
    """Load weights, and what their file says about the training data."""
    remember_training(model, facts_of(load_weights(model, path), NOTE))


def refuse_seen(name: str, network: nn.Module, tested: DataSplit | Source) -> None:
    """Raise if a network was trained on what it is to be tested on, as far as digests tell."""
    known = trained_on(network)
    if not known:
        return
    test = tested.test if isinstance(tested, DataSplit) else tested
    assert isinstance(test, Source)
    if known.get("training") and known["training"] == examples_digest(test):
        raise ValueError(
            f"{name} was trained on these examples. Pass examples that it was not trained on, or "
            'part="train" to measure on these.'
        )
    if not isinstance(tested, DataSplit) or "content" not in known:
        return
    if known.get("examples"):
        same = known["examples"] == examples_digest(tested.train, test)
    else:  # an earlier release wrote no digest of the examples in any order
        sizes = [known.get("train"), known.get("test")]
        same = known.get("name") == tested.name and sizes == [len(tested.train), len(test)]
    if same and known["content"] != identify(tested):
        raise ValueError(
            f"{name} was trained on another split of {tested.name}. Pass the split_seed "
            "(--split-seed) of its training, or data that it was not trained on."
        )
