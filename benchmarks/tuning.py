"""Which head, which tuning: trials of joint tuning on CIFAR, in pieces that merge.

Choices are made on images that were held out before the network was trained:

    python -m benchmarks.tuning hold-out --data cifar10:data --out held/cifar10
    python -m benchmarks.tuning train resnet18 --data cifar10:held/cifar10 --out held
    python -m benchmarks.tuning run choices --weights held --cifar10 held/cifar10 \\
        --cifar100 held/cifar100 --jobs 10

Then the networks and test images of the paper's tables, three seeds:

    python -m benchmarks.tuning run early --weights weights --cifar10 data --cifar100 data --jobs 10

Where products start, on a network that a CPU trains:

    python -m benchmarks.tuning train digits_cnn --data digits --out weights
    python -m benchmarks.tuning run digits --weights weights --device cpu

Results are kept in a store below ``benchmarks/results/tuning``, or in ``--out``, one line for each
trial, and the same call goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch

from vinets.core.device import resolve_device
from vinets.core.executors import open_executor
from vinets.core.progress import Lines
from vinets.core.settings import BACKBONE, SMALL_RECIPES, LatentOptions, TrainingOptions
from vinets.data import DataSplit, ImageSource, load_data
from vinets.data.conversion import split_source
from vinets.heads import HEADS as KINDS
from vinets.models import PRESETS, create_model, save_weights
from vinets.runs.setup import SetupFiles, wrong_answers
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import Trial
from vinets.training import train_classifier

if TYPE_CHECKING:
    from vinets.report import Table

NETWORKS = {"resnet18": "cifar10", "resnet34": "cifar100", "digits_cnn": "digits"}
HELD = 0.1  # of the training images

# What is read from a map is the map, and results are stored by the name "auto" of that.
START = Trial.of("products", read="auto", precision="bfloat16", checkpoints=False)
JOINT = START.recipe

EARLY = {  # cut: numbers that a head may store
    ("resnet18", "layer1.1.bn2"): 250_000,
    ("resnet18", "layer2.0.bn2"): 180_000,
    ("resnet34", "layer2.1.bn2"): 250_000,
    ("resnet34", "layer2.3.bn2"): 250_000,
}
EARLIEST = (("resnet18", "layer1.1.bn2"), ("resnet34", "layer2.1.bn2"))


def head_trial(start: Trial, head: str, parameters: int, **changes: Any) -> Trial:
    """Return the trial with another head, of that size where the size can be chosen."""
    names = {one.name for one in fields(KINDS[head].Options)}
    size = {"parameters": parameters} if "parameters" in names else {}
    return start.change(head=head, **size, **changes)


BOTH = ("products", "relu-units")
CHOICES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {  # which heads, and what differs
    "two factors, 16 patterns": (BOTH, {}),
    "two factors that start at 1": (("products",), {"offset": 1.0}),
    "64 patterns": (BOTH, {"spatial_rank": 64}),
    "three factors": (("products",), {"factors": 3}),
    "three factors that start at 1": (("products",), {"factors": 3, "offset": 1.0}),
    "the same, 64 patterns": (("products",), {"factors": 3, "offset": 1.0, "spatial_rank": 64}),
    "four factors that start at 1": (("products",), {"factors": 4, "offset": 1.0}),
    "standardised logits": (BOTH, {"standardize": True}),
    "learning rate 0.1": (BOTH, {"learning_rate": 0.1}),
    "backbone as fast as the head": (BOTH, {"backbone_rate": 1.0}),
    "weight decay 0.0005": (BOTH, {"weight_decay": 5e-4}),
    "learning rate 0.2": (BOTH, {"learning_rate": 0.2}),
    "0.1, backbone as fast": (BOTH, {"learning_rate": 0.1, "backbone_rate": 1.0}),
    "0.1, weight decay 0.002": (BOTH, {"learning_rate": 0.1, "weight_decay": 2e-3}),
    "0.1, distilled by 0.9": (BOTH, {"learning_rate": 0.1, "distill": 0.9}),
    "0.1, temperature 4": (BOTH, {"learning_rate": 0.1, "temperature": 4.0}),
    "0.1, standardised logits at temperature 1": (
        BOTH,
        {"learning_rate": 0.1, "standardize": True, "temperature": 1.0},
    ),
    "0.1, three factors": (("products",), {"learning_rate": 0.1, "factors": 3}),
}


def choice(network: str, cut: str, head: str, label: str) -> Trial:
    """One of the choices; a learning rate of 0.05 was the first look."""
    start = START.change(network=network, cut=cut)
    changes = {"learning_rate": 0.05} | CHOICES[label][1]
    return head_trial(start, head, EARLY[network, cut], **changes)


def choices() -> list[Trial]:
    """Degrees, patterns, starts and recipes, at the earliest cut of each network."""
    return [
        choice(network, cut, head, label)
        for network, cut in EARLIEST
        for label, (heads, _) in CHOICES.items()
        for head in heads
    ]


AGAIN = (  # cuts where factors and temperature are looked at with several seeds
    (("resnet18", "layer1.1.bn2"), 250_000),
    (("resnet18", "layer2.0.bn2"), 180_000),
    (("resnet18", "layer2.1.bn2"), 500_000),
    (("resnet34", "layer2.1.bn2"), 250_000),
)
WARMER = {"temperature": 4.0}
SECOND: dict[str, tuple[str, dict[str, Any]]] = {
    "two factors": ("products", {}),
    "three factors": ("products", {"factors": 3}),
    "ReLU units": ("relu-units", {}),
    "two factors, temperature 4": ("products", WARMER),
    "three factors, temperature 4": ("products", WARMER | {"factors": 3}),
    "ReLU units, temperature 4": ("relu-units", WARMER),
}
TRIED_RATES = (0.02, 0.05, 0.1)  # of heads that a rate chosen for products may not suit


def again(network: str, cut: str, budget: int, label: str, seed: int) -> Trial:
    """One of the second choices."""
    head, changed = SECOND[label]
    start = START.change(network=network, cut=cut, seed=seed)
    return head_trial(start, head, budget, **changed)


def second(seeds: int = 2) -> list[Trial]:
    """Factors and temperature once more, with several seeds."""
    return [
        again(network, cut, budget, label, seed)
        for seed in range(seeds)
        for (network, cut), budget in AGAIN
        for label in SECOND
    ]


def rate(network: str, cut: str, head: str, learning_rate: float) -> Trial:
    """One of the learning rates that are tried with another head."""
    start = START.change(network=network, cut=cut)
    return head_trial(start, head, EARLY[network, cut], learning_rate=learning_rate)


def rates() -> list[Trial]:
    """Learning rates of the other heads."""
    return [
        rate(network, cut, head, tried)
        for network, cut in EARLIEST
        for head in OTHERS
        for tried in TRIED_RATES
    ]


OTHERS = ("pooled", "linear", "mlp", "simkd")
HEADS = (*OTHERS, "relu-units", "products")
# What held-out images say of a network, other than the recipe: of its products, of all its heads,
# and of one head.
FACTORS = {"resnet18": 3}
TEMPERATURES = {"resnet18": 4.0}
RATES = {("resnet18", "linear"): 0.02}


def recipe_of(network: str, cut: str, head: str) -> TrainingOptions:
    """The recipe of a head behind one of the cuts of :func:`early` and :func:`variants`."""
    if (network, cut) in EARLY:
        rate = RATES.get((network, head), JOINT.learning_rate)
        temperature = TEMPERATURES.get(network, JOINT.temperature)
        return replace(JOINT, learning_rate=rate, temperature=temperature)
    return replace(JOINT, temperature=VARIANT_TEMPERATURES.get((network, cut), JOINT.temperature))


def early(seeds: int = 3) -> list[Trial]:
    """All heads of equal size behind the early cuts, each at its own learning rate."""
    made = []
    for seed in range(seeds):
        for (network, cut), budget in EARLY.items():
            for head in HEADS:
                recipe = recipe_of(network, cut, head)
                trial = START.change(network=network, cut=cut, recipe=recipe, seed=seed)
                own = {"factors": FACTORS.get(network, 2)} if head == "products" else {}
                made.append(head_trial(trial, head, budget, **own))
    return made


def vinet(vanish: Sequence[float] = (1.0, 0.1), seeds: int = 3) -> list[Trial]:
    """The paper's head, tuned together with the backbone by the recipe of :func:`early`.

    Its polynomials are generators of class ideals in 32 components of the flat map, and a loss,
    of the weights ``vanish``, keeps them small on their class. The second weight is the default of
    ``vinets build``.
    """
    network, cut = EARLIEST[0]
    sizes = {"components": 32, "max_degree": 2, "keep": 32, "monomials": None}
    start = Trial(
        network=network,
        cut=cut,
        latents=replace(START.latents, per_class=512),
        recipe=recipe_of(network, cut, "products"),
    ).change(train_projection=True, **sizes)
    return [start.change(vanish=weight, seed=seed) for weight in vanish for seed in range(seeds)]


def variants(head: str = "products", seeds: int = 3) -> list[Trial]:
    """A head, products by default, behind the eight cuts of the paper."""
    return [variant(*place, seed, head) for seed in range(seeds) for place in PRESETS.values()]


# With this size, all networks have fewer parameters than the paper's VI-Nets. Held-out images ask
# for something else behind one of the cuts.
VARIANT_PARAMETERS = 180_000
VARIANT_SIZES = {("resnet18", "layer2.1.bn2"): {"parameters": 500_000, "factors": 3}}
VARIANT_TEMPERATURES = {("resnet18", "layer2.1.bn2"): 4.0}


def variant(network: str, cut: str, seed: int, head: str = "products") -> Trial:
    """One of them."""
    recipe = recipe_of(network, cut, head)
    trial = START.change(network=network, cut=cut, recipe=recipe, seed=seed)
    own = VARIANT_SIZES.get((network, cut), {}) if head == "products" else {}
    return head_trial(trial, head, VARIANT_PARAMETERS).change(**own)


SETTINGS: dict[str, dict[str, Any]] = {
    "all examples": {},
    "all examples, backbone frozen": {"trained": "coefficients"},
    "two epochs": {"epochs": 2},
    "20 examples a class": {"train": 20, "longer": 4},
    "20 examples a class, backbone frozen": {"train": 20, "longer": 4, "trained": "coefficients"},
}
WAYS: dict[str, dict[str, Any]] = {
    "random": {},
    "generators": {"start": "ideal"},
    "random, vanishing loss": {"vanish": 0.3},
    "generators, vanishing loss": {"start": "ideal", "vanish": 0.3},
}


def start(trial: Trial, setting: str, way: str, seed: int) -> Trial:
    """Where a start from generators, or a loss that keeps them small, might matter."""
    changes = SETTINGS[setting] | WAYS[way]
    longer = changes.pop("longer", 1)  # few examples make short epochs
    changes = {"epochs": longer * trial.recipe.epochs} | changes
    # Both starts see the same latents.
    return trial.change(latents=LatentOptions(per_class=512, reuse=True), seed=seed, **changes)


def starts(trial: Trial, seeds: int) -> list[Trial]:
    """All of them."""
    return [
        start(trial, setting, way, seed)
        for seed in range(seeds)
        for setting in SETTINGS
        for way in WAYS
    ]


def ideals() -> list[Trial]:
    """The starts behind the earliest cuts."""
    made = []
    for network, cut in EARLIEST:
        trial = START.change(network=network, cut=cut, parameters=EARLY[network, cut])
        made += starts(trial, seeds=3)
    return made


SMALL_RECIPE = {"precision": "float32", "epochs": 12, "batch_size": 64}
DIGITS = {
    cut: START.change(network="digits_cnn", cut=cut, parameters=budget, **SMALL_RECIPE)
    for cut, budget in (("relu1", 6_000), ("relu2", 12_000))
}
SEEDS = 5


def digits() -> list[Trial]:
    """The starts on a small network, where a CPU is enough."""
    return [trial for each in DIGITS.values() for trial in starts(each, SEEDS)]


PLANS = {
    "choices": choices,
    "early": early,
    "vinet": vinet,
    "variants": variants,
    "ideals": ideals,
}
PLANS |= {"digits": digits, "pooled": lambda: variants("pooled"), "second": second, "rates": rates}
RESULTS = Path("benchmarks") / "results" / "tuning"
FOLDERS = {"choices": "held", "second": "held", "rates": "held", "digits": "digits"}  # else "test"


# --- tables -----------------------------------------------------------------------------------


def choice_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """The choices that were tried on held-out images, and the machine."""
    from vinets.report import Column, Row, Table  # trials run where there is no rich

    store = Store(folder)
    columns, rows, machine = [Column("choice")], [], {}
    for network, cut in EARLIEST:
        columns += [
            Column(f"{network} {head}", f"{network} {cut}: {name}, %", ".2f")
            for head, name in (("products", "products"), ("relu-units", "ReLU units"))
        ]
    for label, (heads, _) in CHOICES.items():
        row: dict[str, Any] = {"choice": label}
        for network, cut in EARLIEST:
            for head in heads:
                trial = choice(network, cut, head, label)
                if not store.missing([trial]):
                    record = store.record(trial)
                    row[f"{network} {head}"] = 100 * record.result.trained.accuracy
                    machine = dict(record.machine)
        if len(row) > 1:
            rows.append(Row(row))
    return Table("choices", "Choices on held-out images", tuple(columns), tuple(rows)), machine


def second_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """Factors and temperatures on held-out images, over the seeds that there are."""
    from vinets.report import Column, Row, Table

    store = Store(folder)
    columns = [Column("network"), Column("cut"), Column("budget", "in the head, at most", ",")]
    columns += [Column(label, f"{label}, %", ".2f", f"{label} std") for label in SECOND]
    rows, machine = [], {}
    for (network, cut), budget in AGAIN:
        row: dict[str, Any] = {"network": network, "cut": cut, "budget": budget}
        for label in SECOND:
            trials = [again(network, cut, budget, label, seed) for seed in range(2)]
            records = [store.record(trial) for trial in trials if not store.missing([trial])]
            if records:
                found = [100 * record.result.trained.accuracy for record in records]
                row[label] = fmean(found)
                row[f"{label} std"] = stdev(found) if len(found) > 1 else None
                machine = dict(records[0].machine)
        rows.append(Row(row))
    return Table("second", "Factors and temperature", tuple(columns), tuple(rows)), machine


def rate_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """Learning rates of the other heads on held-out images."""
    from vinets.report import Column, Row, Table

    store = Store(folder)
    columns = [Column("network"), Column("cut"), Column("head")]
    columns += [Column(str(tried), f"learning rate {tried}, %", ".2f") for tried in TRIED_RATES]
    rows, machine = [], {}
    for network, cut in EARLIEST:
        for head in OTHERS:
            row: dict[str, Any] = {"network": network, "cut": cut, "head": KINDS[head].label}
            for tried in TRIED_RATES:
                trial = rate(network, cut, head, tried)
                if not store.missing([trial]):
                    record = store.record(trial)
                    row[str(tried)] = 100 * record.result.trained.accuracy
                    machine = dict(record.machine)
            rows.append(Row(row))
    return Table("rates", "Learning rates of other heads", tuple(columns), tuple(rows)), machine


def start_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """Accuracies of all starts on the small network, and the machine."""
    from vinets.report import Column, Row, Table

    store = Store(folder)
    columns = [Column("cut"), Column("training")]
    columns += [Column(way, f"{way}, %", ".2f", f"{way} std") for way in WAYS]
    rows, machine = [], {}
    for cut, trial in DIGITS.items():
        for setting in SETTINGS:
            row: dict[str, Any] = {"cut": cut, "training": setting}
            for way in WAYS:
                records = [store.record(start(trial, setting, way, k)) for k in range(SEEDS)]
                found = [100 * record.result.trained.accuracy for record in records]
                row |= {way: fmean(found), f"{way} std": stdev(found)}
                machine = dict(records[0].machine)
            rows.append(Row(row))
    return Table("starts", "Where products start", tuple(columns), tuple(rows)), machine


# --- data and networks ------------------------------------------------------------------------


def hold_out(data: str, folder: Path) -> None:
    """Write a data set in CIFAR's binary layout whose test part is cut from the training part."""
    split = load_data(data)
    kept, held = split_source(split.train, HELD, 0)
    coarse = len(split.train.classes) > 10
    if coarse:
        names = {"train.bin": kept, "test.bin": held}
        inner, listing = "cifar-100-binary", "fine_label_names.txt"
    else:
        parts = torch.arange(len(kept)).chunk(5)
        names = {f"data_batch_{i}.bin": kept.subset(p) for i, p in enumerate(parts, 1)}
        names["test_batch.bin"] = held
        inner, listing = "cifar-10-batches-bin", "batches.meta.txt"
    (folder / inner).mkdir(parents=True, exist_ok=True)
    for name, source in names.items():
        assert isinstance(source, ImageSource)
        labels = source.labels.to(torch.uint8)[:, None]
        labels = labels.repeat(1, 2 if coarse else 1)  # coarse labels are not read
        rows = torch.cat([labels, source.images.flatten(1)], 1)
        (folder / inner / name).write_bytes(rows.numpy().tobytes())
    (folder / inner / listing).write_text("\n".join(split.train.classes) + "\n")


def train(model: str, data: str, out: Path, epochs: int) -> None:
    """Train a network from scratch by the recipe of the others."""
    split: DataSplit = load_data(data)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    network = create_model(model, len(split.train.classes))
    source = split.train
    assert isinstance(source, ImageSource)
    recipe = replace(BACKBONE, epochs=epochs, precision="bfloat16")
    if model in SMALL_RECIPES:
        recipe = SMALL_RECIPES[model]
    history = train_classifier(
        network, source.to(device), recipe=recipe, device=device, progress=None
    )
    wrong = wrong_answers(network.eval(), split.test, device)
    print(f"{model}: {1 - len(wrong) / len(split.test):.4f} held out, {history.seconds:.0f} s")
    out.mkdir(parents=True, exist_ok=True)
    name = f"{model}_{NETWORKS[model]}.safetensors"
    save_weights(network.cpu() if model in SMALL_RECIPES else network.half().cpu(), out / name)


def files(weights: str, data: dict[str, str]) -> dict[str, SetupFiles]:
    """Where networks and data lie."""
    return {
        network: SetupFiles(
            network,
            f"{weights}/{network}_{name}.safetensors",
            f"{name}:{data[name]}" if name in data else name,
        )
        for network, name in NETWORKS.items()
    }


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options of :func:`run`."""
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--cluster", help="dask://HOST:PORT or ray://HOST:PORT, in place of jobs")
    parser.add_argument("--recorded", action="store_true", help="replay steps of training on a GPU")


def run(
    trials: Sequence[Trial],
    networks: Mapping[str, SetupFiles],
    folder: Path,
    given: argparse.Namespace,
) -> None:
    """Carry out the trials that have no result in the folder yet."""
    device = resolve_device("run", given.device)
    if given.recorded:
        trials = [trial.change(recorded=True) for trial in trials]
    with open_executor(given.cluster or given.jobs) as executor:
        store = Store(folder)
        run_trials(trials, networks, store, device=device, executor=executor, progress=Lines())
    print(f"{len(trials)} trials in {folder}")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    held = tasks.add_parser("hold-out")
    held.add_argument("--data", required=True)
    held.add_argument("--out", type=Path, required=True)
    trained = tasks.add_parser("train")
    trained.add_argument("model", choices=NETWORKS)
    trained.add_argument("--data", required=True)
    trained.add_argument("--out", type=Path, required=True)
    trained.add_argument("--epochs", type=int, default=50)
    plan = tasks.add_parser("run", help="the trials of a plan")
    plan.add_argument("name", choices=PLANS)
    plan.add_argument("--weights", default="weights")
    plan.add_argument("--cifar10", default="data")
    plan.add_argument("--cifar100", default="data")
    plan.add_argument("--out", type=Path, help="folder of the results")
    add_running(plan)
    given = parser.parse_args(words)
    if given.task == "hold-out":
        hold_out(given.data, given.out)
    elif given.task == "train":
        train(given.model, given.data, given.out, given.epochs)
    else:
        networks = files(given.weights, {"cifar10": given.cifar10, "cifar100": given.cifar100})
        folder = given.out or RESULTS / FOLDERS.get(given.name, "test")
        run(PLANS[given.name](), networks, folder, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
