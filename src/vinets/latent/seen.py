"""Which examples a network was trained on, so that it is not tested on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from vinets.core.tensors import facts_of, read_header
from vinets.data import DataSplit, Source
from vinets.data.digest import examples_digest, identify
from vinets.models.records import Record
from vinets.models.weights import load_weights

NOTE = "trained_on"  # in a file of weights

_known: WeakKeyDictionary[nn.Module, dict[str, Any]] = WeakKeyDictionary()


def trained_on(network: nn.Module) -> dict[str, Any] | None:
    """What is known of the examples that a network was trained on.

    These are plain values of :class:`vinets.runs.setup.DataFacts`, or the digest of its last
    training examples alone.
    """
    record = getattr(network, "record", None)
    return record.data if isinstance(record, Record) else _known.get(network)


def remember(network: nn.Module, facts: Any) -> None:
    """Note what a network was trained on; what is no object, of a file perhaps, is nothing."""
    if not isinstance(facts, Mapping):
        return
    record = getattr(network, "record", None)
    if isinstance(record, Record):
        changed: Any = network
        changed.record = replace(record, data=dict(facts))
    else:
        _known[network] = dict(facts)


def also_trained_on(network: nn.Module, source: Source) -> dict[str, Any] | None:
    """What is to be known of a network once it was trained on these examples, too."""
    known, found = trained_on(network), examples_digest(source)
    return {**(known or {}), "training": found} if found else known


def remember_examples(network: nn.Module, source: Source) -> None:
    """Note that a network was trained on these examples, too."""
    remember(network, also_trained_on(network, source))


def load_trained(model: nn.Module, path: str | Path) -> None:
    """Load weights, and what their file says about the training data."""
    load_weights(model, path)
    remember(model, facts_of(read_header(path).notes, NOTE))


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
    else:  # of an earlier release, which had no digest of the examples in any order
        sizes = [known.get("train"), known.get("test")]
        same = known.get("name") == tested.name and sizes == [len(tested.train), len(test)]
    if same and known["content"] != identify(tested):
        raise ValueError(
            f"{name} was trained on another split of {tested.name}. Pass the split_seed "
            "(--split-seed) of its training, or data that it was not trained on."
        )
