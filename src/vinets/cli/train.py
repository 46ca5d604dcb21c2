"""``vinets train``: a network from scratch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vinets.cli.options import (
    DATA,
    OUTPUT,
    TRAINING,
    Clip,
    Data,
    Device,
    Json,
    Quiet,
    Seed,
    Size,
    SplitSeed,
    option,
)
from vinets.cli.output import note, print_json, print_table, watching

if TYPE_CHECKING:
    from vinets.data import DataSplit
    from vinets.nn.uncut import UncutNetwork
    from vinets.pipeline.opening import Opened
    from vinets.training import Recipe

__all__ = ["SHOWN", "recipe_for", "train"]

SMALL: dict[str, dict[str, Any]] = {
    "digits_cnn": {"epochs": 15, "batch_size": 64, "learning_rate": 0.1}
}
"""What small networks train by, where that is not :data:`vinets.training.BACKBONE`."""

SHOWN = {
    "epochs": "90; 15 for digits_cnn",
    "batch_size": "256; 64 for digits_cnn",
    "learning_rate": "0.2; 0.1 for digits_cnn",
    "weight_decay": "0.0005",
    "schedule": "one-cycle",
    "label_smoothing": "0",
    "precision": "float32",
    "validation": "0",
}
"""Defaults in the help, which must not import torch."""


def train(
    model: Annotated[
        str,
        option(
            DATA, "--model", help="resnet18, resnet34, digits_cnn, timm:NAME or torchvision:NAME."
        ),
    ],
    data: Data,
    out: Annotated[Path, option(OUTPUT, "--out", help="Folder for the network.")],
    epochs: Annotated[
        int | None,
        option(
            TRAINING, "--epochs", help="Passes over the data.", show_default=SHOWN["epochs"], min=1
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        option(
            TRAINING,
            "--batch-size",
            help="Examples a step.",
            show_default=SHOWN["batch_size"],
            min=1,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        option(
            TRAINING,
            "--learning-rate",
            help="The largest one.",
            show_default=SHOWN["learning_rate"],
        ),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option(TRAINING, "--weight-decay", help="Of SGD.", show_default=SHOWN["weight_decay"]),
    ] = None,
    schedule: Annotated[
        str | None,
        option(
            TRAINING,
            "--schedule",
            help="cosine, one-cycle or constant.",
            show_default=SHOWN["schedule"],
        ),
    ] = None,
    label_smoothing: Annotated[
        float | None,
        option(
            TRAINING,
            "--label-smoothing",
            help="Of the cross-entropy, in [0, 1).",
            show_default=SHOWN["label_smoothing"],
        ),
    ] = None,
    clip: Clip = None,
    precision: Annotated[
        str | None,
        option(
            TRAINING,
            "--precision",
            help="float32 or bfloat16.",
            show_default=SHOWN["precision"],
        ),
    ] = None,
    validation: Annotated[
        float | None,
        option(
            TRAINING,
            "--validation",
            help="Share of the training data held out to choose the best epoch; 0 keeps the last.",
            show_default=SHOWN["validation"],
        ),
    ] = None,
    size: Size = None,
    split_seed: SplitSeed = 0,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a network from scratch, to be cut later.

    Writes network.json and weights.safetensors into the folder, and a checkpoint after every
    epoch: the same command goes on where it was interrupted. The network is evaluated on the
    test part at the end.

    Example: vinets train --model digits_cnn --data digits --out out/base
    """
    recipe = recipe_for(
        model,
        seed,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        schedule=schedule,
        label_smoothing=label_smoothing,
        clip=clip,
        precision=precision,
        validation=validation,
    )
    from vinets.data import load_data

    split = load_data(data, seed=split_seed, size=size)
    result = _train(model, split, out, recipe, device, quiet)
    if json:
        print_json(result)
        return
    shown = ("accuracy", "loss", "calibration_error")
    row = [f"{result['parameters']:,}", *(f"{result['test'][k]:.4f}" for k in shown)]
    row.append(f"{result['seconds']:.1f}")
    columns = [model, "parameters", *(name.replace("_", " ") for name in shown), "seconds"]
    print_table(columns, [[f"on {split.name}", *row]])
    note(f"Saved in {out}. Next: vinets cuts {out}", quiet)


def recipe_for(model: str, seed: int, **given: Any) -> Recipe:
    """The recipe of a network, with what was given in place of its own numbers."""
    from vinets.training import BACKBONE

    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(BACKBONE, **(SMALL.get(model, {}) | chosen | {"seed": seed}))


def _train(
    model: str, split: DataSplit, out: Path, recipe: Recipe, device: str, quiet: bool
) -> dict[str, Any]:
    from vinets.measure import evaluate, machine
    from vinets.nn.uncut import write_uncut
    from vinets.pipeline.experiment import CHECKPOINTS, claim, identify, resident
    from vinets.running import resolve_device
    from vinets.training import train_classifier

    place = resolve_device("vinets", device)
    opened = _made(model, split, recipe.seed)
    facts = identify(split)
    claim(out, {"model": model, "data": facts, "recipe": recipe.to_dict()})
    source, test = resident(split.train, place), resident(split.test, place)
    with watching(quiet) as progress:
        history = train_classifier(
            opened.network,
            source,
            recipe=recipe,
            directory=out / CHECKPOINTS,
            device=place,
            progress=progress,
        )
    tested = evaluate(opened.network, test.batches(512, device=place), device=place).to_dict()
    training = {
        "model": model,
        "data": facts,
        "recipe": recipe.to_dict(),
        "best_epoch": history.best,
        "seconds": history.seconds,
        "machine": machine(place),
        "test": tested,
    }
    backbone = _backbone(opened, split, training)
    write_uncut(out, backbone)
    count = sum(p.numel() for p in backbone.model.parameters())
    return {"out": str(out), "parameters": count} | training


def _made(model: str, split: DataSplit, seed: int) -> Opened:
    """The network with random weights, which takes the data."""
    import torch

    from vinets.pipeline.opening import channel_count, check_inputs, open_network

    example = split.train.example()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        opened = open_network(model, None, len(split.train.classes), channel_count(example))
    if opened.trained:
        raise ValueError(
            f"--model must be the name of a network to train from scratch. Got {model!r} instead."
        )
    check_inputs(opened, example)
    return opened


def _backbone(opened: Opened, split: DataSplit, training: dict[str, Any]) -> UncutNetwork:
    from vinets.models import source_of
    from vinets.nn.network import input_fields
    from vinets.nn.uncut import UncutNetwork

    model = opened.network.cpu()
    source = source_of(model)
    assert source is not None  # create_model made it
    inputs = input_fields(split.train.example())
    given = getattr(split.train, "preprocessing", None)
    return UncutNetwork(model, source, inputs, tuple(split.train.classes), given, training)
