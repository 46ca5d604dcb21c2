"""Torch-Pruning beside what `vinets compress` found on photographs, at as many epochs.

    pip install torch-pruning==1.6.1
    python -m benchmarks.photographs out/pets --out benchmarks/results/search/pets_pruned.json

The folder is that of a search. Its network and data are opened as its command says, and the network
is pruned, by as much of each layer and by a ranking over all of them, to the size of what was
chosen. Each is tuned with the recipe of the search, the uncut network as the teacher and several
learning rates, of which the validation examples choose. All are timed in turns.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.rivals.networks import parameters, pruned
from benchmarks.rivals.plan import SCOPES
from vinets.core.files import write_json
from vinets.core.progress import Lines
from vinets.core.settings import TrainingOptions
from vinets.heads import ProductsHead
from vinets.measure import evaluate, flops, machine
from vinets.measure.accuracy import over_images
from vinets.networks import CutNetwork
from vinets.runs.on_data import open_uncut
from vinets.runs.setup import wrong_answers
from vinets.search.budget import in_turns
from vinets.search.compress import divide
from vinets.search.rounds import RATES
from vinets.training import Lessons, train_classifier

BATCH = 256


def opened(command: Sequence[str]) -> tuple[nn.Module, Any, argparse.Namespace]:
    """Return the network and the data of a search, and the options of its command."""
    words = argparse.ArgumentParser()
    words.add_argument("model")
    for name in ("weights", "data", "classes", "resize"):
        words.add_argument(f"--{name}")
    for name in ("mean", "std", "scale"):
        words.add_argument(f"--{name}", type=lambda text: tuple(map(float, text.split(","))))
    words.add_argument("--flip", action=argparse.BooleanOptionalAction)
    words.add_argument("--crop", type=float)
    for name, usual in (("size", None), ("epochs", 36), ("seed", 0)):
        words.add_argument(f"--{name}", type=int, default=usual)
    given, _ = words.parse_known_args(command[2:])
    names = ("weights", "classes", "size", "resize", "mean", "std", "flip", "crop", "scale")
    reading = {name: getattr(given, name) for name in names}
    found, _, split = open_uncut(given.model, given.data, **reading)
    return found.network, split, given


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("search", type=Path, help="folder of a search")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args(words)
    results = json.loads((asked.search / "results.json").read_text("utf-8"))
    uncut, split, given = opened(results["command"])
    setup, final = divide(uncut, split, seed=given.seed, device=asked.device)
    chosen = CutNetwork.from_pretrained(asked.search, backbone=uncut).to(setup.device)
    size, lessons = parameters(chosen.folded()), Lessons(uncut)
    recipe = TrainingOptions(**ProductsHead.training_defaults | {"trained": "coefficients"})
    recipe = replace(recipe, epochs=given.epochs, batch_size=64, seed=given.seed)
    networks: dict[str, nn.Module] = {"uncut": uncut, "chosen": chosen}
    tried: dict[str, Any] = {"uncut": {}, "chosen": {}}
    example = setup.test.example()
    for scope in SCOPES:
        best, accuracies = -1.0, {}
        for rate in RATES:
            network = pruned(uncut, size, scope, example).to(setup.device)
            how: Any = {"teacher": lessons, "device": setup.device, "progress": Lines()}
            how["directory"] = asked.search / "pruned" / f"{scope}-{rate:g}"
            train_classifier(
                network, setup.train, recipe=replace(recipe, learning_rate=rate), **how
            )
            reached = evaluate(network, setup.test, device=setup.device).accuracy
            print(f"{scope}, rate {rate:g}: {reached:.4f}", flush=True)
            accuracies[str(rate)] = reached
            if reached > best:
                best, networks[scope] = reached, network
        tried[scope] = {"validation": accuracies}
    wrong = {name: wrong_answers(one, final, setup.device) for name, one in networks.items()}
    turns = in_turns(
        networks, setup.test.example(BATCH), BATCH, setup.device, Lines(), True, memory=True
    )
    for name, network in networks.items():
        gap = over_images([(wrong[name], wrong["uncut"], len(final))])
        tried[name] |= {
            "test": 1 - len(wrong[name]) / len(final),
            "interval": gap.interval,
            "parameters": parameters(network),
            "macs": flops(network, example) // 2,
            "latency": turns[name].latency_ms / 1e3,
            "memory": turns[name].peak_memory,
        }
    facts = {"machine": machine(setup.device), "search": results["command"]}
    facts["torch_pruning"] = importlib.metadata.version("torch-pruning")
    told = ["python", "-m", "benchmarks.photographs", *(sys.argv[1:] if words is None else words)]
    write_json(asked.out, facts | {"command": shlex.join(told), "tested": len(final)} | tried)
    return 0


if __name__ == "__main__":
    sys.exit(main())
