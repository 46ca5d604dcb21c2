"""An uncut network with its data on a device, and what identifies both."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vinets.core.device import call, evaluating, logits_of
from vinets.core.plain import as_plain
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import SampleOptions
from vinets.core.tensors import digest, fingerprint
from vinets.data import DataSplit, ImageSource, Source, load_data
from vinets.data.digest import examples_digest, identify
from vinets.data.source import choose_per_class, require_split
from vinets.measure.doubt import warn_of_low_accuracy
from vinets.models import channel_options, create_model
from vinets.models.facts import input_fields, trained_on
from vinets.models.libraries.file import code_of
from vinets.networks.seen import load_trained, refuse_seen
from vinets.training.lessons import Lessons

CHUNK = 2_000  # examples at once where nothing is trained


@dataclass(frozen=True)
class Origin:
    """The command that started a run, and what accuracy to expect of its network."""

    command: tuple[str, ...] = ()  # that started it
    stated: float | None = None  # accuracy of the uncut network when it was saved


@dataclass(frozen=True)
class Identity:
    """Digests of the network and the data that results belong to."""

    weights: str  # digest of every number of the uncut network
    data: str  # digest of every example and label, training and test part
    preprocessing: str = ""  # of images, where that is not the data's own way
    form: str = ""  # digest of names, dtypes and shapes; stores of earlier releases have none
    code: str = ""  # digest of the file of an own network; earlier releases wrote none

    @classmethod
    def of(cls, model: nn.Module, data: DataSplit) -> Identity:
        """Return what identifies the results of a network on this data."""
        state = [(k, str(t.dtype), list(t.shape)) for k, t in model.state_dict().items()]
        fields = [input_fields(part.example()) for part in (data.train, data.test) if len(part)]
        sizes = [len(data.train), len(data.test)]
        return cls(
            fingerprint(model.state_dict().values()),
            identify(data),
            data.reading,
            # fingerprint leaves names and shapes out
            digest((), [state, fields, sizes, list(data.train.classes)]),
            code_of(model),
        )

    def differences(self, now: Identity) -> list[str]:
        """List what differs, in words; what an earlier release did not write does not count."""
        names = ["weights", "data", "preprocessing", *(["code"] if self.code else [])]
        differ = [name for name in names if getattr(self, name) != getattr(now, name)]
        # other weights and data have other shapes as a rule, which would say nothing new
        return differ or (["shapes"] if self.form and self.form != now.form else [])


@dataclass(frozen=True)
class DataFacts:
    """A data set and its split: name, sizes of both parts, and what is in them."""

    name: str
    train: int
    test: int
    content: str  # digest of both parts
    examples: str = ""  # digest of the examples of both parts, in any order
    training: str = ""  # and of those of the training part

    @classmethod
    def of(cls, data: DataSplit) -> DataFacts:
        """What is known of ``data``."""
        sizes = len(data.train), len(data.test)
        digests = examples_digest(data.train, data.test), examples_digest(data.train)
        return cls(data.name, *sizes, identify(data), *digests)


class Setup:
    """An uncut network and its data on a device; ``name`` is that by which trials name it.

    The network is moved to ``device`` and set to eval mode. Images lie on the device, too, where
    they are augmented.
    """

    def __init__(self, name: str, model: nn.Module, data: DataSplit, device: torch.device) -> None:
        require_split("Setup", data)
        self.name, self.data, self.device = name, data, device
        self.model = model.to(device).eval()
        self.train, self.test = (
            part.to(device) if isinstance(part, ImageSource) else part
            for part in (data.train, data.test)
        )
        self._parts: dict[SampleOptions, Setup] = {}
        self._unseen = False  # whether this was looked at
        self._whole: Setup | None = None  # where this is a part of the data

    @cached_property
    def identity(self) -> Identity:
        """Digests of the network and its data, kept with results."""
        return Identity.of(self.model, self.data)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts about all its data, for networks that are trained on it, as plain values."""
        if self._whole is not None:
            return self._whole.facts
        known = trained_on(self.model) or {}
        # The uncut network knows more of the same data where a part of it is used here.
        whole = known.get("name") == self.data.name and known.get("examples")
        return known if whole else as_plain(DataFacts.of(self.data))

    def refuse_seen(self) -> None:
        """Raise if the network was trained on what is the test part here."""
        if not self._unseen:
            refuse_seen(self.name, self.model, self.data)
        self._unseen = True  # a search asks before every round

    @cached_property
    def wrong(self) -> tuple[int, ...]:
        """Positions of the test examples that the uncut network gets wrong."""
        return wrong_answers(self.model, self.test, self.device)

    @property
    def accuracy(self) -> float:
        """Accuracy of the uncut network on the test data."""
        return 1 - len(self.wrong) / len(self.test)

    @cached_property
    def lessons(self) -> Lessons:
        """The uncut network as a teacher that is asked once for all that learn from it here."""
        return Lessons(self.model)

    def warn_of_low_accuracy(self, stated: float | None = None) -> None:
        """Warn if the uncut network is near chance, or far below what was stated."""
        name = "The uncut network"
        warn_of_low_accuracy(name, self.model, self.test, self.accuracy, stated, self.device)

    @property
    def parameters(self) -> int:
        """How many parameters the uncut network has."""
        return sum(p.numel() for p in self.model.parameters())

    def sampled(self, sampling: SampleOptions) -> Setup:
        """The same with a part of the data."""
        if sampling == SampleOptions():
            return self
        if sampling not in self._parts:
            # chosen by the same seed for trials of every seed, so that these compare
            wanted = ((self.data.train, sampling.train), (self.data.test, sampling.test))
            train, test = (
                part if most is None else part.subset(choose_per_class(part.labels, most, 0))
                for part, most in wanted
            )
            some = replace(self.data, train=train, test=test)
            part = Setup(self.name, self.model, some, self.device)
            part._whole = self  # the uncut network may have seen all of it
            self._parts[sampling] = part
        return self._parts[sampling]


@dataclass(frozen=True)
class SetupFiles:
    """Where an uncut network and its data lie: enough to open them in another process."""

    model: str  # as for vinets.models.create_model
    weights: str  # a safetensors file
    data: str  # as for vinets.data.load_data
    classes: int | None = None  # None asks the data
    split: int = 0  # seed of the split, where the data has none of its own

    def open(self, name: str, device: torch.device) -> Setup:
        """Read the network and the data."""
        if not Path(self.weights).is_file():
            made = Path(self.weights).with_suffix("")
            words = ("--model", self.model, "--data", self.data, "--out", str(made))
            raise FileNotFoundError(
                f"{self.weights} is not there. Name the weights of {self.model}, or make them and "
                f"name {made / 'weights.safetensors'}: vinets train {shlex.join(words)}"
            )
        if ".py:" in self.model:
            raise ValueError(
                f"A list of trials may not name code, and has {self.model}. Name it in a command "
                "or a script instead."
            )
        data = load_data(self.data, seed=self.split)
        source, fitted = data.train, {}
        if isinstance(source, ImageSource):
            fitted = channel_options(self.model, source.preprocessing.channels)
        model = create_model(self.model, self.classes or len(source.classes), **fitted)
        load_trained(model, self.weights)
        return Setup(name, model, data, device)


def wrong_answers(
    network: nn.Module, source: Source, device: torch.device, progress: Progress | None = None
) -> tuple[int, ...]:
    """Positions of the examples that ``network`` gets wrong."""
    right = []
    watch = progress_of(progress)
    watch.start("testing", len(source))
    with evaluating(network):
        for inputs, labels in source.batches(512, device=device):
            right.append((logits_of(call(network, inputs)).argmax(1) == labels).cpu())
            watch.advance(len(labels))
    return tuple((~torch.cat(right)).nonzero()[:, 0].tolist())
