"""What the training loop is fed with: inputs, or latents of a frozen backbone, live or cached.

A feed gives shuffled batches, the same ones for the same number of an epoch, and the held-out part
as it is. Its facts are digests of what examples are made of: no checkpoint goes on with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from vinets.core.checks import format_bytes, parameter_error
from vinets.core.device import Inputs, call, each, logits_of
from vinets.core.files import locked
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import TrainingOptions
from vinets.core.tensors import digest, read_file, write_file
from vinets.data.conversion import as_source, split_source
from vinets.data.digest import content
from vinets.data.images import at_once
from vinets.data.source import Source
from vinets.latent.reader import Penultimate
from vinets.networks.network import CutNetwork

THREE_VIEWS = TrainingOptions(views=3)
LATENT_BATCH = 512  # examples that run through the backbone at once
MAX_ANSWERS = 1 << 30  # bytes of a teacher's answers that are kept
Batch = tuple[Inputs, Tensor, Tensor | None]  # inputs or latents, labels, logits of the teacher


def generator_of(seed: int, *path: int) -> torch.Generator:
    """Return a generator on the CPU for one purpose: equal arguments, equal draws."""
    # Knuth's MMIX multiplier and increment: neighbouring seeds and paths give unrelated states.
    state = seed
    for number in path:
        state = (state * 0x5851F42D4C957F2D + number + 0x14057B7EF767814F) % 2**63
    return torch.Generator().manual_seed(state)


def shuffled(examples: int, batch_size: int, seed: int, number: int) -> Tensor:
    """Return positions of an epoch, in full batches: a short one would upset batch norm."""
    order = torch.randperm(examples, generator=generator_of(seed, number, 0))
    return order[: examples - examples % min(batch_size, examples)]


class Lessons:
    """Keeps what a teacher, the uncut network, says of every epoch; see :func:`fine_tune`.

    Trainings with the same data, seed and batch size see the same augmented batches, so that the
    teacher's answers to the first serve all others. They are kept in half precision, also for the
    first: all trainings learn from the same numbers. A ``directory`` shares them with other
    processes; without one at most ``limit`` bytes are kept, and beyond that it is asked again.
    """

    def __init__(
        self, teacher: nn.Module, directory: str | Path | None = None, limit: int = MAX_ANSWERS
    ) -> None:
        self.teacher, self.limit = teacher, limit
        self.directory = None if directory is None else Path(directory)
        self._kept: dict[str, Tensor] = {}

    def answers(self, key: str, ask: Callable[[], Tensor], epochs: int) -> Tensor:
        """Return the answers to an epoch, (m, K); ``ask`` computes what is not known yet."""
        if key in self._kept:
            return self._kept[key]
        if self.directory is not None:
            path = self.directory / key / "answers.safetensors"
            with locked(path.parent, wait=True):  # the first process asks, and others wait for it
                if not path.exists():
                    write_file(path, {"answers": ask().half()}, {})
                known = read_file(path, inside=path.parent)[0].get("answers")
            if known is None:
                raise ValueError(f"{path} holds no answers of a teacher. Delete it.")
            return known
        answers = ask().half()
        # All epochs or none: a part of them would be of no use to the next training.
        if answers.nbytes * epochs <= self.limit:
            if sum(one.nbytes for one in (answers, *self._kept.values())) > self.limit:
                self._kept.clear()  # those of other seeds or batches
            self._kept[key] = answers
        return answers


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
        self.source, self.recipe, self.device = as_source(data), recipe, torch.device(device)
        self.train: Source = self.source
        self.held: Source | None = None
        if recipe.validation:
            self.train, self.held = split_source(self.source, recipe.validation, recipe.seed)
        self.network, self.memory_format = network, memory_format
        self.half = recipe.half(self.device.type)
        # What a classifier sees is many times larger than its answers, and not kept.
        self.lessons = teacher if isinstance(teacher, Lessons) and not features else None
        self.taught_by = teacher.teacher if isinstance(teacher, Lessons) else teacher
        self.teacher: Callable[..., Any] | None = None
        if self.taught_by is not None:
            # The caller's teacher is moved and put into eval mode: a copy could be large.
            whole = self.taught_by.to(device).eval()
            self.teacher = Penultimate(whole) if features else whole

    def facts(self) -> dict[str, Any]:
        """Return digests of the data, and of networks that stay as they are."""
        frozen = {"backbone": self.network and self.network.backbone, "teacher": self.taught_by}
        facts = {k: m if m is None else digest(m.state_dict().items()) for k, m in frozen.items()}
        return {"data": self.content} | facts

    @cached_property
    def content(self) -> str:
        """A digest of the data and of how they are augmented."""
        augmentation = getattr(self.source, "augmentation", None)  # only sources of images have one
        return digest((), [content(self.source), as_plain(augmentation)])

    def steps(self, batch_size: int) -> int:
        """Count full batches; one of all examples where there are fewer than that."""
        return max(1, len(self.train) // batch_size)

    def epoch(self, number: int, batch_size: int) -> Iterator[Batch]:
        recipe, size = self.recipe, min(batch_size, len(self.train))
        order = shuffled(len(self.train), batch_size, recipe.seed, number)

        def batches(teach: bool) -> Iterator[Batch]:
            return self.batches(self.train, size, order, self.draws(number), teach)

        if self.lessons is None:
            yield from batches(True)
            return

        def ask() -> Tensor:
            return torch.cat([taught for *_, taught in batches(True) if taught is not None])

        facts = (self.content, recipe.seed, recipe.validation, batch_size, recipe.augment)
        key = "-".join(map(str, (*facts, self.half, number)))
        answers = self.lessons.answers(key, ask, recipe.epochs)
        parts = answers.to(self.device).split(size)
        for (inputs, labels, _), taught in zip(batches(False), parts, strict=True):
            yield inputs, labels, taught.float()

    def draws(self, number: int) -> torch.Generator | None:
        """Return the generator of augmentations in epoch ``number``; None where there are none."""
        return generator_of(self.recipe.seed, number, 1) if self.recipe.augment else None

    def held_out(self, batch_size: int) -> Iterator[Batch]:
        if self.held is not None:
            yield from self.batches(self.held, batch_size, teach=False)

    def batches(
        self,
        source: Source,
        size: int,
        order: Tensor | None = None,
        draws: torch.Generator | None = None,
        teach: bool = True,
    ) -> Iterator[Batch]:
        """Yield one pass over a source, as the trained module and the teacher see it."""

        def lie(x: Tensor) -> Tensor:
            return x.to(memory_format=self.memory_format) if x.ndim == 4 else x

        for batch, labels in source.batches(size, order=order, augment=draws, device=self.device):
            inputs, taught = each(batch, lie), None
            with torch.no_grad():
                if teach and self.teacher is not None:
                    with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                        taught = logits_of(call(self.teacher, inputs)).float()
                if self.network is not None:
                    inputs = call(self.network.latents, inputs)
            yield inputs, labels, taught


@dataclass(frozen=True, eq=False)
class LatentViews:
    """Latents of several augmented passes over the data, and of the held-out part.

    Every head on the same backbone can be trained on them: see :func:`vinets.fine_tune`.
    """

    views: tuple[Tensor, ...]  # each (m, C, P)
    labels: Tensor  # (m,)
    teacher_logits: tuple[Tensor, ...]  # on every view; empty without a teacher
    held_latents: Tensor  # those of the held-out part; empty without one
    held_labels: Tensor
    facts: Callable[[], dict[str, Any]] = dict  # digests of what they are made of, as of a Feed

    @torch.no_grad()
    def through(
        self, front: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None
    ) -> LatentViews:
        """Apply a function, such as the frozen part of a head; None keeps the dtype."""

        def apply(latents: Tensor) -> Tensor:
            parts = latents.split(LATENT_BATCH)
            return torch.cat([front(part.float()).to(dtype or latents.dtype) for part in parts])

        held = apply(self.held_latents) if len(self.held_labels) else self.held_latents
        return replace(self, views=tuple(map(apply, self.views)), held_latents=held)

    def parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield latents of all views in single precision with their labels, some at a time."""
        for view in self.views:
            pairs = (t.split(LATENT_BATCH) for t in (view, self.labels))
            yield from ((part.float(), own) for part, own in zip(*pairs, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of latents and logits."""
        return sum(t.nbytes for t in (*self.views, *self.teacher_logits, self.held_latents))


class ViewFeed:
    """Cached latents: epoch ``e`` takes view ``e`` modulo their number, in a new order."""

    def __init__(self, views: LatentViews, *, seed: int) -> None:
        self.cache, self.seed = views, seed

    def facts(self) -> dict[str, Any]:
        # The latents themselves may differ in the last bit between runs.
        labels = digest([("labels", self.cache.labels)])
        return {"labels": labels, "views": len(self.cache.views)} | self.cache.facts()

    def steps(self, batch_size: int) -> int:
        return max(1, len(self.cache.labels) // batch_size)

    def epoch(self, number: int, batch_size: int) -> Iterator[Batch]:
        cache, count = self.cache, len(self.cache.labels)
        order = shuffled(count, batch_size, self.seed, number).to(cache.labels.device)
        view = (number - 1) % len(cache.views)
        for index in order.split(min(batch_size, count)):
            taught = cache.teacher_logits[view][index].float() if cache.teacher_logits else None
            latents = cache.views[view].index_select(0, index)
            yield latents.float(), cache.labels[index], taught

    def held_out(self, batch_size: int) -> Iterator[Batch]:
        if len(self.cache.held_labels):
            held = (self.cache.held_latents, self.cache.held_labels)
            for latents, labels in zip(*(t.split(batch_size) for t in held), strict=True):
                yield latents.float(), labels, None


Feed: TypeAlias = InputFeed | ViewFeed


@torch.no_grad()
@flat(recipe=TrainingOptions)
def cache_latents(
    network: CutNetwork,
    data: Any,
    *,
    recipe: TrainingOptions = THREE_VIEWS,
    teacher: nn.Module | Lessons | None = None,
    memory_limit: int = 8 << 30,
    device: torch.device | str = "cpu",
    progress: Progress | str | None = None,
) -> LatentViews:
    """Run the backbone over ``views`` augmented passes once, for all epochs and heads to come.

    Any network with the backbone in question will do. The fields of the recipe are keywords:
    ``views=3`` passes (without augmentation one is all there is), ``dtype="float16"`` to halve the
    memory; ``validation``, ``augment`` and ``seed`` as in the training to come. With a teacher, the
    uncut network, its logits are kept as well. More than ``memory_limit`` bytes are refused.
    """
    if recipe.views is None:
        raise parameter_error("cache_latents", "views", "a positive integer", None)
    dtype: torch.dtype = getattr(torch, recipe.dtype)
    network.to(device)  # the caller's own: training comes next, on the same device
    feed = InputFeed(data, recipe, device=device, network=network, teacher=teacher)
    views = recipe.views if recipe.augment else 1
    count = views * len(feed.train) + (0 if feed.held is None else len(feed.held))
    first = cast(Tensor, next(feed.batches(feed.train.subset(torch.arange(1)), 1))[0])
    size = count * first.numel() * dtype.itemsize
    if size > memory_limit:
        raise ValueError(
            f"{views} views of the latents take {format_bytes(size)}, more than memory_limit="
            f"{format_bytes(memory_limit)}. Take fewer views, dtype='float16', or none."
        )
    watch = progress_of(progress)
    watch.start("latents", count)
    logits: list[Tensor] = []

    def collect(batches: Iterator[Batch]) -> Tensor:
        """Return the latents of a pass, and keep the teacher's logits."""
        parts, answers = [], []
        for values, labels, taught in batches:
            parts.append(cast(Tensor, values).to(dtype))
            answers += [] if taught is None else [taught]
            watch.advance(len(labels))
        logits.extend([torch.cat(answers)] if answers else [])
        return torch.cat(parts)

    batch = at_once(feed.train, LATENT_BATCH, device)
    passes = (feed.draws(number) for number in range(1, views + 1))
    latents = tuple(collect(feed.batches(feed.train, batch, draws=one)) for one in passes)
    held, held_labels = first[:0].to(dtype), feed.train.labels[:0]
    if feed.held is not None:
        held, held_labels = collect(feed.held_out(batch)), feed.held.labels
    labels, held_labels = feed.train.labels.to(device), held_labels.to(device)
    return LatentViews(latents, labels, tuple(logits), held, held_labels, facts=feed.facts)
