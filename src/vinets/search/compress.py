"""A small network within a budget, from a trained one: the whole search in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from vinets.core.device import each, resolve_device
from vinets.core.executors import open_executor
from vinets.core.files import locked, write_json, write_text
from vinets.core.options import gather
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.core.settings import SampleOptions, SearchOptions, SpeedOptions
from vinets.data.conversion import limit_source, split_source
from vinets.data.source import DataSplit, Source, require_split
from vinets.export import ExportedNetwork, export_network, open_exported
from vinets.measure import evaluate, flops, machine
from vinets.measure.accuracy import over_images
from vinets.networks.network import CutNetwork, refuse_seen
from vinets.report import html
from vinets.runs.setup import Setup, wrong_answers
from vinets.runs.store import Store
from vinets.search.budget import Budget, in_turns, parse_budget, relative_spread
from vinets.search.page import search_page
from vinets.search.result import Attempt, SearchPlan, SearchResult
from vinets.search.rounds import SEARCH, Search
from vinets.search.space import INT8, CommandWords

MAX_EXAMPLE_POINTS = 0.5  # points that one example may be worth without a note, whatever the drop
PLANNED_ON = 250  # about as many examples of each part a plan looks at
BUSY_SPREAD = 0.15  # share by which the uncut network's time varies on a machine that is busy


def compress(
    model: nn.Module,
    data: DataSplit,
    budget: str | Iterable[str] | Budget,
    *,
    searching: SearchOptions | None = None,
    out: str | Path | None = None,
    validation: Source | None = None,
    seed: int = 0,
    device: torch.device | str = "auto",
    jobs: int | str = 1,
    command: Sequence[str] = (),
    stated: float | None = None,
    say: Callable[[str], Any] = str,
    words: CommandWords = CommandWords(),  # noqa: B008 - frozen
    progress: Progress | str | None = "auto",
    **options: Any,
) -> SearchResult:
    """Find a small network that does what ``model`` does, within a budget.

    Cuts of the network and heads behind them are tried in rounds: for an eighteenth of the epochs,
    a third of them for a sixth, and the last few to the end. Plain heads take part like polynomial
    ones. Everything is tuned, with the network itself as the teacher.

    Parameters
    ----------
    model
        The pretrained classifier. It is moved to ``device``, and its weights do not change.
    budget
        What it may lose and cost: ``"drop=0.5"`` (points), ``"params=1e6"``, ``"size=4MB"``,
        ``"macs=50%"``, ``"latency=2ms@cpu,batch=1"``; shares of what the network has, such as
        ``"params=10%"``. With a drop, the smallest network that keeps to it is wanted; without,
        the most accurate.
    out
        Folder for everything, from which the same call goes on where it was interrupted.
    validation
        Examples to choose by, which the network was not trained on; None takes half of the test
        part, and tests on the other half.
    searching
        Or its fields as keywords: ``epochs`` of the last round, 36; how many ``cuts`` are tried at
        most, 10; a ``limit`` on the training examples; whether the uncut and the chosen network
        are measured in ``int8``, too.
    jobs
        Trainings of a round side by side, in processes that share the device; or the address of a
        cluster, see :func:`vinets.core.executors.open_executor`, whose workers have to see ``out``.
    command, stated, say, words
        What started it, for the record; the accuracy of the network when it was saved, for a
        warning where it is less accurate now, which ``say`` is told before any work; and how the
        commands that repeat each network name this one and the data.
    """
    begin = time.perf_counter()
    wanted, start = parse_budget(budget), {"searching": searching or SearchOptions()}
    known = compress.__annotations__  # for the hint at a name that was meant
    groups: Any = gather("compress", {"searching": SearchOptions}, options, start, known)
    searching = groups["searching"]
    with ExitStack() as stack:
        folder = Path(out if out is not None else stack.enter_context(TemporaryDirectory()))
        stack.enter_context(locked(folder))
        Store(folder, SEARCH).check_kind()
        setup, final = divide(
            model, data, searching.limit, validation=validation, seed=seed, device=device
        )
        remedy = "" if searching.despite_doubt else "--despite-doubt (despite_doubt=True)"
        setup.look_at_accuracy(stated, say, remedy=remedy)
        executor = None if jobs == 1 else stack.enter_context(open_executor(jobs))
        search = Search(setup, wanted, folder, searching, seed, executor, progress)
        search.prepare()
        attempts = search.run()
        chosen, met = search.choose(attempts)
        name = None if chosen is None else chosen.name
        split = replace(data, test=final)
        measured, facts = measure(search, attempts, name, split, words, searching)
        network = setup.model if chosen is None else search.network(chosen)
        saved = ""
        if out is not None and isinstance(network, CutNetwork):
            for told in ("results.json", "report.html"):  # never those of another network
                (folder / told).unlink(missing_ok=True)
            network.save_pretrained(folder)
            saved = str(out) if words == CommandWords() else words.saved
        result = SearchResult(
            data=data.name,
            budget=wanted,
            uncut=measured.pop("uncut"),
            attempts=tuple(measured.values()),
            chosen=name,
            met=met,
            validation=len(setup.test),
            tested=len(final),
            skipped=data.skipped,
            seconds=time.perf_counter() - begin,
            command=tuple(command),
            machine=machine(setup.device),
            saved=saved,
            network=network,
            **facts,
        )
        write_json(folder / "results.json", as_plain(result))
        write_text(folder / "report.html", html(search_page(result)))
        return result


def plan(
    model: nn.Module,
    data: DataSplit,
    budget: Budget,
    searching: SearchOptions,
    *,
    seed: int = 0,
    device: torch.device | str = "auto",
    stated: float | None = None,
    say: Callable[[str], Any] = str,
    progress: Progress | str | None = "auto",
) -> SearchPlan:
    """Say what :func:`compress` would try, and how long it would take, from some of the data.

    Nothing is written.
    """
    whole, _ = divide(model, data, searching.limit, seed=seed, device=device)
    most = -(-PLANNED_ON // len(whole.train.classes))
    setup = whole.sampled(SampleOptions(train=most, test=most))
    setup.look_at_accuracy(stated, say)
    options: dict[str, Any] = {"progress": progress, "examples": len(whole.train)}
    return Search(setup, budget, Path(), searching, seed, **options).plan()


def divide(
    model: nn.Module,
    data: DataSplit,
    limit: int | None = None,
    *,
    validation: Source | None = None,
    seed: int = 0,
    device: torch.device | str = "auto",
) -> tuple[Setup, Source]:
    """Return the network with examples to train on and to choose by, and those to test on."""
    require_split("compress", data)
    for tested in (data, validation):
        if tested is not None:
            refuse_seen("uncut", model, tested)
    held, final = validation, data.test
    if held is None:
        # Nobody trained on these examples; training images flatter a network that knows them.
        held, final = split_source(data.test, 0.5, seed)
    split = replace(data, train=limit_source(data.train, limit, seed), test=held)
    return Setup("uncut", model, split, resolve_device("compress", device)), final


def measure(
    search: Search,
    attempts: Iterable[Attempt],
    chosen: str | None,
    data: DataSplit,
    words: CommandWords,
    searching: SearchOptions,
) -> tuple[dict[str, Attempt], dict[str, Any]]:
    """Test the finalists and the uncut network on the test part, once, and time them in turns.

    If it is wanted, the uncut and the chosen network are measured in int8 as well, calibrated on
    the training part. Returned are the uncut network as "uncut" and all attempts, by name and with
    their commands, and the fields ``batch``, ``recorded`` and ``notes`` of a result.
    """
    setup, notes, watch, budget = search.setup, list[str](), search.watch, search.budget
    costs, accuracies = search.table.costs["uncut"], {0: setup.accuracy}
    measured = {"uncut": Attempt(None, costs, accuracies, command=words.evaluate())}
    networks: dict[str, nn.Module] = {"uncut": setup.model}
    for one in attempts:
        assert one.candidate is not None
        last = one.epochs == search.epochs
        training = one.candidate, one.epochs, search.rates[last], searching.limit
        measured[one.name] = replace(one, command=search.space.command(words, *training))
        if last:
            networks[one.name] = search.network(one)
    watch.start("testing", len(networks))
    wrong, example = {}, each(setup.test.example(), lambda tensor: tensor.to(setup.device))
    for name, network in networks.items():
        wrong[name] = wrong_answers(network, data.test, setup.device)
        cost = replace(measured[name].cost, macs=flops(network, example) // 2)
        measured[name] = replace(measured[name], cost=cost)
        watch.advance()
    turns = dict(networks)
    where = resolve_device("compress", budget.where or setup.device)
    for name in [one for one in networks if one in ("uncut", chosen) and searching.int8]:
        try:
            file, quantized = quantize(search, measured[name], networks[name], data, words)
        except (ModuleNotFoundError, ValueError) as error:
            notes.append(f"There is no int8 of {name}: {error}")
            continue
        measured[name] = replace(measured[name], int8=quantized)
        if where.type == "cpu":  # the only device on which files run
            turns[f"{name} in int8"] = file
    batch, long = budget.batch if budget.latency else SpeedOptions().batch, bool(budget.latency)
    timed = in_turns(turns, setup.test.example(batch), batch, where, watch, long, memory=True)
    speeds: dict[str, dict[str, Any]] = {}
    for name, speed in timed.items():
        latency = speed.latency_ms / 1e3
        spread = latency * relative_spread(speed)
        speeds[name] = {"speed": speed.median, "latency": latency, "spread": spread}
        speeds[name]["memory"] = speed.peak_memory
    count = len(data.test)
    for name, answers in wrong.items():
        one = replace(measured[name], test=1 - len(answers) / count, **speeds[name])
        if name != "uncut":
            one = replace(one, interval=over_images([(answers, wrong["uncut"], count)]).interval)
        if one.int8 is not None:
            times = speeds.get(f"{name} in int8", {})
            cost = replace(one.int8.cost, latency=times.get("latency"), spread=times.get("spread"))
            one = replace(one, int8=replace(one.int8, cost=cost, **times))
        measured[name] = one
    noise, few = relative_spread(timed["uncut"]), 100 / len(setup.test)  # points of one example
    if noise > BUSY_SPREAD:
        notes.append(
            f"The machine was busy while networks were timed: the speed of the uncut network "
            f"varied by ± {noise:.0%} from one window to the next. Time them again with vinets "
            "bench when nothing else runs."
        )
    if budget.drop is not None and few > max(budget.drop, MAX_EXAMPLE_POINTS):
        notes.append(
            f"The choice rests on {len(setup.test):,} validation examples: one of them is "
            f"{few:.1f} points, and a difference of {budget.drop:g} cannot be seen. Use more "
            "test examples, or allow a larger drop."
        )
    recorded = timed["uncut"].recorded
    return measured, {"batch": batch, "recorded": recorded, "notes": tuple(notes)}


def quantize(
    search: Search, one: Attempt, network: nn.Module, data: DataSplit, words: CommandWords
) -> tuple[ExportedNetwork, Attempt]:
    """Return a network in int8, and the attempt that stands for it; raise if there can be none."""
    search.watch.start("int8", 1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        options = {"data": data, "device": search.setup.device, "seed": search.seed}
        report = export_network(network, path, format=INT8, most_lost=100.0, **options)
        file = open_exported(path)
    validation = evaluate(file, search.setup.data.test, device="cpu").accuracy
    search.watch.advance()
    return file, Attempt(
        one.candidate,
        replace(one.cost, stored=report.size),
        {one.epochs: validation},
        test=report.accuracy,
        command=words.quantize(one.candidate is None, search.seed),
    )
