"""Which examples a network was trained on, so that it is not tested on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from vinets.data import DataSplit, Source
from vinets.data.content import identify, in_memory, joined, share_seen, sketch
from vinets.models.weights import load_weights
from vinets.nn.network import Record
from vinets.tensors import facts_of, read_header

MOST_SEEN = 0.05  # of a test part; a few duplicates are in many collections of images
NOTE = "trained_on"  # in a file of weights

_known: WeakKeyDictionary[nn.Module, dict[str, Any]] = WeakKeyDictionary()


def trained_on(network: nn.Module) -> dict[str, Any] | None:
    """What is known of the examples that a network was trained on.

    These are plain values of :class:`vinets.pipeline.setup.DataFacts`, or the marks alone.
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


def marks_of(network: nn.Module) -> str:
    """Marks of the examples that a network was trained on, as ``data.content.sketch`` gives."""
    seen = (trained_on(network) or {}).get("seen")
    return seen if isinstance(seen, str) else ""


def also_trained_on(network: nn.Module, source: Source) -> dict[str, Any] | None:
    """What is to be known of a network once it was trained on these examples, too."""
    known, before = trained_on(network), marks_of(network)
    if not in_memory(source):  # looking at all of them could take minutes
        return known
    seen = joined(before, sketch(source))
    return known if seen == before else {"seen": seen}


def remember_examples(network: nn.Module, source: Source) -> None:
    """Note that a network was trained on these examples, too."""
    remember(network, also_trained_on(network, source))


def load_trained(model: nn.Module, path: str | Path) -> None:
    """Load weights, and what their file says about the training data."""
    load_weights(model, path)
    remember(model, facts_of(read_header(path).notes, NOTE))


def refuse_seen(name: str, network: nn.Module, tested: DataSplit | Source) -> None:
    """Raise if a network was trained on what it is to be tested on, as far as is known."""
    known = trained_on(network)
    if known is None:
        return
    split = tested if isinstance(tested, DataSplit) else None
    test = split.test if split is not None else tested
    assert isinstance(test, Source)
    if marks := marks_of(network):
        share = share_seen(test, marks)
        if share <= MOST_SEEN:
            return
        reason = f"it has seen about {share:.0%} of the test part"
        if split is None:
            raise ValueError(
                f"{name} has seen about {share:.0%} of these examples in its training. Pass "
                'examples that it was not trained on, or part="train" to measure on these.'
            )
    elif split is None or known.get("name") != split.name:
        return  # an earlier release kept no marks of the examples: nothing can be told
    else:
        reason = f"it was trained on other content under the name {split.name}"
    if known.get("content") != identify(split):  # its own split, which may hold duplicates
        raise ValueError(
            f"{name} was trained on another split of {split.name}: {reason}. Pass the split_seed "
            "(--split-seed) of its training, or data that it was not trained on."
        )
