"""Train the head of a cut network, or a backbone from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from vinets.nn.network import CutNetwork
from vinets.progress import Progress
from vinets.training.feed import Feed, InputFeed, LatentFeed, LatentViews, ViewFeed, cache_latents
from vinets.training.loop import fit, with_options
from vinets.training.recipe import History, Recipe

__all__ = ["BACKBONE", "fine_tune", "train_classifier"]

BACKBONE = Recipe(
    epochs=90,
    batch_size=256,
    learning_rate=0.2,
    weight_decay=5e-4,
    nesterov=True,
    schedule="one-cycle",
    validation=0.0,
)
"""The recipe for CIFAR backbones from scratch."""


def fine_tune(
    network: CutNetwork,
    data: Any,
    *,
    recipe: Recipe | None = None,
    teacher: nn.Module | None = None,
    views: int | None = None,
    directory: str | Path | None = None,
    device: torch.device | str | None = None,
    progress: Progress | str | None = "auto",
    **options: Any,
) -> History:
    """Train coefficients and linear layer jointly; the backbone stays as it is.

    Parameters
    ----------
    network : CutNetwork
        A :class:`VINet` or one of its baselines; it is trained in place, moved to ``device``.
    data : data source or LatentViews
        The training data: a pair of tensors, a DataLoader, a source of :mod:`vinets.data`; or
        latents that :func:`cache_latents` collected. A part of it is held out to choose the best
        epoch.
    recipe : Recipe or None, default=None
        None is the paper's: 20 epochs of SGD, learning rate 0.05, momentum 0.9, crops and flips.
    teacher : Module or None, default=None
        The uncut network, to learn from its logits. Needs ``distillation``, 0.7 if not given.
    views : int or None, default=None
        Cache the latents of so many augmented passes and cycle through them.
    directory : path or None, default=None
        For a checkpoint after every epoch; an interrupted training goes on from there.
    device : str or None, default=None
        None is where the network lies.
    **options
        Single numbers of the recipe, such as ``epochs=5``.

    Returns
    -------
    History
    """
    if (
        teacher is not None
        and "distillation" not in options
        and not (recipe or Recipe()).distillation
    ):
        options["distillation"] = 0.7
    chosen = with_options(recipe, options)
    taught = bool(data.lessons) if isinstance(data, LatentViews) else teacher is not None
    if chosen.distillation and not taught:
        raise ValueError(
            f"distillation={chosen.distillation:g} needs logits to learn from: pass teacher=, and "
            "cache latents with it if they are cached."
        )
    place = torch.device(device) if device is not None else next(network.parameters()).device
    network.to(place)
    if views is not None and not isinstance(data, LatentViews):
        data = cache_latents(
            network,
            data,
            views=views,
            validation=chosen.validation,
            augment=chosen.augment,
            teacher=teacher,
            device=place,
            seed=chosen.seed,
            progress=progress,
        )
    feed: Feed
    if isinstance(data, LatentViews):
        feed = ViewFeed(data, seed=chosen.seed)
    else:
        feed = LatentFeed(
            network,
            data,
            validation=chosen.validation,
            augment=chosen.augment,
            seed=chosen.seed,
            device=place,
            teacher=teacher,
        )
    history = fit(
        network.head,
        feed,
        chosen,
        parameters=network.head.trained_parameters(),
        directory=directory,
        device=place,
        stage=f"training the {network.head.kind} head",
        progress=progress,
    )
    network.eval()
    return history


def train_classifier(
    model: nn.Module,
    data: Any,
    *,
    recipe: Recipe | None = None,
    directory: str | Path | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | str | None = "auto",
    **options: Any,
) -> History:
    """Train a whole network from scratch; ``recipe=None`` is the one for CIFAR backbones."""
    chosen = with_options(recipe or BACKBONE, options)
    model.to(device)
    feed = InputFeed(
        data,
        validation=chosen.validation,
        augment=chosen.augment,
        seed=chosen.seed,
        device=device,
    )
    return fit(
        model,
        feed,
        chosen,
        directory=directory,
        device=device,
        stage="training the backbone",
        progress=progress,
    )
