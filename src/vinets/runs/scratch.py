"""Train a network from scratch into a folder, to be cut later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vinets.core.device import resolve_device
from vinets.core.files import locked
from vinets.core.plain import as_plain, changes, nearest
from vinets.core.progress import Progress
from vinets.core.settings import BACKBONE, RECIPES, SMALL_RECIPES, TrainingOptions, UncutRecipe
from vinets.data import DataSplit
from vinets.heads.base import seeded
from vinets.latent.collect import record_of
from vinets.measure import evaluate, machine
from vinets.networks.open import channel_count, check_inputs, is_saved, make_network
from vinets.networks.storage import write_uncut
from vinets.runs.setup import Setup
from vinets.runs.store import Store
from vinets.runs.tasks import CHECKPOINTS
from vinets.training import train_classifier


@dataclass(frozen=True)
class TrainingRun:
    """How a network was trained, and what came of it."""

    model: str  # its name
    data: dict[str, Any]  # what it was trained on
    recipe: TrainingOptions
    best_epoch: int  # the one that was kept
    seconds: float  # all epochs
    machine: dict[str, Any]  # see vinets.measure.machine
    test: dict[str, Any]  # fields of vinets.measure.Evaluation
    parameters: int


def recipe_for(model: str) -> TrainingOptions:
    """Return the default recipe of a network."""
    return SMALL_RECIPES.get(model, BACKBONE)


def recipe_called(name: str) -> UncutRecipe:
    """Return the recipe of that name; see :data:`vinets.core.settings.RECIPES`."""
    if name not in RECIPES:
        raise ValueError(
            f"There is no recipe {name!r}.{nearest(name, RECIPES)} There are: {', '.join(RECIPES)}."
        )
    return RECIPES[name]


def train_into(
    out: str | Path,
    model: str,
    data: DataSplit,
    *,
    recipe: TrainingOptions | None = None,
    options: Mapping[str, Any] | None = None,
    device: torch.device | str = "auto",
    progress: Progress | str | None = "auto",
) -> TrainingRun:
    """Train a network from scratch, test it, and write it into a folder.

    Checkpoints are written between epochs: the same call goes on after the last of them. Other
    settings or data in the same folder are refused. The network is named as for
    :func:`vinets.models.create_model`; without a recipe, it takes that of :func:`recipe_for`, whose
    seed is that of the first weights, too.
    """
    recipe = recipe_for(model) if recipe is None else recipe
    example, classes = data.train.example(), tuple(data.train.classes)
    if is_saved(model):
        raise ValueError(
            f"model must be the name of a network to train from scratch. Got {model!r} instead."
        )
    with seeded(recipe.seed):
        network = make_network(model, len(classes), channel_count(example), options)
    check_inputs(network, example)
    on, folder = resolve_device("train_into", device), Path(out)
    setup = Setup(model, network.network, data, on)
    facts = setup.facts  # before the network knows what it is trained on
    with locked(folder):
        settings = {"model": model, "recipe": changes(recipe)}
        # The weights to begin with need no digest: they follow from the seed of the recipe.
        identity = replace(setup.identity, weights="")
        Store(folder, "an uncut network").claim([], {model: identity}, {".": settings})
        history = train_classifier(
            setup.model,
            setup.train,
            recipe=recipe,
            directory=folder / CHECKPOINTS,
            device=on,
            progress=progress,
        )
        tested = evaluate(setup.model, setup.test.batches(512, device=on), device=on).to_dict()
        kept = history.best, history.seconds, machine(on), tested, setup.parameters
        run = TrainingRun(model, facts, recipe, *kept)
        whole = setup.model.cpu()  # the same module, moved in place: training and test are over
        write_uncut(folder, whole, record_of(whole, data.train, notes=as_plain(run)))
    return run
