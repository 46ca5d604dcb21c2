"""``vinets train``: a network from scratch."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from vinets.cli.generate import takes
from vinets.cli.options import (
    DATA,
    OUTPUT,
    Filling,
    Reading,
    TrainingData,
    opened_again,
    option,
)
from vinets.cli.output import note, print_json, watching
from vinets.core.files import locked
from vinets.core.settings import BACKBONE, RECIPES, SMALL, TrainingOptions

# There is no teacher, no head and no cut; the seed is that of the command.
WITHOUT = (
    *("seed", "distill", "temperature", "standardize", "vanish"),
    *("trained", "backbone_rate", "backbone_decay", "norms", "memory_format", "compiled"),
    *("views", "dtype", "projected"),
)


def _words(name: str) -> str:
    """The default of a field of the recipe, and what small networks have instead."""
    usual = getattr(BACKBONE, name)
    others = {net: getattr(recipe, name) for net, recipe in SMALL.items()}
    differ = [f"{value} for {net}" for net, value in others.items() if value != usual]
    # a dict takes 1 for True and 0 for False, so numbers are kept out of it
    text = {True: "yes", False: "no"}.get(usual, usual) if isinstance(usual, bool) else usual
    return "; ".join(["no limit" if usual is None else str(text), *differ])


@dataclass(frozen=True)
class RecipeData(TrainingData):
    """Where data to train on comes from; a recipe knows."""

    data: Annotated[str, option(DATA, "{data formats}.", show_default="that of the recipe")] = ""


@takes(WITHOUT, {"settings": _words}, settings=TrainingOptions)
@takes(("weights",), reading=RecipeData, common=Filling)
def train(
    *,
    model: Annotated[
        str | None, option(DATA, "{networks}.", show_default="that of the recipe")
    ] = None,
    recipe: Annotated[
        str | None,
        option(
            DATA,
            "Network, data and training by one name, with what to expect: {recipes}. Other options "
            "override it; data of CIFAR lie in the folder data, unless --data says where.",
            show_default="none",
            autocompletion=lambda: list(RECIPES),
        ),
    ] = None,
    reading: RecipeData,
    out: Annotated[Path, option(OUTPUT, "Folder for the network.")],
    settings: dict[str, Any],
    common: Filling,
) -> None:
    """Train a network from scratch, to be cut later.

    Writes network.json and weights.safetensors into the folder, and checkpoints between epochs:
    the same command goes on after the last of them. The network is evaluated on the test part at
    the end.

    Example: vinets train --model digits_cnn --data digits --out out/base

    Example: vinets train --recipe cifar10-resnet18 --out weights/cifar10-resnet18
    """
    from vinets.core.plain import as_plain
    from vinets.data import load_data
    from vinets.data.images import augment_by, normalise_by
    from vinets.measure.doubt import AccuracyWarning, low_accuracy_sentence
    from vinets.report import Column, Row, Table, print_table
    from vinets.runs.scratch import expectation, recipe_called, recipe_for, train_into

    if recipe is None and (model is None or not reading.data):
        raise ValueError(
            "Pass --model and --data, or --recipe, which has both, such as --recipe digits-cnn."
        )
    data, start = reading.data, recipe_for(model or "")
    if recipe is not None:
        known = recipe_called(recipe)
        if model is not None and model != known.model:
            raise ValueError(f"{recipe} is for {known.model}. Leave out --model, or --recipe.")
        model, data, start = known.model, data or known.data, known.recipe
    assert model is not None
    chosen = replace(start, **settings, seed=common.seed)
    split = load_data(data, seed=reading.split_seed, size=reading.size)
    images = reading.keywords()["images"]
    split = augment_by(normalise_by(split, images.mean, images.std), images.flip, images.crop)
    with locked(out, wait=common.wait), watching(common.quiet) as progress:
        run = train_into(out, model, split, recipe=chosen, device=common.device, progress=progress)
    tested_on, right = len(split.test), run.test["accuracy"]
    sentence = low_accuracy_sentence(model, right, tested_on, len(split.test.classes), stated=right)
    if sentence is not None:
        warnings.warn(sentence, AccuracyWarning, stacklevel=2)
    if common.json:
        print_json({"out": str(out)} | as_plain(run))
        return
    columns = (
        Column("parameters", format=","),
        Column("accuracy", format=".2%"),
        Column("loss", format=".4f"),
        Column("calibration_error", "calibration error", ".4f"),
        Column("seconds", format=".1f"),
    )
    values = run.test | {"parameters": run.parameters, "seconds": run.seconds}
    print_table(Table("training", f"{model} on {split.name}", columns, (Row(values),)))
    if recipe is not None and not settings and (words := expectation(recipe)):
        note(f"The recipe is known to reach {words}.", common.quiet)
    again = shlex.join((opened_again(out, model), *replace(reading, data=data).words(Reading)))
    note(
        f"Saved in {out}. Next: vinets compress {again} --budget drop=1 --out out/small",
        common.quiet,
    )
