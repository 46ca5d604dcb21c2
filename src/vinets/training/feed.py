"""What the training loop is fed with: inputs, or latents of a frozen backbone, live or cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vinets.core.checks import format_bytes, parameter_error
from vinets.core.device import Inputs, call, each, logits_of
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import TrainingOptions
from vinets.core.tensors import digest
from vinets.data.digest import content
from vinets.data.source import Source
from vinets.data.sources import as_source, split_source
from vinets.latent.reader import Penultimate
from vinets.networks.network import CutNetwork
from vinets.training.lessons import Lessons

THREE_VIEWS = TrainingOptions(views=3)
LATENT_BATCH = 512  # examples that run through the backbone at once
Step = tuple[Inputs, Tensor, Tensor | None]  # inputs or latents, labels, logits of the teacher


class Feed(Protocol):
    """Gives the examples of every epoch; the same epoch number gives the same examples."""

    def steps(self, batch_size: int) -> int:
        """Steps of an epoch."""

    def facts(self) -> dict[str, Any]:
        """What the examples are made of, by content, so that no checkpoint goes on with others."""

    def epoch(self, number: int, batch_size: int) -> Iterator[Step]:
        """Shuffled, perhaps augmented batches of epoch ``number``."""

    def held_out(self, batch_size: int) -> Iterator[Step]:
        """The held-out part, as it is; nothing if there is none."""


def generator_of(seed: int, *path: int) -> torch.Generator:
    """A generator on the CPU for one purpose: equal arguments, equal draws."""
    # Knuth's MMIX multiplier and increment: neighbouring seeds and paths give unrelated states.
    state = seed
    for number in path:
        state = (state * 0x5851F42D4C957F2D + number + 0x14057B7EF767814F) % 2**63
    return torch.Generator().manual_seed(state)


def steps_of(examples: int, batch_size: int) -> int:
    """Full batches in an epoch; one of all examples where there are fewer than a batch."""
    return examples // min(batch_size, examples)


def shuffled(examples: int, batch_size: int, seed: int, number: int) -> Tensor:
    """Positions for epoch ``number``, without a rest: a short batch would upset batch norm."""
    order = torch.randperm(examples, generator=generator_of(seed, number, 0))
    return order[: steps_of(examples, batch_size) * min(batch_size, examples)]


class InputFeed:
    """Inputs as the data source gives them, to train a whole network.

    With a cut ``network``, they are the latents of its frozen backbone, computed as needed. With
    ``features``, the teacher's answers are what its last linear layer sees. Images come in
    ``memory_format``.
    """

    def __init__(
        self,
        data: Any,
        recipe: TrainingOptions,
        *,
        device: torch.device | str,
        network: CutNetwork | None = None,
        teacher: nn.Module | Lessons | None = None,
        features: bool = False,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self.source = source = as_source(data)
        self.train: Source = source
        self.held: Source | None = None
        if recipe.validation:
            self.train, self.held = split_source(source, recipe.validation, recipe.seed)
        self.augment, self.seed, self.device = recipe.augment, recipe.seed, device
        self.validation = recipe.validation
        self.network = network
        self.half = recipe.half(torch.device(device).type)
        self.memory_format = memory_format
        self.epochs = recipe.epochs
        self.lessons: Lessons | None = None
        if isinstance(teacher, Lessons):
            # what a classifier sees is many times larger than its answers, and not kept
            self.lessons = None if features else teacher
            teacher = teacher.teacher
        self.taught_by = teacher
        # The caller's teacher is moved and put into eval mode: a copy could be large.
        self.teacher: Callable[..., Any] | None = (
            None if teacher is None else teacher.to(device).eval()
        )
        if teacher is not None and features:
            self.teacher = Penultimate(teacher)

    def facts(self) -> dict[str, Any]:
        """Of the data, and of networks that stay as they are."""
        frozen = {"backbone": self.network and self.network.backbone, "teacher": self.taught_by}
        return {"data": self.content} | {
            name: None if module is None else digest(module.state_dict().items())
            for name, module in frozen.items()
        }

    @cached_property
    def content(self) -> str:
        """A digest of the data and of how they are augmented."""
        augmentation = getattr(self.source, "augmentation", None)  # only sources of images have one
        return digest((), [content(self.source), as_plain(augmentation)])

    def steps(self, batch_size: int) -> int:
        return steps_of(len(self.train), batch_size)

    def epoch(self, number: int, batch_size: int) -> Iterator[Step]:
        order = shuffled(len(self.train), batch_size, self.seed, number)
        size = min(batch_size, len(self.train))

        def once(teach: bool) -> Iterator[Step]:
            draws = generator_of(self.seed, number, 1) if self.augment else None
            return self.given(self.train, size, order, draws, teach)

        if self.lessons is None:
            yield from once(True)
            return

        def ask() -> Tensor:
            return torch.cat([taught for _, _, taught in once(True) if taught is not None])

        facts: tuple[Any, ...] = (self.content, self.seed, self.validation, batch_size)
        facts += (self.augment, self.half)
        answers = self.lessons.answers("-".join(map(str, (*facts, number))), ask, self.epochs)
        parts = answers.to(self.device).split(size)
        for (inputs, labels, _), taught in zip(once(False), parts, strict=True):
            yield inputs, labels, taught.float()

    def held_out(self, batch_size: int) -> Iterator[Step]:
        if self.held is not None:
            yield from self.given(self.held, batch_size, teach=False)

    def given(
        self,
        source: Source,
        size: int,
        order: Tensor | None = None,
        draws: torch.Generator | None = None,
        teach: bool = True,
    ) -> Iterator[Step]:
        """One pass over a source, as the trained module and the teacher see it."""
        for batch, labels in source.batches(size, order=order, augment=draws, device=self.device):
            inputs = each(batch, self.laid_out)
            with torch.no_grad():
                taught = self.taught(inputs) if teach else None
                seen = inputs if self.network is None else call(self.network.latents, inputs)
            yield seen, labels, taught

    def laid_out(self, tensor: Tensor) -> Tensor:
        """Images in the layout that was asked for; other tensors as they are."""
        return tensor.to(memory_format=self.memory_format) if tensor.ndim == 4 else tensor

    def taught(self, inputs: Inputs) -> Tensor | None:
        """Logits of the teacher, or what its last layer sees."""
        if self.teacher is None:
            return None
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.half):
            return logits_of(call(self.teacher, inputs)).float()


@dataclass(frozen=True, eq=False)
class LatentViews:
    """Latents of several augmented passes over the data, and of the held-out part.

    Every head on the same backbone can be trained on them: see :func:`vinets.fine_tune`.
    """

    views: tuple[Tensor, ...]  # each (m, C, P)
    labels: Tensor  # (m,)
    teacher_logits: tuple[Tensor, ...]  # on every view; empty without a teacher
    held_latents: Tensor  # of the held-out part; empty without one
    held_labels: Tensor
    facts: Callable[[], dict[str, Any]] = dict  # what they were made of; see Feed.facts

    @torch.no_grad()
    def through(
        self, front: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None
    ) -> LatentViews:
        """What a function, such as the frozen part of a head, makes of the latents.

        The result has their dtype, if none is given.
        """

        def seen(latents: Tensor) -> Tensor:
            kept = latents.dtype if dtype is None else dtype
            parts = latents.split(LATENT_BATCH)
            return torch.cat([front(part.float()).to(kept) for part in parts])

        views = tuple(seen(view) for view in self.views)
        held = seen(self.held_latents) if len(self.held_labels) else self.held_latents
        return replace(self, views=views, held_latents=held)

    def parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Latents of all views in single precision with their labels, some at a time."""
        labels = self.labels.split(LATENT_BATCH)
        for view in self.views:
            for part, own in zip(view.split(LATENT_BATCH), labels, strict=True):
                yield part.float(), own

    @property
    def nbytes(self) -> int:
        """Bytes of latents and logits."""
        return sum(t.nbytes for t in (*self.views, *self.teacher_logits, self.held_latents))


class ViewFeed:
    """Cached latents: epoch ``e`` takes view ``e`` modulo their number, in a new order."""

    def __init__(self, views: LatentViews, *, seed: int) -> None:
        self.cache, self.seed = views, seed

    def facts(self) -> dict[str, Any]:
        # not of the latents themselves, which may differ in the last bit between runs
        labels = digest([("labels", self.cache.labels)])
        return {"labels": labels, "views": len(self.cache.views)} | self.cache.facts()

    def steps(self, batch_size: int) -> int:
        return steps_of(len(self.cache.labels), batch_size)

    def epoch(self, number: int, batch_size: int) -> Iterator[Step]:
        cache, count = self.cache, len(self.cache.labels)
        order = shuffled(count, batch_size, self.seed, number).to(cache.labels.device)
        view = (number - 1) % len(cache.views)
        for index in order.split(min(batch_size, count)):
            taught = cache.teacher_logits[view][index].float() if cache.teacher_logits else None
            latents = cache.views[view].index_select(0, index)
            yield latents.float(), cache.labels[index], taught

    def held_out(self, batch_size: int) -> Iterator[Step]:
        if len(self.cache.held_labels):
            held = (self.cache.held_latents, self.cache.held_labels)
            for latents, labels in zip(*(t.split(batch_size) for t in held), strict=True):
                yield latents.float(), labels, None


@torch.no_grad()
@flat(recipe=TrainingOptions)
def cache_latents(
    network: CutNetwork,
    data: Any,
    *,
    recipe: TrainingOptions = THREE_VIEWS,
    teacher: nn.Module | None = None,
    memory_limit: int = 8 << 30,
    device: torch.device | str = "cpu",
    progress: Progress | str | None = None,
) -> LatentViews:
    """Run the backbone over ``views`` augmented passes once, for all epochs and heads to come.

    Any network with the backbone in question will do. Options are given as objects, or their fields
    as keywords: ``views=3`` passes (without augmentation one is all there is), ``dtype="float16"``
    to halve the memory; ``validation``, the share held out, ``augment`` and ``seed`` as in the
    training to come. With a teacher, the uncut network, its logits are kept as well. What needs
    more than ``memory_limit`` bytes is refused.
    """
    if recipe.views is None:
        raise parameter_error("cache_latents", "views", "a positive integer", None)
    dtype: torch.dtype = getattr(torch, recipe.dtype)
    network.to(device)  # the caller's own: training comes next, on the same device
    feed = InputFeed(data, recipe, device=device, network=network, teacher=teacher)
    held_count = 0 if feed.held is None else len(feed.held)
    first, _, _ = next(feed.given(feed.train.subset(torch.arange(1)), 1))
    assert isinstance(first, Tensor)
    views = recipe.views if recipe.augment else 1
    size = (views * len(feed.train) + held_count) * first.numel() * dtype.itemsize
    if size > memory_limit:
        raise ValueError(
            f"{views} views of the latents take {format_bytes(size)}, more than memory_limit="
            f"{format_bytes(memory_limit)}. Take fewer views, dtype='float16', or none."
        )
    watch = progress_of(progress)
    watch.start("latents", views * len(feed.train) + held_count)
    passes: list[Tensor] = []
    teacher_logits: list[Tensor] = []
    for view in range(1, views + 1):
        draws = generator_of(recipe.seed, view, 1) if recipe.augment else None
        steps = feed.given(feed.train, LATENT_BATCH, draws=draws)
        latents, taught = _collected(steps, dtype, watch)
        passes.append(latents)
        teacher_logits += [] if taught is None else [taught]
    held, held_labels = first[:0].to(dtype), feed.train.labels[:0]
    if feed.held is not None:
        held, _ = _collected(feed.held_out(LATENT_BATCH), dtype, watch)
        held_labels = feed.held.labels
    labels = feed.train.labels.to(device)
    kept = tuple(passes), labels, tuple(teacher_logits), held, held_labels.to(device)
    return LatentViews(*kept, facts=feed.facts)


def _collected(
    steps: Iterator[Step], dtype: torch.dtype, watch: Progress
) -> tuple[Tensor, Tensor | None]:
    latents: list[Tensor] = []
    teacher_logits: list[Tensor] = []
    for values, labels, taught in steps:
        assert isinstance(values, Tensor)
        latents.append(values.to(dtype))
        if taught is not None:
            teacher_logits.append(taught)
        watch.advance(len(labels))
    return torch.cat(latents), torch.cat(teacher_logits) if teacher_logits else None
