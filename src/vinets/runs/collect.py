"""Cut a network and run the training data through what is left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.device import device_of, each
from vinets.core.options import flat
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import Collecting
from vinets.data.source import choose_per_class
from vinets.data.sources import as_source
from vinets.latent.cut import resolve_cut, truncate
from vinets.latent.reader import LatentReader
from vinets.latent.store import LatentStore, collect_latents
from vinets.models.sources import source_of
from vinets.networks.network import Record, input_fields
from vinets.networks.seen import also_trained_on


@dataclass(frozen=True, eq=False)
class Latents:
    """A truncated network with latents of its training data, ready for any head."""

    backbone: nn.Module  # the truncated network
    reader: LatentReader  # what is read from its output
    store: LatentStore  # latents (m, C, P) and labels
    fit: Tensor  # (m,), True for the examples that ideals are fitted to
    check: Tensor  # (m,), True for those that score the generators
    record: Record  # what the network is made of
    original_parameters: int  # of the uncut network
    seconds: float  # of wall-clock time

    @property
    def shape(self) -> tuple[int, int]:
        """Channels and positions."""
        channels, positions = self.store.shape
        return channels, positions

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.record.classes)

    @property
    def device(self) -> torch.device:
        """Where the backbone lies."""
        return device_of(self.backbone)


@flat(collecting=Collecting)
def collect(
    model: nn.Module,
    train_data: Any,
    cut: str | int,
    *,
    collecting: Collecting,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | str | None = "auto",
) -> Latents:
    """Truncate ``model`` and run training data through it.

    Parameters
    ----------
    model, train_data, cut
        As in :func:`vinets.build`; the network is moved to ``device``.
    collecting : Collecting
        Or its fields as keywords: ``per_class``, ``read``, ``pool``, ``memory_limit``, ...
    device, seed, progress
        Where to work, the seed of the examples, and how to show it.
    """
    source = as_source(train_data)
    example = source.example()
    model = model.to(device)
    on_device = each(example, lambda tensor: tensor.to(device))
    name = resolve_cut(model, cut, on_device)
    backbone = truncate(model, name, on_device)
    reader = LatentReader(
        collecting.read, pool=collecting.pool, channels_last=collecting.channels_last
    )
    # a quarter as many again, to score the generators on points they were not fitted to
    most = collecting.per_class
    chosen = choose_per_class(source.labels, most and most + -(-most // 4), seed)
    part = source.subset(chosen)
    watch = progress_of(progress)
    watch.start("latents", len(part))
    begin, done = time.perf_counter(), 0

    def advance(total: int) -> None:
        nonlocal done
        watch.advance(total - done)
        done = total

    store = collect_latents(
        _Read(backbone, reader),
        part.batches(collecting.batch_size, device=device),
        memory_limit=collecting.memory_limit,
        progress=advance,
    )
    given = getattr(source, "preprocessing", None)  # only sources of images have one
    preprocessing = None if given is None else given.to_dict()
    record = Record(
        name,
        input_fields(example),
        source_of(model),
        tuple(source.classes),
        preprocessing,
        data=also_trained_on(model, source),
    )
    original = sum(p.numel() for p in model.parameters())
    seconds = time.perf_counter() - begin
    fit, check = _fit_and_check(store.labels.cpu(), collecting, seed)
    return Latents(backbone, reader, store, fit, check, record, original, seconds)


class _Read(nn.Module):
    """Backbone and reader as one network, for a tensor or for tensors by name."""

    def __init__(self, backbone: nn.Module, reader: LatentReader) -> None:
        super().__init__()
        self.backbone, self.reader = backbone, reader

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        return self.reader(self.backbone(*inputs, **named))


def _fit_and_check(labels: Tensor, collecting: Collecting, seed: int) -> tuple[Tensor, Tensor]:
    """Masks of the examples to fit to and of those to score on: four fifths, and the rest."""
    fit = torch.zeros(len(labels), dtype=torch.bool)
    classes = labels.unique().tolist()
    for k in classes:
        members = (labels == k).nonzero()[:, 0]
        count = max(1, len(members) * 4 // 5)  # of a class with one example, that one
        draw = torch.randperm(len(members), generator=torch.Generator().manual_seed(seed))
        fit[members[draw[:count]]] = True
    most = collecting.per_class
    if collecting.reuse and most is not None and int(fit.sum()) < most * len(classes):
        check = torch.zeros_like(fit)
        check[choose_per_class(labels, max(1, most // 4), seed)] = True
        return torch.ones_like(fit), check
    # a class with no example left over would have no scores
    rest = labels[~fit].unique().tolist()
    return fit, ~fit if rest == classes else torch.ones_like(fit)
