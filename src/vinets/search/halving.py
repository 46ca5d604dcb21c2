"""Which small network is the best within a budget: successive halving over cuts and heads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from vinets.data.interface import DataSplit, Source
from vinets.data.labels import choose_per_class
from vinets.data.sources import split_source
from vinets.files import read_json, write_json, write_text
from vinets.latent.cut import cut_points
from vinets.measure import Throughput, compare, evaluate, machine
from vinets.nn.network import CutNetwork
from vinets.options import flat
from vinets.pipeline.context import CutContext
from vinets.pipeline.setup import Origin, Setup
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial
from vinets.pipeline.trials import run_trials
from vinets.plain import as_plain, from_plain
from vinets.progress import Progress, progress_of
from vinets.report import Figure, Table, html
from vinets.running import each, resolve_device
from vinets.search.budget import Budget, Cost, parse_budget
from vinets.search.expect import expected
from vinets.search.page import finalists_table, frontier_figure, search_page
from vinets.search.result import SearchPlan, SearchResult, Tried, Uncut, frontier, layers_of
from vinets.search.signals import SIGNALS, Signals, look_at, rank_correlation
from vinets.search.space import Candidate, candidates_at, choose_cuts, start_trial
from vinets.search.verdict import verdict
from vinets.settings import Searching
from vinets.training.loop import DivergedError

ROUNDS = (1 / 12, 1 / 4)  # of the epochs, before the last round
KEPT = 1 / 3  # of a round, for the next
LEAST = 6  # that go on, where there are so many
FINALISTS = 4
RATES = (0.1, 0.02)  # of learning, of which the better one in a short training is taken
WINDOWS = {"repeats": 5, "seconds": 0.1}


@dataclass(frozen=True)
class Compressed:
    """A network within a budget, and why it is that one."""

    net: nn.Module  # folded, in eval mode; the uncut network where nothing is smaller
    result: SearchResult

    @property
    def table(self) -> Table:
        """Networks that were trained to the end, on the test examples."""
        return finalists_table(self.result)

    @property
    def frontier(self) -> Figure:
        """All that was tried: accuracy against size."""
        return frontier_figure(self.result)

    def __str__(self) -> str:
        return self.result.verdict


@dataclass
class _Known:
    """What the folder keeps beside the trials, so that a search that goes on decides alike."""

    costs: dict[str, Cost]
    signals: dict[str, Signals]
    timed: str = ""  # device and batch of the latencies among the costs
    diverged: dict[str, str] = field(default_factory=dict)  # trials by name, and what they said


def _kept(count: int) -> int:
    """How many of a round go on."""
    return min(count, max(LEAST, round(KEPT * count)))


class Search:
    """A search in a folder; the same one goes on where it was interrupted."""

    def __init__(
        self,
        setup: Setup,
        final: Source,
        budget: Budget,
        folder: Path,
        searching: Searching = Searching(),  # noqa: B008 - frozen
        seed: int = 0,
        progress: Progress | str | None = None,
    ) -> None:
        """Of ``setup`` the test part is what to choose by; ``final`` is looked at once."""
        self.setup, self.final, self.budget = setup, final, budget
        self.epochs, self.seed = searching.epochs, seed
        self.watch = progress_of(progress)
        self.store = Store(folder)
        self.start = start_trial(len(setup.train), seed)
        example = each(setup.train.example(), lambda tensor: tensor.to(setup.device))
        points = cut_points(setup.model, example)
        self.cuts = choose_cuts(points, setup.parameters, searching.cuts)
        self.candidates = [
            candidate
            for point in self.cuts
            for candidate in candidates_at(point, setup.parameters, len(setup.train.classes))
        ]
        self.known = _Known({}, {})
        rungs = {max(1, round(share * self.epochs)) for share in ROUNDS}
        self.rungs = sorted(rungs - {self.epochs})

    # --- what is known before anything is trained ---------------------------------------------

    def prepare(self) -> None:
        """Costs of all candidates and signals of all cuts, measured or read back."""
        self.store.claim([], {self.setup.name: self.setup.identity})
        if self._path.is_file():
            self.known = from_plain(_Known, read_json(self._path), str(self._path))
        costs, wanted = self.known.costs, self._timing
        new = any(one.name not in costs for one in self.candidates)
        if new or (wanted and wanted != self.known.timed):
            costs.update(self._costs())
            self.known.timed = wanted
            self._remember()
        for point in self.cuts:
            if point.name not in self.known.signals:
                found = look_at(self.setup, point.name, self.seed, self.watch)
                self.known.signals[point.name] = found
                self._remember()

    @property
    def _timing(self) -> str:
        """Where and how latency is measured; empty if no budget asks for it."""
        where = self.budget.where or self.setup.device
        return f"{where}, batch {self.budget.batch}" if self.budget.latency else ""

    @property
    def _path(self) -> Path:
        return self.store.folder / "search.json"

    def _remember(self) -> None:
        write_json(self._path, as_plain(self.known))

    def _costs(self) -> dict[str, Cost]:
        networks: dict[str, nn.Module] = {"uncut": self.setup.model}  # those to be timed
        self.watch.start("sizes", len(self.candidates))
        sizes = {"uncut": self.setup.parameters}
        for point in self.cuts:
            trial = replace(self.start, cut=point.name)
            context = CutContext(self.setup, trial, progress_of(None))
            for one in (c for c in self.candidates if c.cut == point.name):
                made, _ = context.network(one.trial(self.start, self.epochs))
                folded = made.folded()
                sizes[one.name] = sum(folded.parts().values())
                if self.budget.latency:
                    networks[one.name] = folded
                self.watch.advance()
        if not self.budget.latency:
            return {name: Cost(size) for name, size in sizes.items()}
        timed = self._timed(networks, self.budget.batch)
        return {name: Cost(size, timed[name].latency_ms / 1e3) for name, size in sizes.items()}

    def _timed(self, networks: dict[str, nn.Module], batch: int) -> dict[str, Throughput]:
        """How fast networks are where the budget says, in turns."""
        self.watch.start("timing", 1)
        where = self.budget.where or self.setup.device
        example = self.setup.test.example(batch)
        found = compare(networks, example, batch_sizes=(batch,), device=where, **WINDOWS)
        self.watch.advance()
        return {name: one for name, (one,) in found.items()}

    def plan(self) -> SearchPlan:
        """What would be tried, and what it would take."""
        self.known.costs.update(self._costs())
        feasible, rounds = self._feasible(), []
        left = len(feasible)
        for epochs in self.rungs:
            rounds.append((left, epochs))
            left = _kept(left)
        rounds.append((min(left, FINALISTS), self.epochs))
        tried = tuple(Tried(one, self.known.costs[one.name], {}) for one in feasible)
        macs = {point.name: point.macs for point in self.cuts}
        seconds, memory = expected(self.setup, self.start, self.candidates, macs, rounds)
        return SearchPlan(tried, tuple(rounds), seconds, memory)

    # --- rounds -------------------------------------------------------------------------------

    def run(self) -> list[Tried]:
        """All rounds; what came of every candidate that took part."""
        left = self._feasible()
        self._choose_rate(left)
        for epochs in self.rungs:
            self.train(left, epochs)
            left = [one for one in left if epochs in self.tried(one).accuracies]
            left = self._best(left, _kept(len(left)))
        self._finals(left)
        tried = [self.tried(one) for one in self.candidates]
        if not any(self.epochs in one.accuracies for one in tried):
            raise ValueError(
                "every network that was to be trained to the end diverged. Check how images are "
                "normalised, and whether the uncut network is as accurate as it should be."
            )
        return [one for one in tried if one.accuracies]

    def _choose_rate(self, candidates: Sequence[Candidate]) -> None:
        """The learning rate that suits this network: one short training with each."""
        plain = [one for one in candidates if one.head == "pooled"] or list(candidates)
        probe = plain[len(plain) // 2]
        epochs = self.rungs[0] if self.rungs else self.epochs
        starts = [self.start.change(learning_rate=rate) for rate in RATES]
        reached = []
        for start in starts:
            trial = probe.trial(start, epochs)
            self._run(trial)
            found = not self.store.missing([trial])
            reached.append(self.store.read(trial).trained.accuracy if found else -1.0)
        self.start = starts[reached.index(max(reached))]

    def _feasible(self) -> list[Candidate]:
        """Candidates within the limits; the nearest to them where there are none."""
        costs, uncut = self.known.costs, self.known.costs["uncut"]
        within = [one for one in self.candidates if self.budget.allows(costs[one.name], uncut)]
        if within:
            return within
        near = sorted(self.candidates, key=lambda one: self.budget.excess(costs[one.name], uncut))
        return near[:LEAST]

    def train(self, candidates: Sequence[Candidate], epochs: int) -> None:
        """Train candidates for so many epochs, those that have not been."""
        for one in candidates:
            self._run(self.trial(one, epochs))

    def _run(self, trial: Trial) -> None:
        """Carry out a trial; one that diverges is remembered, and the search goes on."""
        if trial.name in self.known.diverged:
            return
        try:
            run_trials([trial], {"uncut": self.setup}, self.store, progress=self.watch)
        except DivergedError as error:
            self.known.diverged[trial.name] = str(error)
            self._remember()

    def trial(self, candidate: Candidate, epochs: int) -> Trial:
        """Of a candidate; those to the end are saved, and can be interrupted."""
        trial = candidate.trial(self.start, epochs)
        if epochs < self.epochs:
            return trial
        place = f"finalists/{self.candidates.index(candidate)}"
        return replace(trial, save=place, checkpoints=True)

    def tried(self, candidate: Candidate) -> Tried:
        """What is known of it."""
        found, seconds = {}, 0.0
        for epochs in (*self.rungs, self.epochs):
            trial = self.trial(candidate, epochs)
            if not self.store.missing([trial]):
                facts = self.store.read(trial).trained
                found[epochs] = facts.accuracy
                seconds += facts.seconds
        return Tried(candidate, self.known.costs[candidate.name], found, seconds=seconds)

    def _best(self, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
        """The ones to go on with: the most accurate under a limit, else those on frontiers."""
        tried = [self.tried(one) for one in candidates]
        if self.budget.drop is None:
            order = sorted(tried, key=lambda one: -one.accuracy)
            return [one.candidate for one in order[:count]]
        points = [(one.cost.parameters, one.accuracy, one.candidate) for one in tried]
        ranked = [one for layer in layers_of(points) for one in layer]
        return ranked[:count]

    def _finals(self, candidates: Sequence[Candidate]) -> None:
        """Train to the end: the best, or as few as it takes to find the smallest that will do."""
        if not self.rungs:  # so few epochs that there is one round
            self.train(candidates, self.epochs)
            return
        tried = [self.tried(one) for one in candidates]
        if self.budget.drop is None:
            best = sorted(tried, key=lambda one: -one.accuracy)[: FINALISTS // 2]
            self.train([one.candidate for one in best], self.epochs)
            return
        row = frontier((one.cost.parameters, one.accuracy, one.candidate) for one in tried)
        low, high = 0, len(row) - 1
        while low <= high:  # accuracy grows along the row, so halving it finds the place
            middle = (low + high) // 2
            self.train([row[middle]], self.epochs)
            done = self.tried(row[middle])
            if self.epochs in done.accuracies and self.reaches(done.accuracy):
                high = middle - 1
            else:
                low = middle + 1

    def reaches(self, accuracy: float) -> bool:
        """Whether that is close enough to the uncut network, on validation examples."""
        return self.budget.drop is None or accuracy >= self.setup.accuracy - self.budget.drop / 100

    # --- the choice ---------------------------------------------------------------------------

    def choose(self, tried: Sequence[Tried]) -> tuple[Tried | None, bool]:
        """Of those that were trained to the end, the one; and whether it is within the budget."""
        done = [one for one in tried if self.epochs in one.accuracies]
        uncut = self.known.costs["uncut"]
        within = [one for one in done if self.budget.allows(one.cost, uncut)]
        good = [one for one in within if self.reaches(one.accuracy)]
        if good and self.budget.drop is not None:
            return min(good, key=lambda one: one.cost.parameters), True
        if within:
            return max(good or within, key=lambda one: one.accuracy), bool(good)
        nearest = min(done, key=lambda one: self.budget.excess(one.cost, uncut), default=None)
        return nearest, False

    def network(self, candidate: Candidate) -> CutNetwork:
        """The trained network of a finalist, folded."""
        folder = self.store.folder / self.trial(candidate, self.epochs).save
        whole = self.setup.model  # whose class may be the user's own
        made = CutNetwork.from_pretrained(folder, backbone=whole)
        return made.to(self.setup.device).folded().eval()

    def finish(self, tried: Sequence[Tried]) -> tuple[list[Tried], Uncut]:
        """Test the finalists and the uncut network, once, and time them in turns."""
        done = [one for one in tried if self.epochs in one.accuracies]
        networks: dict[str, nn.Module] = {"uncut": self.setup.model}
        networks |= {one.candidate.name: self.network(one.candidate) for one in done}
        right = {}
        self.watch.start("testing", len(networks))
        for name, network in networks.items():
            right[name] = evaluate(network, self.final, device=self.setup.device).accuracy
            self.watch.advance()
        batch = self.budget.batch if self.budget.latency else self.start.timing.batch
        speeds = {name: one.median for name, one in self._timed(networks, batch).items()}
        finished = [
            replace(one, test=right[name], speed=speeds[name])
            if (name := one.candidate.name) in networks
            else one
            for one in tried
        ]
        uncut = Uncut(
            self.known.costs["uncut"], self.setup.accuracy, right["uncut"], speeds["uncut"]
        )
        return finished, uncut

    def correlations(self, tried: Sequence[Tried]) -> dict[str, float | None]:
        """How well signals of a cut rank what its best head reached in the first round."""
        rung = self.rungs[0] if self.rungs else self.epochs
        reached: dict[str, float] = {}
        for one in tried:
            if rung in one.accuracies:
                cut = one.candidate.cut
                reached[cut] = max(reached.get(cut, 0.0), one.accuracies[rung])
        cuts = list(reached)
        return {
            name: rank_correlation(
                [getattr(self.known.signals[cut], name) for cut in cuts],
                [reached[cut] for cut in cuts],
            )
            for name in SIGNALS
        }


def divided(
    model: nn.Module,
    data: DataSplit,
    limit: int | None = None,
    *,
    validation: Source | None = None,
    seed: int = 0,
    device: torch.device | str = "auto",
) -> tuple[Setup, Source]:
    """The network with what to train on and what to choose by, and what to test on at the end."""
    train, held, final = data.train, validation, data.test
    if held is None:
        # examples that nobody trained on: training images flatter a network that knows them
        held, final = split_source(data.test, 0.5, seed)
    if limit is not None:
        most = max(1, limit // len(train.classes))
        train = train.subset(choose_per_class(train.labels, most, seed))
    on = resolve_device("compress", device)
    return Setup("uncut", model, replace(data, train=train, test=held), on), final


@flat(searching=Searching)
def compress(
    model: nn.Module,
    data: DataSplit,
    budget: str | Iterable[str] | Budget,
    *,
    searching: Searching,
    out: str | Path | None = None,
    validation: Source | None = None,
    seed: int = 0,
    device: torch.device | str = "auto",
    origin: Origin = Origin(),  # noqa: B008 - frozen
    progress: Progress | str | None = "auto",
) -> Compressed:
    """Find a small network that does what ``model`` does, within a budget.

    Cuts of the network and heads behind them are tried in rounds: for a twelfth of the epochs, a
    third of them for a quarter, and the last few to the end. Plain heads take part like polynomial
    ones. Everything is tuned, with the network itself as the teacher.

    Parameters
    ----------
    model : Module
        The pretrained classifier. It is moved to ``device``, and its weights do not change.
    data : DataSplit
        What to train on, and what to test on.
    budget : str, list of str or Budget
        What it may lose and cost: ``"drop=0.5"`` (points), ``"params=1e6"``, ``"size=4MB"``,
        ``"latency=2ms@cpu,batch=1"``; shares of what the network has, such as ``"params=10%"``.
        With a drop, the smallest network that keeps to it is wanted; without, the most accurate.
    out : path or None, default=None
        Folder for everything, from which the same call goes on where it was interrupted.
    validation : data source or None, default=None
        Examples to choose by, which the network was not trained on; None takes half of the test
        part, and tests on the other half.
    searching : Searching
        Or its fields as keywords: ``epochs`` of the last round, 24; how many ``cuts`` are tried at
        most, 10; a ``limit`` on the training examples.
    origin : Origin
        For the record, and for a warning where the network is less accurate than it was.

    Returns
    -------
    Compressed
        The network, and the :class:`~vinets.search.result.SearchResult`.
    """
    begin = time.perf_counter()
    wanted = parse_budget(budget)
    with ExitStack() as stack:
        folder = Path(out if out is not None else stack.enter_context(TemporaryDirectory()))
        setup, final = divided(
            model, data, searching.limit, validation=validation, seed=seed, device=device
        )
        setup.warn_of_doubt(origin.stated)
        search = Search(setup, final, wanted, folder, searching, seed, progress)
        search.prepare()
        tried, uncut = search.finish(search.run())
        chosen, met = search.choose(tried)
        result = SearchResult(
            data=data.name,
            budget=wanted,
            uncut=uncut,
            tried=tuple(tried),
            chosen=None if chosen is None else chosen.candidate.name,
            met=met,
            verdict=verdict(wanted, uncut, tried, chosen, met),
            validation=len(search.setup.test),
            tested=len(search.final),
            correlations=search.correlations(tried),
            seconds=time.perf_counter() - begin,
            command=origin.command,
            machine=machine(search.setup.device),
        )
        write_json(folder / "results.json", as_plain(result))
        write_text(folder / "report.html", html(search_page(result)))
        net = search.setup.model if chosen is None else search.network(chosen.candidate)
        if out is not None and isinstance(net, CutNetwork):
            net.save_pretrained(folder)
        return Compressed(net, result)
