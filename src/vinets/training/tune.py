"""Train the head of a cut network, or a backbone from scratch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vinets.nn.network import CutNetwork
from vinets.options import flat
from vinets.progress import Progress
from vinets.running import device_of
from vinets.settings import BACKBONE, Caching, Recipe
from vinets.training.feed import Feed, InputFeed, LatentViews, ViewFeed, cache_latents
from vinets.training.history import History
from vinets.training.loop import fit


@flat(recipe=Recipe, caching=Caching)
def fine_tune(
    network: CutNetwork,
    data: Any,
    *,
    recipe: Recipe,
    caching: Caching,
    teacher: nn.Module | None = None,
    directory: str | Path | None = None,
    device: torch.device | str | None = None,
    progress: Progress | str | None = "auto",
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
    recipe, caching : Recipe, Caching
        Or their fields as keywords, such as ``epochs=5`` or ``views=3``. The defaults are the
        paper's: 20 epochs of SGD, learning rate 0.05, momentum 0.9, crops and flips.
    teacher : Module or None, default=None
        The uncut network, to learn from its logits, by ``distill=0.7`` if that is not given.
    directory : path or None, default=None
        For a checkpoint after every epoch; an interrupted training goes on from there.
    device : str or None, default=None
        None is where the network lies.
    """
    if recipe.distill is None:
        recipe = replace(recipe, distill=0.0 if teacher is None else 0.7)
    taught = bool(data.teacher_logits) if isinstance(data, LatentViews) else teacher is not None
    if recipe.distill and not taught:
        raise ValueError(
            f"distill={recipe.distill:g} needs logits to learn from: pass teacher=, and "
            "cache latents with it if they are cached."
        )
    device = device_of(network) if device is None else torch.device(device)
    network.to(device)
    if caching.views is not None and not isinstance(data, LatentViews):
        data = cache_latents(
            network,
            data,
            recipe=recipe,
            caching=caching,
            teacher=teacher,
            device=device,
            progress=progress,
        )
    feed: Feed
    if isinstance(data, LatentViews):
        feed = ViewFeed(data, seed=recipe.seed)
    else:
        feed = InputFeed(data, recipe, device=device, network=network, teacher=teacher)
    history = fit(
        network.head,
        feed,
        recipe,
        parameters=network.head.trained_parameters(),
        directory=directory,
        device=device,
        stage=f"training {network.head.label}",
        progress=progress,
    )
    network.eval()
    return history


@flat(recipe=Recipe)
def train_classifier(
    model: nn.Module,
    data: Any,
    *,
    recipe: Recipe = BACKBONE,
    directory: str | Path | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | str | None = "auto",
) -> History:
    """Train a whole network from scratch, in place; keywords change the recipe ``BACKBONE``."""
    model.to(device)
    return fit(
        model,
        InputFeed(data, recipe, device=device),
        recipe,
        directory=directory,
        device=device,
        stage="training the backbone",
        progress=progress,
    )
