"""A real network of few digits, and searches in which nothing is trained.

A search of :func:`make_search` reads accuracies from a table instead of training, so that it takes
milliseconds. What :mod:`vinets.search.rounds` knows of trials is their names, the store and
``run_trials``; all three have stand-ins here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import pytest
import torch

from vinets.core.settings import SearchOptions
from vinets.data import DataSplit, digits
from vinets.models import digits_cnn
from vinets.search import Candidate, budget, parse_budget, rounds
from vinets.search.budget import Cost
from vinets.search.rounds import Search
from vinets.training import train_classifier

EXAMPLES = 100  # to choose by, in searches without training
UNCUT_WRONG = range(10)


@pytest.fixture(autouse=True, scope="package")
def _short_windows():
    """Time passes for a moment only, because speed does not matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "WINDOWS", {"repeats": 2, "seconds": 0.001})
        patch.setattr(budget, "LONG_WINDOWS", {"repeats": 3, "seconds": 0.001})
        yield


@pytest.fixture(scope="session")
def data() -> DataSplit:
    """Return few digits."""
    whole = digits()
    return DataSplit("digits", whole.train.subset(torch.arange(400)), whole.test)


@pytest.fixture(scope="session")
def model(data: DataSplit) -> torch.nn.Module:
    """Return a network that knows them."""
    torch.manual_seed(0)
    model = digits_cnn()
    options = {"epochs": 6, "batch_size": 32, "learning_rate": 0.1, "validation": 0.0}
    train_classifier(model, data.train, progress=None, **options)
    return model


class Trial(NamedTuple):
    """A training of a candidate, known by its name as a real trial is."""

    candidate: Candidate
    epochs: int
    rate: float
    save: str = ""
    recorded: bool = False

    name = property(lambda self: f"{self.candidate.name}-{self.epochs}-{self.rate:g}")
    cut = property(lambda self: self.candidate.cut)
    head = property(lambda self: self.candidate.head)

    def change(self, recorded: bool) -> Trial:
        return self._replace(recorded=recorded)


class Store:
    """Results by the name of a trial; stores in one folder share them, and refuse nothing."""

    folders: ClassVar[dict[Path, dict[str, SimpleNamespace]]] = {}

    def __init__(self, folder: Path, kind: str = "") -> None:
        self.folder, self.results = folder, self.folders.setdefault(folder, {})
        self.claim = lambda *_: None

    def missing(self, trials: Sequence[Trial]) -> list[Trial]:
        return [trial for trial in dict.fromkeys(trials) if trial.name not in self.results]

    def read(self, trial: Trial) -> SimpleNamespace:
        return SimpleNamespace(trained=self.results[trial.name])


@pytest.fixture
def make_search(monkeypatch, tmp_path) -> Callable[..., Search]:
    """Return a function that makes a search from the accuracies that its candidates reach.

    ``reach(candidate, epochs, rate)`` is an accuracy, or an exception that is raised; sizes are
    1, 2, 3, ..., if not given. All calls of ``run_trials`` are kept in ``search.calls``.
    """

    def make(
        reach: Callable[[Candidate, int, float], float | Exception],
        count: int,
        budget: str | list[str] = "drop=0",
        *,
        sizes: Sequence[int] = (),
        heads: Sequence[str] = (),
        epochs: int = 4,
        folder: Path = tmp_path / "search",
        **options,
    ) -> Search:
        # Each is behind a cut of its own.
        every = enumerate(heads or ["pooled"] * count)
        candidates = [Candidate(f"cut{i}", head, 1 + i) for i, head in every]
        examples = {"train": range(EXAMPLES), "test": range(EXAMPLES), "wrong": UNCUT_WRONG}
        setup = SimpleNamespace(name="uncut", accuracy=0.9, identity=None, **examples)
        setup.device = torch.device("cpu")
        cuts = [SimpleNamespace(name=f"cut{i}", macs=100 * (1 + i)) for i in range(count)]
        space = SimpleNamespace(setup=setup, candidates=candidates, cuts=cuts, examples=EXAMPLES)
        space.trial, space.cost_per_example = Trial, lambda one: (0.001 * one.parameters, 0)
        calls: list[SimpleNamespace] = []

        def run_trials(trials, setups, store, *, executor=None, progress=None):
            calls.append(SimpleNamespace(trials=[*trials], executor=executor, progress=progress))
            for trial in store.missing(trials):
                reached = reach(trial.candidate, trial.epochs, trial.rate)
                if isinstance(reached, Exception):
                    raise reached
                facts = SimpleNamespace(accuracy=reached, seconds=1.0)
                facts.wrong = tuple(range(round((1 - reached) * EXAMPLES)))
                store.results[trial.name] = facts

        def measure(table, space, budget, progress):
            known, numbers = table.costs, sizes or range(1, 1 + count)
            costs = {one.name: Cost(n) for one, n in zip(candidates, numbers, strict=True)}
            table.costs = {"uncut": Cost(1_000)} | costs
            return table.costs != known

        doubles = {"Store": Store, "run_trials": run_trials, "Space": lambda *_: space}
        for name, double in doubles.items():
            monkeypatch.setattr(rounds, name, double)
        monkeypatch.setattr(rounds.CostTable, "measure", measure)
        search = Search(
            setup, parse_budget(budget), folder, SearchOptions(epochs=epochs), **options
        )
        search.calls = calls
        search.prepare()
        return search

    yield make
    Store.folders.clear()
