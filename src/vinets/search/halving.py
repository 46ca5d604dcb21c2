"""Which small network is the best within a budget: successive halving over cuts and heads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import ClassVar

from vinets.core.device import RecordingError, each
from vinets.core.files import read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import SearchOptions
from vinets.latent.cut import cut_points
from vinets.networks.network import CutNetwork
from vinets.runs.run import run_trials
from vinets.runs.setup import Setup
from vinets.runs.store import Store
from vinets.runs.trial import Trial
from vinets.search.budget import Budget
from vinets.search.costs import Priced, Pricing, within
from vinets.search.expect import expected
from vinets.search.result import SearchPlan, Tried, frontier, layers_of
from vinets.search.space import Candidate, candidates_at, choose_cuts, start_trial
from vinets.training.loop import DivergedError

ROUNDS = (1 / 18, 1 / 6)  # of the epochs, before the last round
KEPT = 1 / 3  # of a round, for the next
LEAST = 6  # that go on, if there are as many
FINALISTS = 3  # trained to the end under a limit; at most about as many for a drop, by halving
SAFER = 1.5  # times as large a network is taken, at most, that will surely do
RATES = (0.1, 0.02)  # of learning, of which the better one in a short training is taken


@dataclass
class _Known(Priced):
    """What the folder keeps beside the trials, so that a search that goes on decides alike."""

    REMOVED: ClassVar = ("signals", "machine")
    diverged: dict[str, str] = field(default_factory=dict)  # trials by name, and what they said


def _kept(count: int) -> int:
    """How many of a round go on."""
    return min(count, max(LEAST, round(KEPT * count)))


class Search:
    """A search in a folder; the same one goes on where it was interrupted."""

    def __init__(
        self,
        setup: Setup,
        budget: Budget,
        folder: Path,
        searching: SearchOptions = SearchOptions(),  # noqa: B008 - frozen
        seed: int = 0,
        executor: Executor | None = None,
        progress: Progress | str | None = None,
    ) -> None:
        """Of ``setup`` the test part is what to choose by."""
        self.setup, self.budget, self.seed, self.executor = setup, budget, seed, executor
        self.epochs = searching.epochs
        self.watch = progress_of(progress)
        self.store = Store(folder)
        self.recorded = True  # whether a GPU records steps; until one cannot be
        self.start = start_trial(len(setup.train), len(setup.train.classes), seed)
        self.short = self.long = self.start  # of the rounds, and of trainings to the end
        example = each(setup.train.example(), lambda tensor: tensor.to(setup.device))
        points = cut_points(setup.model, example)
        self.cuts = choose_cuts(points, setup.parameters, searching.cuts)
        self.candidates = [
            candidate
            for point in self.cuts
            for candidate in candidates_at(point, setup.parameters, len(setup.train.classes))
        ]
        self.known = _Known()
        self.pricing = Pricing(setup, self.start, self.candidates, budget, self.watch)
        rungs = {max(1, round(share * self.epochs)) for share in ROUNDS}
        self.rungs = sorted(rungs - {self.epochs})

    # --- what is known before anything is trained ---------------------------------------------

    def prepare(self) -> None:
        """Measure the costs of all candidates, or read them back."""
        self.store.claim([], {self.setup.name: self.setup.identity})
        if self._path.is_file():
            self.known = from_plain(_Known, read_json(self._path), str(self._path))
        if self.pricing.update(self.known):
            self._remember()

    @property
    def _path(self) -> Path:
        return self.store.folder / "search.json"

    def _remember(self) -> None:
        write_json(self._path, as_plain(self.known))

    def plan(self) -> SearchPlan:
        """What would be tried, and what it would take."""
        self.pricing.update(self.known)
        feasible, rounds = self.feasible(), []
        left = len(feasible)
        for epochs in self.rungs:
            rounds.append((left, epochs))
            left = _kept(left)
        rounds.append((min(left, FINALISTS) + 1, self.epochs))  # one of them with two rates
        tried = tuple(Tried(one, self.known.costs[one.name], {}) for one in feasible)
        macs = {point.name: point.macs for point in self.cuts}
        seconds, memory = expected(
            self.setup, self.start, self.candidates, macs, rounds, self.watch
        )
        uncut = self.known.costs["uncut"]
        met = any(self.budget.allows(one.cost, uncut) for one in tried)
        return SearchPlan(tried, tuple(rounds), seconds, memory, "" if met else str(self.budget))

    # --- rounds -------------------------------------------------------------------------------

    def run(self) -> list[Tried]:
        """All rounds; what came of every candidate that took part."""
        left = self.feasible()
        plain = [one for one in left if one.head == "pooled"] or left
        probe = plain[len(plain) // 2]
        if self.rungs:
            self.short = self._with_rate(probe, self.rungs[0])
        else:
            self.long = self._with_rate(probe, self.epochs)
        for epochs in self.rungs:
            self.train(left, epochs)
            left = [one for one in left if epochs in self.tried(one).accuracies]
            left = self._best(left, epochs)
        self._finals(left)
        tried = [self.tried(one) for one in self.candidates]
        if not any(self.epochs in one.accuracies for one in tried):
            raise ValueError(
                "every network that was to be trained to the end diverged. Check how images are "
                "normalised, and whether the uncut network is as accurate as it should be."
            )
        return [one for one in tried if one.accuracies]

    def _with_rate(self, candidate: Candidate, epochs: int) -> Trial:
        """What trainings of this length have in common, with the learning rate that suits them.

        One is carried out with each. What is best after few epochs is not after many, which can
        afford to begin faster.
        """
        starts = [self.start.change(learning_rate=rate) for rate in RATES]
        trials = [self._trial(candidate, epochs, start) for start in starts]
        self._run_all(trials)
        reached = []
        for trial in trials:
            found = not self.store.missing([trial])
            reached.append(self.store.read(trial).trained.accuracy if found else -1.0)
        return starts[reached.index(max(reached))]

    def feasible(self) -> list[Candidate]:
        """Candidates within the limits, each once; the nearest to them where there are none."""
        unlike: dict[tuple[str, str, int], Candidate] = {}
        for one in within(self.budget, self.candidates, self.known.costs):
            # the smallest head that there is behind a cut may be too large for both sizes
            kind = one.cut, one.label, self.known.costs[one.name].parameters
            unlike.setdefault(kind, one)
        return list(unlike.values())

    def train(self, candidates: Sequence[Candidate], epochs: int) -> None:
        """Train candidates for ``epochs``, unless they have been."""
        self._run_all([self.trial(one, epochs) for one in candidates])

    def _run_all(self, trials: Sequence[Trial]) -> None:
        """Carry out trials, side by side if there are to be several processes."""
        sound = [trial for trial in trials if trial.name not in self.known.diverged]
        if self.recorded and self.executor and len(self.store.missing(sound)) > 1:
            # what diverged or could not be recorded is carried out once more, and remembered
            with suppress(DivergedError, RecordingError):
                self._carry_out(sound, self.executor, self.watch)
        missing = self.store.missing(sound)
        if not missing or missing[0].recipe.epochs == self.epochs:  # long ones tell of themselves
            for trial in trials:
                self._run(trial, self.watch)
            return
        epochs = missing[0].recipe.epochs
        each = "an epoch" if epochs == 1 else f"{epochs} epochs"
        self.watch.start(f"networks trained, {each} each", len(missing))
        for trial in missing:
            self._run(trial, None)
            self.watch.advance(1, f"{trial.cut}, {trial.head}")

    def _carry_out(
        self, trials: Sequence[Trial], executor: Executor | None, progress: Progress | None
    ) -> None:
        setups = {"uncut": self.setup}
        run_trials(trials, setups, self.store, executor=executor, progress=progress)

    def _run(self, trial: Trial, progress: Progress | None) -> None:
        """Carry out a trial; one that diverges is remembered, and the search goes on."""
        if trial.name in self.known.diverged:
            return
        trial = trial.change(recorded=self.recorded)
        try:
            self._carry_out([trial], None, progress)
        except RecordingError:  # slower, and the same result
            self.recorded = False
            self._run(trial, progress)
        except DivergedError as error:
            self.known.diverged[trial.name] = str(error)
            self._remember()

    def trial(self, candidate: Candidate, epochs: int) -> Trial:
        """Of a candidate; those to the end are saved, and can be interrupted."""
        return self._trial(candidate, epochs, self.short if epochs < self.epochs else self.long)

    def _trial(self, candidate: Candidate, epochs: int, start: Trial) -> Trial:
        trial = replace(candidate.trial(start, epochs), detailed=True)
        if epochs < self.epochs:
            return trial
        place = f"finalists/{self.candidates.index(candidate)}-{start.recipe.learning_rate:g}"
        return replace(trial, save=place, checkpoints=True)

    def tried(self, candidate: Candidate) -> Tried:
        """What is known of it."""
        found, wrong, seconds, error = {}, {}, 0.0, None
        for epochs in (*self.rungs, self.epochs):
            trial = self.trial(candidate, epochs)
            if not self.store.missing([trial]):
                facts = self.store.read(trial).trained
                found[epochs] = facts.accuracy
                seconds += facts.seconds
                if facts.wrong is not None:
                    wrong[epochs] = facts.wrong
                    apart = set(facts.wrong) ^ set(self.setup.wrong)
                    error = sqrt(len(apart)) / len(self.setup.test)
        cost = self.known.costs[candidate.name]
        return Tried(candidate, cost, found, error=error, seconds=seconds, wrong=wrong)

    def _points(
        self, candidates: Sequence[Candidate], epochs: int
    ) -> list[tuple[float, float, Candidate]]:
        """Size and accuracy after ``epochs``, whatever was reached later."""
        tried = [self.tried(one) for one in candidates]
        return [(one.cost.parameters, one.accuracies[epochs], one.candidate) for one in tried]

    def _best(self, candidates: Sequence[Candidate], epochs: int) -> list[Candidate]:
        """The ones to go on with: the most accurate under a limit, else those on frontiers.

        Of a frontier, what is larger than the first that will do is not needed, and one more is
        kept in case that it will not. The others matter the less the further they are from it.
        """
        points, count = self._points(candidates, epochs), _kept(len(candidates))
        if self.budget.drop is None:
            return [one for *_, one in sorted(points, key=lambda point: -point[1])[:count]]
        ranked = []
        for number, layer in enumerate(layers_of(points)):
            enough = [self.reaches(self.tried(one).accuracies[epochs]) for one in layer]
            end = enough.index(True) + 2 if True in enough else len(layer)
            ranked += [(number * LEAST + i, one) for i, one in enumerate(reversed(layer[:end]))]
        return [one for _, one in sorted(ranked, key=lambda pair: pair[0])[:count]]

    def _finals(self, candidates: Sequence[Candidate]) -> None:
        """Train to the end: the best, or as few as it takes to find the smallest that will do."""
        if not self.rungs:  # so few epochs that there is one round
            self.train(candidates, self.epochs)
            return
        if not candidates:
            return
        points = self._points(candidates, self.rungs[-1])
        if self.budget.drop is None:
            best = [one for *_, one in sorted(points, key=lambda point: -point[1])[:FINALISTS]]
            self.long = self._with_rate(best[0], self.epochs)
            self.train(best, self.epochs)
            return
        row = frontier(points)
        low, high = 0, len(row) - 1
        self.long = self._with_rate(row[high // 2], self.epochs)
        while low <= high:  # accuracy grows along the row, so halving it finds the place
            middle = (low + high) // 2
            if self._will_do(row[middle]):
                high = middle - 1
            else:
                low = middle + 1
        for one in row[low:]:  # the smallest that will do, and perhaps a safer one
            cost = self.known.costs[one.name].parameters
            if cost > SAFER * self.known.costs[row[low].name].parameters:
                break
            if self._will_do(one) and self.surely(self.tried(one)):
                break

    def _will_do(self, candidate: Candidate) -> bool:
        """Whether it is close enough to the uncut network once it is trained to the end."""
        self.train([candidate], self.epochs)
        done = self.tried(candidate)
        return self.epochs in done.accuracies and self.reaches(done.accuracy)

    def reaches(self, accuracy: float) -> bool:
        """Whether that is close enough to the uncut network, on validation examples."""
        return self.budget.drop is None or accuracy >= self.setup.accuracy - self.budget.drop / 100

    def surely(self, one: Tried) -> bool:
        """Whether it would be so on other examples: by a standard error more than needed.

        What is just close enough on these examples is not on others, half of the time.
        """
        return self.reaches(one.accuracy - (one.error or 0.0))

    # --- the choice ---------------------------------------------------------------------------

    def choose(self, tried: Sequence[Tried]) -> tuple[Tried | None, bool]:
        """Of those that were trained to the end, the one; and whether it is within the budget."""
        done = [one for one in tried if self.epochs in one.accuracies]
        uncut = self.known.costs["uncut"]
        small = [one for one in done if self.budget.allows(one.cost, uncut)]
        good = [one for one in small if self.reaches(one.accuracy)]
        if good and self.budget.drop is not None:
            good.sort(key=lambda one: one.cost.parameters)
            most = SAFER * good[0].cost.parameters
            sure = [one for one in good if self.surely(one) and one.cost.parameters <= most]
            return (sure or good)[0], True
        if small:
            return max(good or small, key=lambda one: one.accuracy), bool(good)
        nearest = min(done, key=lambda one: self.budget.excess(one.cost, uncut), default=None)
        return nearest, False

    def network(self, candidate: Candidate) -> CutNetwork:
        """The trained network of a finalist, folded."""
        folder = self.store.folder / self.trial(candidate, self.epochs).save
        whole = self.setup.model  # whose class may be the user's own
        made = CutNetwork.from_pretrained(folder, backbone=whole)
        return made.to(self.setup.device).folded().eval()
