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
from vinets.core.device import (
    check_answers,
    cpu_multiplies_bfloat16,
    device_of,
    each,
    take_channels_last,
)
from vinets.core.options import flat, gather
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import BACKBONE, LAYOUTS, TrainingOptions
from vinets.core.tensors import digest
from vinets.data.conversion import LoaderSource, as_source
from vinets.data.images import at_once
from vinets.heads import Head, ProductsHead
from vinets.networks.network import CutNetwork, remember_examples
from vinets.training.epochs import Criterion, Group, History, distilled, fit
from vinets.training.feed import (
    LATENT_BATCH,
    Feed,
    InputFeed,
    LatentViews,
    Lessons,
    ViewFeed,
    cache_latents,
)
from vinets.training.last_layer import solve_classifier

LARGE_SIDE = 64  # pixels, from which channels last and bfloat16 are faster on a CPU
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
        A VI-Net or one with another head; it is trained in place, moved to ``device`` if that is
        given. The uncut network that it was made from never changes.
    data : data source or LatentViews
        The training data: a pair of tensors, a DataLoader, a source of :mod:`vinets.data`; or
        latents that :func:`cache_latents` collected, for a backbone that stays as it is. A part of
        it is held out to choose the best epoch.
    recipe : TrainingOptions or None, default=None
        How to train; None is what suits the head, its ``training_defaults``: a VI-Net's backbone
        stays as it is, that of a product head is tuned, and learns from the teacher if there is
        one.
    **options
        Fields of the recipe, such as ``epochs=5``, ``views=3`` or ``trained="backbone"``. With
        ``trained="classifier"`` polynomials stay as they were built: only the linear layer is
        trained, see :mod:`vinets.training.last_layer`, with the ``weight_decay`` of the recipe.
    teacher : Module, Lessons or None, default=None
        The uncut network, to learn from its logits, by ``distill=0.7`` if that is not given. As
        :class:`Lessons`, it is asked once for several networks that are trained on the same steps.
    directory : path or None, default=None
        For checkpoints between epochs; an interrupted training goes on from the last one.
    """
    head = network.head
    if recipe is None:
        recipe = TrainingOptions(**head.training_defaults)
        if teacher is None and not options.get("distill"):
            recipe = replace(recipe, distill=None)
        if _vanishing_part(head) is None:
            recipe = replace(recipe, vanish=0.0)
    gathered = gather("fine_tune", {"recipe": TrainingOptions}, options, {"recipe": recipe})
    recipe = cast(TrainingOptions, gathered["recipe"])
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
    where: dict[str, Any] = {"device": device, "progress": progress}
    if recipe.views is not None and not cached:
        data = cache_latents(network, data, recipe=recipe, teacher=teacher, **where)
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
            size = at_once(feed.train, LATENT_BATCH, device)
            steps = feed.batches(feed.train, size, draws=feed.draws(1), teach=False)
            # Latents are one tensor, whatever the inputs of the backbone are.
            parts = ((cast(Tensor, z), y) for z, y, _ in steps)
        history = solve_classifier(last, parts, recipe)
        watch.advance(1)
        return history
    groups = [Group(head.trained_parameters())]
    call = {"criterion": criterion_of(head, recipe), "groups": groups, "stage": stage} | where
    call["directory"] = directory
    if tuned:
        start = "" if directory is None else digest(network.backbone.state_dict().items())
        backbone = network.thaw(recipe.layers, norms=recipe.norms == "moving")
        groups.append(Group(backbone, recipe.backbone_rate, recipe.backbone_decay))
        try:
            with _inputs_of(network, data, recipe, teacher, device) as feed:
                more: Any = {"compiled": recipe.compiled, "start": start}
                return fit(network, feed, feed.recipe, **more, **call)
        finally:
            network.freeze()
            network.eval()
            notes = network.record.notes | {"tuned": recipe.trained}
            network.record = replace(network.record, notes=notes)
    trained: nn.Module = head
    if isinstance(data, LatentViews):
        split = head.split() if data.nbytes <= MAX_VIEWS else None
        if split is not None:
            front, trained = split
            data = data.through(front)
        source: Feed = ViewFeed(data, seed=recipe.seed)
    else:
        learnt: Any = {"network": network, "teacher": teacher, "features": head.matches_features}
        source = InputFeed(data, recipe, device=device, **learnt)
        remember_examples(network, source.source)
    history = fit(trained, source, recipe, **call)
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
    network: Any,  # the stubs of Module.to do not know memory_format
    data: Any,
    recipe: TrainingOptions,
    teacher: nn.Module | Lessons | None,
    device: torch.device,
) -> Iterator[InputFeed]:
    """Feed a whole network; meanwhile weights and images lie as is faster on the device.

    The recipe of the feed has the precision that is faster where it was left open.
    """
    features = isinstance(network, CutNetwork) and network.head.matches_features
    data, last = as_source(data), recipe.memory_format == "channels_last"
    whole = teacher.teacher if isinstance(teacher, Lessons) else teacher
    if not isinstance(data, LoaderSource):  # reading it draws random numbers
        example = each(data.example(), lambda tensor: tensor.to(device))
        cuda = device.type == "cuda"
        if not features:
            check_answers("The network", network, example, int(data.labels.max()) + 1)
        if isinstance(example, Tensor) and example.ndim == 4:
            fast = cuda or min(example.shape[2:]) >= LARGE_SIDE
            half = recipe.precision == "auto" and (cuda or cpu_multiplies_bfloat16())
            networks = [one for one in (network, whole) if one is not None]
            if fast and take_channels_last(networks, example, half):
                last = recipe.memory_format != "contiguous"
                recipe = replace(recipe, precision="bfloat16") if half and not cuda else recipe
    layout = torch.channels_last if last else torch.contiguous_format
    network.to(memory_format=layout)
    if isinstance(teacher, nn.Module) and last:
        # A copy, so that the layout of the caller's network stays.
        teacher = cast(Any, copy.deepcopy(teacher)).to(memory_format=layout)
    how: Any = {"teacher": teacher, "features": features, "memory_format": layout}
    feed = InputFeed(data, recipe, device=device, **how)
    # Before training, because an interrupted network has learned some of the examples.
    remember_examples(network, feed.source)
    try:
        yield feed
    finally:
        network.to(memory_format=torch.contiguous_format)


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

    It is moved to ``device``. Data, teacher and directory are those of :func:`fine_tune`. Fields of
    the recipe are keywords, such as ``epochs=5``. ``memory_format``, the layout of images in
    training, is "contiguous", "channels_last", or "auto": the latter on a GPU, and for images of 64
    pixels and more on a CPU.
    """
    one_of("train_classifier", "memory_format", memory_format, LAYOUTS)
    if recipe.vanish:
        raise ValueError("vanish is for heads of polynomials: leave it out of train_classifier.")
    recipe = _distilling(recipe, teacher, teacher is not None)
    device = torch.device(device)
    model.to(device)
    laid_out = replace(recipe, memory_format=memory_format)
    call: dict[str, Any] = {"directory": directory, "device": device, "progress": progress}
    with _inputs_of(model, data, laid_out, teacher, device) as feed:
        return fit(model, feed, feed.recipe, stage="training the backbone", **call)
