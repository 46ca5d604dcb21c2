"""A small network within a budget, from a trained one: the whole search in one call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from vinets.core.device import resolve_device
from vinets.core.executors import open_executor
from vinets.core.files import locked, write_json, write_text
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.core.settings import SearchOptions
from vinets.data.source import DataSplit, Source, require_split
from vinets.data.sources import limit_source, split_source
from vinets.measure import machine
from vinets.models.records import source_of, spec_of
from vinets.networks.network import CutNetwork
from vinets.networks.seen import refuse_seen
from vinets.report import Figure, Table, html
from vinets.runs.setup import Origin, Setup
from vinets.search.budget import Budget, parse_budget
from vinets.search.final import finish
from vinets.search.halving import Search
from vinets.search.page import finalists_table, frontier_figure, search_page
from vinets.search.repeat import Written
from vinets.search.result import SearchResult, Tried
from vinets.search.verdict import verdict

FINE = 0.5  # points: where one example is less, nothing is said of few examples


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
    require_split("compress", data)
    for tested in (data, validation):
        if tested is not None:
            refuse_seen("uncut", model, tested)
    train, held, final = data.train, validation, data.test
    if held is None:
        # examples that nobody trained on: training images flatter a network that knows them
        held, final = split_source(data.test, 0.5, seed)
    train = limit_source(train, limit, seed)
    on = resolve_device("compress", device)
    return Setup("uncut", model, replace(data, train=train, test=held), on), final


@flat(searching=SearchOptions)
def compress(
    model: nn.Module,
    data: DataSplit,
    budget: str | Iterable[str] | Budget,
    *,
    searching: SearchOptions,
    out: str | Path | None = None,
    validation: Source | None = None,
    seed: int = 0,
    device: torch.device | str = "auto",
    jobs: int | str = 1,
    origin: Origin = Origin(),  # noqa: B008 - frozen
    written: Written = Written(),  # noqa: B008 - frozen
    progress: Progress | str | None = "auto",
) -> Compressed:
    """Find a small network that does what ``model`` does, within a budget.

    Cuts of the network and heads behind them are tried in rounds: for an eighteenth of the epochs,
    a third of them for a sixth, and the last few to the end. Plain heads take part like polynomial
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
    searching : SearchOptions
        Or its fields as keywords: ``epochs`` of the last round, 36; how many ``cuts`` are tried at
        most, 10; a ``limit`` on the training examples; whether the uncut and the chosen network
        are measured in ``int8``, too.
    jobs : int or str, default=1
        Trainings of a round side by side, in processes that share the device; or the address of a
        cluster, see :func:`vinets.core.executors.open_executor`, whose workers have to see ``out``.
    origin : Origin
        For the record, and for a warning where the network is less accurate than it was.
    written : Written
        How the network and the data are written in the commands that repeat each point.

    Returns
    -------
    Compressed
        The network, and the :class:`~vinets.search.result.SearchResult`.
    """
    begin = time.perf_counter()
    wanted = parse_budget(budget)
    with ExitStack() as stack:
        folder = Path(out if out is not None else stack.enter_context(TemporaryDirectory()))
        stack.enter_context(locked(folder))
        setup, final = divided(
            model, data, searching.limit, validation=validation, seed=seed, device=device
        )
        setup.warn_of_low_accuracy(origin.stated)
        executor = stack.enter_context(open_executor(jobs))
        search = Search(setup, wanted, folder, searching, seed, executor, progress)
        search.prepare()
        tried = with_commands(search, search.run(), written, searching.limit)
        chosen, met = search.choose(tried)
        found = finish(
            search,
            tried,
            chosen,
            replace(data, test=final),
            int8=searching.int8,
            written=written,
        )
        result = SearchResult(
            data=data.name,
            budget=wanted,
            uncut=found.uncut,
            tried=found.tried,
            chosen=None if chosen is None else chosen.candidate.name,
            met=met,
            verdict="",
            validation=len(search.setup.test),
            tested=len(final),
            int8=found.int8,
            batch=found.batch,
            recorded=found.recorded,
            notes=(*found.notes, *_of_few(wanted, len(search.setup.test))),
            seconds=time.perf_counter() - begin,
            command=origin.command,
            machine=machine(search.setup.device),
        )
        result = replace(result, verdict=verdict(result))
        write_json(folder / "results.json", as_plain(result))
        write_text(folder / "report.html", html(search_page(result)))
        net = search.setup.model if chosen is None else search.network(chosen.candidate)
        if out is not None and isinstance(net, CutNetwork):
            net.save_pretrained(folder)
        return Compressed(net, result)


def _of_few(budget: Budget, validation: int) -> tuple[str, ...]:
    """A word where the examples to choose by are too few for the drop that is wanted."""
    if budget.drop is None or 100 / validation <= max(budget.drop, FINE):
        return ()
    return (
        f"The choice rests on {validation:,} validation examples: one of them is "
        f"{100 / validation:.1f} points, and a difference of {budget.drop:g} cannot be seen. "
        "Use more test examples, or allow a larger drop.",
    )


def with_commands(
    search: Search, tried: Sequence[Tried], written: Written, limit: int | None
) -> list[Tried]:
    """What was tried, with the command that makes each again."""
    points = {point.name: point for point in search.cuts}
    source = source_of(search.setup.model)
    architecture = None if source is None else spec_of(source)
    return [
        replace(
            one,
            command=written.build(
                one.candidate,
                points[one.candidate.cut],
                search.trial(one.candidate, one.epochs),
                limit,
                architecture,
            ),
        )
        for one in tried
    ]
