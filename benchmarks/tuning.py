"""Which head, which tuning: trials of joint tuning on CIFAR, in pieces that merge.

Choices are made on images that were held out before the network was trained:

    python -m benchmarks.tuning hold-out --data cifar10:data --out held/cifar10
    python -m benchmarks.tuning train resnet18 --data cifar10:held/cifar10 --out held
    python -m benchmarks.tuning plan choices --held held --out choices.json
    python -m vinets.run choices.json --out benchmarks/results/tuning/held --jobs 10

Then the networks and test images of the paper's tables, three seeds:

    python -m benchmarks.tuning plan early --weights weights --data data --out early.json
    python -m vinets.run early.json --out benchmarks/results/tuning/test --jobs 10
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

from vinets.data import DataSplit, ImageSource, load_data
from vinets.data.sources import split_source
from vinets.models import PRESETS, create_model, save_weights
from vinets.pipeline.setup import SetupFiles, wrong_answers
from vinets.pipeline.trial import Trial
from vinets.run import write_list
from vinets.settings import BACKBONE, Collecting, Recipe, Tuning
from vinets.training import train_classifier

NETWORKS = {"resnet18": "cifar10", "resnet34": "cifar100"}
HELD = 0.1  # of the training images

JOINT = Recipe(
    epochs=24,
    batch_size=256,
    learning_rate=0.05,
    weight_decay=1e-3,
    nesterov=True,
    schedule="one-cycle",
    precision="bfloat16",
    validation=0.0,
    distill=0.7,
)
START = Trial(
    recipe=JOINT,
    tuning=Tuning(tune="all"),
    # a few latents tell the shape, which is all that heads without ideals need
    collecting=Collecting(per_class=8, reuse=True),
    checkpoints=False,
)

EARLY = {  # cut: numbers that a head may store
    ("resnet18", "layer1.1.bn2"): 250_000,
    ("resnet18", "layer2.0.bn2"): 180_000,
    ("resnet34", "layer2.1.bn2"): 250_000,
    ("resnet34", "layer2.3.bn2"): 250_000,
}


def choices() -> list[Trial]:
    """Degrees, patterns, starts and recipes, at the earliest cut of each network."""
    products = [
        {"factors": 2, "spatial_rank": 16},
        {"factors": 2, "spatial_rank": 16, "offset": 1.0},
        {"factors": 2, "spatial_rank": 64},
        {"factors": 3, "spatial_rank": 16},
        {"factors": 3, "spatial_rank": 16, "offset": 1.0},
        {"factors": 3, "spatial_rank": 64, "offset": 1.0},
        {"factors": 4, "spatial_rank": 16, "offset": 1.0},
    ]
    recipes = [
        {"standardize": True},
        {"learning_rate": 0.1},
        {"backbone_rate": 1.0},
        {"weight_decay": 5e-4},
    ]
    made = []
    for network, cut in (("resnet18", "layer1.1.bn2"), ("resnet34", "layer2.1.bn2")):
        start = START.change(network=network, cut=cut, head_parameters=EARLY[network, cut])
        units = [start.change(head="relu-units", spatial_rank=rank) for rank in (16, 64)]
        made += units
        made += [start.change(head="products", **each) for each in products]
        for each in recipes:
            made += [
                start.change(head=head, spatial_rank=16, **each)
                for head in ("products", "relu-units")
            ]
    return made


HEADS = ("pooled", "linear", "mlp", "simkd", "relu-units", "products")


def early(seeds: int = 3) -> list[Trial]:
    """All heads of equal size behind the early cuts."""
    return [
        START.change(network=network, cut=cut, head=head, head_parameters=budget, seed=seed)
        for seed in range(seeds)
        for (network, cut), budget in EARLY.items()
        for head in HEADS
    ]


def variants(seeds: int = 3) -> list[Trial]:
    """The eight cuts of the paper, by a pooled linear layer and by products."""
    made = []
    for seed in range(seeds):
        for preset in PRESETS.values():
            start = START.change(network=preset.backbone, cut=preset.cut, seed=seed)
            start = start.change(head_parameters=180_000)
            made += [start.change(head=head) for head in ("pooled", "products")]
    return made


PLANS = {"choices": choices, "early": early, "variants": variants}


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
    history = train_classifier(
        network, source.to(device), recipe=recipe, device=device, progress=None
    )
    wrong = wrong_answers(network.eval(), split.test, device)
    print(f"{model}: {1 - len(wrong) / len(split.test):.4f} held out, {history.seconds:.0f} s")
    out.mkdir(parents=True, exist_ok=True)
    name = f"{model}_{NETWORKS[model]}.safetensors"
    save_weights(network.half().cpu(), out / name)


def files(weights: str, data: dict[str, str]) -> dict[str, SetupFiles]:
    """Where networks and data lie."""
    return {
        network: SetupFiles(
            network, f"{weights}/{network}_{name}.safetensors", f"{name}:{data[name]}"
        )
        for network, name in NETWORKS.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    held = tasks.add_parser("hold-out")
    held.add_argument("--data", required=True)
    held.add_argument("--out", type=Path, required=True)
    trained = tasks.add_parser("train")
    trained.add_argument("model", choices=NETWORKS)
    trained.add_argument("--data", required=True)
    trained.add_argument("--out", type=Path, required=True)
    trained.add_argument("--epochs", type=int, default=50)
    plan = tasks.add_parser("plan")
    plan.add_argument("name", choices=PLANS)
    plan.add_argument("--weights", default="weights")
    plan.add_argument("--cifar10", default="data")
    plan.add_argument("--cifar100", default="data")
    plan.add_argument("--out", required=True)
    given = parser.parse_args()
    if given.task == "hold-out":
        hold_out(given.data, given.out)
    elif given.task == "train":
        train(given.model, given.data, given.out, given.epochs)
    else:
        trials = PLANS[given.name]()
        places = {"cifar10": given.cifar10, "cifar100": given.cifar100}
        networks = files(given.weights, places)
        used = {trial.network for trial in trials}
        write_list(given.out, {k: v for k, v in networks.items() if k in used}, trials)
        print(f"{len(trials)} trials in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
