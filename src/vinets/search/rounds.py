"""The rounds of a search: successive halving over cuts and heads, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from math import sqrt
from pathlib import Path

from vinets.core.checks import counted
from vinets.core.device import RecordingError
from vinets.core.files import read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.core.progress import Notes, Progress, progress_of
from vinets.core.settings import SearchOptions
from vinets.networks.network import CutNetwork
from vinets.runs.setup import Setup
from vinets.runs.store import Store, run_trials
from vinets.search.budget import Budget, CostTable, expect
from vinets.search.result import Attempt, SearchPlan, layers_of
from vinets.search.space import Candidate, Space
from vinets.training.epochs import DivergedError

ROUNDS = (1 / 18, 1 / 6)  # shares of the epochs, before the last round
KEPT_SHARE = 1 / 3  # share of a round that goes on to the next
MIN_KEPT = 6  # candidates that go on, if there are as many
FINALISTS = 3  # trained to the end under a limit; for a drop, at most about as many by halving
SAFER_FACTOR = 1.5  # times as large may a network be that is preferred because it will surely do
SEARCH = "a search"  # kind of results
COSTS = "search.json"  # file of the costs, in the folder of a search
RATES = (0.1, 0.02)  # learning rates, of which the better one in a training is taken


class Search:
    """A search in a folder; the same one goes on where it was interrupted.

    Examples to choose by are the test part of ``setup``. What came of every candidate is in
    ``attempts``, by name, and what it costs in ``table``. To plan one, some of the ``examples`` to
    train on will do, see :class:`Space`.
    """

    def __init__(
        self,
        setup: Setup,
        budget: Budget,
        folder: Path,
        options: SearchOptions = SearchOptions(),  # noqa: B008 - frozen
        seed: int = 0,
        executor: Executor | None = None,
        progress: Progress | str | None = None,
        examples: int | None = None,
    ) -> None:
        self.setup, self.budget, self.seed, self.executor = setup, budget, seed, executor
        self.epochs = options.epochs
        self.rungs = sorted({max(1, round(s * self.epochs)) for s in ROUNDS} - {self.epochs})
        self.rates = {True: RATES[0], False: RATES[0]}  # by whether a training goes to the end
        self.recorded = True  # whether a GPU records steps; until one cannot be
        self.watch, self.store = progress_of(progress), Store(folder, SEARCH)
        self.space = Space(setup, options.cuts, seed, examples)
        self.table = CostTable()
        self.attempts: dict[str, Attempt] = {}

    # --- costs, before anything is trained ----------------------------------------------------

    def prepare(self, *, write: bool = True) -> None:
        """Measure the costs of all candidates, or read them back; write them if that is wanted."""
        path = self.store.folder / COSTS
        if write:
            self.store.claim([], {self.setup.name: self.setup.identity})
            if path.is_file():
                self.table = from_plain(CostTable, read_json(path), str(path))
        if self.table.measure(self.space, self.budget, self.watch) and write:
            write_json(path, as_plain(self.table))
        costs = self.table.costs
        self.attempts = {o.name: Attempt(o, costs[o.name], {}) for o in self.space.candidates}

    def feasible(self) -> list[Candidate]:
        """Return candidates within the limits, each once; the nearest where there are none."""
        unlike: dict[tuple[str, str, int], Candidate] = {}
        for one in self.table.within(self.budget, self.space.candidates):
            # The smallest head that there is behind a cut may be too large for both sizes.
            unlike.setdefault((one.cut, one.label, self.table.costs[one.name].parameters), one)
        return list(unlike.values())

    def plan(self) -> SearchPlan:
        """Return what would be tried, and what it would take; nothing is written."""
        self.prepare(write=False)
        tried = tuple(self.attempts[one.name] for one in self.feasible())
        left, rounds = len(tried), []
        for epochs in self.rungs:
            rounds.append((left, epochs))
            left = _kept(left)
        rounds.append((min(left, FINALISTS) + 1, self.epochs))  # one of them with two rates
        uncut = self.table.costs["uncut"]
        met = any(self.budget.allows(one.cost, uncut) for one in tried)
        expected = expect(self.space, rounds, self.watch)
        return SearchPlan(tried, tuple(rounds), *expected, unmet="" if met else str(self.budget))

    # --- rounds -------------------------------------------------------------------------------

    def run(self) -> list[Attempt]:
        """Train in rounds; return what came of every candidate that took part."""
        left = self.feasible()
        plain = [one for one in left if one.head == "pooled"] or left
        self.train([plain[len(plain) // 2]], (*self.rungs, self.epochs)[0], compare=True)
        for epochs in self.rungs:
            self.train(left, epochs)
            left = [one for one in left if epochs in self.attempts[one.name].accuracies]
            left = self._best(left, epochs)
        self.finish(left)
        if not any(self.epochs in one.accuracies for one in self.attempts.values()):
            raise ValueError(
                "every network that was to be trained to the end diverged. Check how images are "
                "normalised, and whether the uncut network is as accurate as it should be."
            )
        return [one for one in self.attempts.values() if one.accuracies]

    def train(self, candidates: Sequence[Candidate], epochs: int, *, compare: bool = False) -> None:
        """Train candidates that have not been, for ``epochs``, and add the results to attempts.

        With ``compare``, the one candidate is trained with every learning rate instead, and the
        best becomes that of all trainings as long as this. What is best after few epochs is not
        after many, which can afford to begin faster.
        """
        last = epochs == self.epochs
        trials = [
            self.space.trial(one, epochs, rate, self._folder(one, rate) if last else "")
            for one in candidates
            for rate in (RATES if compare else (self.rates[last],))
        ]
        sound = [trial for trial in trials if trial.name not in self.table.diverged]
        setups = {self.setup.name: self.setup}
        if self.recorded and self.executor and len(self.store.missing(sound)) > 1:
            # What diverges or cannot be recorded here is carried out once more, and remembered.
            with suppress(DivergedError, RecordingError):
                run_trials(sound, setups, self.store, executor=self.executor, progress=self.watch)
        missing = self.store.missing(sound)
        if missing and not last:  # long trainings have a progress of their own
            length = "an epoch" if epochs == 1 else counted(epochs, "epoch")
            self.watch.start(f"networks trained, {length} each", len(missing))
        for trial in missing:
            for recorded in dict.fromkeys((self.recorded, False)):
                try:
                    watch = self.watch if last else Notes(self.watch)
                    some = [trial.change(recorded=recorded)]
                    run_trials(some, setups, self.store, progress=watch)
                    break
                except RecordingError:  # the same training without a recording is slower
                    self.recorded = False
                except DivergedError as problem:
                    self.table.diverged[trial.name] = str(problem)
                    write_json(self.store.folder / COSTS, as_plain(self.table))
                    break
            if not last:
                self.watch.advance(1, f"{trial.cut}, {trial.head}")
        diverged = {trial.name for trial in self.store.missing(trials)}
        results = [None if t.name in diverged else self.store.read(t).trained for t in trials]
        if compare:
            reached = [-1.0 if facts is None else facts.accuracy for facts in results]
            self.rates[last] = RATES[reached.index(max(reached))]
            return
        for one, facts in zip(candidates, results, strict=True):
            attempt = self.attempts[one.name]
            if facts is None or epochs in attempt.accuracies:
                continue
            assert facts.wrong is not None  # because trials are detailed
            apart = set(facts.wrong) ^ set(self.setup.wrong)
            self.attempts[one.name] = replace(
                attempt,
                accuracies={**attempt.accuracies, epochs: facts.accuracy},
                error=sqrt(len(apart)) / len(self.setup.test),
                seconds=attempt.seconds + facts.seconds,
                wrong={**attempt.wrong, epochs: facts.wrong},
            )

    def _folder(self, candidate: Candidate, rate: float) -> str:
        """Return where the network of a finalist is kept, inside the folder of the search."""
        return f"finalists/{self.space.candidates.index(candidate)}-{rate:g}"

    def _points(
        self, candidates: Sequence[Candidate], epochs: int
    ) -> list[tuple[float, float, Candidate]]:
        """Return sizes and accuracies after ``epochs``, whatever was reached later."""
        tried = [(self.attempts[one.name], one) for one in candidates]
        return [(known.cost.parameters, known.accuracies[epochs], one) for known, one in tried]

    def _best(self, candidates: Sequence[Candidate], epochs: int) -> list[Candidate]:
        """Return the ones to go on with: the most accurate under a limit, else those on frontiers.

        Of a frontier, what is larger than the first that will do is not needed, and one more is
        kept in case that it will not. The others matter the less the further they are from it.
        """
        points, count = self._points(candidates, epochs), _kept(len(candidates))
        if self.budget.drop is None:
            return [one for *_, one in sorted(points, key=lambda point: -point[1])[:count]]
        ranked = []
        for number, layer in enumerate(layers_of(points)):
            enough = [self.reaches(self.attempts[one.name].accuracies[epochs]) for one in layer]
            end = enough.index(True) + 2 if True in enough else len(layer)
            ranked += [(number * MIN_KEPT + i, one) for i, one in enumerate(reversed(layer[:end]))]
        return [one for _, one in sorted(ranked, key=lambda pair: pair[0])[:count]]

    def finish(self, candidates: Sequence[Candidate]) -> None:
        """Train to the end: the best, or as few as it takes to find the smallest that will do.

        If none will do, others follow until there are as many finalists as the plan promised.
        """
        if not self.rungs or not candidates:  # so few epochs that there is one round
            self.train(candidates, self.epochs)
            return
        points = self._points(candidates, self.rungs[-1])
        if self.budget.drop is None:
            best = [one for *_, one in sorted(points, key=lambda point: -point[1])[:FINALISTS]]
            self.train(best[:1], self.epochs, compare=True)
            self.train(best, self.epochs)
            return
        row, *layers = layers_of(points)
        low, high = 0, len(row) - 1
        self.train([row[high // 2]], self.epochs, compare=True)
        while low <= high:  # accuracy grows along the row, so halving it finds the place
            middle = (low + high) // 2
            if self._will_do(row[middle]):
                high = middle - 1
            else:
                low = middle + 1
        for one in row[low:]:  # the smallest that will do, and perhaps a safer one
            cost = self.table.costs[one.name].parameters
            if cost > SAFER_FACTOR * self.table.costs[row[low].name].parameters:
                break
            if self._will_do(one) and self.surely(self.attempts[one.name]):
                break
        if low < len(row):
            return
        # A short training may mislead: the best of the other frontiers, then what is left of this.
        for one in [one for layer in (*layers, row) for one in reversed(layer)]:
            done = [one for one in self.attempts.values() if self.epochs in one.accuracies]
            if len(done) >= FINALISTS or self._will_do(one):
                break

    def _will_do(self, candidate: Candidate) -> bool:
        """Train to the end, and return whether that is close enough to the uncut network."""
        self.train([candidate], self.epochs)
        done = self.attempts[candidate.name]
        return self.epochs in done.accuracies and self.reaches(done.accuracy)

    def reaches(self, accuracy: float) -> bool:
        """Return whether that is close enough to the uncut network, on validation examples."""
        return self.budget.drop is None or accuracy >= self.setup.accuracy - self.budget.drop / 100

    def surely(self, one: Attempt) -> bool:
        """Return whether it would be so on other examples: by a standard error more than needed.

        What is just close enough on these examples is not on others, half of the time.
        """
        return self.reaches(one.accuracy - (one.error or 0.0))

    # --- the choice ---------------------------------------------------------------------------

    def choose(self, tried: Sequence[Attempt]) -> tuple[Attempt | None, bool]:
        """Return the best that was trained to the end, and whether it is within the budget."""
        done = [one for one in tried if self.epochs in one.accuracies]
        uncut = self.table.costs["uncut"]
        small = [one for one in done if self.budget.allows(one.cost, uncut)]
        good = [one for one in small if self.reaches(one.accuracy)]
        if good and self.budget.drop is not None:
            good.sort(key=lambda one: one.cost.parameters)
            most = SAFER_FACTOR * good[0].cost.parameters
            sure = [one for one in good if self.surely(one) and one.cost.parameters <= most]
            return (sure or good)[0], True
        if small:
            return max(good or small, key=lambda one: one.accuracy), bool(good)
        nearest = min(done, key=lambda one: self.budget.excess(one.cost, uncut), default=None)
        return nearest, False

    def network(self, one: Attempt) -> CutNetwork:
        """Return the trained network of a finalist, folded."""
        assert one.candidate is not None
        folder = self.store.folder / self._folder(one.candidate, self.rates[True])
        return self.setup.saved_network(folder)


def _kept(count: int) -> int:
    """Return how many of a round go on."""
    return min(count, max(MIN_KEPT, round(KEPT_SHARE * count)))
