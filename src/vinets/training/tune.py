"""Train the head of a cut network, perhaps its backbone with it, or a whole network."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from vinets.core.checks import one_of
from vinets.core.device import device_of
from vinets.core.options import flat, gather
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import BACKBONE, LAYOUTS, TrainingOptions
from vinets.core.tensors import digest
from vinets.heads import Head, ProductsHead
from vinets.networks.network import CutNetwork, remember_examples
from vinets.training.checkpoint import History
from vinets.training.classifier import solve_classifier
from vinets.training.feed import (
    LATENT_BATCH,
    InputFeed,
    LatentViews,
    Lessons,
    ViewFeed,
    cache_latents,
    generator_of,
)
from vinets.training.loop import Criterion, Group, distilled, fit

MAX_VIEWS = 4 << 30  # bytes of cached latents that leave room for variables made of them


def fine_tune(
    network: CutNetwork,
    data: Any,
    *,
    recipe: TrainingOptions | None = None,
    teacher: nn.Module | Lessons | None = None,
    directory: str | Path | None = None,
    device: torch.device | str | None = None,
    progress: Progress | str | None = "auto",
    **options: Any,
) -> History:
    """Train the head, or backbone and head together.

    Parameters
    ----------
    network : CutNetwork
        A VI-Net or one with another head; it is trained in place, moved to ``device``. The
        uncut network that it was made from never changes.
    data : data source or LatentViews
        The training data: a pair of tensors, a DataLoader, a source of :mod:`vinets.data`; or
        latents that :func:`cache_latents` collected, for a backbone that stays as it is. A part of
        it is held out to choose the best epoch.
    recipe : TrainingOptions or None, default=None
        How to train; None is the recipe that suits the head, its ``training_defaults``. A VI-Net's
        backbone stays as it is, and the head is trained for 20 epochs of SGD, learning rate 0.05,
        momentum 0.9, crops and flips; the backbone of a product head is tuned with it, and learns
        from the teacher if there is one.
    **options
        Fields of the recipe, such as ``epochs=5``, ``views=3`` or ``trained="backbone"``. With
        ``trained="classifier"`` polynomials stay as they were built: only the linear layer is
        trained, see :mod:`vinets.training.classifier`, with the ``weight_decay`` of the recipe.
    teacher : Module, Lessons or None, default=None
        The uncut network, to learn from its logits, by ``distill=0.7`` if that is not given. As
        :class:`Lessons`, it is asked once for several networks that are trained on the same steps.
    directory : path or None, default=None
        For checkpoints between epochs; an interrupted training goes on from the last one.
    device : str or None, default=None
        None is where the network lies.
    """
    head = network.head
    if recipe is None:
        recipe = TrainingOptions(**head.training_defaults)
        if teacher is None and not options.get("distill"):
            recipe = replace(recipe, distill=None)
        if _vanishing_part(head) is None:
            recipe = replace(recipe, vanish=0.0)
    (recipe,) = gather(  # type: ignore[assignment]
        "fine_tune", {"recipe": TrainingOptions}, options, {"recipe": recipe}
    ).values()
    assert recipe is not None
    tuned, cached = recipe.layers != 0, isinstance(data, LatentViews)
    taught = bool(data.teacher_logits) if cached else teacher is not None
    recipe = _distilling(recipe, teacher, taught)
    if head.matches_features and (cached or recipe.views or teacher is None):
        raise ValueError(
            f"a head of kind {head.kind!r} learns what the classifier of the uncut network "
            "sees: pass teacher=, and no cached latents."
        )
    if tuned and (cached or recipe.views is not None):
        raise ValueError(
            "cached latents are those of a backbone that stays as it is, and trained="
            f"{recipe.trained!r} changes it. Pass the data itself, and no views."
        )
    device = device_of(network) if device is None else torch.device(device)
    network.to(device)
    stage = f"training {head.label}"
    if recipe.views is not None and not cached:
        teacher = teacher.teacher if isinstance(teacher, Lessons) else teacher
        data = cache_latents(
            network, data, recipe=recipe, teacher=teacher, device=device, progress=progress
        )
    last = head.last_layer() if recipe.trained == "classifier" else None
    if last is not None:
        watch = progress_of(progress)
        watch.start(stage, 1)
        network.eval()
        if isinstance(data, LatentViews):
            parts = data.parts()
        else:  # one pass over the data
            feed = InputFeed(data, recipe, device=device, network=network)
            remember_examples(network, feed.source)
            draws = generator_of(recipe.seed, 1, 1) if recipe.augment else None
            steps = feed.batches(feed.train, LATENT_BATCH, draws=draws, teach=False)
            # Latents are one tensor, whatever the inputs of the backbone are.
            parts = ((cast(Tensor, z), y) for z, y, _ in steps)
        history = solve_classifier(last, parts, recipe)
        watch.advance(1)
        return history
    criterion, groups = criterion_of(head, recipe), [Group(head.trained_parameters())]
    call: dict[str, Any] = {"criterion": criterion, "groups": groups, "directory": directory}
    call |= {"device": device, "stage": stage, "progress": progress}
    if tuned:
        start = "" if directory is None else digest(network.backbone.state_dict().items())
        backbone = network.thaw(recipe.layers, norms=recipe.norms == "moving")
        groups.append(Group(backbone, recipe.backbone_rate, recipe.backbone_decay))
        try:
            with _inputs_of(network, data, recipe, teacher, device) as feed:
                return fit(network, feed, recipe, compiled=recipe.compiled, start=start, **call)
        finally:
            network.freeze()
            notes = network.record.notes | {"tuned": recipe.trained}
            network.record = replace(network.record, notes=notes)
            network.eval()
    trained: nn.Module = head
    if isinstance(data, LatentViews):
        split = head.split() if data.nbytes <= MAX_VIEWS else None
        if split is not None:
            front, trained = split
            data = data.through(front)
        history = fit(trained, ViewFeed(data, seed=recipe.seed), recipe, **call)
    else:
        features = head.matches_features
        feed = InputFeed(
            data, recipe, device=device, network=network, teacher=teacher, features=features
        )
        remember_examples(network, feed.source)
        history = fit(head, feed, recipe, **call)
    network.eval()
    return history


def _distilling(
    recipe: TrainingOptions, teacher: nn.Module | Lessons | None, taught: bool
) -> TrainingOptions:
    """Choose ``distill`` of a recipe; ``taught`` if there are logits to learn from."""
    if recipe.distill is None:
        recipe = replace(recipe, distill=0.0 if teacher is None else 0.7)
    if recipe.distill and not taught:
        raise ValueError(
            f"distill={recipe.distill:g} needs logits to learn from: pass teacher=, and "
            "cache latents with it if they are cached."
        )
    return recipe


@contextmanager
def _inputs_of(
    network: nn.Module,
    data: Any,
    recipe: TrainingOptions,
    teacher: nn.Module | Lessons | None,
    device: torch.device,
) -> Iterator[InputFeed]:
    """Feed a whole network; meanwhile weights and images lie as is faster on the device."""
    features = isinstance(network, CutNetwork) and network.head.matches_features
    wanted = recipe.memory_format
    last = wanted == "channels_last" or (wanted == "auto" and device.type == "cuda")
    layout = torch.channels_last if last else torch.contiguous_format
    _lay_out(network, layout)
    if isinstance(teacher, nn.Module) and last:
        # A copy, so that the layout of the caller's network stays.
        teacher = _lay_out(copy.deepcopy(teacher), layout)
    feed = InputFeed(
        data, recipe, device=device, teacher=teacher, features=features, memory_format=layout
    )
    # Before training, because an interrupted network has learned some of the examples.
    remember_examples(network, feed.source)
    try:
        yield feed
    finally:
        _lay_out(network, torch.contiguous_format)


def _lay_out(module: Any, layout: torch.memory_format) -> Any:
    """Lay weights out in memory; the stubs of ``to`` do not know the keyword."""
    return module.to(memory_format=layout)


def criterion_of(head: Head, recipe: TrainingOptions) -> Criterion | None:
    """Return the loss of a head; None is the usual one."""
    if not recipe.vanish:
        return head.criterion
    watched = _vanishing_part(head)
    if watched is None:
        raise ValueError(
            f"vanish={recipe.vanish:g} is for polynomials that have a class to vanish on. Those of "
            f"a head of kind {head.kind!r} have none: leave it out."
        )
    watched.watched = True

    def both(
        logits: Tensor, labels: Tensor, taught: Tensor | None, recipe: TrainingOptions
    ) -> Tensor:
        usual = distilled(logits, labels, taught, recipe)
        return usual + recipe.vanish * watched.vanishing_loss(labels)

    return both


def _vanishing_part(head: Head) -> Any:
    """Return the part of a head that knows the classes of its polynomials; None without any."""
    if isinstance(head, ProductsHead):
        return head
    part: Any = getattr(head, "polynomials", None) if head.from_ideals else None
    # A VI-Net that 0.2 saved does not know the classes.
    return part if part is not None and part.owners is not None else None


@flat(recipe=TrainingOptions)
def train_classifier(
    model: nn.Module,
    data: Any,
    *,
    recipe: TrainingOptions = BACKBONE,
    teacher: nn.Module | Lessons | None = None,
    memory_format: str = "auto",
    directory: str | Path | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | str | None = "auto",
) -> History:
    """Train a whole network in place, from scratch or from the weights that it has.

    Parameters
    ----------
    model : Module
        The network, which is moved to ``device``.
    data : data source
        The training data, as for :func:`fine_tune`.
    recipe : TrainingOptions
        Or its fields as keywords, such as ``epochs=5``; the default is ``BACKBONE``.
    teacher : Module, Lessons or None, default=None
        A network to learn from by its logits, by ``distill=0.7`` if that is not given. Its weights
        do not change. As :class:`Lessons`, it is asked once for several networks.
    memory_format : {"auto", "contiguous", "channels_last"}, default="auto"
        Layout of images in training; auto is channels_last on a GPU.
    directory : path or None, default=None
        For checkpoints between epochs; an interrupted training goes on from the last one.
    """
    one_of("train_classifier", "memory_format", memory_format, LAYOUTS)
    if recipe.vanish:
        raise ValueError("vanish is for heads of polynomials: leave it out of train_classifier.")
    recipe = _distilling(recipe, teacher, teacher is not None)
    device = torch.device(device)
    model.to(device)
    laid_out = replace(recipe, memory_format=memory_format)
    with _inputs_of(model, data, laid_out, teacher, device) as feed:
        return fit(
            model,
            feed,
            recipe,
            directory=directory,
            device=device,
            stage="training the backbone",
            progress=progress,
        )
