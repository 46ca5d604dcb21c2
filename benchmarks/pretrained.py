"""Make the networks that come with the package, and measure what their cards say.

First an uncut network by its recipe, whose accuracy becomes the one to expect of it; the test part
is looked at once, at the end:

    python -m benchmarks.pretrained recipe digits-cnn --out out/uncut
    python -m benchmarks.pretrained recipe cifar10-resnet18 --data cifar10:data --out out/uncut
    python -m benchmarks.pretrained recipe cifar100-resnet34 --data cifar100:data --out out/uncut

Then the cut networks, of these or of other weights (a file, or a folder of ``vinets train``):

    python -m benchmarks.pretrained network digits-cnn-products --weights out/uncut/digits-cnn-0 \\
        --out out/vinets
    python -m benchmarks.pretrained network resnet18-cifar10-products --data cifar10:data \\
        --weights out/uncut/cifar10-resnet18-0 --out out/vinets

Each is stored in half precision in ``src/vinets/pretrained``, with its card and its digests. A
training that was stopped goes on where it was. A network that was trained on another machine is
measured and stored from its folder; its card names the machine and the command of the training:

    python -m benchmarks.pretrained store resnet18-cifar10-products --data cifar10:data \\
        --weights out/uncut/cifar10-resnet18-0 --out out/vinets

``python -m benchmarks.pretrained cards`` writes the cards anew from the facts in ``card.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.tuning import DIGITS, early, variant
from vinets import pretrained
from vinets.core.device import each, evaluating, resolve_device
from vinets.core.files import read_json, write_json, write_text
from vinets.core.plain import as_plain
from vinets.core.progress import Lines
from vinets.core.settings import RECIPES
from vinets.data import DataSplit, ImageSource, load_data
from vinets.heads import HEADS, PolynomialHead
from vinets.heads.facts import measure_vanishing
from vinets.heads.vanishing import GeneratorOptions
from vinets.measure import evaluate, flops, machine, measure_speed, sizes
from vinets.models import PRESETS
from vinets.models.networks import SIZES
from vinets.networks.network import CutNetwork
from vinets.networks.storage import CONFIG, MODEL, WEIGHTS, read_uncut
from vinets.runs.compare import UNCUT, compare_heads, head_trials
from vinets.runs.scratch import train_into
from vinets.runs.setup import Setup, SetupFiles
from vinets.runs.store import Store
from vinets.runs.trial import Trial

if TYPE_CHECKING:
    from vinets.report import Table


@dataclass(frozen=True)
class Made:
    """A network to make: of which uncut network, by which trial."""

    recipe: str
    trial: Trial
    licence: str  # of the data


def _early(network: str, cut: str) -> Trial:
    return next(t for t in early(1) if (t.network, t.cut, t.head) == (network, cut, "products"))


POLYNOMIALS = {
    "products": "products of linear forms",
    "vanishing": "polynomials that were found as generators of the ideals of the classes",
    "local": "generators of the ideals of the classes, at every position of the map",
}
CIFAR = "CIFAR is given away for research without a licence of its own"
UCI = "the digits are those of the UCI Machine Learning Repository, CC BY 4.0"
NETWORKS = {
    "digits-cnn-products": Made("digits-cnn", DIGITS["relu1"], UCI),
    "digits-cnn-vinet": Made(
        "digits-cnn",
        Trial.of("vanishing", network="digits_cnn", cut="pool", **SIZES["digits_cnn"]),
        UCI,
    ),
    "resnet18-cifar10-vinet": Made(
        "cifar10-resnet18",
        Trial.of(
            **{"network": "resnet18", "cut": "layer2.1.bn2", "components": 24, "max_degree": 2},
            **{"train_projection": True, "keep": 16, "monomials": None},
            **{"views": 2, "dtype": "float16"},
        ),
        CIFAR,
    ),
    "resnet18-cifar10-products": Made(
        "cifar10-resnet18", variant(*PRESETS["VI-Net18-Tiny"], 0), CIFAR
    ),
    "resnet18-cifar10-products-small": Made(
        "cifar10-resnet18", _early("resnet18", "layer2.0.bn2"), CIFAR
    ),
    "resnet34-cifar100-products": Made(
        "cifar100-resnet34", _early("resnet34", "layer2.3.bn2"), CIFAR
    ),
}


# --- uncut networks ---------------------------------------------------------------------------


def train(name: str, data: str, out: Path, seeds: int, device: str, **changes: Any) -> None:
    """Train by a recipe, once a seed, and keep what came of it as what to expect."""
    chosen, split = RECIPES[name], load_data(data)
    runs = []
    for seed in range(seeds):
        recipe = replace(chosen.recipe, seed=seed, **changes)
        folder = out / f"{name}-{seed}"
        run = train_into(
            folder, chosen.model, split, recipe=recipe, device=device, progress=Lines()
        )
        print(f"{folder}: {run.test['accuracy']:.2%}", flush=True)
        runs.append(run)
    if changes:
        print("Nothing was kept: this is not the recipe itself.")
        return
    known = read_json(pretrained.HERE / pretrained.RECIPES)
    known[name] = {
        "accuracies": [run.test["accuracy"] for run in runs],
        "examples": len(split.test),
        "seconds": fmean(run.seconds for run in runs),
        "command": _command(),
        "machine": runs[0].machine,
    }
    write_json(pretrained.HERE / pretrained.RECIPES, known)


# --- cut networks -----------------------------------------------------------------------------


def make(name: str, data: str, weights: Path, out: Path, device: str, **changes: Any) -> None:
    """Train a cut network, put it into the package, and measure it there."""
    made, setup = NETWORKS[name], _open(name, data, weights, device)
    compare_heads(
        setup.model,
        setup.data,
        made.trial.change(**changes),
        out / name,
        device=setup.device,
        command=shlex.split(_command()),
        progress=Lines(),
    )
    if changes:
        print("Nothing was kept: this is not the network of that name.")
        return
    store(name, setup, weights, out / name)


def _open(name: str, data: str, weights: Path, device: str) -> Setup:
    file = weights / WEIGHTS if weights.is_dir() else weights
    files = SetupFiles(RECIPES[NETWORKS[name].recipe].model, str(file), data)
    return files.open(UNCUT, resolve_device("pretrained", device))


def store(name: str, setup: Setup, weights: Path, trained: Path) -> None:
    """Put a network that was trained into a folder into the package, and measure it there."""
    made = NETWORKS[name]
    facts = _uncut(weights, made) | _training(trained, setup, made)
    network, folder = CutNetwork.from_pretrained(trained), pretrained.HERE / name
    network.half().save_pretrained(folder)
    files = [CONFIG, MODEL, *_picture(folder, setup.data, made)]
    digests = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files}
    # with digests, the network can be opened by its name, as it is measured
    _write(folder, digests, {})
    full = pretrained.PREFIX + name
    _write(folder, digests, facts_of(full, setup, made) | facts)
    write_text(folder / "README.md", card(full, pretrained.facts(full)))


def _write(folder: Path, digests: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    write_json(folder / pretrained.CARD, {"files": digests, "facts": facts})
    pretrained._cards.cache_clear()


def _uncut(weights: Path, made: Made) -> dict[str, Any]:
    """Where the uncut network comes from: its recipe, or else a file."""
    if weights.is_dir():
        told = read_uncut(weights).record.notes["recipe"]
        free = {name: told[name] for name in ("seed", "recorded")}  # it is the recipe with any
        if told == as_plain(replace(RECIPES[made.recipe].recipe, **free)):
            return {"weights": None}
        weights = weights / WEIGHTS
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    return {"weights": {"file": weights.name, "sha256": digest}}


def _training(trained: Path, setup: Setup, made: Made) -> dict[str, Any]:
    """Where and how a network was trained, as its folder has it; refused if it is another one."""
    (trial,) = head_trials(replace(made.trial, network=UNCUT), baselines=False).values()
    kept = Store(trained, "a cut network")
    if kept.missing([trial]):
        raise ValueError(f"{trained} does not hold the network that is to be stored: train it.")
    kept.claim([trial], {UNCUT: setup.identity})
    command = read_json(trained / "results.json")["command"]
    if not command:
        raise ValueError(f"{trained / 'results.json'} does not say by which command it was made.")
    # not that of results.json, which is written again wherever a finished command is repeated
    return {"trained_on": kept.record(trial).machine, "command": shlex.join(command)}


def _picture(folder: Path, data: DataSplit, made: Made) -> list[str]:
    """A test image of data that may be handed on, as a file to try the network with."""
    if made.licence is not UCI:
        return []
    from PIL import Image

    assert isinstance(data.test, ImageSource)
    Image.fromarray(data.test.images[0, 0].cpu().numpy()).save(folder / pretrained.EXAMPLE)
    return [pretrained.EXAMPLE]


def facts_of(name: str, setup: Setup, made: Made) -> dict[str, Any]:
    """What the card tells, measured on the network as everybody opens it."""
    on, whole = setup.device, setup.model  # which stays there: it is still to be tested
    network = CutNetwork.from_pretrained(name).folded().to(on)
    found = evaluate(network, setup.test.batches(512, device=on), device=on)
    example = setup.data.test.example()
    there = each(example, lambda t: t.to(on))
    timed = measure_speed(
        {"uncut": whole, "vinet": network},
        example,
        batch_sizes=(1, 64),
        device="cpu",
        threads=1,
        seconds=0.5,
        repeats=11,
    )
    file = pretrained.HERE / name.removeprefix(pretrained.PREFIX) / MODEL
    return {
        "data": RECIPES[made.recipe].data.partition(":")[0],
        "data_licence": made.licence,
        "classes": len(setup.train.classes),
        "train": len(setup.train),
        "test": len(setup.test),
        "inputs": list(example.shape[1:]),  # type: ignore[union-attr]
        "network": RECIPES[made.recipe].model,
        "recipe": made.recipe,
        "cut": str(made.trial.cut),
        "head": network.head.kind,
        "trained": made.trial.recipe.trained,
        "vanishing": _vanishing(network, setup, made),
        "tuned": network.record.notes.get("tuned", "head"),
        "distill": made.trial.recipe.distill,
        "epochs": made.trial.recipe.epochs,
        "seed": made.trial.seed,
        "accuracy": found.accuracy,
        "uncut_accuracy": setup.accuracy,
        "parameters": sum(sizes(network).by_part.values()),
        "uncut_parameters": setup.parameters,
        "flops": flops(network, there),
        "uncut_flops": flops(whole, there),
        "bytes": file.stat().st_size,
        "speed": [
            {
                "batch": ours.batch_size,
                "images_per_second": ours.median,
                "uncut_images_per_second": theirs.median,
                "ratio": ours.ratio_to(theirs),
            }
            for ours, theirs in zip(timed["vinet"], timed["uncut"], strict=True)
        ],
        "timed_on": machine("cpu") | {"torch_threads": 1},
        "licence": "MIT",
    }


def _vanishing(network: CutNetwork, setup: Setup, made: Made) -> dict[str, Any] | None:
    """How the polynomials of a VI-Net vanish on the test images; None of other networks."""
    head = network.head
    options = made.trial.options
    if not (isinstance(head, PolynomialHead) and isinstance(options, GeneratorOptions)):
        return None
    with evaluating(network):
        batches = setup.test.batches(512, device=setup.device)
        seen = [(head.variables(network.latents(x)), y) for x, y in batches]
    found = measure_vanishing(head.polynomials, seen, options.psi)
    return as_plain(found) | {"said": str(found), "psi": options.psi}


def card(name: str, facts: Mapping[str, Any]) -> str:
    """The model card, in Markdown."""
    timed, trained = facts["timed_on"], facts["trained_on"]
    speeds = "\n".join(
        f"| images per second, batches of {one['batch']} | {one['images_per_second']:,.0f} | "
        f"{one['uncut_images_per_second']:,.0f} | {one['ratio']:.2f}× |"
        for one in facts["speed"]
    )
    shape = " × ".join(map(str, facts["inputs"]))
    part = facts["parameters"] / facts["uncut_parameters"]
    flops = facts["flops"] / facts["uncut_flops"]
    gained = 100 * (facts["accuracy"] - facts["uncut_accuracy"])
    recipe, given = f"`vinets train --recipe {facts['recipe']}`", facts["weights"]
    uncut = (
        f"trained by {recipe},"
        if given is None
        else f"with the weights of `{given['file']}` (SHA-256 `{given['sha256']}`, not included; "
        f"{recipe} trains a network of the same kind),"
    )
    head = HEADS[facts["head"]]
    kind, loader = f"network with a {head.label}", "CutNetwork"
    if head.from_ideals:
        kind, loader = head.label, "VINet"
    tuned = "they and the backbone were" if facts["tuned"] != "head" else "they were"
    tuned += f" tuned for {facts['epochs']} epochs"
    if facts.get("trained") == "classifier" and facts["tuned"] == "head":
        tuned = "the linear layer behind them was trained to the minimum of its loss"
    taught = ", with the uncut network as the teacher" if facts["distill"] else ""
    vanishing = ""
    if facts.get("vanishing"):
        vanishing = (
            f"**How its polynomials vanish.** On the test images, {facts['vanishing']['said']} "
            f"(psi = {facts['vanishing']['psi']:g}). `net.polynomials(label)` returns them.\n\n"
        )
    return f"""# {name}

A {kind} for {facts["data"]}: {facts["classes"]} classes, images of {shape} pixels.

```python
from vinets import {loader}

net = {loader}.from_pretrained("{name}")
```

```
vinets predict {name} picture.png
```

| | this network | uncut {facts["network"]} | |
|---|---:|---:|---:|
| accuracy on the {facts["test"]:,} test images | {facts["accuracy"]:.2%} | \
{facts["uncut_accuracy"]:.2%} | {gained:+.2f} points |
| parameters | {facts["parameters"]:,} | {facts["uncut_parameters"]:,} | {part:.1%} |
| operations for an image | {facts["flops"]:,} | {facts["uncut_flops"]:,} | {flops:.1%} |
{speeds}

Speeds: one thread of {timed["processor"]}, torch {timed["torch"]}, the two networks in turns. The \
ratio is what counts: speeds alone depend on what else a machine does.

**How it was made.** {facts["network"]}, {uncut} was cut at `{facts["cut"]}`. Behind the cut \
stand {POLYNOMIALS[facts["head"]]}; {tuned} on {facts["train"]:,} training images{taught}, on \
{trained["gpu"] or trained["processor"]} with torch \
{trained["torch"]}, seed {facts["seed"]}. \
{facts.get("choices") or "No choice was made by the test images."} \
Weights are stored in half precision ({facts["bytes"] / 1e6:.2f} MB) and computed with in single.

```
{facts["command"]}
```

{vanishing}**What it is not.** It knows images like those it was trained on. For others it answers \
just as surely, and wrongly.

**Licence.** {facts["licence"]} for the weights; {facts["data_licence"]}.
"""


# --- tables -----------------------------------------------------------------------------------


def networks_table() -> Table:
    """The networks of the package."""
    from vinets.report import Column, Row, Table  # networks are made where there is no rich

    columns = (
        *(Column("name"), Column("data"), Column("accuracy", "accuracy, %", ".2f")),
        Column("uncut", "uncut, %", ".2f"),
        Column("parameters", format=","),
        Column("share", "of the uncut network", ".1%"),
        Column("speed", "speed, 1 image", ".2f×"),
        Column("speeds", "64 images", ".2f×"),
        Column("size", "MB", ".2f"),
    )
    rows = []
    for name in pretrained.names():
        facts = pretrained.facts(name)
        values = {
            "name": f"`{name}`",
            "data": facts["data"],
            "accuracy": 100 * facts["accuracy"],
            "uncut": 100 * facts["uncut_accuracy"],
            "parameters": facts["parameters"],
            "share": facts["parameters"] / facts["uncut_parameters"],
            "speed": facts["speed"][0]["ratio"],
            "speeds": facts["speed"][1]["ratio"],
            "size": facts["bytes"] / 1e6,
        }
        rows.append(Row(values))
    return Table("pretrained", "Networks of the package", columns, tuple(rows))


def recipes_table() -> Table:
    """The recipes of uncut networks, with what came of those that were carried out."""
    from vinets.report import Column, Row, Table

    columns = (
        *(Column("recipe"), Column("network"), Column("epochs", format=",")),
        Column("expected", "accuracy to expect"),
        Column("minutes", format=".1f"),
        Column("machine", "measured on"),
    )
    rows = []
    for name, made in RECIPES.items():
        known = pretrained.expected(name)
        values: dict[str, Any] = {
            "recipe": f"`{name}`",
            "network": made.model,
            "epochs": made.recipe.epochs,
            "expected": pretrained.expectation(name) or "not measured yet",
        }
        if known is not None:
            where = known["machine"]["gpu"] or known["machine"]["processor"]
            values |= {"machine": where}
            if "seconds" in known:  # not where other work ran beside it
                values |= {"minutes": known["seconds"] / 60}
        rows.append(Row(values))
    return Table("recipes", "Recipes", columns, tuple(rows))


def _command() -> str:
    """As it was called, without paths of the machine."""
    words = [re.sub("(?<![^:])[^:]*/", "", word) for word in sys.argv[1:]]
    return "python -m benchmarks.pretrained " + shlex.join(words)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    for task, known in (("recipe", RECIPES), ("network", NETWORKS), ("store", NETWORKS)):
        one = tasks.add_parser(task)
        one.add_argument("name", choices=list(known))
        one.add_argument("--data", help="as for vinets train; needed for CIFAR")
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--device", default="auto")
        if task != "store":
            one.add_argument("--epochs", type=int, help="for a look at it; nothing is kept then")
        if task == "recipe":
            one.add_argument("--seeds", type=int, default=1)
        else:
            one.add_argument("--weights", type=Path, required=True)
    tasks.add_parser("cards")
    given = parser.parse_args()
    if given.task == "cards":
        for name in pretrained.names():
            folder = pretrained.HERE / name.removeprefix(pretrained.PREFIX)
            write_text(folder / "README.md", card(name, pretrained.facts(name)))
        return 0
    recipe = given.name if given.task == "recipe" else NETWORKS[given.name].recipe
    data = given.data or RECIPES[recipe].data
    if given.task == "store":
        setup = _open(given.name, data, given.weights, given.device)
        store(given.name, setup, given.weights, given.out / given.name)
        return 0
    changes = {} if given.epochs is None else {"epochs": given.epochs}
    if given.task == "recipe":
        train(given.name, data, given.out, given.seeds, given.device, **changes)
    else:
        make(given.name, data, given.weights, given.out, given.device, **changes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
