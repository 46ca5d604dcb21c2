"""Commands that make the networks of a search again."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from vinets.core.files import slug
from vinets.core.options import flag_of
from vinets.core.settings import BEST, TrialSettings
from vinets.heads import VanishingHead
from vinets.latent.cut import CutPoint
from vinets.runs.presets import paper_settings
from vinets.runs.trial import Trial
from vinets.search.result import INT8
from vinets.search.space import Candidate

REPEATED = "repeated"  # folder, in that of the search, for what is made again


@dataclass(frozen=True)
class Written:
    """How the network, the data and the folder of a search are written on a command line.

    A search from Python has none, and its commands have words in capitals in their place.
    """

    model: str = "MODEL"
    data: tuple[str, ...] = ("--data", "DATA")  # and all that says how they are read
    augment: tuple[str, ...] = ()  # what commands that train are told besides
    device: tuple[str, ...] = ()
    out: str = "OUT"
    made: str = "OUT"  # the network in that folder, where a command takes one

    def evaluate(self) -> tuple[str, ...]:
        """Tests the uncut network."""
        return ("vinets", "evaluate", self.model, *self.data, *self.device)

    def build(
        self,
        candidate: Candidate,
        point: CutPoint,
        trial: Trial,
        limit: int | None = None,
        architecture: str | None = None,
    ) -> tuple[str, ...]:
        """Trains the network of a candidate as that trial did, and tests it on all test examples.

        The uncut network, of that ``architecture`` if it has a name, was cut at ``point``, and
        trained on ``limit`` examples.
        """
        vanishing = candidate.head == VanishingHead.kind
        head = () if candidate.head == "vi" or vanishing else ("--head", candidate.head)
        placed = () if vanishing else ("--placement", "products")
        first = paper_settings(architecture) if vanishing else BEST
        few = () if limit is None else ("--limit", str(limit))
        seed = ("--seed", str(trial.seed)) if trial.seed else ()
        start = ("vinets", "build", self.model, *self.data, *self.augment, *few)
        made = (*placed, *head, *changed_options(trial, first), *seed, *self.device)
        out = f"{self.out}/{REPEATED}/{slug(candidate.name)}-{trial.recipe.epochs}"
        return (*start, "--cut", _cut(point), *made, "--out", out)

    def quantise(self, uncut: bool, seed: int) -> tuple[str, ...]:
        """Writes the uncut network, or the chosen one, in int8, and tests the file."""
        name, made = ("uncut", self.model) if uncut else ("chosen", self.made)
        form = ("--format", INT8, "--most-lost", "100")
        drawn = ("--seed", str(seed)) if seed else ()
        out = f"{self.out}/{REPEATED}/{name}-int8.onnx"
        # a folder has its weights
        data = self.data if uncut else without(self.data, "--weights")
        return ("vinets", "export", made, *data, *form, *drawn, *self.device, "--out", out)


def changed_options(settings: TrialSettings, start: TrialSettings = BEST) -> list[str]:
    """Options of ``vinets build`` that lead from one to the other, as far as they change a result.

    Examples
    --------
    >>> from vinets.core.settings import TrainingOptions
    >>> changed_options(TrialSettings(recipe=TrainingOptions(epochs=3)), TrialSettings())
    ['--epochs', '3']
    """
    words: list[str] = []
    for group in fields(TrialSettings):
        ours, theirs = getattr(settings, group.name), getattr(start, group.name)
        for one in fields(ours):
            value = getattr(ours, one.name)
            if one.metadata.get("result", True) and value != getattr(theirs, one.name):
                words += _option(flag_of(one), value)
    return words


def _option(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    return [flag, "all" if value is None else str(value)]


def _cut(point: CutPoint) -> str:
    """Its name, or its index where the name would be read as one."""
    return str(point.index) if point.name.isdecimal() else point.name


def without(words: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Words of a command but for an option and its value.

    Examples
    --------
    >>> without(("--data", "digits", "--weights", "w", "--size", "8"), "--weights")
    ('--data', 'digits', '--size', '8')
    """
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + 2 :]
