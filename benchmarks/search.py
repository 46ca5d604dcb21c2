"""What `vinets compress` finds on CIFAR, and how far that is from the best of everything.

    python -m benchmarks.search find resnet18 --budget drop=0.0 --seed 0 --weights weights \\
        --cifar10 data --out found

does what the command does, and keeps its result in ``benchmarks/results/search``. Everything that
the search may choose from, trained to the end, in parts that run side by side:

    python -m benchmarks.search everything resnet18 --budget params=10% --part 0/8 \\
        --weights weights --cifar10 data --out all
    python -m benchmarks.search gap --budget params=10%

shows how far the choice of each search within that budget is behind the best of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.record import RESULTS
from benchmarks.tuning import NETWORKS, files
from vinets.core.device import resolve_device
from vinets.core.files import write_json
from vinets.core.plain import as_plain, from_plain
from vinets.core.progress import Lines
from vinets.core.settings import SearchOptions
from vinets.heads import ProductsHead
from vinets.measure import evaluate, machine
from vinets.runs.setup import Setup
from vinets.search import Candidate, compress, parse_budget
from vinets.search.compress import divide
from vinets.search.result import Attempt, SearchResult
from vinets.search.rounds import Search

if TYPE_CHECKING:
    from vinets.report import Table

FOLDER = RESULTS / "search"


def find(setup: Setup, given: argparse.Namespace, searching: SearchOptions, command: str) -> None:
    """Search, and keep the result."""
    found = compress(
        setup.model,
        setup.data,
        given.budget,
        searching=searching,
        out=given.out,
        seed=given.seed,
        device=setup.device,
        command=command.split(),
        progress=Lines(),
    )
    name = f"{given.network}-{'-'.join(given.budget)}-{given.seed}.json"
    write_json(given.keep / name, as_plain(found))
    print(f"{found.seconds:.0f} s: {found}")


def everything(
    setup: Setup, given: argparse.Namespace, searching: SearchOptions, told: str
) -> None:
    """Train a part of the candidates within the budget to the end, and test them."""
    index, count = map(int, given.part.split("/"))
    budget = parse_budget(given.budget)
    chosen, final = divide(setup.model, setup.data, seed=given.seed, device=setup.device)
    folder = given.out / str(index)
    search = Search(chosen, budget, folder, searching, given.seed, progress=Lines())
    search.prepare(write=False)
    search.store.claim([], {chosen.name: chosen.identity})
    name = f"{given.network}-everything-{index}-{count}.json"
    known = json.loads(_read(given.keep / name))["tried"] if (given.keep / name).is_file() else []
    rows: list[dict[str, Any]] = list(known)
    done = {row["name"] for row in rows}
    # the latest cuts first: of what is left out when time is up, least is to be expected
    depth = {cut.name: number for number, cut in enumerate(search.space.cuts)}
    all_of_them = sorted(search.feasible(), key=lambda one: -depth[one.cut])
    for one in all_of_them[index::count]:
        if one.name in done:
            continue
        begin = time.perf_counter()
        search.train([one], search.epochs)
        attempt = search.attempts[one.name]
        if search.epochs in attempt.accuracies:
            network = search.network(attempt)
            tested = evaluate(network, final, device=setup.device).accuracy
            plain = as_plain(replace(attempt, test=tested, seconds=time.perf_counter() - begin))
            rows.append(plain | {"name": one.name})
        facts = {"network": given.network, "command": told, "machine": machine(setup.device)}
        facts |= {"budget": given.budget, "seed": given.seed, "uncut": chosen.accuracy}
        write_json(given.keep / name, facts | {"tried": rows})


def trained_to_the_end(network: str) -> dict[str, float]:
    """Accuracies of everything that was, on the examples that were held back."""
    parts = [json.loads(_read(p)) for p in sorted(FOLDER.glob(f"{network}-everything-*.json"))]
    return {row["name"]: float(row["test"]) for part in parts for row in part["tried"]}


def searches(budget: str) -> dict[Path, SearchResult]:
    """Searches on CIFAR with this budget, by file: networks in their order, then seeds."""
    paths = [path for name in NETWORKS for path in sorted(FOLDER.glob(f"{name}-{budget}-*.json"))]
    return {path: read_search(path) for path in paths}


def read_search(path: Path) -> SearchResult:
    """Read a search, with its verdict in today's words.

    In files of vinets 0.2, the uncut network and those in int8 have a form of their own, limits are
    fields of the budget, product heads are called "vi", and what is no longer measured is kept.
    """
    values = json.loads(_read(path))
    values.pop("verdict")
    if "tried" in values:
        for name in ("elsewhere", "correlations"):
            values.pop(name, None)
        budget, uncut = values["budget"], values["uncut"]
        names = {"params": "parameters", "size": "size", "latency": "latency"}
        limits = {kind: budget.pop(name) for kind, name in names.items()}
        budget["limits"] = {kind: limit for kind, limit in limits.items() if limit}
        values["uncut"] = uncut | {"candidate": None, "accuracies": {"0": uncut.pop("validation")}}
        values["attempts"] = values.pop("tried")
        by_name = {"uncut": values["uncut"]}
        for attempt in values["attempts"]:
            candidate = attempt["candidate"]
            candidate["parameters"] = candidate.pop("budget")
            candidate["head"] = {"vi": ProductsHead.kind}.get(candidate["head"], candidate["head"])
            by_name[from_plain(Candidate, candidate).name] = attempt
        for file in values.pop("int8"):
            attempt = by_name[file.pop("of")]
            cost = attempt["cost"] | {"stored": file.pop("size"), "latency": file["latency"]}
            epochs = max(attempt["accuracies"], key=int)
            accuracies = {epochs: file.pop("validation")}
            whole = {"candidate": attempt["candidate"], "cost": cost, "accuracies": accuracies}
            attempt["int8"] = file | whole
    return from_plain(SearchResult, values, path.name)


def _read(path: Path) -> str:
    return path.read_text().replace("VI-Net, degree", f"{ProductsHead.label}, degree")


def _choice(result: SearchResult) -> tuple[Attempt, float]:
    """What a search chose, with its accuracy on the examples that were held back."""
    choice = result.choice
    assert choice is not None and choice.test is not None
    return choice, choice.test


def found_table(found: dict[Path, SearchResult]) -> Table:
    """What each search chose, and how good that is on images that were looked at once."""
    from vinets.report import Column, Row, Table  # searches run where there is no rich

    columns = (
        Column("network"),
        Column("seed"),
        Column("chosen"),
        Column("parameters", "parameters", ","),
        Column("share", "share of uncut", ".1%"),
        Column("accuracy", "accuracy, %", ".2f"),
        Column("uncut", "uncut, %", ".2f"),
        Column("change", "Δ", "+.2f"),
    )
    rows, changes = [], defaultdict(list)
    for path, result in found.items():
        network, *_, seed = path.stem.split("-")
        choice, tested = _choice(result)
        change = 100 * (tested - result.uncut.test)
        changes[network].append(change)
        row = {"network": network, "seed": seed, "chosen": choice.name}
        row |= {"parameters": choice.cost.parameters}
        row |= {"share": choice.cost.parameters / result.uncut.cost.parameters}
        row |= {"accuracy": 100 * tested, "uncut": 100 * result.uncut.test, "change": change}
        rows.append(Row(row))
    for name, of in changes.items():
        rows.append(Row({"network": name, "chosen": "mean", "change": fmean(of)}))
    return Table("found", "What searches chose", columns, tuple(rows))


def gap_table(found: dict[Path, SearchResult]) -> Table:
    """How far choices are behind the best of everything, on the examples that were held back."""
    from vinets.report import Column, Row, Table

    columns = (
        *(Column("network"), Column("within", "candidates"), Column("done", "trained to the end")),
        *(Column("best"), Column("best_accuracy", "accuracy, %", ".2f")),
        *(Column("chosen"), Column("accuracy", "accuracy, %", ".2f")),
        Column("behind", format=".2f"),
    )
    rows = []
    for path, result in found.items():
        network = path.stem.partition("-")[0]
        all_of_them = trained_to_the_end(network)
        best = max(all_of_them, key=lambda name: all_of_them[name])
        choice, tested = _choice(result)
        row = {"network": network, "within": len(result.attempts), "done": len(all_of_them)}
        row |= {"best": best, "best_accuracy": 100 * all_of_them[best]}
        row |= {"chosen": choice.name, "accuracy": 100 * tested}
        row |= {"behind": 100 * (all_of_them[best] - tested)}
        rows.append(Row(row))
    return Table("gap", "Choices beside the best of everything", columns, tuple(rows))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    for name in ("find", "everything"):
        one = tasks.add_parser(name)
        one.add_argument("network", choices=NETWORKS)
        one.add_argument("--budget", action="append", required=True)
        one.add_argument("--weights", default="weights")
        one.add_argument("--cifar10", default="data")
        one.add_argument("--cifar100", default="data")
        one.add_argument("--epochs", type=int, default=SearchOptions().epochs)
        one.add_argument("--cuts", type=int, default=SearchOptions().cuts)
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--device", default="auto")
        one.add_argument("--out", type=Path, required=True, help="folder of the search")
        one.add_argument("--keep", type=Path, default=FOLDER, help="folder of the results")
        if name == "everything":
            one.add_argument("--part", default="0/1", help="which part, of how many")
    tasks.add_parser("gap").add_argument("--budget", default="params=10%")
    given = parser.parse_args(words)
    if given.task == "gap":
        from vinets.report import markdown

        print(markdown(gap_table(searches(given.budget))))
        return 0
    places = files(given.weights, {"cifar10": given.cifar10, "cifar100": given.cifar100})
    device: torch.device = resolve_device("benchmarks.search", given.device)
    setup = places[given.network].open(given.network, device)
    told = sys.argv[1:] if words is None else words
    # results name no folder of the machine that they were computed on
    command = " ".join(Path(word).name if word.startswith("/") else word for word in told)
    searching = SearchOptions(epochs=given.epochs, cuts=given.cuts, int8=False)
    run = find if given.task == "find" else everything
    run(setup, given, searching, f"python -m benchmarks.search {command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
